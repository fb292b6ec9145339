"""A tenant's indexes: what each was made with and what it holds, and the ordinals of those who write to one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from psycopg.rows import TupleRow

from rag.errors import IndexFull, IndexMismatch, NotFound
from rag.store.engine import TenantTx
from rag.store.messages import Asked, named
from rag.store.tuning import tuning_of
from rag.values import IndexChoice, Recipe, Tuning

MOST_ORDS = 2**31 - 1  # what the column and the posting blocks hold


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index: the tenant's version, the index's number and recipe, what its postings hold, what came since.

    `graphed` when its vectors are in `neighbours` too; `tuning` is of the tenant, whatever index is asked. Ordinals
    of one `numbering` of the tenant say nothing in another.
    """

    index_version: int = 0
    next_ord: int = 0
    generation: int = 1
    recipe: Recipe | None = None
    posted: int = 0
    dead: int = 0
    appended: int = 0
    writes: int = 0
    langs: tuple[str, ...] = ()
    graphed: bool = False
    tuning: Tuning = field(default_factory=Tuning)
    numbering: int = 0

    @property
    def alive(self) -> int:
        """The chunks in it."""
        return self.posted - self.dead


async def index_state(tx: TenantTx, index: IndexChoice | int = "current") -> IndexState:
    """The index as this transaction sees it; before the first write, and for an unknown tenant, an empty one.

    Raises NotFound when the next one is asked for and none is being built, or one by its number that is not there.
    """
    return state_of(await tx.ask(asked_state(index)), index)


def asked_state(index: IndexChoice | int = "current") -> Asked:
    """What `state_of` reads, to be sent along with another statement."""
    return named("index_state", {"next": index == "next", "generation": index if isinstance(index, int) else None})


def state_of(rows: Sequence[TupleRow], index: IndexChoice | int = "current") -> IndexState:
    """As `index_state`, of the rows of `asked_state`."""
    if not rows:
        if index == "next":
            raise NotFound("no index is being built for this tenant; `rag reindex` builds one")
        if isinstance(index, int):
            raise NotFound(f"there is no index {index} of this tenant any more")
        return IndexState()
    version, next_ord, generation, embedder, analyser, chunker, *counters, langs, graphed, ranking, numbering = rows[0]
    recipe, tuning = Recipe(embedder, analyser, chunker), tuning_of(ranking)
    posted, dead, appended, writes = counters
    about = (recipe, posted, dead, appended, writes, tuple(langs), graphed, tuning, numbering)
    return IndexState(version, next_ord, generation, *about)


async def lock(tx: TenantTx) -> tuple[int, int]:
    """The next ordinal and the current index's number; other writers of the tenant wait until this one commits.

    Raises NotFound when the tenant does not exist.
    """
    rows = await tx.fetch("lock_tenant")
    if not rows:
        raise NotFound("the tenant does not exist; `rag tenant create NAME` makes it")
    return int(rows[0][0]), int(rows[0][1])


def check_room(first_ord: int, added: int) -> None:
    """Return only if there are so many ordinals from the first one on.

    Raises IndexFull otherwise.
    """
    if first_ord + added > MOST_ORDS:
        left = MOST_ORDS - first_ord
        raise IndexFull(
            f"{left} of the tenant's {MOST_ORDS} numbers for chunks are left, and {added} are needed; `rag tenant"
            " compact NAME` makes those of deleted chunks free, and a worker does it by itself"
        )


async def open_index(tx: TenantTx, generation: int, recipe: Recipe) -> bool:
    """Let *recipe* write to the index, and tell whether it is graphed; the first write decides what it is made with.

    Raises IndexMismatch when it was made with something else.
    """
    await tx.run(
        "open_index",
        generation=generation,
        embedder=recipe.embedder,
        analyser=recipe.analyser,
        chunker=recipe.chunker,
    )
    [(embedder, analyser, chunker, graphed)] = await tx.fetch("recipe", generation=generation)
    check_recipe(Recipe(embedder, analyser, chunker), recipe)
    return bool(graphed)


def check_recipe(stored: Recipe, ours: Recipe) -> None:
    """Return only if both are the same.

    Raises IndexMismatch naming what differs.
    """
    pairs = (
        ("embedder", stored.embedder, ours.embedder),
        ("analyser", stored.analyser, ours.analyser),
        ("chunker", stored.chunker, ours.chunker),
    )
    if differing := [f"{part} {old}, not {new}" for part, old, new in pairs if old != new]:
        raise IndexMismatch(f"the tenant's index was made with {' and '.join(differing)}; run `rag reindex`")


def check_embedder(name: str, here: Collection[str], *, index: object = "the tenant's index") -> None:
    """Return only if the embedder that made the index is among those that are here.

    Raises IndexMismatch otherwise.
    """
    if name not in here:
        raise IndexMismatch(
            f"{index} was made with embedder {name}, and here is only {', '.join(here)};"
            " name both in RAG_EMBEDDER, separated by a comma, until `rag reindex` has moved the tenant"
        )
