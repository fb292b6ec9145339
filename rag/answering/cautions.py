"""What settings say of chat models without any effect: allowed, and hardly meant."""

from __future__ import annotations

from collections.abc import Iterator

from rag.answering.prices import paid_name, seller
from rag.settings import Settings


def cautions(settings: Settings) -> list[str]:
    """A sentence for each, naming the variable and what would have an effect."""
    return [*_unasked(settings), *_unmatched(settings)]


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
