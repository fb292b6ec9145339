"""Markdown to blocks: CommonMark with tables and strikethrough, markup gone, every word kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest.blocks import Parsed, TextBuilder
from ingest.cuts import QUESTION_MARKS
from ingest.parsers.front_matter import read_front_matter
from ingest.parsers.html_text import COMMENT, html_text, tags_replaced
from ingest.parsers.markdown_rules import add_rules, beside_citations
from ingest.parsers.text import parse_text
from ingest.tables import Row, caption_of, extra_cells, introduction_of, labelled_rows, row_line
from rag.values import Facets

MAX_NESTING = 40  # the parser drops what is deeper, so such a document is read as plain text instead
TOO_DEEP = "lists or quotes are nested too deeply for Markdown; read as plain text"
CALLOUT = re.compile(r"(?:/{3,}|:{3,}|!!!|\?\?\?\+?)[ \t]*|\[!(\w+)\]")  # `/// note`, `::: tip`, `!!! note`, `[!NOTE]`
ATTRIBUTES = re.compile(r" ?\{:? ?[#.][^{}]*\}$")  # `# Heading {#anchor}`
UNREAD_TAG = re.compile(r"<(script|style)\b", re.IGNORECASE)
# the text runs to the next tag of a heading, so that what is never closed costs no second look
HTML_HEADING = re.compile(r"<h([1-6])\b[^<>]*>((?:[^<]|<(?!/?h[1-6]\b))*+)</h[1-6]\s*>", re.IGNORECASE)
LANGUAGE = re.compile(r"[{ .]*(?:language-)?([A-Za-z][\w+#-]*)(?![\w=])")  # `python`, `{.python}`, not `title="x"`
FENCE_TITLE = re.compile(r"\b(?:title|filename)=([\"'])(.+?)\1")
QUESTION = re.compile(r"Q(?:uestion)?[ .]?\d*[:.)]\s")


def parse_markdown(source: str) -> Parsed:
    """The blocks and front matter of *source*, which has LF line ends."""
    front = read_front_matter(source)
    parsed = _parse_body(front.body)
    facets = front.facets if front.facets.title else replace(front.facets, title=parsed.first_heading())
    return replace(parsed, facets=facets, warnings=(*front.warnings, *parsed.warnings))


def _parse_body(body: str) -> Parsed:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    add_rules(parser)
    try:
        tokens = parser.parse(body)
    except RecursionError:
        return replace(parse_text(body), warnings=(TOO_DEEP,))
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        return replace(parse_text(body), warnings=(TOO_DEEP,))
    return _Reader(parser, body).read(tokens)


class _Reader:
    """Walks the flat token list once; what is open is in the fields."""

    def __init__(self, parser: MarkdownIt, body: str) -> None:
        self._parser = parser
        self._lines = body.split("\n")
        self._document = TextBuilder()
        self._heading = 0  # level of the open section heading
        self._lists: list[int | None] = []  # number of the next item for each open list, None for bullets
        self._mark = ""  # what stands in front of the next line of the open list item
        self._items: list[str] = []  # lines of the open list
        self._row: list[str] | None = None  # cells of the open table row
        self._row_source = ""
        self._rows: list[Row] = []  # of the open table, its header first
        self._handlers: dict[str, Callable[[Token], None]] = {
            "heading_open": self._heading_open,
            "inline": self._inline,
            "html_block": self._html_block,
            "fence": self._code,
            "code_block": self._code,
            "bullet_list_open": self._list_open,
            "ordered_list_open": self._list_open,
            "list_item_open": self._item_open,
            "bullet_list_close": self._list_close,
            "ordered_list_close": self._list_close,
            "table_open": self._table_open,
            "tr_open": self._row_open,
            "tr_close": self._row_close,
            "table_close": self._table_close,
        }

    def read(self, tokens: Sequence[Token]) -> Parsed:
        for token in beside_citations(tokens):
            if handler := self._handlers.get(token.type):
                handler(token)
        return self._document.parsed(Facets())

    def _heading_open(self, token: Token) -> None:
        # in a list or quote it is no section of the document
        self._heading = int(token.tag[1]) if token.level == 0 else 0

    def _inline(self, token: Token) -> None:
        children = token.children or []
        text = inline_text(children)
        if self._row is not None:
            self._row.append(_one_line(text))
        elif self._heading:
            self._document.add("heading", ATTRIBUTES.sub("", _one_line(text)), level=self._heading)
            self._heading = 0
        elif self._lists:
            self._item_text(text)
        else:
            self._document.add("question" if _asks(children, text) else "paragraph", text)

    def _html_block(self, token: Token) -> None:
        if self._lists:
            self._item_text(html_text(token.content))
            return
        parts = [token.content]
        if token.level == 0 and not UNREAD_TAG.search(token.content):
            parts = HTML_HEADING.split(COMMENT.sub("", token.content))
        self._document.add("paragraph", html_text(parts[0]))
        for level, heading, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            self._document.add("heading", _one_line(html_text(heading)), level=int(level))
            self._document.add("paragraph", html_text(rest))

    def _code(self, token: Token) -> None:
        self._end_items()
        if titled := FENCE_TITLE.search(token.info):
            self._document.add("paragraph", titled[2])
        language = LANGUAGE.match(token.info)
        self._document.add("code", token.content.strip("\n"), caption=language[1] if language else "")

    def _list_open(self, token: Token) -> None:
        self._lists.append(int(token.attrs.get("start", 1)) if token.type.startswith("ordered") else None)

    def _item_open(self, token: Token) -> None:
        number = self._lists[-1]
        self._mark = self._indent(-1) + ("- " if number is None else f"{number}{token.markup} ")
        if number is not None:
            self._lists[-1] = number + 1

    def _item_text(self, text: str) -> None:
        if text:
            self._items.append(self._mark + text.replace("\n", "\n" + self._indent()))
            self._mark = self._indent()

    def _list_close(self, _token: Token) -> None:
        self._lists.pop()
        self._mark = self._indent()
        if not self._lists:
            self._end_items()

    def _indent(self, levels: int = 0) -> str:
        return "  " * (len(self._lists) + levels)

    def _end_items(self) -> None:
        caption = introduction_of(self._document.last_paragraph())
        self._document.add("list", "\n".join(self._items).lstrip(" "), caption=caption)
        self._items = []

    def _table_open(self, _token: Token) -> None:
        self._end_items()
        self._rows = []

    def _row_open(self, token: Token) -> None:
        self._row = []
        self._row_source = self._lines[token.map[0]] if token.map and self._rows else ""

    def _row_close(self, _token: Token) -> None:
        cells = self._row or []
        extra = (self._parser.parseInline(cell.strip())[0] for cell in extra_cells(self._row_source, len(cells)))
        self._rows.append((*cells, *(_one_line(inline_text(token.children or ())) for token in extra)))
        self._row = None

    def _table_close(self, _token: Token) -> None:
        header, *body = self._rows
        rows = labelled_rows(header, body)
        caption = caption_of(self._document.last_paragraph())
        self._document.add("table", "\n".join(map(row_line, rows)), caption=caption, rows=rows)


def inline_text(tokens: Sequence[Token]) -> str:
    """The text of a paragraph: markup gone, soft line breaks a space, hard ones a line end."""
    parts: list[str] = []
    at_line_start = True
    for token in _read_tokens(tokens):
        text = _inline_part(token)
        callout = CALLOUT.match(text) if at_line_start and token.type == "text" else None
        parts.append((callout[1] or "") + text[callout.end() :] if callout else text)
        at_line_start = token.type == "softbreak"
    lines = map(_one_line, "".join(parts).split("\n"))
    return "\n".join(filter(None, lines))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _read_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens outside inline scripts and styles."""
    closing = ""
    for n, token in enumerate(tokens):
        tag = UNREAD_TAG.match(token.content) if token.type == "html_inline" else None
        if closing:
            closing = "" if token.content.lower().startswith(closing) else closing
        elif tag and any(later.content.lower().startswith(f"</{tag[1].lower()}") for later in tokens[n + 1 :]):
            closing = f"</{tag[1].lower()}"
        else:
            yield token


def _inline_part(token: Token) -> str:
    match token.type:
        case "text" | "code_inline":
            return token.content
        case "softbreak":
            return " "
        case "hardbreak":
            return "\n"
        case "image":
            return inline_text(token.children or [])
        case "html_inline":
            return tags_replaced(token.content)
        case _:
            return ""


def _asks(children: Sequence[Token], text: str) -> bool:
    """Whether a paragraph opens with a question as FAQs write it: `Q: ...?`, or a bold line with a question mark."""
    if QUESTION.match(text) and any(mark in text for mark in QUESTION_MARKS):  # "Q3: revenue rose" is a quarter
        return True
    shown = [token for token in children if token.type != "text" or token.content]
    if not shown or shown[0].type != "strong_open":
        return False
    close = next(n for n, token in enumerate(shown) if token.type == "strong_close")
    bold_line = close + 1 == len(shown) or shown[close + 1].type in ("softbreak", "hardbreak")
    return bold_line and inline_text(shown[:close]).endswith(QUESTION_MARKS)
