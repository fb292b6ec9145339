"""From the marks in a reply to the places in the documents that support it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag.analysis import analyse
from rag.sentences import sentences
from rag.values import Citation, Passage, Reply

_MARK = re.compile(r"\s?\[(\d{1,3})\]")


def cite(reply: Reply, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    """The reply's text with marks of existing sources only, and one citation for each marked claim.

    A citation's quote is the sentence of the source that is the claim, or else shares most terms with it.
    """
    by_n = {passage.n: passage for passage in passages}
    text = _MARK.sub(lambda mark: mark.group() if int(mark.group(1)) in by_n else "", reply.text)
    found: dict[tuple[int, int, int], Citation] = {}
    for claim, n in _claims(text):
        citation = _citation(by_n[n], claim)
        found.setdefault((n, citation.start, citation.end), citation)
    return text, tuple(found.values())


def _claims(text: str) -> Iterator[tuple[str, int]]:
    """Each mark with the text it closes; marks in a row close the same text."""
    claim, at = "", 0
    for mark in _MARK.finditer(text):
        if between := text[at : mark.start()].strip():
            claim = between
        yield claim, int(mark.group(1))
        at = mark.end()


def _citation(passage: Passage, claim: str) -> Citation:
    start = passage.text.find(claim) if claim else -1
    quote = claim
    if start < 0:
        terms = set(analyse(claim))
        start, quote = max(sentences(passage.text), key=lambda s: len(terms & set(analyse(s[1]))), default=(0, ""))
    begin = passage.start + start
    holds = (c for c in passage.chunks if c.start <= begin and begin + len(quote) <= c.end)
    chunk = next(holds, passage.chunk)  # the section around the hits supports claims too
    return Citation(passage.n, chunk.chunk_id, chunk.document_id, chunk.external_id, begin, begin + len(quote), quote)
