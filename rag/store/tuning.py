"""A tenant's own ranking: its weights and depth, checked when they are written and when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields

from psycopg.types.json import Jsonb

from rag.errors import InvalidInput, NotFound, StoreError
from rag.ranking import check_range, finds_something
from rag.store.engine import Database
from rag.values import Tuning, tenant_id

NAMES = frozenset(field.name for field in fields(Tuning))


async def tune(database: Database, name: str, changes: Mapping[str, float | None]) -> Tuning:
    """The tenant's ranking after *changes*; None takes a value back to the service's setting.

    Raises NotFound when there is no tenant of that name, InvalidInput for values that no ranking can have.
    """
    async with database.tenant(tenant_id(name)) as tx:
        rows = await tx.fetch("tenant_ranking")
        if not rows:
            raise NotFound(f"there is no tenant {name!r}; `rag tenant create {name}` makes it")
        stored = tuning_of(rows[0][0])
        wanted = {key: value for key, value in {**asdict(stored), **changes}.items() if value is not None}
        changed = checked(wanted)
        if changed != stored:
            await tx.run("set_ranking", ranking=Jsonb(wanted))
    return changed


def tuning_of(raw: object) -> Tuning:
    """The tuning as it is stored.

    Raises StoreError when nothing of ours wrote it.
    """
    if raw == {}:  # nearly always
        return Tuning()
    try:
        return checked(raw if isinstance(raw, dict) else {str(raw): raw})
    except InvalidInput as exc:
        raise StoreError(f"the ranking stored with the tenant cannot be used: {exc.detail}") from exc


def checked(values: Mapping[str, object]) -> Tuning:
    """The values as a tuning.

    Raises InvalidInput naming the first that is unknown or out of range.
    """
    for name, value in values.items():
        if name not in NAMES:
            raise InvalidInput(f"a ranking has no {name[:40]!r}, only {', '.join(sorted(NAMES))}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{name} is a number, not {str(value)[:40]!r}")
        check_range(name, value)
    tuned = Tuning(**values)  # type: ignore[arg-type]  # just checked
    if not finds_something(tuned.dense_weight, tuned.lexical_weight):
        raise InvalidInput("dense_weight and lexical_weight: one can be 0 only beside another above 0")
    return tuned
