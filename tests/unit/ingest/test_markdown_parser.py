from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.blocks import Parsed

Read = Callable[[str], Parsed]


def headings(parsed: Parsed) -> list[tuple[int, str]]:
    return [(block.level, parsed.of(block)) for block in parsed.blocks if block.kind == "heading"]


def texts(parsed: Parsed, kind: str) -> list[str]:
    return [parsed.of(block) for block in parsed.blocks if block.kind == kind]


def test_every_block_is_a_span_of_the_text_and_a_blank_line_stands_between(markdown: Read) -> None:
    parsed = markdown("# Fees\n\nTwo *percent*.\n\n- a\n- b\n")

    assert parsed.text == "Fees\n\nTwo percent.\n\n- a\n- b"
    assert [(block.kind, block.start, block.end) for block in parsed.blocks] == [
        ("heading", 0, 4),
        ("paragraph", 6, 18),
        ("list", 20, 27),
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("**bold** _it_ ~~gone~~ `code`", "bold it gone code"),
        ("[shown](http://hidden.example 'tip') ![an *alt*](x.png)", "shown an alt"),
        ("<https://auto.example/>", "https://auto.example/"),
        ("soft\nbreak and hard  \nbreak", "soft break and hard\nbreak"),
        ("snake_case_name, 2 * 3 * 4, \\*kept\\*, &copy;", "snake_case_name, 2 * 3 * 4, *kept*, ©"),
        ("one<br>two <b>three</b><!-- no --> <script>no()</script>four", "one\ntwo three four"),
        ("Lone <script> tag", "Lone\ntag"),
        ("[^1]: Note\n\n[ref]: http://hidden.example", "[^1]: Note"),
    ],
)
def test_inline_markup_goes_and_its_words_stay(markdown: Read, source: str, text: str) -> None:
    assert markdown(source).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("/// warning\n\nHot.\n\n///", "warning\n\nHot."),
        ("> [!TIP]\n> Stir *slowly*.", "TIP Stir slowly."),
        ("::: note\nCold.\n:::", "note Cold."),
        ("> Quoted.\n>\n> > Twice.", "Quoted.\n\nTwice."),
    ],
)
def test_quotes_and_callouts_keep_their_text(markdown: Read, source: str, text: str) -> None:
    assert markdown(source).text == text


def test_html_blocks_keep_text_and_drop_tags_scripts_styles_and_comments(markdown: Read) -> None:
    parsed = markdown(
        '<div class="x"><p>First &amp; <b>bo</b>ld</p>\n<img alt="logo"></div>\n\n'
        "<style>p {color: red}</style>\n\n<!-- secret\n\nstill -->\n\n<![CDATA[raw]]>"
    )

    assert parsed.text == "First & bold\nlogo\n\nraw"


def test_cells_of_an_html_table_in_a_paragraph_do_not_run_together(markdown: Read) -> None:
    parsed = markdown("See <td>one</td><td>two</td>.")

    assert parsed.text == "See\none\ntwo\n."


def test_nested_lists_keep_marks_and_two_spaces_a_level(markdown: Read) -> None:
    parsed = markdown("3. three\n    - inner\n\n      more\n      > said\n4. four\n   ## no section\n")

    assert texts(parsed, "list") == ["3. three\n  - inner\n    more\n    said\n4. four\n  no section"]
    assert headings(parsed) == []


def test_headings_in_quotes_and_lists_are_text(markdown: Read) -> None:
    parsed = markdown("# Real\n\n> # Quoted\n\n- # Listed\n")

    assert headings(parsed) == [(1, "Real")]
    assert parsed.text == "Real\n\nQuoted\n\n- Listed"


def test_setext_headings_and_anchors_are_read(markdown: Read) -> None:
    parsed = markdown("Big\n===\n\nSmall *one*\n---\n\n### Third {#anchor .x}\n")

    assert headings(parsed) == [(1, "Big"), (2, "Small one"), (3, "Third")]


def test_a_fence_ends_only_at_its_own_mark_as_long_and_bare(markdown: Read) -> None:
    parsed = markdown(
        "````md\n```\n# inside\n```\n````\n\n## One\n\n~~~\n```\n~~~\n\n"
        "```py\nx = 1\n``````\n\n## Two\n\n```\n# open end\n"
    )

    assert headings(parsed) == [(2, "One"), (2, "Two")]
    assert texts(parsed, "code") == ["```\n# inside\n```", "```", "x = 1", "# open end"]


def test_fences_in_list_items_are_code_and_the_list_goes_on(markdown: Read) -> None:
    listed = "1. Pull\n\n   ```sh\n   # not a heading\n     run\n   ```\n\n2. Push\n"

    parsed = markdown(f"{listed}\n## Next\n\n   ~~~\n# flush\n   ~~~\n")

    assert headings(parsed) == [(2, "Next")]
    assert texts(parsed, "code") == ["# not a heading\n  run", "# flush"]
    assert texts(parsed, "list") == ["1. Pull", "2. Push"]


def test_a_closing_run_of_hashes_needs_a_space_before_it(markdown: Read) -> None:
    parsed = markdown(
        "## A# ##\n\n## B#\n\n   ## Three in ##\n\n    ## four in\n\n#tag\n\n####### seven\n\n## End \\##\n"
    )

    assert headings(parsed) == [(2, "A#"), (2, "B#"), (2, "Three in"), (2, "End ##")]
    assert texts(parsed, "code") == ["## four in"]
    assert texts(parsed, "paragraph") == ["#tag", "####### seven"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_all_line_ends_and_a_leading_bom_give_the_same_document(markdown: Read, line_end: str) -> None:
    source = "---\nsource: wiki\n---\n# Terms\n\n```\ncode\n```\n\n## Fees\n\nNone.\n"

    parsed = markdown("\ufeff" + source.replace("\n", line_end))

    assert parsed == markdown(source)
    assert headings(parsed) == [(1, "Terms"), (2, "Fees")]
    assert parsed.facets.title == "Terms"
    assert parsed.facets.source == "wiki"


def test_rows_read_as_column_and_value_without_outer_bars_too(markdown: Read) -> None:
    parsed = markdown("City | Zone\n:-- | --:\nOslo | 1\nRome | 2\n\nText.\n\n| Host | Rack\n|---|---\n| n1 | r7\n")

    assert texts(parsed, "table") == ["City: Oslo; Zone: 1\nCity: Rome; Zone: 2", "Host: n1; Rack: r7"]


def test_short_rows_stay_rows_and_cells_beyond_the_header_are_kept_bare(markdown: Read) -> None:
    parsed = markdown(
        "> | No | Item | Why |\n> |---|---|---|\n> | 1 | pen |\n> | 2 | ink | ran out | *extra* | more |\n> | 3 |"
    )

    assert texts(parsed, "table") == ["No: 1; Item: pen\nNo: 2; Item: ink; Why: ran out; extra; more\nNo: 3"]


def test_escaped_bars_and_breaks_stay_inside_their_cell(markdown: Read) -> None:
    parsed = markdown("| A\\|B | C |\n|---|---|\n| x\\|y | `p\\|q` |\n| one<br>two | |\n")

    assert texts(parsed, "table") == ["A|B: x|y; C: p|q\nA|B: one two"]


def test_no_column_name_is_lost_when_no_row_has_a_value_for_it(markdown: Read) -> None:
    parsed = markdown("| Name | Fax |\n|---|---|\n| Ann | |\n\nText.\n\n| Only | Header |\n|---|---|\n")

    assert texts(parsed, "table") == ["Name; Fax\nName: Ann", "Only; Header"]


@pytest.mark.parametrize(
    ("before", "caption"),
    [
        ("Table 3. Rates", "Table 3. Rates"),
        ("The rates, in percent:", "The rates, in percent:"),
        ("Rates by region", "Rates by region"),
        ("A long sentence that says many things about the year. " * 2, ""),
        ("- a list item", ""),
    ],
)
def test_a_table_knows_the_line_that_introduces_it(markdown: Read, before: str, caption: str) -> None:
    parsed = markdown(f"{before}\n\n| a |\n|---|\n| 1 |\n")

    assert parsed.blocks[-1].caption == caption


def test_faq_questions_are_marked_and_other_bold_lines_are_not(markdown: Read) -> None:
    parsed = markdown("**Why?**\nSo.\n\nQ: When?\n\n**Note.**\n\n**Is** it?\n\nQ3: revenue rose.\n")

    assert texts(parsed, "question") == ["Why? So.", "Q: When?"]


def test_what_is_nested_beyond_the_parser_is_read_as_text_with_a_warning(markdown: Read) -> None:
    parsed = markdown(">" * 200 + " bottom")

    assert parsed.text.endswith("bottom")
    assert parsed.warnings == ("lists or quotes are nested too deeply for Markdown; read as plain text",)


def test_the_indented_body_of_an_admonition_is_markdown_of_its_own(markdown: Read) -> None:
    parsed = markdown(
        'Before\n!!! note "Mind *the* gap"\n    Body.\n\n    - item\n\n    ```sh\n    run\n\n    end\n    ```\n\n'
        '    ??? tip\n        Inner.\n\nAfter.\n\n=== "Tab"\n\n    # Quoted\n\n!!! note\nFlush.\n'
    )

    assert [(block.kind, parsed.of(block)) for block in parsed.blocks] == [
        ("paragraph", "Before"),
        ("paragraph", "note Mind the gap"),
        ("paragraph", "Body."),
        ("list", "- item"),
        ("code", "run\n\nend"),
        ("paragraph", "tip"),
        ("paragraph", "Inner."),
        ("paragraph", "After."),
        ("paragraph", "Tab"),
        ("paragraph", "Quoted"),
        ("paragraph", "note Flush."),
    ]


def test_footnotes_stand_under_the_block_that_cites_them_first(markdown: Read) -> None:
    parsed = markdown(
        "One.[^1] Code `[^x]`.\n\n- Two[^b].\n\nAgain[^1].\n\n[^1]: First,\n    goes on.\n\n    More *of* it.\n"
        "[^b]: See [^c].\n[^x]: Never cited.\n\nLast.\n\n[^c]: Third.\n"
    )

    assert parsed.text.split("\n\n") == [
        "One.[^1] Code [^x].",
        "[^1]: First, goes on.",
        "More of it.",
        "- Two[^b].",
        "[^b]: See [^c].",
        "[^c]: Third.",
        "Again[^1].",
        "[^x]: Never cited.",
        "Last.",
    ]


@pytest.mark.parametrize(
    "source", ["[^a]: See [^a].", "x[^a]\n\n[^a]: See [^b].\n\n[^b]: See [^a].", "[^a]: 1\n[^a]: 2"]
)
def test_footnotes_that_cite_each_other_or_are_defined_twice_are_all_kept_once(markdown: Read, source: str) -> None:
    assert markdown(source).text.split() == source.split()


def test_html_headings_are_headings_and_those_in_comments_scripts_and_lists_are_not(markdown: Read) -> None:
    parsed = markdown(
        '<h1 align="center">\n <img alt="Logo"> My <b>Guide</b>\n</h1>\n<p>Intro</p>\n<!-- <h2>no</h2> -->\n'
        "<H2>Next</H2> rest\n\n- <h3>item</h3>\n\n<script>'<h2>no</h2>'</script>\n\n<h2>never closed\n"
    )

    assert headings(parsed) == [(1, "Logo My Guide"), (2, "Next")]
    assert parsed.text.split("\n\n") == ["Logo My Guide", "Intro", "Next", "rest", "- item", "never closed"]


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("python", "python"),
        ('C++ hl_lines="3"', "C++"),
        ("{ .dockerfile .annotate }", "dockerfile"),
        ("language-bash", "bash"),
        ('hl_lines="4"', ""),
        ("", ""),
    ],
)
def test_a_fence_keeps_its_language_as_context(markdown: Read, info: str, language: str) -> None:
    parsed = markdown(f"```{info}\nx\n```\n")

    assert [(block.caption, parsed.of(block)) for block in parsed.blocks] == [(language, "x")]


def test_the_title_of_a_fence_is_a_line_above_it(markdown: Read) -> None:
    parsed = markdown('```yaml title="conf/my app.yml"\na: 1\n```\n')

    assert parsed.text == "conf/my app.yml\n\na: 1"


@pytest.mark.parametrize("part", ["<h1>", "[^a]: [^b] ", "!!! a\n    ", "[^a]:\n"])
def test_repeated_openings_are_read_in_linear_time(markdown: Read, part: str) -> None:
    assert markdown(f"x\n\n{part * 3_000}\n\nend").text.endswith("end")
