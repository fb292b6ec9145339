"""Source code to blocks: every line as it is, under headings of the symbols it stands in, small neighbours joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, takewhile

from tree_sitter import Node, Parser

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.grammars import FUNCTION_VALUES, GRAMMARS, LEADING, NAMED_VALUES, Grammar
from rag.values import Facets

LANGUAGE_BY_SUFFIX = {
    ".py": "python",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".js": "javascript",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".go": "go",
    ".java": "java",
    ".rs": "rust",
    ".c": "c",
    ".h": "cpp",  # reads C as well, and a header does not say which it is
    ".cc": "cpp",
    ".cpp": "cpp",
    ".hpp": "cpp",
    ".cs": "csharp",
}
LANGUAGE_BY_CONTENT_TYPE = {
    "text/x-python": "python",
    "text/javascript": "javascript",
    "application/javascript": "javascript",
    "application/typescript": "typescript",
    "text/x-go": "go",
    "text/x-java-source": "java",
    "text/x-rust": "rust",
    "text/x-c": "c",
    "text/x-c++": "cpp",
    "text/x-csharp": "csharp",
}
JOINED_CHARS = 1000  # a chunk: by itself a symbol of three lines says too little to be found (decision 0023)
MAX_DEPTH = 20  # symbols nested deeper are lines of the one around them
CLOSING = re.compile(r"\s*(?:[\])}>;,]+\s*(?://.*|/\*.*)?|#\s*endif.*)?")  # blank lines too
OPENING = re.compile(r"\s*\{?\s*")
READ = re.compile("comment|statement|declaration|definition|specifier|item")  # types of nodes


def parse_code(source: str, *, language: str, name: str, joined_chars: int = JOINED_CHARS) -> Parsed:
    """The symbols of *source*, which has LF line ends, under the file's *name*, if any; *language* is of GRAMMARS.

    Neighbours of up to *joined_chars* together share a section, under what they all stand in and their names.
    """
    grammar = GRAMMARS[language]
    tree = Parser(grammar.language()).parse(source.encode())
    outline = _Outline(grammar, source.split("\n"), name)
    outline.visit(tree.root_node, outline.owners[0], depth=0)
    return _parsed(_joined(outline.parts(), joined_chars), Facets(title=name, metadata={"language": language}))


def error_share(source: str, language: str) -> float:
    """The share of *source*, from 0 to 1, that the grammar of *language* makes nothing of.

    In an error, statements and the like still count as read: an excerpt may begin or end within a class.
    """
    data = source.encode()
    nodes = [Parser(GRAMMARS[language].language()).parse(data).root_node]
    unread = 0
    while nodes:
        node = nodes.pop()
        if node.is_error or node.is_missing:
            read = [child for child in node.children if READ.search(child.type)]
            unread += (_size(node) or 1) - sum(map(_size, read))
            nodes += read
        elif node.has_error:
            nodes += node.children
    return unread / max(1, len(data))


@dataclass(slots=True, eq=False)
class _Symbol:
    path: tuple[_Symbol, ...]  # from the file to what it stands in
    name: str
    is_divided: bool = False  # whether symbols of their own stand in it

    def chain(self) -> tuple[_Symbol, ...]:
        return (*self.path, self)


@dataclass(frozen=True, slots=True)
class _Part:
    """Neighbouring code: what all of it stands in, from the file on, the names of symbols in that, and its blocks."""

    shared: tuple[_Symbol, ...]  # a single symbol stands in itself
    names: tuple[str, ...]
    blocks: tuple[str, ...]
    chars: int

    def chain(self) -> tuple[_Symbol, ...]:
        """What it stands in, and the symbols in that as one."""
        if not self.names:
            return self.shared
        return (*self.shared, _Symbol(self.shared, ", ".join(dict.fromkeys(self.names))))

    def is_beside(self, other: _Part) -> bool:
        """Whether both stand in the same, or one right in what the other is."""
        levels = min(len(self.shared), len(other.shared))
        return len(_shared(self.shared, other.shared)) >= levels - 1

    def with_next(self, other: _Part) -> _Part:
        """Both as one."""
        shared = _shared(self.shared, other.shared)
        names = (*self._below(shared), *other._below(shared))
        return _Part(shared, names, self.blocks + other.blocks, self.chars + 2 + other.chars)

    def _below(self, shared: tuple[_Symbol, ...]) -> tuple[str, ...]:
        return (*(symbol.name for symbol in self.shared[len(shared) :]), *self.names)


class _Outline:
    """The innermost symbol that each line belongs to."""

    def __init__(self, grammar: Grammar, lines: list[str], name: str) -> None:
        self._grammar = grammar
        self._lines = lines
        self.owners = [_Symbol((), name, is_divided=True)] * len(lines)
        self._within = bytearray(len(lines))  # lines that one statement holds together

    def visit(self, node: Node, owner: _Symbol, *, depth: int) -> None:
        """Give the symbols in *node* their lines, with the comments right above them."""
        above = above_end = done = _start(node)
        for child in node.named_children:
            if _start(child) > above_end:  # a blank line parts a comment from what follows
                above = _start(child)
            above_end = max(above_end, _end(child))
            if child.type in LEADING and _start(child) >= done:
                continue
            self._take(child, owner, first=max(above, done), depth=depth)
            above = done = above_end

    def _take(self, node: Node, owner: _Symbol, *, first: int, depth: int) -> None:
        inner = self._unwrapped(node)
        name = self._name(inner)
        rows = max(0, _end(node) - first)
        is_open = inner.type in self._grammar.types | self._grammar.passed or inner.is_error
        if name and rows:
            owner.is_divided = True
            owner = _Symbol(owner.chain(), name)
            self.owners[first : first + rows] = [owner] * rows
        elif not is_open:
            self._within[first : first + rows] = b"\1" * rows
        if is_open and depth < MAX_DEPTH:
            self.visit(inner.child_by_field_name("body") or inner, owner, depth=depth + 1)
            if rows:
                self._hand_down(owner, first, first + rows)

    def _hand_down(self, owner: _Symbol, first: int, end: int) -> None:
        """A header of one line goes to the symbol right under it: by itself it says nothing that its name does not."""
        inside = next((row for row in range(first + 1, end) if not OPENING.fullmatch(self._lines[row])), first)
        if owner in self.owners[inside].path and self.owners[first] is owner and owner.path:
            self.owners[first:inside] = [self.owners[inside]] * (inside - first)

    def _unwrapped(self, node: Node) -> Node:
        if node.type not in self._grammar.wrappers:
            return node
        inner = node.child_by_field_name("definition") or node.child_by_field_name("declaration")
        return inner or (node.named_children or [node])[-1]

    def _name(self, node: Node) -> str:
        """The name of a symbol, an empty text for all else."""
        if node.type in NAMED_VALUES:
            return _name_of_value(node)
        if node.type in self._grammar.types or node.type == "type_definition":
            holder = node.child_by_field_name("type") if node.type == "type_definition" else node
            if holder is None or holder.child_by_field_name("body") is None:  # declares what stands elsewhere
                return ""
        elif node.type not in self._grammar.functions:
            return ""
        return " ".join(_name_of(node).split())

    def parts(self) -> Iterator[_Part]:
        """The lines in order, cut wherever the symbol changes."""
        for owner, rows in groupby(self._settled(), key=lambda row: self.owners[row]):
            if blocks := tuple(self._blocks(owner, list(rows))):
                yield _Part(owner.chain(), (), blocks, sum(map(len, blocks)) + 2 * (len(blocks) - 1))

    def _settled(self) -> Iterator[int]:
        """The rows, those that only close what stands above given to it."""
        for row, line in enumerate(self._lines):
            if row and self.owners[row] in self.owners[row - 1].path and CLOSING.fullmatch(line):
                self.owners[row] = self.owners[row - 1]
            yield row

    def _blocks(self, owner: _Symbol, rows: list[int]) -> Iterator[str]:
        """The rows as one block, or as one for each paragraph of statements between symbols."""
        begin = rows[0]
        for row in rows:
            if owner.is_divided and not self._within[row] and not self._lines[row].strip():
                yield from self._filled(begin, row)
                begin = row + 1
        yield from self._filled(begin, rows[-1] + 1)

    def _filled(self, begin: int, end: int) -> Iterator[str]:
        while begin < end and not self._lines[begin].strip():
            begin += 1
        while begin < end and not self._lines[end - 1].strip():
            end -= 1
        if begin < end:
            yield "\n".join(self._lines[begin:end])


def _joined(parts: Iterable[_Part], most: int) -> Iterator[_Part]:
    """The parts, neighbours as one where they are together no longer than *most* characters."""
    last: _Part | None = None
    for part in parts:
        if last and last.chars + 2 + part.chars <= most and last.is_beside(part):
            last = last.with_next(part)
            continue
        if last:
            yield last
        last = part
    if last:
        yield last


def _parsed(parts: Iterable[_Part], facets: Facets) -> Parsed:
    """The parts as blocks, under a heading wherever the symbol changes."""
    document = TextBuilder()
    opened: tuple[_Symbol, ...] = ()
    for part in parts:
        chain = part.chain()
        for level in range(min(len(_shared(opened, chain)), len(chain) - 1), len(chain)):
            document.add("heading", chain[level].name, level=level + 1)
        for block in part.blocks:
            document.add("code", block)
        opened = chain
    return document.parsed(facets)


def _shared(one: tuple[_Symbol, ...], other: tuple[_Symbol, ...]) -> tuple[_Symbol, ...]:
    """What both begin with."""
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] is pair[1], zip(one, other, strict=False)))


def _start(node: Node) -> int:
    return node.start_point.row


def _end(node: Node) -> int:
    return node.end_point.row + (node.end_point.column > 0)


def _size(node: Node) -> int:
    return node.end_byte - node.start_byte


def _name_of(node: Node) -> str:
    if node.type == "impl_item":
        return " for ".join(_text(_plain(part)) for field in ("trait", "type") for part in _fields(node, field))
    if node.type == "type_declaration":  # of Go, which holds several in brackets
        return ", ".join(_text(name) for spec in node.named_children for name in _fields(spec, "name"))
    names = [_text(name) for name in _fields(node, "name")]
    for receiver in _fields(node, "receiver"):
        names[:0] = re.findall(r"\w+", _text(receiver).partition("[")[0])[-1:]
    return ".".join(names) or _declared(node)


def _declared(node: Node) -> str:
    """The name in a declaration of C or C++."""
    declared: Node | None = node
    while declared is not None and declared.type not in ("operator_cast", "qualified_identifier"):
        inner = declared.child_by_field_name("declarator")
        if inner is None and declared.type in ("reference_declarator", "parenthesized_declarator"):
            inner = declared.named_child(declared.named_child_count - 1)
        if inner is None:
            break
        declared = inner
    return _text(declared) if declared is not None and declared is not node else ""


def _name_of_value(node: Node) -> str:
    """The left side where a function is assigned, else an empty text."""
    holder = node.named_children[0] if node.named_children and "field" not in node.type else node
    value = next(iter([*_fields(holder, "value"), *_fields(holder, "right")]), None)
    if value is None or value.type not in FUNCTION_VALUES:
        return ""
    return next((_text(name) for field in ("name", "property", "left") for name in _fields(holder, field)), "")


def _plain(node: Node) -> Node:
    """A type without its arguments."""
    inner = node.child_by_field_name("type")
    return inner if node.type == "generic_type" and inner else node


def _fields(node: Node, field: str) -> list[Node]:
    return node.children_by_field_name(field)


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
