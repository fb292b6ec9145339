from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from ingest.blocks import Parsed
from ingest.limits import Limits
from ingest.parsers.html import parse_html
from ingest.splitter import split
from rag.errors import InvalidInput

Count = Callable[[Sequence[str]], list[int]]


def read(source: str) -> Parsed:
    return parse_html(source.encode())


def blocks(parsed: Parsed) -> list[tuple[str, int, str]]:
    return [(block.kind, block.level, parsed.of(block)) for block in parsed.blocks]


def tables(source: str) -> list[str]:
    parsed = read(source)
    return [parsed.of(block) for block in parsed.blocks if block.kind == "table"]


def test_headings_lead_their_text_however_deep_they_are_nested(count_tokens: Count) -> None:
    parsed = read(
        "<main><h1>Guide</h1><p>Opening.</p><section><div><h2>Rent</h2><p>Due monthly.</p>"
        "<ul><li><h3>Late <i>rent</i></h3><p>Costs more.</p></li></ul></div></section><h2>Keys</h2><p>Two.</p></main>"
    )

    chunks = split(parsed, count_tokens=count_tokens, limits=Limits())

    assert [(chunk.text, chunk.breadcrumb) for chunk in chunks] == [
        ("Opening.", ("Guide",)),
        ("Due monthly.", ("Guide", "Rent")),
        ("- Costs more.", ("Guide", "Rent", "Late rent")),
        ("Two.", ("Guide", "Keys")),
    ]


def test_cells_of_a_layout_table_are_read_in_order_and_an_inner_table_once() -> None:
    parsed = read(
        "<h1>Tasks</h1><table><tr><td>(a)</td><td><p>report on</p><table><tr><td>1</td><td>tides</td></tr>"
        "<tr><td>2</td><td>fog</td></tr></table><p>and so on</p></td></tr></table>"
    )

    assert parsed.text == "Tasks\n\n(a)\n\nreport on\n\n1; tides\n2; fog\n\nand so on"


def test_two_header_rows_are_joined_and_spans_fill_what_they_cover() -> None:
    table = (
        "<table><thead><tr><th rowspan=2>Team</th><th colspan=2>Score</th></tr><tr><th>Home<th>Away</tr></thead>"
        "<tr><td rowspan=2>Reds</td><td>1</td><td>2</td></tr><tr><td colspan=2>3</td></tr>"
        "<tr><th colspan=3>Cup</th></tr><tr><td>Blues</td><td>4</td><td>5</td></tr></table>"
    )

    assert tables(table) == [
        "Team: Reds; Score Home: 1; Score Away: 2\nTeam: Reds; Score Home: 3; Score Away: 3\nCup\n"
        "Team: Blues; Score Home: 4; Score Away: 5"
    ]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("<tr><th>Name<td>Ann<tr><th>Age<td>41", "Name: Ann\nAge: 41"),
        ("<tr><td>Name:<td>Ann<tr><td>Age:<td>41", "Name: Ann\nAge: 41"),
        ("<tr><td><b>City</b><td><b>Zone</b><tr><td>Oslo<td>x", "City: Oslo; Zone: x"),
        ("<tr><td>City<td>Zone<tr><td>Oslo<td>1<tr><td>Rome<td>2", "City: Oslo; Zone: 1\nCity: Rome; Zone: 2"),
        ("<tr><td>red<td>blue<tr><td>warm<td>cold", "red; blue\nwarm; cold"),
        ("<tr><th>Only<th>Names", "Only; Names"),
        ("<tr><th>A<td>1<tr><th>B<td colspan=3>2<td>3<tr><td>C", "A; 1\nB; 2; 2; 2; 3\nC"),
        (f"<tr><th>{'long ' * 50}<th>B<tr><td>1<td>2", f"{('long ' * 50).strip()}; B\n1; 2"),
    ],
)
def test_the_header_is_found_where_there_is_one(table: str, text: str) -> None:
    assert tables(f"<table>{table}</table>") == [text]


def test_a_table_is_named_by_its_caption_or_the_row_across_its_top() -> None:
    parsed = read(
        "<table><caption>Fees <b>2026</b></caption><tr><th>A<th>B<tr><td>1<td>2</table><p>x" + "y" * 200 + "</p>"
        "<table><tr><th colspan=2>Rates</th></tr><tr><th>A<th>B<tr><td>3<td>4</table>"
    )

    captions = [block.caption for block in parsed.blocks if block.kind == "table"]
    assert captions == ["Fees 2026", "Rates"]
    assert parsed.text.count("Fees 2026") == parsed.text.count("Rates") == 1


def test_spans_of_any_size_cost_little() -> None:
    row = f"<tr><th colspan=999999 rowspan=999999>{'w' * 100}</th><td>v</td></tr>"
    began = time.monotonic()

    parsed = read(f"<table>{row * 500}</table>")

    assert len(parsed.text) < 2_000_000
    assert time.monotonic() - began < 5


def test_only_what_the_page_shows_as_content_is_read() -> None:
    parsed = read(
        "<html lang=de-AT><head><title>Fees | Acme</title><meta name=author content='A. B.'>"
        "<meta property='article:published_time' content=2026-01-02><style>p{}</style></head><body>"
        "<header>Acme menu</header><nav>Home</nav><h1>Fees<a href=#f>¶</a></h1><script>no()</script>"
        "<p>Two <b>per</b>cent."
        "<p hidden>h1</p><p style='display: none'>h2</p><p aria-hidden=true>h3</p><template>h4</template><!-- h5 -->"
        "<article><header>By Ann</header><p>Text<img alt=logo></article><noscript>h6</noscript><dialog>h7</dialog>"
        "<footer>Imprint</footer><button>Why?</button></body>"
    )

    assert parsed.text == "Fees\n\nTwo percent.\n\nBy Ann\n\nTextlogo\n\nWhy?"
    assert (parsed.facets.title, parsed.facets.lang) == ("Fees", "de")
    assert parsed.facets.metadata == {"author": "A. B.", "created": "2026-01-02"}


def test_the_main_element_is_the_page_unless_it_is_empty() -> None:
    assert read("<p>Around</p><main><p>Inside</p></main>").text == "Inside"
    assert read("<p>Around</p><main></main>").text == "Around"


def test_lists_keep_numbers_nesting_and_the_line_that_introduces_them() -> None:
    parsed = read(
        "<p>Steps:</p><ol start=3><li>three<ul><li><p>in</p><p>more</p></ul><li value=7>seven</ol>"
        "<ol type=a><li>x<pre>  code\n    y</pre>z<li>w</ol><dl><dt>Term<dd>Meaning</dl>"
    )

    assert blocks(parsed) == [
        ("paragraph", 0, "Steps:"),
        ("list", 0, "3. three\n  - in\n    more\n7. seven"),
        ("list", 0, "a. x"),
        ("code", 0, "  code\n    y"),
        ("list", 0, "z\nb. w"),
        ("list", 0, "- Term\n  Meaning"),
    ]
    assert parsed.blocks[1].caption == "Steps:"


def test_preformatted_text_keeps_its_lines_and_inline_code_its_place() -> None:
    parsed = read("<p>Run <code>a  b</code><br>now</p><pre><code>if x:\n    <span>go</span>()\n\n# end</code></pre>")

    assert blocks(parsed) == [("paragraph", 0, "Run a b\nnow"), ("code", 0, "if x:\n    go()\n\n# end")]


def test_a_folded_question_is_a_question() -> None:
    parsed = read("<details><summary>Is it free?</summary><p>Yes.</p></details>")

    assert [block.kind for block in parsed.blocks] == ["question", "paragraph"]


@pytest.mark.parametrize(
    "data",
    [
        "<meta charset=windows-1252><p>caf\xe9".encode("cp1252"),
        b"<meta http-equiv=Content-Type content='text/html; charset=iso-8859-1'><p>caf\xe9",
        "<meta charset=iso-8859-1><p>caf\xe9".encode(),
        "\ufeff<p>caf\xe9".encode("utf-16"),
        "<meta charset=no-such-thing><p>caf\xe9".encode(),
    ],
)
def test_the_encoding_is_found_whatever_is_declared(data: bytes) -> None:
    assert parse_html(data).text == "caf\xe9"


def test_closed_empty_elements_of_xhtml_do_not_swallow_the_page() -> None:
    source = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head>'

    assert read(source + "<body><p>One<br/>two</p></body></html>").text == "One\ntwo"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no text"),
        (b"<title>App</title><div id=root></div><script>go()</script>", "no text"),
        (b"<p>a\0b", "NUL bytes"),
        (b"<div>" * 100_000 + b"x", "nested"),
    ],
)
def test_what_is_no_readable_page_is_refused_at_once(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_html(data)


@pytest.mark.parametrize("piece", ["<p>", "<li>", "<td>", "<table>", "<b>x</b>", "<a href=x>", "</div>", "<!--", "<x/"])
def test_broken_markup_costs_linear_time(piece: str) -> None:
    began = time.monotonic()

    assert read("word " + piece * 1_500).text.startswith("word")
    assert time.monotonic() - began < 5
