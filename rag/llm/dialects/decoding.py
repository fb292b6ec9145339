"""What the streams of all dialects have in common: text, usage, an end, and errors in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

from rag.calls import Finish, Usage
from rag.llm.complaints import Complained, complaint_in
from rag.llm.events import Alive, End, Event, Text, UsageSeen
from rag.llm.failures import Complaint, Failure, Reason, classify
from rag.llm.sse import Frame, parse
from rag.llm.usage import Counts, Tally
from rag.settings import Quirk

Object = Mapping[str, object]
Meaning = Finish | Reason

ALIVE: Sequence[Event] = (Alive(),)
WORD_CHARS = 40  # longer than any reason to finish
IN_STREAM = 200  # the status an error inside a stream comes with
HALVES = range(0xD800, 0xDC00)  # the first of two UTF-16 halves


class Decoder(ABC):
    """The frames of one answer as events; made anew for every attempt, so that nothing of another gets in."""

    finishes: ClassVar[Mapping[str, Meaning]]
    safe_to_lose: ClassVar[frozenset[str]] = frozenset()  # names of frames that hold neither text nor finish

    def __init__(self, quirks: frozenset[Quirk]) -> None:
        """Read what a service with these *quirks* sends."""
        self.finished = False  # the text is whole, or will never be; usage may still come
        self.complete = False  # nothing more is expected
        self._quirks = quirks
        self._tally = Tally(self._count)
        self._outcome: Meaning | None = None
        self._why = ""
        self._said = False
        self._held = ""

    @property
    def usage(self) -> Usage:
        """What is known of the tokens."""
        return self._tally.usage

    @property
    def usage_said(self) -> Usage | None:
        """The same; None before anything was said."""
        return self._tally.usage if self._tally.known else None

    def frame(self, frame: Frame) -> Sequence[Event]:
        """The events of one frame.

        Raises Complained for an error of the provider, Failure for a frame that may have held text and is garbled.
        """
        if not frame.data:
            return ALIVE
        value = parse(frame.data)
        if not isinstance(value, dict):
            return self._garbled(frame)
        complaint = complaint_in(value)
        return self._complain(complaint) if complaint else self._object(value)

    def ended(self) -> Sequence[Event]:
        """The last events, now that no frame will come.

        Raises Failure when the answer is not whole.
        """
        if self._outcome is None:
            raise Failure("incomplete", "the stream ended without a finish")
        if self._outcome != "stop" and self._outcome != "length":
            raise Failure(self._outcome, self._why)
        if not self._said:
            raise Failure("empty", f"{self._why} without a word")
        rest = [Text("\ufffd")] if self._held else []
        return [*rest, End(self._outcome, self.usage)]

    @abstractmethod
    def _object(self, value: Object) -> Sequence[Event]:
        """The events of a frame that is a JSON object and no error."""

    @abstractmethod
    def _count(self, counts: Counts) -> Usage:
        """The record of the provider's counts."""

    def _text(self, piece: object) -> Sequence[Event]:
        """A piece of text; blanks before the first word wait for it, and half a character for its other half."""
        if piece is None or piece == "":
            return ALIVE
        if not isinstance(piece, str):
            raise Failure("malformed", "text that is none")
        text = self._whole(self._held + piece)
        self._said = self._said or bool(text.strip())
        if self._said and text:
            return (Text(text),)
        self._held = text + self._held
        return ALIVE

    def _usage(self, said: object) -> Sequence[Event]:
        return (UsageSeen(self.usage),) if said and self._tally.add(said) else ()

    def _finish(self, word: object) -> None:
        """The provider's word for how it ended; none that we do not know is taken for success."""
        if isinstance(word, str) and word:
            self._end(self.finishes.get(word, "incomplete"), word)

    def _end(self, outcome: Meaning, why: str) -> None:
        self._outcome = outcome
        self._why = f"finish {why[:WORD_CHARS]}"
        self.finished = True

    def _whole(self, text: str) -> str:
        """*text* without halves of characters and NULs, which nothing can store; a last half is held back."""
        self._held = ""
        if text.isascii() and "\0" not in text:
            return text
        if ord(text[-1]) in HALVES:
            text, self._held = text[:-1], text[-1]
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return joined.replace("\0", "\ufffd")

    def _garbled(self, frame: Frame) -> Sequence[Event]:
        if not self.finished and frame.name not in self.safe_to_lose:
            raise Failure("malformed", "a frame that is no JSON object")
        return ALIVE

    def _complain(self, complaint: Complaint) -> Sequence[Event]:
        """An error after the finish changes nothing of a whole answer, but for one that takes it back."""
        if self.finished and classify(complaint, IN_STREAM) != "content_filtered":
            self.complete = True
            return ALIVE
        raise Complained(complaint)


def inner(value: object) -> Object:
    """A JSON object as it is; an empty one for anything else."""
    return cast(Object, value) if isinstance(value, dict) else {}


def first(value: object) -> Object:
    """The first object of a list; an empty one where there is none."""
    return inner(value[0]) if isinstance(value, list) and value else {}
