"""What tokens cost, by model and day: one's own prices (RAG_PRICES), then the table of genai-prices.

The table is the one in the package: nothing is fetched. A price that nobody knows is None, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rag.calls import Usage
from rag.settings import EXTRACTIVE, Price

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice

MILLION = Decimal(1_000_000)
THOUSAND = Decimal(1_000)


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for a token of each class, and for a request."""

    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    output: Decimal
    reasoning: Decimal
    request: Decimal = Decimal(0)

    def cost(self, usage: Usage, *, attempts: int = 1) -> Decimal | None:
        """What *usage* of so many attempts costs; None when its tokens are not known."""
        if usage.input_uncached is None or usage.output is None:
            return None
        reasoning = usage.reasoning or 0
        return (
            self.input * usage.input_uncached
            + self.cache_read * (usage.input_cache_read or 0)
            + self.cache_write * (usage.input_cache_write or 0)
            + self.output * (usage.output - reasoning)
            + self.reasoning * reasoning
            + self.request * attempts
        )

    def worst(self, input_tokens: int, output_tokens: int) -> Decimal:
        """The most that so many tokens can cost, whatever class they turn out to be of."""
        dearest = max(self.input, self.cache_read, self.cache_write)
        return dearest * input_tokens + max(self.output, self.reasoning) * output_tokens + self.request


def cost_of(usage: Usage, rates: Rates | None, *, attempts: int = 1) -> Decimal | None:
    """What *usage* of so many attempts costs; None when its price or its tokens are not known.

    What used nothing costs nothing, whatever the price: it was refused, or never arrived.
    """
    if usage.is_nothing:
        return Decimal(0)
    return rates.cost(usage, attempts=attempts) if rates else None


FREE = Rates(*[Decimal(0)] * 5)


class Prices:
    """The dated price of each model."""

    def __init__(self, own: Mapping[str, Sequence[Price]]) -> None:
        """Look in *own* first: by the target's name, by the model's as reports have it, by the model's alone."""
        self._own = {name: sorted(dated, key=lambda price: price.valid_from) for name, dated in own.items()}

    def rates(self, target: str, provider: str, model: str, *, moment: datetime, input_tokens: int) -> Rates | None:
        """What a request with so much input costed at that *moment*; None when nobody knows.

        *provider* is as `seller` names it.
        """
        if provider == EXTRACTIVE:
            return FREE
        for name in (target, paid_name(provider, model), model):
            valid = [p for p in self._own.get(name, ()) if p.valid_from <= moment.astimezone(UTC).date()]
            if valid:
                return _own_rates(valid[-1])
        return _listed_rates(provider, model, moment, input_tokens=input_tokens)


def paid_name(provider: str, model: str) -> str:
    """A model's name in reports, which RAG_PRICES takes as well: whoever is paid may sell others' models."""
    return f"{provider}/{model}"


def seller(url: str) -> str:
    """Who is paid for what is asked at *url*: a provider of the price table, else the host."""
    for provider in _table().providers:
        if re.match(provider.api_pattern, url):
            return provider.id
    return urlsplit(url).hostname or url


def plain(amount: Decimal) -> str:
    """An amount in digits, without idle zeros."""
    return f"{amount.normalize():f}"


def steps() -> list[int]:
    """Sizes of input from which any model of the table has another price."""
    from genai_prices.types import ModelPrice, TieredPrices  # noqa: PLC0415 - as in _table

    found = set()
    for model in (model for provider in _table().providers for model in provider.models):
        dated = [model.prices] if isinstance(model.prices, ModelPrice) else [c.prices for c in model.prices]
        tiered = [value for prices in dated for value in vars(prices).values() if isinstance(value, TieredPrices)]
        found |= {tier.start + 1 for prices in tiered for tier in prices.tiers}
    return sorted(found)


def _own_rates(price: Price) -> Rates:
    each = [
        price.input,
        price.input if price.cache_read is None else price.cache_read,
        price.input if price.cache_write is None else price.cache_write,
        price.output,
        price.output,
    ]
    return Rates(*[rate / MILLION for rate in each])


def _listed_rates(provider: str, model: str, moment: datetime, *, input_tokens: int) -> Rates | None:
    listed = _listed(provider, model)
    if listed is None:
        return None
    prices = listed.get_prices(moment)
    rate = {name: _rate(prices, f"{name}_mtok", input_tokens) for name in ("input", "output")}
    if rate["input"] is None or rate["output"] is None:
        return None
    reading, writing, thinking = (
        _rate(prices, f"{name}_mtok", input_tokens) for name in ("cache_read", "cache_write", "output_reasoning")
    )
    requests = _rate(prices, "requests_kcount", input_tokens)
    return Rates(
        input=rate["input"] / MILLION,
        # what has no price of its own is charged as what it is part of
        cache_read=(rate["input"] if reading is None else reading) / MILLION,
        cache_write=(rate["input"] if writing is None else writing) / MILLION,
        output=rate["output"] / MILLION,
        reasoning=(rate["output"] if thinking is None else thinking) / MILLION,
        request=(requests or Decimal(0)) / THOUSAND,
    )


@lru_cache(1024)
def _listed(provider: str, model: str) -> ModelInfo | None:
    table = _table()
    found = next((p for p in table.providers if p.id == provider), None)
    return found.find_model(model, all_providers=table.providers) if found else None


def _rate(prices: ModelPrice, name: str, input_tokens: int) -> Decimal | None:
    price = getattr(prices, name)
    if price is None or isinstance(price, Decimal):
        return price
    reached = [tier.price for tier in price.tiers if input_tokens > tier.start]
    return Decimal(reached[-1] if reached else price.base)


def _table() -> DataSnapshot:
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - 0.2 s and 30 MB most processes do without

    return get_snapshot()
