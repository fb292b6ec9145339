from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from rag.protocols import Ordinals
from rag.retrieval.expanded import ExpandedLeg
from rag.values import ContentId, LegResult, Question, Scope, TenantId, Tuning

TENANT = TenantId(UUID(int=1))
ASKED, WRITTEN = "sleeping at my cousin's", "Private lodging is paid."
BOTH = f"{ASKED}\n{WRITTEN}"
A, B, C = (ContentId(UUID(int=n)) for n in (1, 2, 3))


class ScriptedLeg:
    """Finds by text what it was told; each text in turn of the *generations*, the last of which stays."""

    def __init__(self, found: dict[str, LegResult], generations: tuple[int, ...] = (1,)) -> None:
        self.found = found
        self.generations = list(generations)
        self.asked: list[str] = []

    async def __call__(
        self, tenant_id: TenantId, question: Question, depth: int, *, within: Ordinals | None = None
    ) -> LegResult:
        self.asked.append(question.text)
        generation = self.generations.pop(0) if len(self.generations) > 1 else self.generations[0]
        return replace(self.found[question.text], generation=generation)


def result(**scores: float) -> LegResult:
    keys = {"a": A, "b": B, "c": C}
    return LegResult.of([(keys[name], score) for name, score in scores.items()], index_version=7, generation=1)


def question(expansion: str = WRITTEN) -> Question:
    return Question(ASKED, Scope(frozenset(), datetime(2026, 11, 30, tzinfo=UTC)), expansion=expansion)


async def test_a_question_without_expansion_is_looked_for_once_and_found_as_ever() -> None:
    leg = ScriptedLeg({ASKED: result(a=3.0, b=1.0)})

    found = await ExpandedLeg(leg)(TENANT, question(""), 50)

    assert found == leg.found[ASKED]
    assert leg.asked == [ASKED]


async def test_half_a_score_is_the_questions_own_and_half_that_of_both_texts_together() -> None:
    leg = ScriptedLeg({ASKED: result(a=3.0, b=2.0, c=1.0), BOTH: result(b=9.0, a=1.0)})

    found = await ExpandedLeg(leg)(TENANT, question(), 50)

    # alone a is worth 1, b 1/2, c 0; together b 1, a 0
    assert [(ranked.content, ranked.rank, ranked.score) for ranked in found.ranked] == [
        (B, 1, (1 / 2 + 1) / 2),
        (A, 2, 1 / 2),
        (C, 3, 0.0),
    ]
    assert found.floor == 0.0


async def test_what_only_the_passage_finds_is_found() -> None:
    leg = ScriptedLeg({ASKED: result(a=2.0, b=1.0), BOTH: result(c=5.0, a=1.0)})

    found = await ExpandedLeg(leg)(TENANT, question(), 50)

    assert {ranked.content for ranked in found.ranked} == {A, B, C}


async def test_the_rest_is_as_the_question_alone_has_it_and_complete_if_both_are() -> None:
    alone = replace(result(a=1.0), fits=False, tuning=Tuning(depth=20))
    leg = ScriptedLeg({ASKED: alone, BOTH: replace(result(a=1.0), complete=False)})

    found = await ExpandedLeg(leg)(TENANT, question(), 50)

    assert (found.fits, found.tuning, found.index_version, found.complete) == (False, Tuning(depth=20), 7, False)


async def test_an_index_that_is_switched_between_both_searches_is_searched_again() -> None:
    leg = ScriptedLeg({ASKED: result(a=1.0), BOTH: result(b=1.0)}, generations=(1, 2))

    found = await ExpandedLeg(leg)(TENANT, question(), 50)

    assert leg.asked == [ASKED, BOTH, ASKED, BOTH]
    assert found.generation == 2
