"""From the marks in a reply to the places in the documents that support it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from rag.analysis import analyse
from rag.calls import Reply
from rag.sentences import sentences
from rag.values import Citation, Passage

_MARK = re.compile(r"(\w?)(\s?)\[(\d{1,3})\](?!\w)")


def cite(reply: Reply, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    """The reply's text with marks of existing sources only, and one citation for each claim.

    A citation's quote is the place the model names, or the sentence of the source that is the marked claim, or else
    the sentence that shares most terms with it.
    """
    by_n = {passage.n: passage for passage in passages}
    if reply.spans is not None:
        return reply.text, tuple(_citation(by_n[n], start, end) for n, start, end in reply.spans)
    text = _MARK.sub(lambda mark: _kept(mark, by_n), reply.text)
    found: dict[tuple[int, int, int], Citation] = {}
    for claim, n in _claims(text, by_n):
        start, end = _place(by_n[n], claim)
        found.setdefault((n, start, end), _citation(by_n[n], start, end))
    return text, tuple(found.values())


def _kept(mark: re.Match[str], known: Container[int]) -> str:
    """The mark if its source exists; one that does not goes, unless it stands after a word: `items[0]` is code."""
    return mark.group() if int(mark[3]) in known or (mark[1] and not mark[2]) else mark[1]


def _claims(text: str, known: Container[int]) -> Iterator[tuple[str, int]]:
    """Each mark with the text it closes; marks in a row close the same text."""
    claim, at = "", 0
    for mark in _MARK.finditer(text):
        if int(mark[3]) not in known:
            continue
        if between := text[at : mark.end(1)].strip():
            claim = between
        yield claim, int(mark[3])
        at = mark.end()


def _place(passage: Passage, claim: str) -> tuple[int, int]:
    start = passage.text.find(claim) if claim else -1
    if start >= 0:
        return start, start + len(claim)
    terms = set(analyse(claim))
    shared = max(sentences(passage.text), key=lambda s: len(terms & set(analyse(s[1]))), default=(0, ""))
    return shared[0], shared[0] + len(shared[1])


def _citation(passage: Passage, start: int, end: int) -> Citation:
    begin, finish = passage.start + start, passage.start + end
    holds = (c for c in passage.chunks if c.start <= begin and finish <= c.end)
    chunk = next(holds, passage.chunk)  # the section around the hits supports claims too
    quote = passage.text[start:end]
    return Citation(
        passage.n, chunk.chunk_id, chunk.document_id, chunk.external_id, begin, finish, quote, chunk.version
    )
