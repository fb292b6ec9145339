from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rag.answering.abstention import support
from rag.llm.extractive import Evidence
from rag.values import Passage

Make = Callable[..., Passage]
STRONG = [Evidence(1, 0, "a", 3.0), Evidence(1, 5, "b", -9.0)]


def test_no_evidence_is_no_support(passage: Make) -> None:
    assert support("anything?", [], [passage(1, "text")]) == 0.0


@pytest.mark.parametrize(
    ("question", "logit", "expected"),
    [
        ("how?", -3.2, 0.5),  # no content words are all covered: 8 x (1 - 0.6) = 3.2 more
        ("how?", -3.2 + math.log(3), 0.75),
        ("pump oil", 0.8, 0.5),  # one of two: 8 x (0.5 - 0.6) = 0.8 less
        ("pump", 4.8 - math.log(3), 0.25),  # none: 4.8 less
        ("what is the fee in the guide", -3.2, 0.5),  # headings cover as well
    ],
)
def test_support_weighs_the_best_logit_and_the_words_covered(
    passage: Make, question: str, logit: float, expected: float
) -> None:
    sources = [passage(1, "The oil has a fee."), passage(2, "A pump.")]

    assert support(question, [Evidence(1, 0, "a", logit)], sources) == pytest.approx(expected)


def test_only_the_sources_of_the_three_best_sentences_cover_words(passage: Make) -> None:
    sources = [passage(1, "The oil."), passage(2, "A pump.")]
    best = [Evidence(1, n, "oil", -3.2) for n in range(3)]

    first_three = support("pump oil", [*best, Evidence(2, 0, "pump", -9.0)], sources)
    among_three = support("pump oil", [*best[:2], Evidence(2, 0, "pump", -9.0)], sources)

    assert first_three == pytest.approx(1 / (1 + math.exp(4)))
    assert among_three == pytest.approx(0.5)


@pytest.mark.parametrize("question", ["What is HLY-4039?", "max invoice_total?", "hly-4039", "v9.9.9"])
def test_an_identifier_that_no_source_has_takes_all_support_away(passage: Make, question: str) -> None:
    assert support(question, STRONG, [passage(1, "HLY-4031 means the disk is full.")]) == 0.0


@pytest.mark.parametrize("question", ["What is hly-4031?", "HLY-4031", "What is the disk?", "Guide for REFUNDS"])
def test_identifiers_in_a_source_or_its_headings_are_known_in_any_case(passage: Make, question: str) -> None:
    assert support(question, STRONG, [passage(1, "HLY-4031 means the disk is full.")]) > 0.9


def test_an_identifier_may_stand_in_any_of_the_sources(passage: Make) -> None:
    sources = [passage(1, "Nothing here."), passage(2, "See E-12.")]

    assert support("E-12?", STRONG, sources) > 0


def test_a_question_in_capitals_asks_the_same(passage: Make) -> None:
    assert support("WHAT DOES HLY-4031 MEAN?", STRONG, [passage(1, "HLY-4031 means the disk is full.")]) > 0.9
