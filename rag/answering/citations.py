"""From the marks in a reply to the places in the documents that support it, and to the claims that nothing supports."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rag.analysis import analyse
from rag.answering.claims import Claim, Clause, claims
from rag.answering.grounding import Source, supporting
from rag.answering.showing import shown_whole
from rag.calls import Reply, Unsupported
from rag.marks import literal
from rag.protocols import Reranker
from rag.values import Citation, Deadline, Passage

QUOTED_TERMS = 3  # fewer words in a row stand in many texts
JUDGING_S = 1.0  # for the cross-encoder on claims in other words; the answer itself is there already


@dataclass(frozen=True, slots=True)
class Cited:
    """A reply's text as it is shown, one citation for each claim, and the claims to doubt."""

    text: str
    citations: tuple[Citation, ...]
    unsupported: tuple[Unsupported, ...]


async def cite(reply: Reply, passages: Sequence[Passage], *, reranker: Reranker, deadline: Deadline) -> Cited:
    """What the reply says, and where its sources say it.

    A citation's quote is the place the model names, or the sentence of the source that is the marked claim, or else
    the sentence that shares most terms with it. What is quoted without a mark is cited too. A model that names its
    places has its claims from there.
    """
    text = shown_whole(reply.text, [passage.n for passage in passages])
    if text and reply.spans is not None:
        by_n = {passage.n: passage for passage in passages}
        return Cited(text, tuple(_citation(by_n[n], start, end) for n, start, end in reply.spans), ())
    sources = {passage.n: Source(passage) for passage in passages}
    said = [_quoted(claim, sources) for claim in claims(text)]
    deadline = Deadline.after(min(JUDGING_S, deadline.remaining_s()))
    found: dict[tuple[int, int, int], Citation] = {}
    doubted: set[Claim] = set()
    for claim in said:
        await asyncio.sleep(0)  # a long answer takes a while, and others wait
        for clause in claim.clauses:
            support = await supporting(clause, sources, reranker=reranker, deadline=deadline)
            if not support:
                doubted.add(claim)
            for n in clause.sources:
                place = sources[n].place(clause.text)
                new = _citation(sources[n].passage, place.start, place.end)
                known = found.setdefault((n, place.start, place.end), new)
                found[n, place.start, place.end] = replace(known, supported=known.supported and n in support)
    uncited = {claim for claim in said if not claim.clauses and not _is_left_to_the_next(claim, said, sources)}
    return Cited(text, tuple(found.values()), tuple(_listed(said, uncited=uncited, doubted=doubted)))


def _listed(said: Iterable[Claim], *, uncited: Container[Claim], doubted: Container[Claim]) -> Iterator[Unsupported]:
    for claim in said:
        if claim in uncited and _says_something(claim.text):
            yield Unsupported(claim.start, claim.end, "uncited")
        elif claim in doubted:
            yield Unsupported(claim.start, claim.end, "unsupported")


def _quoted(claim: Claim, sources: Mapping[int, Source]) -> Claim:
    """The claim; one without a mark that stands in a source word for word names that source all the same."""
    if claim.clauses or len(analyse(claim.text)) < QUOTED_TERMS:
        return claim
    holding = (n for n, source in sources.items() if claim.text in literal(source.passage.text))
    return next((replace(claim, clauses=(Clause(claim.text, (n,)),)) for n in holding), claim)


def _is_left_to_the_next(claim: Claim, said: Sequence[Claim], sources: Mapping[int, Source]) -> bool:
    """Whether it is quoted word for word from what the next mark names, as sentences in a row are."""
    following = (later.clauses[0] for later in said if later.start > claim.start and later.clauses)
    named = next(following, Clause("", ())).sources
    return any(claim.text in literal(sources[n].passage.text) for n in named)


def _says_something(sentence: str) -> bool:
    """Headings, questions and "the steps are:" claim nothing."""
    return not sentence.startswith("#") and not sentence.endswith((":", "?")) and bool(analyse(sentence))


def _citation(passage: Passage, start: int, end: int) -> Citation:
    begin, finish = passage.start + start, passage.start + end
    holds = (c for c in passage.chunks if c.start <= begin and finish <= c.end)
    chunk = next(holds, passage.chunk)  # the section around the hits supports claims too
    quote = passage.text[start:end]
    return Citation(
        n=passage.n,
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        external_id=chunk.external_id,
        start=begin,
        end=finish,
        quote=quote,
        version=chunk.version,
        title=chunk.title,
        breadcrumb=chunk.breadcrumb,
    )
