"""What settings say of chat models without any effect, or with one that surprises: allowed, and hardly meant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rag.answering.prices import Prices, paid_name, seller
from rag.settings import EXTRACTIVE, Settings


def cautions(settings: Settings) -> list[str]:
    """A sentence for each, naming the variable and what would have an effect."""
    return [*_unasked(settings), *_unmatched(settings)]


def unpriced(settings: Settings) -> list[str]:
    """A sentence that names the models which may answer and have no price, since a budget of money refuses then."""
    targets = [target for target in settings.chat_targets if target.name in settings.chat_chains["answer"]]
    prices, now = Prices(settings.prices), datetime.now(UTC)
    names = [
        paid_name(sold, target.model)
        for target in targets
        if prices.rates(target.name, sold := seller(target.url), target.model, moment=now, input_tokens=1) is None
    ]
    if not names:
        return []
    return [
        f"RAG_PRICES: nobody knows what {' and '.join(names)} costs, so whoever has a budget of money is refused every"
        " answer (price_unknown); add a price, which may be 0"
    ]


def unreadable(settings: Settings) -> list[str]:
    """A sentence for each data class that nothing in the chain for answers may read."""
    chain = settings.chat_chains["answer"]
    if EXTRACTIVE in chain:
        return []
    read = frozenset[str]().union(*(target.allows for target in settings.chat_targets if target.name in chain))
    return [
        f"RAG_DATA_CLASSES: no target of the chain for answer allows {name}, so questions whose sources have that tag"
        f" are refused (not_allowed); let one of {', '.join(chain)} read it, or end the chain with {EXTRACTIVE}"
        for name in sorted(settings.data_classes - read)
    ]


def _unasked(settings: Settings) -> Iterator[str]:
    asked = {name for chain in settings.chat_chains.values() for name in chain}
    for target in settings.chat_targets:
        if target.name not in asked:
            yield f"RAG_CHAT_TARGETS: {target.name} is in no chain of RAG_CHAT_CHAINS, so nothing asks it"


def _unmatched(settings: Settings) -> Iterator[str]:
    if not settings.prices:  # else the table of prices would be loaded for nothing
        return
    known = list(
        dict.fromkeys(
            name
            for target in settings.chat_targets
            for name in (target.name, paid_name(seller(target.url), target.model), target.model)
        )
    )
    there = f"only {', '.join(known)}" if known else "for RAG_CHAT_TARGETS is empty"
    for name in settings.prices:
        if name not in known:
            yield f"RAG_PRICES: no chat target or model is named {name}, {there}"
