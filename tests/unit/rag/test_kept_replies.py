from __future__ import annotations

from collections.abc import Callable

import pytest

from rag.answering.kept import KeptReply
from rag.calls import NO_TOKENS, Reply, Usage
from rag.values import Passage

MakePassage = Callable[..., Passage]


def reply(text: str, spans: tuple[tuple[int, int, int], ...] | None = None) -> Reply:
    return Reply(text, "openai", "large", Usage(5, output=2), spans=spans)


@pytest.mark.parametrize("spans", [None, ((1, 0, 4), (2, 3, 9))])
@pytest.mark.parametrize("text", ["It does. [1]", "Ja – \ud800\x00 [2] 📦"])
def test_a_reply_is_read_as_it_was_written_but_cost_nothing(
    passage: MakePassage, text: str, spans: tuple[tuple[int, int, int], ...] | None
) -> None:
    kept = KeptReply.of(reply(text, spans), [passage(1, "One."), passage(2, "Two.")])

    read = KeptReply.read(kept.as_json())

    assert (read.reply.text, read.reply.spans, read.sources) == (text, spans, kept.sources)
    assert (read.reply.target, read.reply.model, read.reply.finish) == ("openai", "large", "stop")
    assert read.reply.usage == NO_TOKENS


def test_marks_and_spans_follow_their_sources_to_other_numbers(passage: MakePassage) -> None:
    one, two = passage(1, "One."), passage(2, "Two.", start=50)
    kept = KeptReply.of(reply("Both. [1][2]", spans=((1, 0, 3), (2, 1, 4))), [one, two])

    carried = kept.carried_over([passage(1, "Two.", start=50), passage(2, "Three.", start=90), passage(3, "One.")])

    assert carried is not None
    assert (carried.text, carried.spans) == ("Both. [3][1]", ((3, 0, 3), (1, 1, 4)))


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("Yes. [1]", [("Other text.", 0)]),
        ("Yes. [1]", [("One.", 5)]),  # the same words somewhere else
        ("Yes. [1][2]", [("One.", 0)]),
        ("Yes. [1, 2]", [("One.", 0)]),
        ("Yes. [2, 1]", [("One.", 0), ("Three.", 50)]),
        ("Yes.", [("One.", 0)]),  # from nowhere
    ],
)
def test_a_reply_is_not_carried_over_without_every_source_that_it_marks(
    passage: MakePassage, text: str, now: list[tuple[str, int]]
) -> None:
    kept = KeptReply.of(reply(text), [passage(1, "One."), passage(2, "Two.", start=50)])

    carried = kept.carried_over([passage(n, *source) for n, source in enumerate(now, 1)])

    assert carried is None


@pytest.mark.parametrize("text", ["Both. [1, 2]", "Both. [1,2]", "Both. [1, 2, 9]", "Both. [1][2] [9]"])
def test_a_list_of_sources_follows_them_to_other_numbers(passage: MakePassage, text: str) -> None:
    kept = KeptReply.of(reply(text), [passage(1, "One."), passage(2, "Two.", start=50)])

    read = KeptReply.read(kept.as_json())
    carried = read.carried_over([passage(1, "Two.", start=50), passage(2, "Three.", start=90), passage(3, "One.")])

    assert carried is not None
    assert (read.reply.text, carried.text) == ("Both. [1][2]", "Both. [3][1]")


def test_what_is_no_mark_of_a_source_becomes_none_where_there_are_more(passage: MakePassage) -> None:
    kept = KeptReply.of(reply("Set it = [2, 3], see items[9]. [1]"), [passage(1, "One.")])

    carried = kept.carried_over([passage(n, "Other.", start=n) for n in range(1, 9)] + [passage(9, "One.")])

    assert carried is not None
    assert carried.text == "Set it = [2, 3], see items[ 9 ]. [9]"
