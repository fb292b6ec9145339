"""The golden suite on two indexes of a tenant: whether the new one answers as well as the one it would replace."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rag.errors import InvalidInput, SetupError
from rag.store.engine import Database
from rag.store.tenancy import create_key, delete_key
from rag.values import IndexChoice, TenantId

EVAL = (sys.executable, "-m", "rag", "eval")
JUDGED, BELOW_BARS = 0, 1  # exit codes; with any other the suite did not run
SHOWN = ("recall@5", "mrr", "ndcg@10", "answer_accuracy", "leak_rate")

Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The metrics of both indexes, and the checks that the new one fails and the current one does not."""

    current: dict[str, float | None]
    next: dict[str, float | None]
    worse: tuple[str, ...]


def groups_asked(suite: Path, tenant: str) -> set[Group]:
    """The groups that the suite's questions of a tenant are asked with.

    Raises InvalidInput when it has none, or is no suite.
    """
    try:
        questions = json.loads(suite.read_bytes())["questions"]
        asked = {tuple(sorted(q.get("groups", ()))) for q in questions if q["tenant"] == tenant}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise InvalidInput(f"{suite} is not a suite of questions: {type(exc).__name__} {exc}") from exc
    if not asked:
        raise InvalidInput(f"{suite} asks nothing of tenant {tenant}")
    return asked


async def judge(database: Database, tenant_id: TenantId, *, tenant: str, suite: Path, quiet: bool) -> Judgement:
    """How both indexes do; the pages go to standard output, or when that must be *quiet* to standard error.

    Raises SetupError when the suite cannot be run.
    """
    with TemporaryDirectory(prefix="rag-reindex-") as folder:
        results: dict[IndexChoice, Path] = {"current": Path(folder, "current.json"), "next": Path(folder, "next.json")}
        async with _keys(database, tenant_id, tenant=tenant, suite=suite) as keys:
            (keys_file := Path(folder, "keys.json")).write_text(json.dumps(keys))
            asked = ("--suite", str(suite), "--keys", str(keys_file), "--tenant", tenant)
            for index, result in results.items():
                baseline = ("--baseline", str(results["current"])) if index == "next" else ()
                await _evaluate(*asked, "--index", index, "--json", str(result), *baseline, quiet=quiet)
        return _judgement(*(json.loads(result.read_bytes()) for result in results.values()))


def _judgement(current: dict[str, Any], following: dict[str, Any]) -> Judgement:
    failed = {check["check"] for check in current["gate"] if not check["passed"]}
    worse = (check["check"] for check in following["gate"] if not check["passed"] and check["check"] not in failed)
    before, after = ({name: result["overall"][name] for name in SHOWN} for result in (current, following))
    return Judgement(before, after, tuple(worse))


@asynccontextmanager
async def _keys(
    database: Database, tenant_id: TenantId, *, tenant: str, suite: Path
) -> AsyncIterator[list[dict[str, object]]]:
    """A key for each set of groups that the questions need, gone when the block ends."""
    keys: list[str] = []
    try:
        made: list[dict[str, object]] = []
        for groups in sorted(groups_asked(suite, tenant)):
            keys.append(await create_key(database, tenant_id, scopes=frozenset({"query"}), groups=frozenset(groups)))
            made.append({"tenant": tenant, "groups": groups, "key": keys[-1]})
        yield made
    finally:
        for key in keys:
            await delete_key(database, key)


async def _evaluate(*arguments: str, quiet: bool) -> None:
    sys.stdout.flush()
    out = sys.stderr if quiet else None
    process = await asyncio.create_subprocess_exec(*EVAL, *arguments, stdout=out)
    try:
        ended = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if ended not in (JUDGED, BELOW_BARS):
        raise SetupError("the suite could not be run; nothing was switched, and the new index stays")
