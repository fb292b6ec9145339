"""Quoted phrases: what a question quotes, and the chunks that hold every word of it in that order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rag.analysis import folded, phrase_terms, term_id, whole_words, whole_words_posix
from rag.errors import InvalidInput
from rag.protocols import Ordinals
from rag.retrieval.lexical import check_analyser
from rag.store.engine import Database, TenantTx
from rag.store.indexes import IndexState, index_state
from rag.store.search import posting_blocks, scoped_ords, texts_to_search
from rag.values import Scope, TenantId

# A straight mark after a digit means inches. Typographic marks open and close in the order of any language.
_QUOTED = re.compile(r"""(?<!\d)["\uff02]([^"\uff02]+)["\uff02]|[“”„‟]([^“”„‟]+)[“”‟]|«([^«»]+)»|»([^«»]+)«""")
BATCH = 5000  # texts that are read and compared at a time: a few megabytes at most
MOST_PHRASES = 16  # pasted code quotes more; each one costs every candidate a search
MOST_READ = 200_000  # texts for one question: four seconds of a core when a quarter of them is not ASCII
MOST_ALONE, MOST_READ_ALONE = 8, 10_000  # phrases of a question looked for alone, to say which is missing, and texts


@dataclass(frozen=True, slots=True)
class Phrase:
    """A quoted phrase: as it is quoted, folded, and what finds it as whole words, here and in PostgreSQL."""

    text: str
    folded: str
    edges: re.Pattern[str]
    posix: str

    def stands_in(self, text: str) -> bool:
        """Whether a folded text has the phrase."""
        return self.folded in text and self.edges.search(text) is not None


@dataclass(frozen=True, slots=True)
class Holding:
    """The chunks that hold the phrases, in which index and numbering, and whether every chunk that might was read.

    `missing` are phrases, as they are quoted, that no chunk in scope has: only those for which all that might was read.
    """

    ords: Ordinals
    generation: int
    numbering: int
    complete: bool
    missing: tuple[str, ...] = ()


def phrases(text: str) -> list[Phrase]:
    """What *text* quotes; marks with no word between them, and a mark without its other, quote nothing.

    Raises InvalidInput for more phrases than a text should be searched for.
    """
    quoted = {folded(phrase): phrase for phrase in map("".join, _QUOTED.findall(text))}
    found = [
        Phrase(phrase, bare, edges, whole_words_posix(bare))
        for bare, phrase in quoted.items()
        if (edges := whole_words(bare))
    ]
    if len(found) > MOST_PHRASES:
        raise InvalidInput(f"query: it quotes {len(found)} phrases, and at most {MOST_PHRASES} can be looked for")
    return found


async def holding(database: Database, tenant_id: TenantId, scope: Scope, wanted: Sequence[Phrase]) -> Holding:
    """The chunks in scope whose indexed text has every phrase.

    The postings name those that have all the words, and their texts are read. Stop words and lone letters have no
    postings: for phrases of nothing else every text in scope is read. The newest come first, up to a limit.
    """
    async with database.snapshot(tenant_id) as tx:
        state = await index_state(tx, scope.index)
        check_analyser(state)
        found, complete = await _found(tx, scope, wanted, state, most=MOST_READ)
        missing = () if found else await _missing(tx, scope, wanted, state, complete=complete)
    return Holding(np.array(sorted(found), np.int32), state.generation, state.numbering, complete, missing)


async def _found(
    tx: TenantTx, scope: Scope, wanted: Sequence[Phrase], state: IndexState, *, most: int
) -> tuple[list[int], bool]:
    """The ordinals of the chunks that have every phrase, and whether those that might were no more than *most*."""
    words = [terms for phrase in wanted for terms in phrase_terms(phrase.text, state.langs)]
    if words:
        candidates = await _with_words(tx, words, state)
    else:
        candidates = await scoped_ords(tx, scope, generation=state.generation)
    newest = np.sort(candidates)[::-1][:most]
    patterns = [phrase.posix for phrase in wanted]
    found: list[int] = []
    for at in range(0, newest.size, BATCH):
        some = newest[at : at + BATCH]
        texts = await texts_to_search(tx, scope, some, patterns, generation=state.generation)
        found += await asyncio.to_thread(_matching, texts, wanted)
    return found, candidates.size <= most


async def _missing(
    tx: TenantTx, scope: Scope, wanted: Sequence[Phrase], state: IndexState, *, complete: bool
) -> tuple[str, ...]:
    """Those of the phrases that no chunk has, where none has all of them; of many phrases, and common ones, not all.

    Alone, each may stand in many texts that were not read to look for all of them together.
    """
    if len(wanted) == 1:
        return (wanted[0].text,) if complete else ()
    missing = []
    with_postings = (phrase for phrase in wanted if phrase_terms(phrase.text, state.langs))
    for phrase in islice(with_postings, MOST_ALONE):
        found, is_all = await _found(tx, scope, [phrase], state, most=MOST_READ_ALONE)
        if is_all and not found:
            missing.append(phrase.text)
    return tuple(missing)


async def _with_words(tx: TenantTx, words: Sequence[set[str]], state: IndexState) -> Ordinals:
    """The ordinals that have a term of each of *words*."""
    wanted = [{term_id(term) for term in terms} for terms in words]
    blocks = await posting_blocks(tx, sorted(set().union(*wanted)), generation=state.generation)
    every = np.ones(state.next_ord, bool)
    for terms in wanted:
        some = np.zeros_like(every)
        for block in blocks:
            if block.term in terms:
                some[block.ords] = True
        every &= some
    return np.flatnonzero(every).astype(np.int32)


def _matching(texts: Sequence[tuple[int, str | None]], wanted: Sequence[Phrase]) -> list[int]:
    return [ord_ for ord_, text in texts if text is None or _all_stand_in(folded(text), wanted)]


def _all_stand_in(text: str, wanted: Sequence[Phrase]) -> bool:
    return all(phrase.stands_in(text) for phrase in wanted)
