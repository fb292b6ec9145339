from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ingest.limits import Limits
from ingest.parsers import parse
from ingest.splitter import split
from rag.values import Draft

Chunks = Callable[..., list[Draft]]
Count = Callable[[Sequence[str]], list[int]]


def paragraph(name: str, chars: int) -> str:
    """Sentences of exactly ten characters that all carry *name*."""
    return " ".join([f"{name:<8}".replace(" ", "o") + "."] * (chars // 10))


def test_a_section_becomes_a_chunk_with_its_path_above_its_text(chunks_of: Chunks) -> None:
    drafts = chunks_of("# Manual\n\nStart here.\n\n## Setup\n\n### Linux\n\nRun it.\n")

    assert [(draft.breadcrumb, draft.text, draft.indexed) for draft in drafts] == [
        (("Manual",), "Start here.", "Manual\nStart here."),
        (("Manual", "Setup", "Linux"), "Run it.", "Manual > Setup > Linux\nRun it."),
    ]
    assert [draft.position for draft in drafts] == [0, 1]


def test_a_title_that_is_not_the_first_heading_stands_above_it(chunks_of: Chunks) -> None:
    drafts = chunks_of("---\ntitle: Handbook\n---\n# Leave\n\nThirty days.\n\n# Pay\n\nMonthly.\n")

    assert [draft.breadcrumb for draft in drafts] == [("Handbook", "Leave"), ("Handbook", "Pay")]


def test_a_heading_stands_once_in_what_is_indexed(chunks_of: Chunks) -> None:
    drafts = chunks_of("# Garden\n\nHello.\n\n## Watering\n\nTwice a week.\n")

    assert [draft.indexed.count("Watering") for draft in drafts] == [0, 1]
    assert [draft.indexed.count("Garden") for draft in drafts] == [1, 1]
    assert "Watering" not in drafts[1].text


def test_a_heading_with_nothing_under_it_is_a_chunk_itself(chunks_of: Chunks) -> None:
    drafts = chunks_of("# Plan\n\n## Open\n\n## Done\n\nAll.\n\n## Later\n")

    assert [(draft.kind, draft.indexed) for draft in drafts] == [
        ("heading", "Plan\nOpen"),
        ("paragraph", "Plan > Done\nAll."),
        ("heading", "Plan\nLater"),
    ]


def test_the_section_span_holds_its_own_content_only(chunks_of: Chunks) -> None:
    source = "# T\n\nTop.\n\n## S\n\n" + "\n\n".join(paragraph(name, 400) for name in "ABC") + "\n\n### U\n\nUnder."

    drafts = chunks_of(source)

    assert [(draft.section_start, draft.section_end) for draft in drafts] == [
        (3, 7),
        (12, 12 + 3 * 399 + 2 * 2),
        (12, 12 + 3 * 399 + 2 * 2),
        (1218, 1224),
    ]


def test_prose_fills_chunks_with_whole_paragraphs(chunks_of: Chunks) -> None:
    drafts = chunks_of("\n\n".join(paragraph(name, 300) for name in "ABCDE"))

    # two of 299 are 600 with the blank line between: enough; a third would leave less for the rest
    assert [len(draft.text) for draft in drafts] == [600, 2 * 299 + 2 + 301]
    assert drafts[1].text.startswith("C")


def test_a_section_that_fits_is_one_chunk(chunks_of: Chunks) -> None:
    drafts = chunks_of("\n\n".join(paragraph(name, 330) for name in "ABC"))

    assert [len(draft.text) for draft in drafts] == [3 * 329 + 4]


def test_a_paragraph_over_the_maximum_is_cut_between_sentences(chunks_of: Chunks) -> None:
    drafts = chunks_of("Dr. Ito paid 3.50 e.g. in No. 5 for it. " * 60)

    assert all(draft.text.endswith("for it.") and draft.text.startswith("Dr. Ito") for draft in drafts)
    assert [len(draft.text) for draft in drafts] == [639, 639, 639, 479]  # 16, 16, 16 and the last 12 sentences


def test_cjk_text_is_cut_at_its_own_marks_and_counted_first(chunks_of: Chunks) -> None:
    sentence = "会議は明日の午後に始まります。"

    drafts = chunks_of(sentence * 70, Limits(max_tokens=100))

    # 15 tokens a sentence and 2 marks: 6 sentences are 92 tokens, 7 are over 100
    assert [draft.text for draft in drafts] == [sentence * 6] * 11 + [sentence * 4]


def test_a_short_last_paragraph_is_repeated_at_the_head_of_the_next_chunk(chunks_of: Chunks) -> None:
    drafts = chunks_of(
        "\n\n".join([paragraph("A", 500), paragraph("B", 150), paragraph("C", 500), paragraph("D", 400)])
    )

    assert [draft.text[0] for draft in drafts] == ["A", "B", "D"]
    assert drafts[0].text.endswith(paragraph("B", 150))
    assert drafts[1].text.startswith(paragraph("B", 150))
    assert not drafts[2].text.startswith("C")


def test_a_small_leftover_takes_the_last_paragraph_with_it(chunks_of: Chunks) -> None:
    drafts = chunks_of("\n\n".join([paragraph("A", 500), paragraph("B", 450), paragraph("C", 100)]))

    assert [len(draft.text) for draft in drafts] == [499, 449 + 2 + 99]


def test_a_small_leftover_joins_a_chunk_that_cannot_give(chunks_of: Chunks) -> None:
    drafts = chunks_of(paragraph("A", 1000) + "\n\n" + paragraph("B", 100))

    assert [len(draft.text) for draft in drafts] == [999 + 2 + 99]


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        ("---\ndoc_type: guide\n---\n{prose}", [3 * 249 + 4]),
        ("---\ndoc_type: reference\n---\n{prose}", [2 * 249 + 2, 249]),
        ("---\ndoc_type: api\n---\n{prose}", [2 * 249 + 2, 249]),
        ("{entries}", [7 * 49 + 6, 9 * 49 + 8]),
    ],
)
def test_what_is_looked_up_gets_smaller_chunks(chunks_of: Chunks, source: str, sizes: list[int]) -> None:
    prose = "\n\n".join(paragraph(name, 250) for name in "ABC")
    entries = "\n".join(["- " + "word " * 9 + "ab"] * 16)

    drafts = chunks_of(source.format(prose=prose, entries=entries))

    assert [len(draft.text) for draft in drafts] == sizes


def test_rows_are_grouped_whole_and_the_caption_comes_along(chunks_of: Chunks) -> None:
    rows = "".join(f"| item-{n:02} | {'x' * 60} | {n},500 |\n" for n in range(20))

    drafts = chunks_of(f"# Prices\n\nTable 1: list prices\n\n| Item | Note | Price |\n|---|---|---|\n{rows}")

    assert len(drafts) > 1
    assert all(draft.indexed.count("Table 1: list prices") == 1 for draft in drafts)
    assert all(len(draft.text) <= 800 for draft in drafts)
    lines = [line for draft in drafts for line in draft.text.split("\n") if line.startswith("Item")]
    assert lines == [f"Item: item-{n:02}; Note: {'x' * 60}; Price: {n},500" for n in range(20)]
    assert {draft.kind for draft in drafts} == {"table"}


def test_a_row_over_the_limit_is_cut_between_fields_and_keeps_its_label(chunks_of: Chunks, count_tokens: Count) -> None:
    names = [f"metric_{n}" for n in range(8)]
    table = f"| city | {' | '.join(names)} |\n|{'---|' * 9}\n"
    table += "".join(
        f"| {city} | {' | '.join(f'{n},{base}' for n in range(8))} |\n" for city, base in (("Oslo", 111), ("Rome", 222))
    )

    drafts = chunks_of(f"# Report\n\n## Europe\n\n{table}", Limits(max_tokens=48))

    assert max(count_tokens([draft.indexed for draft in drafts])) <= 48
    for city, base in (("Oslo", 111), ("Rome", 222)):
        own = [draft.indexed for draft in drafts if f"city: {city}" in draft.indexed]
        assert all(any(f"metric_{n}: {n},{base}" in text for text in own) for n in range(8))
        assert not any(f",{other}" in text for text in own for other in {111, 222} - {base})


def test_a_fence_stays_whole_with_the_paragraph_before_it(chunks_of: Chunks) -> None:
    code = "\n\n".join(f"def step_{n:02}():  # does a small thing" for n in range(30))

    drafts = chunks_of(f"{paragraph('A', 700)}\n\nRun this:\n\n```python\n{code}\n```\n\n{paragraph('B', 600)}")

    assert [draft.kind for draft in drafts] == ["paragraph", "code", "paragraph"]
    assert drafts[1].text == f"Run this:\n\n{code}"
    assert len(code) > 1000


def test_a_fence_over_the_token_limit_is_cut_at_blank_lines(chunks_of: Chunks) -> None:
    blocks = [f"if a_{n}:\n    return {n}" for n in range(60)]

    drafts = chunks_of("```\n" + "\n\n".join(blocks) + "\n```\n", Limits(max_tokens=100))

    assert "\n\n".join(draft.text for draft in drafts) == "\n\n".join(blocks)
    assert all(draft.text.startswith("if") for draft in drafts)


def test_lines_of_cut_code_keep_their_indent(chunks_of: Chunks) -> None:
    code = "\n".join(f"    line_{n}" for n in range(100))

    drafts = chunks_of(f"```\nbegin\n{code}\n```", Limits(max_tokens=60))

    assert all(draft.text.startswith("    line_") for draft in drafts[1:])


def test_a_question_heading_keeps_its_whole_answer(chunks_of: Chunks) -> None:
    answer = "\n\n".join(paragraph(name, 400) for name in "ABC")

    drafts = chunks_of(f"# Help\n\n## How do I pay?\n\n{answer}\n\n## Terms\n\n{answer}")

    assert [(draft.kind, draft.breadcrumb[1]) for draft in drafts] == [
        ("qa", "How do I pay?"),
        ("paragraph", "Terms"),
        ("paragraph", "Terms"),
    ]
    assert drafts[0].text == answer


def test_each_bold_question_is_a_chunk_with_its_answer(chunks_of: Chunks) -> None:
    drafts = chunks_of("Intro.\n\n**Can I swim?**\n\nYes.\n\n- In summer.\n\nQ: At night?\nA: No.\n")

    assert [(draft.kind, draft.text) for draft in drafts] == [
        ("paragraph", "Intro."),
        ("qa", "Can I swim?\n\nYes.\n\n- In summer."),
        ("qa", "Q: At night? A: No."),
    ]


def test_a_long_answer_carries_its_question_into_every_chunk(chunks_of: Chunks) -> None:
    drafts = chunks_of("**Why so long?**\n\n" + "\n\n".join(paragraph(name, 500) for name in "ABCDE"))

    assert len(drafts) > 1
    assert [draft.indexed.count("Why so long?") for draft in drafts] == [1] * len(drafts)


def test_a_list_cut_in_two_keeps_the_line_that_introduces_it(chunks_of: Chunks) -> None:
    items = "\n".join(f"- {paragraph('A', 290)}" for _ in range(5))

    drafts = chunks_of(f"You need all of:\n\n{items}\n")

    assert len(drafts) > 1
    assert [draft.indexed.count("You need all of:") for draft in drafts] == [1] * len(drafts)


def test_an_unbroken_line_is_cut_hard_and_keeps_every_character(chunks_of: Chunks) -> None:
    drafts = chunks_of("# Dump\n\n" + "x" * 5000 + "\n\nlast word Z-9", Limits(max_chars=1000))

    assert max(len(draft.indexed) for draft in drafts) <= 1000
    assert sum(draft.text.count("x") for draft in drafts) == 5000
    assert drafts[-1].text.endswith("Z-9")


def test_a_breadcrumb_takes_at_most_half_of_the_tokens_and_loses_its_left_first(
    chunks_of: Chunks, count_tokens: Count
) -> None:
    source = f"# {'far ' * 20}\n\n## {'near ' * 10}\n\n### here\n\n{'word ' * 200}"

    drafts = chunks_of(source, Limits(max_tokens=40))

    assert max(count_tokens([draft.indexed for draft in drafts])) <= 40
    assert drafts[0].kind == "heading"
    assert drafts[0].text == " ".join(["far"] * 20)
    assert {draft.breadcrumb for draft in drafts[1:]} == {(" ".join(["near"] * 10), "here")}


def test_a_tokenizer_that_reads_joined_words_as_more_is_still_held_to_the_limit() -> None:
    def quadratic(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) ** 2 for text in texts]

    parsed = parse(b"word " * 100, name="a.md")

    drafts = split(parsed, count_tokens=quadratic, limits=Limits(max_tokens=100))

    assert max(quadratic([draft.indexed for draft in drafts])) <= 100
    assert " ".join(draft.text for draft in drafts) == parsed.text


def test_tokens_are_counted_in_few_calls(count_tokens: Count) -> None:
    calls: list[int] = []

    def counting(texts: Sequence[str]) -> list[int]:
        calls.append(len(texts))
        return count_tokens(texts)

    split(parse(b"# H\n\nSome text. And more.\n\n" * 500, name="a.md"), count_tokens=counting)

    assert len(calls) <= 4


@pytest.mark.parametrize("text", ["word " * 1_000_000, "x" * 5_000_000, f"# {'word ' * 1_000_000}\n\nEnd."])
def test_a_tokenizer_never_gets_much_text_at_once(count_tokens: Count, text: str) -> None:
    sizes: list[int] = []

    def counted(texts: Sequence[str]) -> list[int]:
        sizes.append(sum(map(len, texts)))
        return count_tokens(texts)

    drafts = split(parse(text.encode(), name="a.md"), count_tokens=counted)

    assert len(drafts) > 1_000
    assert max(sizes) < 1_100_000
