"""What an answer claims, sentence by sentence, and which sources each claim names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rag.marks import MARK
from rag.sentences import sentences

_ITEM = re.compile(r"\W*\d{1,3}[.)]\W*")


@dataclass(frozen=True, slots=True)
class Clause:
    """Words of a sentence and the sources that the marks behind them name."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer, at [start, end) of it; without clauses when it names no source."""

    start: int
    end: int
    text: str
    clauses: tuple[Clause, ...]


def claims(answer: str) -> Iterator[Claim]:
    """The sentences of *answer* with what they cite; a mark behind the full stop belongs to the sentence before it."""
    plain = MARK.sub(lambda mark: " " * len(mark[0]), answer)
    found = _numbered(sentences(plain))
    nexts = [*(start for start, _ in found), len(answer)][1:]
    since = 0  # marks before the first sentence are its own
    for (start, text), until in zip(found, nexts, strict=True):
        end = start + len(text)
        marks = list(MARK.finditer(answer, since, until))
        yield Claim(start, end, text, tuple(_clauses(plain[:end], start, marks)))
        since = until


def _numbered(found: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The sentences, each with the number of its list item, which the end of the line before it made one of its own."""
    whole: list[tuple[int, str]] = []
    for start, text in found:
        if whole and _ITEM.fullmatch(whole[-1][1]):
            number_at, number = whole.pop()
            whole.append((number_at, number.ljust(start - number_at) + text))
        else:
            whole.append((start, text))
    return whole


def _clauses(plain: str, start: int, marks: Sequence[re.Match[str]]) -> Iterator[Clause]:
    """Each mark closes the words since the one before it; marks in a row close the same, and the last all the rest."""
    texts: list[str] = []
    cited: list[list[int]] = []
    for mark in marks:
        between = plain[start : mark.start()].strip()
        if between or not texts:
            texts.append(between)
            cited.append([])
        cited[-1].append(int(mark[1]))
        start = mark.end()
    if texts:
        texts[-1] = f"{texts[-1]} {plain[start:].strip()}".strip()
    return (Clause(text, tuple(ns)) for text, ns in zip(texts, cited, strict=True))
