"""What a chat model's stream says, in the words of no provider."""

from __future__ import annotations

from dataclasses import dataclass

from rag.calls import Finish, Usage


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer, never empty; before the first one nothing of the answer is known."""

    text: str


@dataclass(frozen=True, slots=True)
class Alive:
    """The provider is at work: lifecycle frames, pings, comments, thinking. Nothing of the answer."""


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """All that the provider has said of the tokens so far; each replaces the one before."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class End:
    """The provider said that the answer is whole; always the last event."""

    finish: Finish
    usage: Usage


Event = Text | Alive | UsageSeen | End
