from __future__ import annotations

import pytest
from pydantic import ValidationError

from rag.errors import InvalidInput
from rag.ranking import DEFAULT, MAX_DEPTH, MAX_WEIGHT, MIN_DEPTH, check_range
from rag.settings import Settings
from rag.store.tuning import checked
from rag.values import Tuning

SETTINGS = {
    "dense_weight": "dense_weight",
    "lexical_weight": "lexical_weight",
    "depth": "search_depth",
    "rerank_weight": "rerank_weight",
    "fused_weight": "fused_weight",
}


def test_without_settings_the_ranking_is_the_default_one() -> None:
    assert Settings().ranking == DEFAULT


def test_every_setting_of_the_ranking_reaches_it() -> None:
    changed = Settings(
        rerank_top=7, rerank_deadline_s=1.5, rerank_weight=3, fused_weight=4, dense_weight=5, lexical_weight=6,
        search_depth=70, search_deadline_s=8, fusion="rrf",
    ).ranking  # fmt: skip

    assert (changed.rerank_top, changed.rerank_deadline_s, changed.rerank_weight) == (7, 1.5, 3)
    assert (changed.fused_weight, changed.dense_weight, changed.lexical_weight) == (4, 5, 6)
    assert (changed.depth, changed.leg_deadline_s, changed.fusion) == (70, 8, "rrf")


def test_a_tenants_values_come_before_the_services() -> None:
    own = Settings(search_depth=70, dense_weight=5).ranking.of(Tuning(depth=90))

    assert (own.depth, own.dense_weight) == (90, 5)


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, MAX_WEIGHT + 1) for name in SETTINGS if name != "depth"), ("dense_weight", -1.0), ("fused_weight", 0.0),
     ("depth", MIN_DEPTH - 1), ("depth", MAX_DEPTH + 1), ("rerank_weight", float("inf"))],
)  # fmt: skip
def test_what_a_tenant_cannot_have_the_service_cannot_have_either(name: str, value: float) -> None:
    with pytest.raises(InvalidInput):
        check_range(name, value)
    with pytest.raises(ValidationError):
        Settings(**{SETTINGS[name]: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("dense_weight", 0.0), ("dense_weight", MAX_WEIGHT), ("fused_weight", 0.001), ("depth", MIN_DEPTH),
     ("depth", MAX_DEPTH)],
)  # fmt: skip
def test_what_a_tenant_can_have_the_service_can_have_too(name: str, value: float) -> None:
    legs = {"lexical_weight": 1.0, name: value}

    assert getattr(checked(legs), name) == getattr(Settings(**{SETTINGS[name]: value}).ranking, name) == value
