"""How the `rag` command is called. What a command does is imported when it runs, so `rag --help` is instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import get_args

from rag.calls import Period, Unit
from rag.commands.ranking import add_options
from rag.errors import RagError
from rag.values import Recall

JOB_STATES = ("queued", "running", "done", "failed", "cancelled")  # as rag/store/schema.py has them
READER_GONE = 141  # as a shell has it of a program that a closed pipe ends
# programs with command lines of their own
DOORS = {
    "ingest": ("ingest.__main__", "put files into the index, and keep it equal to a folder"),
    "reindex": ("ingest.reindex_command", "build an index for another model beside the old one"),
    "eval": ("eval.__main__", "judge the answers; eval bench and eval cache measure"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """0 when it worked, 1 when it did not, 2 for a wrong command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be written, at the end too
        return READER_GONE
    except RagError as exc:
        sys.stderr.write(f"rag: {exc.detail}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _run(arguments: list[str]) -> int:
    if arguments and (door := DOORS.get(arguments[0])):
        return _imported(door[0], "main")(arguments[1:]) or 0
    parsed = command_line().parse_args(arguments)
    module, _, function = parsed.run.partition(".")
    return _imported(f"rag.commands.{module}", function)(parsed) or 0


def _imported(module: str, name: str) -> Callable[..., int | None]:
    found: Callable[..., int | None] = getattr(import_module(module), name)
    return found


def command_line() -> argparse.ArgumentParser:
    """Every command, with the name of what it runs as `run`."""
    parser = argparse.ArgumentParser(prog="rag", description="Retrieval-augmented generation on plain PostgreSQL.")
    parser.add_argument("--version", action="version", version=f"rag {version('rag-service')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = _command(commands, "serve", "serve the HTTP API", "serving.serve")
    serve.add_argument("--port", type=int, help="instead of RAG_PORT; 0 takes a free one")
    serve.add_argument("--no-worker", action="store_true", help="leave the ingestion jobs to `rag worker`")
    _command(commands, "worker", "run ingestion jobs until stopped", "serving.worker")
    _command(commands, "doctor", "check settings, models and database", "doctor.doctor")
    for name, text, run in (("search", "ranked chunks", "asking.search"), ("ask", "a cited answer", "asking.ask")):
        _question(_command(commands, name, f"{text} for a question", run))
    for name, (_, text) in DOORS.items():
        commands.add_parser(name, help=text)

    _tenants(commands)
    _keys(commands)
    _documents(commands)
    _jobs(_command(commands, "jobs", "the latest ingestion jobs of a tenant", "jobs.show_latest"))
    _spending(commands)
    _models(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    run: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _tenants(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tenant = commands.add_parser("tenant", help="create, list, tune, show, compact or delete tenants").add_subparsers(
        required=True
    )
    create = _command(tenant, "create", "make a tenant", "tenants.create")
    create.add_argument("name")
    create.add_argument("--if-missing", action="store_true", help="succeed when there is one already")
    _command(tenant, "list", "every tenant, and how many documents it has", "tenants.show_all")
    change = _command(tenant, "set", "change how a tenant's searches are ranked, and print it", "tenants.tune")
    change.add_argument("name")
    add_options(change)
    shown = _command(tenant, "show", "print how a tenant's searches are ranked", "tenants.ranking")
    shown.add_argument("name")
    tidy = _command(tenant, "compact", "compact a tenant's indexes now, and number its chunks anew", "tenants.compact")
    tidy.add_argument("name")
    delete = _command(tenant, "delete", "delete a tenant and everything it has", "tenants.delete")
    delete.add_argument("name")
    delete.add_argument("--yes", action="store_true", help="do not ask for its name once more, as on a terminal")
    delete.add_argument("--if-exists", action="store_true", help="succeed when there is none")


def _keys(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    key = commands.add_parser("key", help="create, list or revoke keys").add_subparsers(required=True)
    create = _command(key, "create", "make a key and print it, once", "keys.create")
    create.add_argument("--tenant", required=True)
    create.add_argument(
        "--scopes", default="query", help="of query, ingest, admin; separated by commas (default: query)"
    )
    create.add_argument("--groups", default="", help="the groups whose documents it may see; separated by commas")
    listed = _command(key, "list", "how each key of a tenant begins, since when, and what it may do", "keys.show_all")
    listed.add_argument("--tenant", required=True)
    revoke = _command(key, "revoke", "have a key refused, by servers at work too", "keys.revoke")
    revoke.add_argument("key", metavar="KEY", help="as `rag key list` shows it, or whole")


def _documents(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    document = commands.add_parser("document", help="list, show or delete documents").add_subparsers(required=True)
    listed = _command(document, "list", "the documents of a tenant, those for certain groups too", "documents.show_all")
    listed.add_argument("--prefix", default="", help="only those whose external id begins with it, as in guides/")
    listed.add_argument("--folder", metavar="NAME", help="only those that `rag ingest` keeps in this folder")
    listed.add_argument("--after", default="", metavar="ID", help="only those behind this external id")
    listed.add_argument("--limit", type=int, default=100, help="how many, by external id (default: 100)")
    shown = _command(document, "show", "what is stored of a document, and its text", "documents.show_one")
    shown.add_argument("--version", type=int, help="one of its history (default: the current one)")
    delete = _command(document, "delete", "delete a document with its history", "documents.delete")
    for parser in (shown, delete):
        parser.add_argument("external_id", metavar="ID", help="its external id, as `rag document list` shows it")
    for parser in (listed, shown, delete):
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--json", action="store_true", help="print JSON; a list has a line for each document")


def _jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--state", choices=JOB_STATES, help="only those in this state")
    parser.add_argument("--limit", type=int, default=20, help="how many, the newest first (default: 20)")
    parser.add_argument("--json", action="store_true", help="print the API's body of each, a line a job")


def _spending(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    budget = commands.add_parser("budget", help="limit what a tenant may use").add_subparsers(required=True)
    change = _command(budget, "set", "set a budget; what it has spent stays", "spending.put")
    delete = _command(budget, "delete", "delete a budget", "spending.delete")
    for parser in (change, delete):
        parser.add_argument("--unit", choices=get_args(Unit), required=True)
        parser.add_argument("--period", choices=get_args(Period), required=True, help="in UTC; prepaid is used up once")
    change.add_argument("--amount", required=True, help="tokens, or US dollars")
    budgets = _command(budget, "show", "show the budgets and what is left of them", "spending.budgets")
    usage = _command(commands, "usage", "what a tenant has used, and what that costs", "spending.usage")
    usage.add_argument("--from", dest="since", metavar="DATE", help="by default the first of this month")
    usage.add_argument("--to", metavar="DATE", help="up to this moment; by default all of today")
    usage.add_argument("--by", default="model", help="of feature, model, day; separated by commas (default: model)")
    for parser in (change, delete, budgets, usage):
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--json", action="store_true", help="print the API's body")


def _models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser("models", help="fetch or list the model files").add_subparsers(required=True)
    _command(models, "pull", "fetch the model files that are missing", "models.pull")
    chat = _command(models, "chat", "serve a small chat model of this machine (extra [local-llm])", "models.chat")
    chat.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    chat.add_argument("--port", type=int, default=8090, help="0 takes a free one (default: 8090)")
    _command(models, "list", "the model files and their state", "models.files")


def _question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--filters", metavar="JSON", help='such as {"field": "doc_type", "op": "eq", "value": "guide"}')
    parser.add_argument("--groups", default="", help="ask as a member of these groups; separated by commas")
    parser.add_argument("--as-of", metavar="DATE", help="what was current then")
    parser.add_argument("--top-k", type=int, default=6)
    parser.add_argument("--no-rerank", action="store_true")
    parser.add_argument("--recall", choices=get_args(Recall), default="normal", help="high: in other words too")
    parser.add_argument("--json", action="store_true", help="print the API's body")
