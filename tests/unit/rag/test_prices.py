from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot

from rag.answering.prices import FREE, Prices, cost_of, paid_name, plain, seller, steps
from rag.calls import NO_TOKENS, Usage
from rag.errors import SetupError
from rag.settings import Price, load_settings

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NAMED = [(p.id, m.id) for p in get_snapshot().providers for m in p.models]


def price(since: str, read: str, written: str, cached: str | None = None) -> Price:
    return Price(
        valid_from=date.fromisoformat(since),
        input=Decimal(read),
        output=Decimal(written),
        cache_read=None if cached is None else Decimal(cached),
    )


@pytest.mark.parametrize("input_tokens", [1_000, 128_001, 199_999, 200_000, 200_001, 600_000])
def test_every_model_of_the_table_costs_what_the_table_says(input_tokens: int) -> None:
    cached, written, output = input_tokens // 2, input_tokens // 10, 777
    usage = Usage(input_tokens - cached - written, cached, written, output, reasoning=70)
    same = genai_prices.Usage(
        input_tokens=input_tokens, cache_read_tokens=cached, cache_write_tokens=written,
        output_tokens=output, output_reasoning_tokens=70,
    )  # fmt: skip
    compared, wrong = 0, []

    for provider, model in NAMED:
        rates = Prices({}).rates("main", provider, model, moment=NOW, input_tokens=input_tokens)
        if rates is None:
            continue
        listed = genai_prices.calc_price(same, model, provider_id=provider, genai_request_timestamp=NOW)
        compared += 1
        if rates.cost(usage) != listed.total_price:
            wrong.append((provider, model, rates.cost(usage), listed.total_price))

    assert wrong == []
    assert compared > 1000


def test_a_price_changes_on_its_day() -> None:
    own = Prices({"our-model": [price("2026-10-01", "1", "2"), price("2026-03-01", "3", "4")]})

    costs = [
        rates and rates.cost(Usage(1_000_000, output=1_000_000))
        for day in ("2026-02-28T23:59", "2026-03-01T00:00", "2026-09-30T23:59", "2026-10-01T00:00")
        for rates in [own.rates("main", "host", "our-model", moment=moment(day), input_tokens=1)]
    ]

    assert costs == [None, 7, 7, 3]


def test_the_price_of_the_target_comes_before_that_of_the_model_and_both_before_the_table() -> None:
    prices = Prices({"cheap": [price("2026-01-01", "1", "1")], "gpt-4o": [price("2026-01-01", "2", "2")]})

    found = [
        prices.rates(target, "openai", model, moment=NOW, input_tokens=1)
        for target, model in (("cheap", "gpt-4o"), ("main", "gpt-4o"), ("main", "gpt-4o-mini"))
    ]

    assert [rates and rates.input * 1_000_000 for rates in found] == [1, 2, Decimal("0.15")]


def test_a_model_has_the_price_of_its_name_in_reports_before_that_of_its_name_alone() -> None:
    prices = Prices({"azure/gpt-4o": [price("2026-01-01", "1", "1")], "gpt-4o": [price("2026-01-01", "2", "2")]})

    found = [prices.rates("main", paid, "gpt-4o", moment=NOW, input_tokens=1) for paid in ("azure", "openai")]

    assert [rates and rates.input * 1_000_000 for rates in found] == [1, 2]
    assert paid_name("azure", "gpt-4o") == "azure/gpt-4o"


def test_nothing_costs_nothing_though_nobody_knows_the_price_and_half_a_count_costs_nobody_knows_what() -> None:
    assert cost_of(NO_TOKENS, None) == 0
    assert cost_of(Usage(input_uncached=0, output=0), None) == 0
    assert cost_of(Usage(input_uncached=0, input_cache_read=1, output=0), None) is None
    assert [cost_of(usage, FREE) for usage in (Usage(), Usage(0), Usage(None, output=0))] == [None] * 3


def test_cached_input_costs_as_other_input_unless_it_has_a_price() -> None:
    prices = Prices({"plain": [price("2026-01-01", "2", "8")], "cached": [price("2026-01-01", "2", "8", "0")]})
    used = Usage(100, 900, 0, 50)

    costs = [
        rates and rates.cost(used)
        for name in ("plain", "cached")
        for rates in [prices.rates("main", "host", name, moment=NOW, input_tokens=1000)]
    ]

    assert costs == [Decimal("0.0024"), Decimal("0.0006")]  # (1000 x 2 + 50 x 8) / 10^6; (100 x 2 + 50 x 8) / 10^6


def test_what_nobody_knows_has_no_price_and_extractive_is_free() -> None:
    prices = Prices({})

    assert prices.rates("main", "openai", "no-such-model", moment=NOW, input_tokens=1) is None
    assert prices.rates("main", "127.0.0.1", "gpt-4o", moment=NOW, input_tokens=1) is None
    assert prices.rates("extractive", "extractive", "any", moment=NOW, input_tokens=1) == FREE
    assert FREE.cost(Usage(None, output=7)) is None


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://generativelanguage.googleapis.com", "google"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://ours.openai.azure.com/openai", "azure"),
        ("http://127.0.0.1:8000/v1", "127.0.0.1"),
        ("https://user:secret@models.example/v1", "models.example"),
    ],
)
def test_who_is_paid_is_told_by_the_address_and_not_by_the_dialect(url: str, name: str) -> None:
    assert seller(url) == name


def test_the_worst_case_is_at_least_every_split_of_the_same_tokens() -> None:
    rates = Prices({}).rates("main", "anthropic", "claude-sonnet-4-5", moment=NOW, input_tokens=1000)
    assert rates is not None

    worst = rates.worst(1000, 500)

    for split in (Usage(1000, 0, 0, 500), Usage(0, 1000, 0, 500), Usage(0, 0, 1000, 500, 500), Usage(10, 0, 0, 1)):
        cost = rates.cost(split)
        assert cost is not None
        assert cost <= worst
    assert worst == Decimal("0.01125")  # 1,000 written to the cache at 3.75, 500 out at 15 dollars for a million


def test_steps_are_the_first_sizes_that_have_another_price() -> None:
    assert 200_001 in steps()
    assert steps() == sorted(set(steps()))


@pytest.mark.parametrize(("amount", "text"), [("0.050000", "0.05"), ("4000", "4000"), ("1E+3", "1000"), ("0E-9", "0")])
def test_amounts_are_written_without_idle_zeros(amount: str, text: str) -> None:
    assert plain(Decimal(amount)) == text


def test_prices_are_read_from_json_and_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {"our-model": [{"valid_from": "2026-01-01", "input": 0.5, "output": "1.5"}]}
    (tmp_path / "prices.json").write_text(json.dumps(given))
    read = []
    for value in (json.dumps(given), str(tmp_path / "prices.json")):
        monkeypatch.setenv("RAG_PRICES", value)
        read.append(load_settings().prices)

    assert read == [{"our-model": (price("2026-01-01", "0.5", "1.5"),)}] * 2


@pytest.mark.parametrize(
    "value",
    [
        "no-such-file.json",
        "{",
        '{"m": [{"input": 1}]}',
        '{"m": [{"input": -1, "output": 1}]}',
        '{"m": [{"input": 1, "output": 1, "cost": 3}]}',
        '{"m": [{"input": 1, "output": 1, "valid_from": "soon"}]}',
    ],
)
def test_prices_that_cannot_be_used_stop_the_start(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("RAG_PRICES", value)

    with pytest.raises(SetupError, match=r"wrong setting: RAG_PRICES"):
        load_settings()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
