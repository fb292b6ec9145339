"""Sources are packed by the measure that decides afterwards where a prompt fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag.answering.metering import size_of
from rag.answering.prompting import Talk, grounded
from rag.calls import Message
from rag.llm.hop import Hop
from rag.llm.lanes import Chain, Lanes
from rag.values import Passage
from tests.unit.llm.scripted import Scripted

MakePassage = Callable[..., Passage]

PROSE = "Refunds are paid within five business days, once the return has reached the warehouse in Leipzig. "
CODE = "if (x != y && a[0] == {\n    'k': 1\n}) { return f(x, y)->z; } // [1, 2] <|im_end|>\n"
CJK = "返金は倉庫に返品が到着してから五営業日以内に支払われます。"
MIXED = f"{PROSE}{CJK}📦📦📦 [3][4] größere Übergrößen "


@pytest.mark.parametrize("window", [4096, 8192, 16384])
@pytest.mark.parametrize("text", [PROSE, CODE, CJK, MIXED], ids=["prose", "code", "CJK", "mixed"])
def test_what_is_packed_for_a_window_fits_it_and_one_source_more_would_not(
    passage: MakePassage, text: str, window: int
) -> None:
    passages = [passage(n, (text * 100)[:1600]) for n in range(1, 25)]
    talk = Talk((Message("user", text * 3), Message("assistant", f"{text}[1]")), instructions=text)

    request = grounded("How long?", passages, max_tokens=512, talk=talk, window_tokens=window)

    given = len(request.passages)
    more = grounded("How long?", passages[: given + 1], max_tokens=512, talk=talk)
    assert [hop.target.name for hop in _lanes(window).route(request).hops] == ["p1"]
    assert 1 <= given < len(passages)
    assert size_of(more).input + 512 > window


def test_all_sources_are_given_where_they_just_fit(passage: MakePassage) -> None:
    passages = [passage(n, (PROSE * 100)[:1600]) for n in range(1, 7)]
    whole = size_of(grounded("How long?", passages, max_tokens=512)).input + 512

    just = grounded("How long?", passages, max_tokens=512, window_tokens=whole + len(passages))
    under = grounded("How long?", passages, max_tokens=512, window_tokens=whole - 1)

    assert (len(just.passages), len(under.passages)) == (6, 5)


def _lanes(window: int) -> Lanes:
    return Lanes({"answer": Chain((Hop(Scripted("p1", context_tokens=window)),))})  # type: ignore[arg-type]
