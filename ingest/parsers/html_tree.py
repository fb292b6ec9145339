"""The tree of an HTML page, and a walk over what it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto

from selectolax.lexbor import LexborHTMLParser as Tree
from selectolax.lexbor import LexborNode as Node
from selectolax.lexbor import SelectolaxError

from rag.errors import InvalidInput

MAX_DEPTH = 2000  # browsers stop at 512, and the parser's time grows with the square of the depth
MAX_ATTRIBUTES = 10_000  # of one tag; the parser's time grows with their square too
QUOTED = re.compile("\"[^\"]*\"|'[^']*'")
TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)[^<>]*")
SELF_CLOSED = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
XHTML = re.compile(r"<\?xml|<html\s[^>]*xmlns=", re.IGNORECASE)
VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr")
# they end where the next of their kind begins, so many may stay open
SELF_ENDING = re.compile("p|li|dt|dd|tr|td|th|thead|tbody|tfoot|option|optgroup|colgroup|rt|rp")
UNREAD = re.compile(
    "head|script|style|noscript|template|svg|canvas|iframe|frameset|object|audio|video|select|datalist"
    "|annotation|annotation-xml|nav|map"
)
INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|button|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|math|m[ino]|mrow|msub|msup"
    "|mtext|nobr|q|rb|rp|rt|ruby|s|samp|semantics|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
LANDMARKS = frozenset({"navigation", "search", "banner", "contentinfo"})
HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
LINK_MARKS = frozenset("¶#§🔗")


class Event(Enum):
    """What a walk meets."""

    OPEN = auto()
    CLOSE = auto()
    TEXT = auto()


def parse_tree(source: str) -> Tree:
    """The page in *source* as browsers read it; XHTML too.

    Raises InvalidInput when elements are nested too deeply, or one has too many attributes.
    """
    if XHTML.search(source, 0, 2000):
        source = SELF_CLOSED.sub(_opened_and_closed, source)
    if _depth(source) > MAX_DEPTH:
        raise InvalidInput(f"This page's elements are nested over {MAX_DEPTH} deep; it is not read.")
    try:
        return Tree(source)
    except SelectolaxError as exc:
        raise InvalidInput(f"This page needs more memory as HTML than there is ({exc}); split it.") from exc


def _opened_and_closed(tag: re.Match[str]) -> str:
    return tag[0] if VOID.fullmatch(tag[1].lower()) else f"<{tag[1]}{tag[2]}></{tag[1]}>"


def _depth(source: str) -> int:
    """At least the depth of the page's tree, but for what ends by itself."""
    depth = deepest = 0
    for tag in TAG.finditer(source):
        _check_attributes(tag[0])
        name = tag[2].lower()
        if VOID.fullmatch(name) or SELF_ENDING.fullmatch(name) or tag[0].endswith("/"):
            continue
        depth = max(depth - 1, 0) if tag[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def _check_attributes(tag: str) -> None:
    # a tag that is shorter has no room for so many
    if len(tag) > 2 * MAX_ATTRIBUTES and len(QUOTED.sub("", tag).split()) > MAX_ATTRIBUTES:
        raise InvalidInput(f"This page has a tag with over {MAX_ATTRIBUTES} attributes; it is not read.")


def walk(root: Node, *, is_leaf: Callable[[Node], bool], skipped: frozenset[int]) -> Iterator[tuple[Event, Node]]:
    """What *root* shows in order, without *skipped* nodes (their `mem_id`) and without what is in a leaf."""
    node = root
    while True:
        child = None
        if node.is_text_node:
            yield Event.TEXT, node
        elif _is_shown(node, skipped):
            yield Event.OPEN, node
            child = None if is_leaf(node) else node.first_child
            if child is None:
                yield Event.CLOSE, node
        if child is not None:
            node = child
            continue
        while node.mem_id != root.mem_id and node.next is None:
            node = node.parent or root
            yield Event.CLOSE, node
        if node.mem_id == root.mem_id:
            return
        node = node.next or root


def _is_shown(node: Node, skipped: frozenset[int]) -> bool:
    if not node.is_element_node or UNREAD.fullmatch(node.tag or "") or node.mem_id in skipped:
        return False
    attributes = node.attributes
    if not attributes:
        return node.tag != "dialog"
    hidden = "hidden" in attributes and attributes["hidden"] != "until-found"
    return not (
        hidden
        or attributes.get("aria-hidden") == "true"
        or attributes.get("role") in LANDMARKS
        or HIDDEN_STYLE.search(attributes.get("style") or "")
        or (node.tag == "dialog" and "open" not in attributes)
        or (node.tag == "a" and node.text().strip() in LINK_MARKS)
    )


def is_inline(node: Node) -> bool:
    """Whether the element is part of a line of text."""
    return INLINE.fullmatch(node.tag or "") is not None


def skipped_landmarks(body: Node) -> frozenset[int]:
    """The page's own headers, footers and side bars; those of an article belong to it, and a title's is content."""
    kinds = "header, footer, aside"
    own = {node.mem_id for node in body.css(f":is(main, article, section) :is({kinds})")}
    return frozenset(node.mem_id for node in body.css(kinds) if node.mem_id not in own and node.css_first("h1") is None)


def shown_text(node: Node, skipped: frozenset[int] = frozenset()) -> str:
    """The text of *node* in one line, a blank between its blocks."""
    parts = (_part(event, part) for event, part in walk(node, is_leaf=lambda _: False, skipped=skipped))
    return " ".join("".join(parts).split())


def _part(event: Event, node: Node) -> str:
    if event is Event.TEXT:
        return node.text_content or ""
    if node.tag == "img" and event is Event.OPEN:
        return node.attributes.get("alt") or ""
    return "" if is_inline(node) else " "
