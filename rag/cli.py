"""The `rag` command. Programs are imported when they run, so `rag --help` is instant."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rag.errors import InvalidInput, RagError

if TYPE_CHECKING:
    from rag.protocols import Embedder
    from rag.settings import Settings
    from rag.store.engine import Database
    from rag.telemetry import Metrics
    from rag.values import Principal, Question
    from rag.wiring import Services

MAX_NAME = 100  # characters of a tenant's name


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
    if arguments[:1] == ["ingest"]:
        from ingest.__main__ import main as ingest  # noqa: PLC0415 - a door

        return ingest(arguments[1:])
    if arguments[:1] == ["reindex"]:
        from ingest.reindex_command import main as reindex  # noqa: PLC0415 - a door

        return reindex(arguments[1:])
    if arguments[:1] == ["eval"]:
        from eval.__main__ import main as evaluate  # noqa: PLC0415 - a door

        return evaluate(arguments[1:])
    parsed = _parser().parse_args(arguments)
    return int(parsed.run(parsed) or 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rag", description="Retrieval-augmented generation on plain PostgreSQL.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = _command(commands, "serve", "serve the HTTP API", _serve)
    serve.add_argument("--port", type=int, help="instead of RAG_PORT; 0 takes a free one")
    serve.add_argument("--no-worker", action="store_true", help="leave the ingestion jobs to `rag worker`")
    _command(commands, "worker", "run ingestion jobs until stopped", _worker)
    _command(commands, "doctor", "check settings, models and database", _doctor)
    for name, text, run in (("search", "ranked chunks", _search), ("ask", "a cited answer", _ask)):
        _question(_command(commands, name, f"{text} for a question", run))
    for name in ("ingest", "reindex", "eval"):
        commands.add_parser(name, help=f"see `rag {name} --help`")

    tenant = commands.add_parser("tenant", help="create or delete tenants").add_subparsers(required=True)
    create = _command(tenant, "create", "make a tenant", _tenant_create)
    create.add_argument("name")
    create.add_argument("--if-missing", action="store_true", help="succeed when there is one already")
    delete = _command(tenant, "delete", "delete a tenant and everything it has", _tenant_delete)
    delete.add_argument("name")
    delete.add_argument("--if-exists", action="store_true", help="succeed when there is none")

    key = _command(commands.add_parser("key", help="create keys").add_subparsers(required=True), "create",
                   "make a key and print it, once", _key_create)  # fmt: skip
    key.add_argument("--tenant", required=True)
    key.add_argument("--scopes", default="query", help="of query, ingest, admin; separated by commas (default: query)")
    key.add_argument("--groups", default="", help="the groups whose documents it may see; separated by commas")

    models = commands.add_parser("models", help="fetch or list the model files").add_subparsers(required=True)
    _command(models, "pull", "fetch the model files that are missing", _models_pull)
    _command(models, "list", "the model files and their state", _models_list)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int | None],
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


def _serve(arguments: argparse.Namespace) -> None:
    from rag.serving import serve  # noqa: PLC0415

    settings = _settings()
    port = settings.port if arguments.port is None else arguments.port
    serve(settings, port=port, background=None if arguments.no_worker else _beside)


async def _beside(services: Services) -> None:
    await _work(services.database, services.embedders, services.metrics)


async def _work(database: Database, embedders: Mapping[str, Embedder], metrics: Metrics) -> None:
    import random  # noqa: PLC0415

    from ingest.pipeline import Pipeline  # noqa: PLC0415 - a door
    from ingest.sandbox import Sandbox  # noqa: PLC0415
    from ingest.worker import Worker  # noqa: PLC0415

    async with Sandbox() as sandbox:
        pipeline = Pipeline(database, embedders, sandbox.parse)
        await Worker(database, pipeline, metrics, random.Random()).run()  # noqa: S311 - jitter


def _worker(_: argparse.Namespace) -> None:
    from rag.inference.opening import open_embedders  # noqa: PLC0415
    from rag.serving import until_terminated  # noqa: PLC0415
    from rag.store.opening import open_store  # noqa: PLC0415
    from rag.telemetry import Metrics  # noqa: PLC0415

    async def work() -> None:
        settings = _settings()
        async with open_embedders(settings) as embedders, open_store(settings) as database:
            await _work(database, embedders, Metrics())

    until_terminated(work())


def _search(arguments: argparse.Namespace) -> None:
    async def run(services: Services) -> None:
        from rag.api.schemas import search_result  # noqa: PLC0415

        who, question = await _asked(services, arguments)
        found = await services.retriever.retrieve(who.tenant_id, question)
        if arguments.json:
            _print(search_result(found, explain=True, request_id="").model_dump_json())
            return
        for n, hit in enumerate(found.hits, 1):
            place = " > ".join(hit.chunk.breadcrumb) or hit.chunk.title
            _print(f"{n}. {hit.chunk.external_id}  {place}  [{hit.chunk.start}:{hit.chunk.end}]")
            _print("   " + " ".join(hit.chunk.text.split())[:300])
        if not found.hits:
            _print("nothing found")
        _print(f"rerank {found.rerank}; {_times(found.timings_ms)}")

    _with_services(run)


def _ask(arguments: argparse.Namespace) -> None:
    async def run(services: Services) -> None:
        from rag.api.schemas import query_result  # noqa: PLC0415
        from rag.values import Deadline  # noqa: PLC0415

        who, question = await _asked(services, arguments)
        deadline = Deadline.after(services.settings.request_timeout_s)
        answer = await services.answerer.answer(who, question, max_tokens=512, deadline=deadline)
        if arguments.json:
            _print(query_result(answer, "").model_dump_json())
            return
        _print(answer.text or "The documents do not answer this (no_evidence).")
        for c in answer.citations:
            _print(f'  [{c.n}] {c.external_id} [{c.start}:{c.end}] "{" ".join(c.quote.split())[:120]}"')
        for doubt in answer.unsupported:
            _print(f"  {doubt.reason}: {' '.join(answer.text[doubt.start : doubt.end].split())}")
        _print(f"{answer.status} by {answer.provider or 'nobody'}; {_times(answer.timings_ms)}")

    _with_services(run)


async def _asked(services: Services, arguments: argparse.Namespace) -> tuple[Principal, Question]:
    from rag.api.schemas import MAX_TOP_K, SearchBody  # noqa: PLC0415
    from rag.store.tenancy import find_tenant  # noqa: PLC0415
    from rag.values import Principal  # noqa: PLC0415

    try:
        filters = json.loads(arguments.filters) if arguments.filters else None
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"--filters is not JSON: {exc}") from exc
    if not 1 <= arguments.top_k <= MAX_TOP_K or not isinstance(filters, dict | None):
        raise InvalidInput(f"--top-k takes 1 to {MAX_TOP_K}, --filters a JSON object")
    who = Principal(
        await find_tenant(services.database, arguments.tenant), frozenset({"query"}), _names(arguments.groups)
    )
    body = SearchBody(
        query=arguments.query, top_k=arguments.top_k, filters=filters, as_of=arguments.as_of,
        rerank=not arguments.no_rerank,
    )  # fmt: skip
    return who, body.question(who, services.settings)


def _tenant_create(arguments: argparse.Namespace) -> None:
    async def run(database: Database) -> None:
        from rag.errors import Conflict  # noqa: PLC0415
        from rag.store.tenancy import create_tenant  # noqa: PLC0415

        try:
            await create_tenant(database, arguments.name)
        except Conflict:
            if not arguments.if_missing:
                raise
        _print(f"tenant {arguments.name}")

    if not arguments.name.strip() or len(arguments.name) > MAX_NAME or not arguments.name.isprintable():
        raise InvalidInput(f"a tenant's name has 1 to {MAX_NAME} printable characters")
    _with_store(run)


def _tenant_delete(arguments: argparse.Namespace) -> None:
    async def run(database: Database) -> None:
        from rag.errors import NotFound  # noqa: PLC0415
        from rag.store.tenancy import delete_tenant  # noqa: PLC0415

        try:
            await delete_tenant(database, arguments.name)
        except NotFound:
            if not arguments.if_exists:
                raise
        _print(f"no tenant {arguments.name} any more")

    _with_store(run)


def _key_create(arguments: argparse.Namespace) -> None:
    async def run(database: Database) -> None:
        from rag.store.tenancy import SCOPES, create_key, find_tenant  # noqa: PLC0415

        scopes = _names(arguments.scopes)
        if not scopes or not scopes <= set(SCOPES):
            raise InvalidInput(f"--scopes takes {', '.join(SCOPES)}; got {arguments.scopes!r}")
        tenant = await find_tenant(database, arguments.tenant)
        _print(await create_key(database, tenant, scopes=scopes, groups=_names(arguments.groups)))

    _with_store(run)


def _models_pull(_: argparse.Namespace) -> None:
    from rag.inference.model_store import pull  # noqa: PLC0415

    models = _settings().models
    _print(f"{pull(models)} files fetched to {models}")


def _models_list(_: argparse.Namespace) -> int:
    from rag.inference.model_store import DEFAULT_FILES, state  # noqa: PLC0415

    models = _settings().models
    states = {file.path: state(models, file) for file in DEFAULT_FILES}
    for path, found in states.items():
        _print(f"{found:10} {models / path}")
    return int(any(found != "ok" for found in states.values()))


def _doctor(_: argparse.Namespace) -> None:
    async def run(database: Database) -> None:
        _print(f"ok         {await database.describe()}, row-level security in force")

    settings = _settings()
    kind = "embedded" if settings.database_url is None else "DATABASE_URL"
    _print(f"ok         settings; data in {settings.home.absolute()}, database: {kind}")
    asyncio.run(_check_models(settings))
    _with_store(run)


async def _check_models(settings: Settings) -> None:
    from rag.inference.opening import open_embedders, open_reranker  # noqa: PLC0415

    async with open_embedders(settings) as embedders:
        _print(f"ok         embedder {', '.join(embedders)}; RAG_EMBEDDER is {settings.embedder}")
    async with open_reranker(settings) as reranker:
        _print(f"ok         reranker {reranker.name}; RAG_RERANKER is {settings.reranker}")


def _with_services(run: Callable[[Services], Awaitable[None]]) -> None:
    from rag.telemetry import Metrics  # noqa: PLC0415
    from rag.wiring import open_services  # noqa: PLC0415

    async def opened() -> None:
        async with open_services(_settings(), Metrics()) as services:
            await run(services)

    asyncio.run(opened())


def _with_store(run: Callable[[Database], Awaitable[None]]) -> None:
    from rag.store.opening import open_store  # noqa: PLC0415

    async def opened() -> None:
        async with open_store(_settings()) as database:
            await run(database)

    asyncio.run(opened())


def _settings() -> Settings:
    from rag.settings import load_settings  # noqa: PLC0415
    from rag.telemetry import configure_logging  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings.log_level)  # to standard error: what a command prints may be JSON
    return settings


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _times(timings_ms: dict[str, float]) -> str:
    return ", ".join(f"{stage} {ms:.0f} ms" for stage, ms in timings_ms.items())


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
