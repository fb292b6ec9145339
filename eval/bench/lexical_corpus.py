"""Chunks and questions of natural words for the lexical benchmark: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from eval.bench.corpus import Vocabulary
from rag.analysis import analyse

CHUNK_WORDS = (26, 78)  # of which the analyser leaves about 40 terms
QUESTION_TERMS = (2, 8)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its terms."""

    text: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chunks:
    """Texts, no two alike, and the terms of each."""

    texts: Sequence[str]
    terms: Sequence[Sequence[str]]


def write_chunks(vocabulary: Vocabulary, number: int, *, seed: int) -> Chunks:
    """So many chunks of words in natural frequencies."""
    rng = random.Random(seed)  # noqa: S311 - text, no secret
    texts: dict[str, None] = {}
    while len(texts) < number:
        texts[" ".join(vocabulary.draw(rng, rng.randint(*CHUNK_WORDS)))] = None
    return Chunks(tuple(texts), [analyse(text) for text in texts])


def write_questions(chunks: Chunks, number: int, *, seed: int) -> list[Asked]:
    """So many questions, each of words of one chunk: as frequent as the corpus has them, and never without a hit."""
    rng = random.Random(seed)  # noqa: S311 - as above
    questions: list[Asked] = []
    while len(questions) < number:
        words = [word for word in rng.choice(chunks.texts).split() if len(analyse(word)) == 1]
        wanted = rng.randint(*QUESTION_TERMS)
        if len(words) >= wanted:
            text = " ".join(rng.sample(words, wanted))
            questions.append(Asked(text, tuple(analyse(text))))
    return questions
