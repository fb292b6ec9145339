"""How the `rag` command is called. What a command does is imported when it runs, so `rag --help` is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from rag.commands.ranking import add_options
from rag.errors import RagError

# programs with command lines of their own
DOORS = {
    "ingest": "ingest.__main__",
    "reindex": "ingest.reindex_command",
    "eval": "eval.__main__",
    "budget": "rag.commands.spending",
    "usage": "rag.commands.spending",
}


def main(argv: Sequence[str] | None = None) -> int:
    """0 when it worked, 1 when it did not, 2 for a wrong command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except RagError as exc:
        sys.stderr.write(f"rag: {exc.detail}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: list[str]) -> int:
    if arguments and (door := DOORS.get(arguments[0])):
        return _imported(door, "main")(arguments if door.startswith("rag.") else arguments[1:]) or 0
    parsed = command_line().parse_args(arguments)
    module, _, function = parsed.run.partition(".")
    return _imported(f"rag.commands.{module}", function)(parsed) or 0


def _imported(module: str, name: str) -> Callable[..., int | None]:
    found: Callable[..., int | None] = getattr(import_module(module), name)
    return found


def command_line() -> argparse.ArgumentParser:
    """Every command, with the name of what it runs as `run`."""
    parser = argparse.ArgumentParser(prog="rag", description="Retrieval-augmented generation on plain PostgreSQL.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = _command(commands, "serve", "serve the HTTP API", "serving.serve")
    serve.add_argument("--port", type=int, help="instead of RAG_PORT; 0 takes a free one")
    serve.add_argument("--no-worker", action="store_true", help="leave the ingestion jobs to `rag worker`")
    _command(commands, "worker", "run ingestion jobs until stopped", "serving.worker")
    _command(commands, "doctor", "check settings, models and database", "doctor.doctor")
    for name, text, run in (("search", "ranked chunks", "asking.search"), ("ask", "a cited answer", "asking.ask")):
        _question(_command(commands, name, f"{text} for a question", run))
    for name in DOORS:
        commands.add_parser(name, help=f"see `rag {name} --help`")

    tenant = commands.add_parser("tenant", help="create, tune or delete tenants").add_subparsers(required=True)
    create = _command(tenant, "create", "make a tenant", "tenants.create")
    create.add_argument("name")
    create.add_argument("--if-missing", action="store_true", help="succeed when there is one already")
    change = _command(tenant, "set", "change how a tenant's searches are ranked, and print it", "tenants.tune")
    change.add_argument("name")
    add_options(change)
    delete = _command(tenant, "delete", "delete a tenant and everything it has", "tenants.delete")
    delete.add_argument("name")
    delete.add_argument("--if-exists", action="store_true", help="succeed when there is none")

    key = _command(commands.add_parser("key", help="create keys").add_subparsers(required=True), "create",
                   "make a key and print it, once", "tenants.key")  # fmt: skip
    key.add_argument("--tenant", required=True)
    key.add_argument("--scopes", default="query", help="of query, ingest, admin; separated by commas (default: query)")
    key.add_argument("--groups", default="", help="the groups whose documents it may see; separated by commas")

    models = commands.add_parser("models", help="fetch or list the model files").add_subparsers(required=True)
    _command(models, "pull", "fetch the model files that are missing", "models.pull")
    chat = _command(models, "chat", "serve a small chat model of this machine (extra [local-llm])", "models.chat")
    chat.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    chat.add_argument("--port", type=int, default=8090, help="0 takes a free one (default: 8090)")
    _command(models, "list", "the model files and their state", "models.files")
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


def _question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--filters", metavar="JSON", help='such as {"field": "doc_type", "op": "eq", "value": "guide"}')
    parser.add_argument("--groups", default="", help="ask as a member of these groups; separated by commas")
    parser.add_argument("--as-of", metavar="DATE", help="what was current then")
    parser.add_argument("--top-k", type=int, default=6)
    parser.add_argument("--no-rerank", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the API's body")
