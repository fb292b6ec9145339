"""Which lines of print are headings: by larger letters, else by bold ones on a line of their own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median

from ingest.cuts import COLONS, SENTENCE_MARKS
from ingest.parsers.figure_tables import FIGURE
from ingest.parsers.page_layout import Line

HEADING_SCALE = 1.08  # of the body's letters, as 12 points over 11; less is a change of typeface
HEADING_CHARS = 150
SHORT_LINE_CHARS = 60  # longer lines on average are running text, such as an introduction
MAX_HEADING_SHARE = 0.25  # of all characters; more of one size is text of its own
MAX_HEADING_LEVEL = 6
MAX_BOLD_SHARE = 0.2  # of all characters; in a form, every label is bold
BOLD_CHARS = 100
BOLD_SCALE = 0.85  # of the body's letters; smaller bold ones are labels
LEFT_SHARE = 0.35  # of the page's text, where headings begin; words further right are over a column of figures
OFF_CENTRE = 0.05  # of the width of the page's text
EDGE_LINES = 5  # that begin at one place: a column of text
BOLD_LINES = 6  # one under the other, as on a title page; more are a text of its own
PARAGRAPH_GAP = 0.35  # of the letters' size, beyond the usual space between lines
TICK_BOX = re.compile("[\u2610-\u2612]")
# `Note 3`, `Item 1A.`, `PART II`, `4 Fees`: bold headings under them are theirs
MAIN_PART = re.compile(
    r"(?i:part|item|note|chapter|section|article|appendix|annex|schedule)\s+[\dA-Z]|\d{1,2}\.?\s+[A-Z]"
)
SENTENCE_ENDS = (*SENTENCE_MARKS, *COLONS)


class Headings:
    """The levels of a document's lines."""

    def __init__(self, pages: Sequence[Sequence[Line]]) -> None:
        """Look at the lines of all *pages* at once."""
        lines = [line for page in pages for line in page if line.text]
        self._body, self._levels = _levels_of_sizes(lines)
        self.bold_level = min(max(self._levels.values(), default=0) + 1, MAX_HEADING_LEVEL - 1)
        bold_chars = sum(len(line.text) for line in lines if line.is_bold)
        few = bold_chars <= MAX_BOLD_SHARE * sum(len(line.text) for line in lines)
        # by identity: an equal line may stand in running text elsewhere
        self._bold = {id(line) for page in pages for line in self._bold_headings(page)} if few else set()

    def level(self, line: Line) -> int:
        """The line's level; 0 if it is no heading."""
        words = 2 * sum(map(str.isalpha, line.text)) >= len(line.text)  # large figures are no headings
        if not words or len(line.text) > HEADING_CHARS or TICK_BOX.search(line.text):
            return 0
        if by_size := self._levels.get(line.size):
            return by_size
        return self.bold_level + (MAIN_PART.match(line.text) is None) if id(line) in self._bold else 0

    def _bold_headings(self, page: Sequence[Line]) -> Iterator[Line]:
        spacing = usual_spacing(page)
        above: Line | None = None
        for is_bold, group in groupby(page, key=self._is_bold):
            lines = list(group)
            if is_bold and _is_no_sentence(lines) and _stands_alone(lines[0], above, spacing):
                yield from (line for line in lines if self._may_be_heading(line) and _is_in_place(line, page))
            above = lines[-1]

    def _is_bold(self, line: Line) -> bool:
        return line.is_bold and bool(line.text) and line.size not in self._levels

    def _may_be_heading(self, line: Line) -> bool:
        begins = line.text[:1].isupper() or line.text[:1].isdigit()
        closed = line.text.endswith((*SENTENCE_ENDS, ",", ";")) or FIGURE.fullmatch(line.text.split()[-1])
        return begins and not closed and len(line.text) <= BOLD_CHARS and line.size >= BOLD_SCALE * self._body


def _is_in_place(line: Line, page: Sequence[Line]) -> bool:
    """Whether the line stands where headings do: to the left, in the middle, or at the edge of a column of text."""
    left, right = min(other.x0 for other in page), max(other.x1 for other in page)
    if line.x0 - left <= LEFT_SHARE * (right - left):
        return True
    off_centre = abs(line.x0 + line.x1 - left - right) / 2
    at_edge = sum(abs(other.x0 - line.x0) < line.size / 4 for other in page)
    return off_centre <= OFF_CENTRE * (right - left) or at_edge > EDGE_LINES


def _is_no_sentence(lines: Sequence[Line]) -> bool:
    """Whether neighbouring lines are words by line and no bold paragraph."""
    return len(lines) <= BOLD_LINES and not any(map(_flows, lines))


def _flows(line: Line) -> bool:
    ends = line.text.endswith(SENTENCE_MARKS) and len(line.text) > SHORT_LINE_CHARS  # "Harbour Ltd." is short
    return line.text[:1].islower() or line.text.endswith((",", ";")) or ends


def _stands_alone(line: Line, above: Line | None, spacing: float) -> bool:
    """Whether the line is no part of the paragraph above it."""
    if above is None or above.rows or line.top < above.top or above.text.endswith(SENTENCE_ENDS):
        return True
    return line.top - above.bottom > spacing + PARAGRAPH_GAP * line.size


def usual_spacing(lines: Sequence[Line]) -> float:
    """The points between the lines of a paragraph."""
    gaps = ((after.top - before.bottom, after.size) for before, after in pairwise(lines))
    near = [gap for gap, size in gaps if -size < gap < 2 * size]
    return max(0.0, median(near)) if near else 0.0


def _levels_of_sizes(lines: Sequence[Line]) -> tuple[float, dict[float, int]]:
    """The body's size of letters, and the level for each size of headings: larger, rare, and in short lines."""
    lengths: defaultdict[float, list[int]] = defaultdict(list)
    for line in lines:
        lengths[line.size].append(len(line.text))
    chars = {size: sum(of_size) for size, of_size in lengths.items()}
    body = max(chars, key=lambda size: chars[size], default=0.0)
    most = MAX_HEADING_SHARE * sum(chars.values())
    larger = [size for size in chars if size >= HEADING_SCALE * body and chars[size] <= most]
    headings = sorted((size for size in larger if median(lengths[size]) <= SHORT_LINE_CHARS), reverse=True)
    return body, {size: min(level, MAX_HEADING_LEVEL) for level, size in enumerate(headings, 1)}
