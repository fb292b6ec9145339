"""A model's reply as it is shown: with marks of its sources only, and not at all when it says that they fail."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rag.answering.prompting import ABSTAIN
from rag.marks import KnownMarks

_NO_WORD = re.compile(r"\W+")


def shown_whole(text: str, known: Iterable[int]) -> str:
    """The whole reply; empty when it says that the sources, which are *known* by number, do not answer."""
    showing = Showing(known)
    return showing.feed(text) + showing.rest()


class Showing:
    """Lets a reply pass piece by piece: the pieces are the whole, for every way the reply is cut.

    What may yet become the sentence by which a model abstains is held back.
    """

    def __init__(self, known: Iterable[int]) -> None:
        """Begin a reply."""
        self._marks = KnownMarks(known)
        self._held: str | None = ""  # None once it is clear that this is an answer
        self._abstained = False

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        if self._held is None:
            return self._marks.feed(piece)
        self._held += piece
        said = _spelt(self._held)
        self._abstained = self._abstained or said.startswith(f"{_ABSTAINING} ")
        return "" if self._abstained or _ABSTAINING.startswith(said) else self._begun()

    def rest(self) -> str:
        """What is left once nothing follows."""
        if self._abstained or (self._held is not None and _spelt(self._held) == _ABSTAINING):
            return ""
        return self._begun() + self._marks.rest()

    def _begun(self) -> str:
        held, self._held = self._held or "", None
        return self._marks.feed(held.lstrip())


def _spelt(text: str) -> str:
    return _NO_WORD.sub(" ", text[: 8 * len(ABSTAIN)]).strip().casefold()


_ABSTAINING = _spelt(ABSTAIN)
