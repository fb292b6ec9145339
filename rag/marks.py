"""The marks of an answer: [n] is source n, and nothing else in an answer looks like that."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = re.compile(r"\[([0-9]{1,3})\]")
CONTEXT = 64  # characters: more than the longest list of numbers has

_OPEN, _CLOSE = r"[\[【［]", r"[\]】］]"  # models that write Chinese, or learnt from it, write 【1】
_LIST = r"[0-9]{1,3}(?:, ?[0-9]{1,3}){0,9}"  # models write [1, 2] for [1][2]
_WRITTEN = re.compile(rf"((?<!\s)\s++)?({_OPEN})({_LIST}){_CLOSE}")
_BEGUN = rf"{_OPEN}[0-9]{{0,3}}(?:, ?[0-9]{{0,3}}){{0,9}}\Z"
_UNDECIDED = re.compile(rf"(?:(?<!\s)\s++)?{_BEGUN}|(?<!\s)\s++\Z")
_JOINS = re.compile(_BEGUN)
_LIST_OF_CODE = re.compile(r"(?:[=\[]|\w\()\s*\Z")


def literal(text: str) -> str:
    """The text of a source with blanks in what reads like a mark: quoted in an answer, it cites nothing."""
    return re.sub(rf"({_OPEN})({_LIST})({_CLOSE})", r"\1 \2 \3", text)


def shown(text: str, known: Iterable[int]) -> str:
    """A whole answer with the marks of *known* sources only."""
    marks = KnownMarks(known)
    return marks.feed(text) + marks.rest()


class KnownMarks:
    """Lets an answer pass piece by piece, with the marks of *known* sources only: the same for every way it is cut.

    A mark without a source goes, with the blanks before it. Right behind a word it may be code, `items[0]`, and gets
    blanks instead. White space at the end is dropped.
    """

    def __init__(self, known: Iterable[int]) -> None:
        """Begin an answer."""
        self._known = frozenset(known)
        self._held = ""
        self._before = ""  # as shown
        self._last = ""  # as written

    def feed(self, piece: str) -> str:
        """What can be shown now: all but a tail that may yet become a mark."""
        text = self._held + piece
        undecided = _UNDECIDED.search(text)
        cut = undecided.start() if undecided else len(text)
        self._held = text[cut:]
        return self._passed(text[:cut])

    def rest(self) -> str:
        """The tail, once nothing follows."""
        tail, self._held = self._held.rstrip(), ""
        return self._passed(tail)

    def _passed(self, text: str) -> str:
        passed, at = "", 0
        for mark in _WRITTEN.finditer(text):
            passed += self._remembered(text[at : mark.start()])
            passed += self._remembered(self._mark(mark, text[max(0, mark.start() - 1) : mark.start()] or self._last))
            at = mark.end()
        self._last = text[-1:] or self._last
        return passed + self._remembered(text[at:])

    def _remembered(self, text: str) -> str:
        self._before = (self._before + text)[-CONTEXT:]
        return text

    def _mark(self, mark: re.Match[str], previous: str) -> str:
        blanks, numbers = mark[1] or "", [int(n) for n in mark[3].split(",")]
        if len(numbers) > 1 and _LIST_OF_CODE.search(self._before):
            return mark[0]
        if known := [n for n in numbers if n in self._known]:
            return blanks + "".join(f"[{n}]" for n in known)
        behind_word = not blanks and mark[2] == "[" and re.match(r"\w", previous)
        if behind_word or _JOINS.search(self._before):  # without it, "[[9]8]" would become "[8]"
            return f"{blanks}[ {mark[3]} ]"
        return ""
