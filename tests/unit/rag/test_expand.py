from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.expand import _groups, _window
from rag.values import Chunk

Make = Callable[..., Chunk]


@pytest.mark.parametrize(
    ("spans", "section", "window"),
    [
        ([(400, 500)], (0, 1000), (300, 600)),  # 200 to spare, half on each side
        ([(100, 200)], (80, 1000), (80, 380)),  # what the start of the section leaves over goes to the end
        ([(900, 1000)], (0, 1000), (700, 1000)),
        ([(0, 100)], (0, 1000), (0, 300)),
        ([(50, 60)], (40, 90), (40, 90)),  # the section is smaller than the window
        ([(0, 500)], (0, 1000), (0, 500)),  # the best chunk stays whole
        ([(100, 200), (350, 400)], (0, 1000), (100, 400)),  # both fit, just
        ([(350, 400), (100, 200)], (0, 1000), (100, 400)),
        ([(400, 401)], (0, 1000), (251, 551)),  # 299 to spare: 149 before, 150 after
    ],
)
def test_a_window_is_the_section_around_the_hits(
    chunk: Make, spans: list[tuple[int, int]], section: tuple[int, int], window: tuple[int, int]
) -> None:
    chunks = [chunk(*span, section=section) for span in spans]

    assert _window(chunks, 300) == window


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 400), st.integers(0, 500), st.integers(200, 2000))
def test_a_window_holds_the_best_chunk_stays_in_the_section_and_in_size(
    before: int, section_start: int, length: int, after: int, size: int
) -> None:
    start = section_start + before
    end = start + length
    section_end = end + after
    hit = Chunk(None, None, "", "", (), "", "", "", start, end, section_start, section_end)  # type: ignore[arg-type]

    low, high = _window([hit], size)

    assert section_start <= low <= start
    assert end <= high <= section_end
    assert high - low == max(length, min(size, section_end - section_start))


@pytest.mark.parametrize(
    ("spans", "together"),
    [
        ([(100, 200), (350, 400)], [[0, 1]]),  # both fit, just
        ([(100, 200), (351, 401)], [[0], [1]]),
        ([(100, 200), (900, 950), (150, 250), (860, 890)], [[0, 2], [1, 3]]),
        ([(0, 500), (520, 530)], [[0], [1]]),  # alone over the size, it stays whole
    ],
)
def test_hits_of_a_section_share_a_passage_when_one_window_holds_them(
    chunk: Make, spans: list[tuple[int, int]], together: list[list[int]]
) -> None:
    chunks = [chunk(*span, section=(0, 1000)) for span in spans]

    assert _groups(chunks, 300) == [[chunks[n] for n in group] for group in together]


def test_hits_of_two_sections_share_none(chunk: Make) -> None:
    chunks = [chunk(90, 100, section=(0, 100)), chunk(100, 110, section=(100, 200))]

    assert _groups(chunks, 300) == [[chunks[0]], [chunks[1]]]
