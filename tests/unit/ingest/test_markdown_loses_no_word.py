"""Whatever Markdown people write, its words are in some chunk: by what markdown-it renders, and word by word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ingest.limits import Limits
from ingest.parsers import parse
from ingest.splitter import split

Count = Callable[[Sequence[str]], list[int]]

# `*` stands for a word of its own that must be found, `~` for one that must not
BLOCKS = {
    "paragraph": "* *, * *hard*  \n* \\\n* `*` **_*_** ~~x~~ &amp; *",
    "breaks": "*\n*  \n*\\\n*",
    "headings": "# *\n\n*\n\n### * #\n\n*\n\n###### *\n",
    "anchor": "## * {#top}\n\n*",
    "setext": "*\n*\n===\n\n*\n\n*\n---\n\n*",
    "table": "| * | * |\n|---|:-:|\n| * \\| * | * |\n| * |\n| * | * | * | * |\n",
    "bare table": "* | *\n--|--\n* | `a\\|*`\n*\n",
    "quoted table": "> | * | * |\n> |---|---|\n> | * | * | * |\n",
    "container": "::: tip *\n* *\n\n- *\n:::\n\n*",
    "admonition": '!!! note "*"\n    *\n\n    - *\n\n    ```\n    *\n    ```\n\n*',
    "folded": '??? tip "*"\n    *\n\n???+ danger\n    *\n',
    "tabs": '=== "*"\n\n    *\n\n=== "*"\n\n    *\n',
    "callout": "> [!NOTE]\n> * *\n>\n> *\n",
    "titled callout": "> [!WARNING] *\n> *\n",
    "html": "<div>\n*\n<p>* <b>*</b></p>\n<!-- ~ -->\n*</div>\n",
    "details": "<details>\n<summary>*</summary>\n\n*\n\n- *\n\n</details>\n",
    "html table": "<table><tr><th>*</th><th>*</th></tr>\n<tr><td>*</td><td>*</td></tr></table>\n",
    "html heading": "<h2 align=center>*</h2>\n\n*",
    "inline html": "* <kbd>*</kbd> <span title='~'>*</span><br>* <!-- ~ --> <img src='~' alt='*'> *",
    "script": "<script>\nlet ~ = 1;\n</script>\n\n*",
    "list": "- *\n  *\n  - *\n\n    *\n    1. *\n- [ ] *\n- [x] *\n\n* * *\n",
    "loose list": "1. *\n\n   *\n\n   > *\n\n   | * | * |\n   |---|---|\n   | * | * |\n2. *\n",
    "code in list": "- *\n\n  ```py\n  *\n  ```\n\n      *\n- ~~~\n  *\n  ~~~\n",
    "heading in list": "- # *\n  *\n",
    "footnotes": "*[^a] *[^b-1]\n\n[^a]: * *\n[^b-1]: *\n\n    *\n\n    - *\n",
    "footnote uncited": "[^z]: *\n",
    "definitions": "*\n: *\n\n    *\n\n*\n:   *\n",
    "references": "[*][r] [*] ![*][r]\n\n[r]: http://x.example/~ '~'\n",
    "links": "[*](http://x.example/~ '~') <http://x.example/*> [](http://x.example/~) ![*](~.png)",
    "fences": '```python title="*"\n*\n\n# *\n```\n\n~~~ text\n*\n```\n*\n~~~\n\n````\n```\n*\n```\n````\n',
    "indented": "   ```\n   *\n   ```\n\n*\n\n    *\n\n    *\n",
    "long": f"{'* ' * 400}",
    "long line of code": f"```\n{'* ' * 400}\n```\n",
    "long table": f"| * | * |\n|---|---|\n| {'* ' * 300} | * |\n" + "| * | * |\n" * 40,
    "long item": f"- {'* ' * 300}\n- *\n",
    "no blanks": f"{'*、' * 300}",
    "rules": "*\n\n***\n\n*\n\n_ _ _\n\n*",
    "quote": "> *\n*\n> > *\n>\n> ```\n> *\n> ```\n",
    "math": "$$\n* = x_1^2\n$$\n\n* $*$ *",
    "wiki": "[[*]] [[~|*]]".replace("~", "*"),
    "template": "{% raw %}*{% endraw %} {{ * }} {* docs/*.py *}",
    "question": "**Q: *?**\n\n*\n",
}
ENDS = {
    "unclosed fence": "```\n*\n\n# *\n",
    "unclosed tilde": "~~~~\n*\n~~~\n*\n",
    "unclosed comment": "*\n\n<!-- ~\n\n~",
    "unclosed tag": "*\n\n<div *\n\n*",
    "front matter at the end": "*\n\n---\n* : *\n---\n",
    "nothing": "*",
}
WORDS = ["word{}x", "Größe{}x", "会議{}は明日", "ประชุม{}ที่", "اجتماع{}غدا", "😀{}x", "naïve{}x", "e.g.{}x", "x{}_y_z"]
FRONT = ["", "---\ntitle: Rule book\ntags: [a]\nowner: Ann\n---\n", "---\n---\n"]
LIMITS = [Limits(), Limits(max_tokens=64, max_chars=600)]


class _Text(HTMLParser):
    """The words of a rendered page, piece by piece; a script's are none."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: set[str] = set()
        self._unread = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unread = tag in ("script", "style")
        self.words.update(_words(dict(attrs).get("alt") or "" if tag == "img" else ""))

    def handle_endtag(self, tag: str) -> None:
        self._unread = False

    def handle_data(self, data: str) -> None:
        self.words.update(() if self._unread else _words(data))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


def rendered_words(source: str) -> set[str]:
    """The words that markdown-it shows, without front matter and heading attributes, which it does not know."""
    body = re.sub(r"\A---\n(?:.*?\n)??---\n", "", source, flags=re.DOTALL)
    page = _Text()
    html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(body.replace("{#top}", ""))
    page.feed(re.sub(r"<!--.*?(?:-->|\Z)", "", html, flags=re.DOTALL))
    page.close()
    return page.words


def filled(template: str, names: Iterator[str]) -> tuple[str, set[str], set[str]]:
    """The template with words for its marks: the text, the words to be found, and those not to be."""
    shown: set[str] = set()
    hidden: set[str] = set()

    def fill(match: re.Match[str]) -> str:
        word = next(names)
        (shown if match[0] == "*" else hidden).add(word)
        return word

    return re.sub(r"(?<![*~])[*~](?![*~])", fill, template), shown, hidden


def found_text(source: str, count_tokens: Count, limits: Limits, *, encoded: bytes) -> str:
    """All that the chunks hold of the document, each place once, and their breadcrumbs."""
    parsed = parse(encoded, name="a.md")
    drafts = split(parsed, count_tokens=count_tokens, limits=limits)
    covered = {at for draft in drafts for at in range(draft.start, draft.end)}
    crumbs = "\n".join(crumb for draft in drafts for crumb in draft.breadcrumb)
    return "".join(parsed.text[at] for at in sorted(covered)) + "\n" + crumbs


def names() -> Iterator[str]:
    number = count(100)
    while True:
        yield from (word.format(next(number)) for word in WORDS)


@settings(deadline=None, max_examples=150)
@given(
    blocks=st.lists(st.sampled_from(list(BLOCKS.values())), max_size=6),
    end=st.sampled_from(list(ENDS.values())),
    front=st.sampled_from(FRONT),
    form=st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf"]), st.sampled_from(["\n", "\r\n", "\r"])),
    limits=st.sampled_from(LIMITS),
)
def test_every_word_shown_is_in_a_chunk(
    count_tokens: Count, blocks: list[str], end: str, front: str, form: tuple[bytes, str], limits: Limits
) -> None:
    source, shown, _ = filled("\n\n".join([*blocks, end]), names())
    mark, line_end = form
    encoded = mark + (front + source).replace("\n", line_end).encode()

    found = found_text(source, count_tokens, limits, encoded=encoded)

    missing = {word for word in shown | rendered_words(front + source) if not all(w in found for w in _words(word))}
    assert missing == set()


@pytest.mark.parametrize("name", [*BLOCKS, *ENDS])
def test_what_is_no_text_is_not_read(count_tokens: Count, name: str) -> None:
    source, _, hidden = filled({**BLOCKS, **ENDS}[name], names())

    found = found_text(source, count_tokens, Limits(), encoded=source.encode())

    assert [word for word in hidden if word in found] == []
