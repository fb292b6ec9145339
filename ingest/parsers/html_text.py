"""The words of HTML that stands inside other formats."""

from __future__ import annotations

import re
from html.parser import HTMLParser

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)  # the HTML parser is quadratic on those never closed
UNREAD = frozenset({"script", "style"})
INLINE = re.compile(
    "a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|s|samp|small|span|strong|sub|sup|time|u|var"
)


class _TextCollector(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unread = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unread = tag if tag in UNREAD else ""
        if not INLINE.fullmatch(tag):
            self.parts.append("\n")
        if tag == "img":
            self.parts.append(dict(attrs).get("alt") or "")

    def handle_endtag(self, tag: str) -> None:
        self._unread = ""
        if not INLINE.fullmatch(tag):
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.parts.append(data)

    def unknown_decl(self, data: str) -> None:
        self.parts.append(data.removeprefix("CDATA["))


def html_text(html: str) -> str:
    """The text of *html* without tags, comments, scripts and styles; one line for each block-level element."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in tags_replaced(html).split("\n"))))


def tags_replaced(html: str) -> str:
    """*html* with a line end in place of each block-level tag, and nothing (an image's alt) in place of the others."""
    collector = _TextCollector()
    collector.feed(COMMENT.sub("", html))
    collector.close()
    return "".join(collector.parts)
