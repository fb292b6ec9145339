"""HTML to blocks: the main content in reading order, without navigation, scripts and what is hidden."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode as Node

from ingest.blocks import Parsed
from ingest.parsers.charsets import declared_text
from ingest.parsers.encodings import decode_text
from ingest.parsers.html_blocks import HtmlReader
from ingest.parsers.html_tree import parse_tree, shown_text, skipped_landmarks
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

META_BYTES = 4096  # browsers look at 1024, and comments may stand in front
CHARSET = re.compile(rb"<(?:meta\s[^>]*?charset|\?xml\s[^>]*?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
LANGUAGE = re.compile(r"([A-Za-z]{2,3})(?:[-_]|\Z)")
META = {
    "author": "author",
    "dc.creator": "author",
    "description": "description",
    "keywords": "keywords",
    "date": "created",
    "dc.date": "created",
    "article:published_time": "created",
    "article:modified_time": "modified",
}


def parse_html(data: bytes) -> Parsed:
    """The blocks of a page, its `main` element's alone where it has one.

    Raises InvalidInput for a page without text, and for bytes that are none.
    """
    parsed = read_html(_decode(data))
    if not parsed.text:
        raise InvalidInput("This page has no text; if scripts make it in the browser, save it from there.")
    return parsed


def read_html(source: str) -> Parsed:
    """The blocks of *source*, none if it shows no text."""
    tree = parse_tree(source)
    body = tree.body
    if body is None:
        return Parsed("", (), Facets())
    parsed = HtmlReader(skipped_landmarks(body)).read(_main(body))
    return Parsed(parsed.text, parsed.blocks, _facets(tree.root, parsed), parsed.warnings)


def _decode(data: bytes) -> str:
    charset = CHARSET.search(data[:META_BYTES])
    return declared_text(data, charset[1].decode()) if charset and b"\0" not in data else decode_text(data)


def _main(body: Node) -> Node:
    """The element of the main content, unless it is empty or not the only one."""
    mains = [node for node in body.css("main, [role=main]") if shown_text(node)]
    return mains[0] if len(mains) == 1 else body


def _facets(root: Node | None, parsed: Parsed) -> Facets:
    if root is None:
        return Facets()
    title = root.css_first("head > title")
    lang = LANGUAGE.match(root.attributes.get("lang") or root.attributes.get("xml:lang") or "")
    return Facets(
        title=_title(" ".join(title.text().split()) if title else "", parsed.first_heading()),
        lang=lang[1].lower() if lang else "en",
        metadata=_metadata(root),
    )


def _title(title: str, heading: str) -> str:
    """The page's title; its first heading where the title only adds the site's name to that."""
    return heading if heading and heading in title else title or heading


def _metadata(root: Node) -> dict[str, Scalar]:
    metadata: dict[str, Scalar] = {}
    for meta in root.css("head meta[content]"):
        name = META.get((meta.attributes.get("name") or meta.attributes.get("property") or "").lower())
        content = " ".join((meta.attributes.get("content") or "").split())
        if name and content:
            metadata.setdefault(name, content)
    return metadata
