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


@pytest.mark.parametrize(("logit", "expected"), [(0.0, 0.5), (math.log(3), 0.75), (-math.log(3), 0.25)])
def test_support_is_the_logistic_of_the_best_logit(passage: Make, logit: float, expected: float) -> None:
    assert support("how?", [Evidence(1, 0, "a", logit)], [passage(1, "text")]) == pytest.approx(expected)


@pytest.mark.parametrize("question", ["What is HLY-4039?", "max invoice_total?", "hly-4039", "the XYZQ rule", "v9.9.9"])
def test_an_identifier_that_no_source_has_takes_all_support_away(passage: Make, question: str) -> None:
    assert support(question, STRONG, [passage(1, "HLY-4031 means the disk is full.")]) == 0.0


@pytest.mark.parametrize("question", ["What is hly-4031?", "HLY-4031", "What is the disk?", "Guide for REFUNDS"])
def test_identifiers_in_a_source_or_its_headings_are_known_in_any_case(passage: Make, question: str) -> None:
    assert support(question, STRONG, [passage(1, "HLY-4031 means the disk is full.")]) > 0.9


def test_an_identifier_may_stand_in_any_of_the_sources(passage: Make) -> None:
    sources = [passage(1, "Nothing here."), passage(2, "See E-12.")]

    assert support("E-12?", STRONG, sources) > 0.9


@pytest.mark.xfail(strict=True, reason="every word of three capitals counts as a name")
def test_a_question_in_capitals_asks_the_same(passage: Make) -> None:
    assert support("WHAT DOES HLY-4031 MEAN FOR ME?", STRONG, [passage(1, "HLY-4031 means the disk is full.")]) > 0.9


def test_a_very_low_logit_does_not_overflow(passage: Make) -> None:
    assert support("how?", [Evidence(1, 0, "a", -700.0)], [passage(1, "text")]) < 1e-9
