"""How large a chunk may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Characters of a chunk: filling stops at the minimum, and passes the maximum only for what is kept whole."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The sizes the splitter aims at, and the two it never passes."""

    max_tokens: int = 448  # embedder and cross-encoder read 512; the cross-encoder's also hold the question
    max_chars: int = 4000  # what 448 tokens hold at most in ordinary text; stops runs the tokenizer reads as one word
    prose: Size = Size(600, 1000)  # one thought with its reasons; about 150 to 250 tokens, so reranking stays cheap
    reference: Size = Size(300, 700)  # looked up entry by entry, so neighbours are noise
    table: Size = Size(500, 800)  # rows repeat their column names, so they carry less for their length
    answer_chars: int = 1500  # a question with a longer answer is an article
    overlap_chars: int = 200  # a longer paragraph says enough to be found where it stands
    tail_chars: int = 150  # a chunk smaller than this is too little to be found by


DEFAULT_LIMITS = Limits()
