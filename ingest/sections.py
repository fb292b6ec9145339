"""A document as sections: what stands under each heading, up to the next heading of any level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingest.blocks import Block, Parsed
from ingest.cuts import QUESTION_MARKS

ENTRY_CHARS = 120  # list lines longer than this on average are prose with dots in front
REFERENCE_TYPES = frozenset({"reference", "api"})


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks under a heading, and the way there: `headings` innermost last, `crumbs` the title and their words."""

    crumbs: tuple[str, ...]
    headings: tuple[Block, ...]
    blocks: tuple[Block, ...]

    def asks(self) -> bool:
        """Whether the heading is a question, so that the section is its answer."""
        answered = bool(self.headings) and self.blocks[0].kind != "heading"
        return answered and self.crumbs[-1].endswith(QUESTION_MARKS)

    def is_reference(self, parsed: Parsed) -> bool:
        """Whether the section is looked up rather than read: by the document's type, or mostly short list entries."""
        if parsed.facets.doc_type in REFERENCE_TYPES:
            return True
        entries = [block for block in self.blocks if block.kind == "list"]
        chars = sum(block.end - block.start for block in entries)
        lines = sum(parsed.text.count("\n", block.start, block.end) + 1 for block in entries)
        return 2 * chars > self.blocks[-1].end - self.blocks[0].start and chars <= ENTRY_CHARS * lines

    def of_heading(self) -> Section:
        """The heading as a section of its own, with its words in the text instead of the crumbs."""
        return replace(self, crumbs=self.crumbs[:-1], headings=self.headings[:-1], blocks=self.headings[-1:])


def outline(parsed: Parsed) -> Iterator[Section]:
    """Every section in the document's order, those without blocks too."""
    path: list[Block] = []
    blocks: list[Block] = []
    for block in parsed.blocks:
        if block.kind != "heading":
            blocks.append(block)
            continue
        if path or blocks:
            yield _section(parsed, path, blocks)
        path = [*(heading for heading in path if heading.level < block.level), block]
        blocks = []
    yield _section(parsed, path, blocks)


def _section(parsed: Parsed, path: list[Block], blocks: list[Block]) -> Section:
    names = [parsed.of(heading) for heading in path]
    title = " ".join(parsed.facets.title.split())
    if title and names[:1] != [title]:
        names.insert(0, title)
    return Section(tuple(names), tuple(path), tuple(blocks))
