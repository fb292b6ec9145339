from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.limits import Limits
from ingest.parsers import parse
from ingest.splitter import split

WORDS = st.lists(
    st.sampled_from(
        ["alpha", "6,100", "naïve", "Überzug", "e.g.", "end.", "why?", "x" * 300, "会議は明日です。", "a-b"]
    ),
    min_size=1,
    max_size=40,
).map(" ".join)
SHORT = st.sampled_from(["alpha", "beta gamma", "No. 5", "why?"])


def table(rows: list[list[str]]) -> str:
    return "\n".join(["| one | two | three |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


BLOCKS = st.one_of(
    WORDS,
    st.tuples(st.integers(1, 4), st.one_of(SHORT, WORDS)).map(lambda h: f"{'#' * h[0]} {h[1]}"),
    st.lists(WORDS, min_size=1, max_size=6).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.lists(WORDS, min_size=1, max_size=6).map(lambda lines: "```\n" + "\n\n".join(lines) + "\n```"),
    st.lists(st.lists(SHORT, min_size=3, max_size=4), min_size=1, max_size=30).map(table),
    SHORT.map(lambda question: f"**{question}?**"),
)
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=15).map("\n\n".join)
LIMITS = st.builds(Limits, max_tokens=st.sampled_from([24, 64, 448]), max_chars=st.sampled_from([600, 4000]))


@settings(deadline=None, max_examples=150)
@given(source=DOCUMENTS, limits=LIMITS)
def test_chunks_are_exact_spans_within_the_limits_and_lose_no_word(
    count_tokens: Callable[[Sequence[str]], list[int]], source: str, limits: Limits
) -> None:
    parsed = parse(source.encode(), name="a.md")

    drafts = split(parsed, count_tokens=count_tokens, limits=limits)

    assert all(draft.text == parsed.text[draft.start : draft.end] for draft in drafts)
    assert all(draft.section_start <= draft.start < draft.end <= draft.section_end for draft in drafts)
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(drafts))
    assert [draft.position for draft in drafts] == list(range(len(drafts)))
    assert max(count_tokens([draft.indexed for draft in drafts])) <= limits.max_tokens
    assert max(len(draft.indexed) for draft in drafts) <= limits.max_chars
    shown = {crumb for draft in drafts for crumb in draft.breadcrumb}
    covered = [range(draft.start, draft.end) for draft in drafts]
    for block in parsed.blocks:
        if block.kind == "heading" and parsed.of(block) in shown:
            continue
        uncovered = _outside(covered, block.start, block.end)
        assert not "".join(parsed.text[at] for at in uncovered).strip()


def _outside(covered: list[range], start: int, end: int) -> list[int]:
    return [at for at in range(start, end) if not any(at in span for span in covered)]


@settings(deadline=None, max_examples=100)
@given(source=DOCUMENTS)
def test_what_fits_is_never_cut(count_tokens: Callable[[Sequence[str]], list[int]], source: str) -> None:
    limits = Limits()
    parsed = parse(source.encode(), name="a.md")

    drafts = split(parsed, count_tokens=count_tokens, limits=limits)

    for block in parsed.blocks:
        rows = parsed.of(block).split("\n") if block.kind == "table" else []
        code = [parsed.of(block)] if block.kind == "code" else []
        for whole in rows + code:
            # the other half is for the breadcrumb
            if count_tokens([whole])[0] <= limits.max_tokens // 2 and len(whole) <= limits.max_chars // 2:
                assert any(whole in draft.text for draft in drafts)


@settings(deadline=None, max_examples=50)
@given(source=DOCUMENTS, limits=LIMITS)
def test_every_word_put_in_is_indexed(
    count_tokens: Callable[[Sequence[str]], list[int]], source: str, limits: Limits
) -> None:
    number = count()
    numbered = " ".join(f"w{next(number)}" for _ in range(60))
    source = f"{source}\n\n> {numbered}\n\n| h1 | h2 |\n|---|---|\n| c1 | |\n| c2 | c3 | c4 |\n\n###### deep *h3*\n"

    drafts = split(parse(source.encode(), name="a.md"), count_tokens=count_tokens, limits=limits)

    words = {word.strip(";:") for draft in drafts for word in draft.indexed.split()}
    assert words >= {*numbered.split(), "h1", "h2", "c1", "c2", "c3", "c4", "deep", "h3"}
