"""Rules of this code base that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.store.statements import statements

ROOT = Path(__file__).parents[1]
PACKAGES = ("rag", "ingest", "eval", "migrations")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
STATEMENTS = sorted(statements())

MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 50
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "manager", "base"}
ALLOWED_BROAD_EXCEPT = {"ingest/worker.py", "ingest/parse_child.py"}  # no document may stop the worker
ALLOWED_TO_MAKE_TENANT_IDS = ("rag/values.py", "rag/store/")
ALLOWED_TO_EXECUTE_SQL = ("rag/store/", "migrations/", "eval/bench/")  # benchmarks time statements alone
DRIVERS = {"psycopg", "psycopg_pool", "sqlalchemy", "alembic", "pgvector"}
TAKE_A_TENANT = {"Database", "Pipeline", "Connection"}  # what works for whatever tenant follows
UNSCOPED = re.compile(r"-- unscoped: \w+")


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# parsed while tests are collected: CPython 3.11 may refuse to parse after a test has met the recursion limit
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (*SOURCES, *TESTS)}


def nodes(*kinds: type[ast.AST], sources: list[Path] = SOURCES) -> Iterator[tuple[Path, ast.AST]]:
    return ((path, node) for path in sources for node in ast.walk(TREES[path]) if isinstance(node, kinds))


def calls(name: str) -> Iterator[tuple[Path, ast.Call]]:
    for path, node in nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if name == getattr(node.func, "id", getattr(node.func, "attr", None)):
            yield path, node


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES


def test_no_function_is_too_long() -> None:
    long = [
        f"{place(path)}:{node.lineno}"
        for path, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES
    ]

    assert long == []


def test_only_the_worker_catches_everything() -> None:
    broad = {
        place(path)
        for path, node in nodes(ast.ExceptHandler)
        if node.type is None
        or {"Exception", "BaseException"} & {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
    }

    assert broad <= ALLOWED_BROAD_EXCEPT


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_names_the_tenant_or_says_why_not(name: str) -> None:
    sql = statements()[name]

    assert "%(tenant_id)s" in sql or UNSCOPED.search(sql)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_says_what_it_returns_and_is_used(name: str) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES)

    assert statements()[name].startswith("-- ")
    assert f'"{name}"' in code


def test_every_statement_that_is_used_exists() -> None:
    used = {
        call.args[0].value
        for method in ("fetch", "run", "run_many", "copy", "named")
        for path, call in calls(method)
        if place(path).startswith("rag/store/") and call.args and isinstance(call.args[0], ast.Constant)
    }

    assert used == set(STATEMENTS)


def test_sql_is_executed_only_in_the_store_and_by_benchmarks() -> None:
    executing = {place(path) for method in ("execute", "executemany") for path, _ in calls(method)}

    assert {name for name in executing if not name.startswith(ALLOWED_TO_EXECUTE_SQL)} == set()


def test_database_drivers_are_imported_only_where_sql_is_executed() -> None:
    importing = {
        place(path)
        for path, node in nodes(ast.Import, ast.ImportFrom)
        if DRIVERS & {name.partition(".")[0] for name in imported(node)}
    }

    assert {name for name in importing if not name.startswith(ALLOWED_TO_EXECUTE_SQL)} == set()


def test_executed_sql_is_never_put_together_from_strings() -> None:
    built = [
        f"{place(path)}:{call.lineno}"
        for method in ("execute", "executemany", "text", "SQL")
        for path, call in calls(method)
        if place(path).startswith("rag/") and call.args and isinstance(call.args[0], ast.JoinedStr | ast.BinOp)
    ]

    assert built == []


def test_only_settings_reads_the_environment() -> None:
    reading = {
        place(path)
        for path, node in nodes(ast.Attribute, ast.ImportFrom)
        if ast.unparse(node).startswith(("os.environ", "os.getenv", "from os import"))
    }

    assert reading == {"rag/settings.py"}


def test_tenant_ids_are_made_only_where_a_tenant_is_known() -> None:
    making = {place(path) for path, _ in calls("TenantId")}

    assert {name for name in making if not name.startswith(ALLOWED_TO_MAKE_TENANT_IDS)} == set()


def test_the_tenant_is_the_first_argument() -> None:
    late = []
    for path, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        names = [a.arg for a in node.args.args if a.arg not in {"self", "cls"}]
        annotations = {a.arg: ast.unparse(a.annotation) for a in node.args.args if a.annotation}
        tenants = [name for name in names if annotations.get(name) == "TenantId"]
        before = names[: names.index(tenants[0])] if tenants else []
        if any(annotations.get(name) not in TAKE_A_TENANT for name in before):
            late.append(f"{place(path)}:{node.lineno}")

    assert late == []


def test_no_name_is_a_drawer_for_anything() -> None:
    named = [(path, path.stem) for path in SOURCES]
    named += [(path, node.name) for path, node in nodes(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)]
    bad = [
        f"{place(path)}: {name}"
        for path, name in named
        if FORBIDDEN_NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    ]

    assert bad == []


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_nothing_is_left_undone(path: Path) -> None:
    assert re.findall(r"\b(?:TODO|FIXME|NotImplementedError)\b", path.read_text(encoding="utf-8")) == []


def test_every_module_postpones_its_annotations() -> None:
    without = [
        place(path)
        for path in [*SOURCES, *TESTS]
        if len(TREES[path].body) > 1 and "from __future__ import annotations" not in path.read_text(encoding="utf-8")
    ]

    assert without == []


def test_no_mock_library_is_used() -> None:
    mocking = {
        place(path)
        for path, node in nodes(ast.Import, ast.ImportFrom, sources=TESTS)
        if {"unittest", "mock", "pytest_mock"} & {name.partition(".")[0] for name in imported(node)}
    }

    assert mocking == set()
