from __future__ import annotations

import pytest

from ingest.parsers import READABLE_SUFFIXES, parse
from rag.errors import InvalidInput, UnsupportedFormat


@pytest.mark.parametrize(
    ("name", "content_type", "text"),
    [
        ("a.md", None, "Hi\n\nyou"),
        ("a.MARKDOWN", None, "Hi\n\nyou"),
        ("a.txt", None, "# Hi\n\nyou"),
        ("a.txt", "text/markdown; charset=utf-8", "Hi\n\nyou"),
        ("a.md", "TEXT/PLAIN", "# Hi\n\nyou"),
        ("no-suffix", "text/markdown", "Hi\n\nyou"),
    ],
)
def test_the_content_type_decides_before_the_suffix(name: str, content_type: str | None, text: str) -> None:
    assert parse(b"# Hi\n\nyou", name=name, content_type=content_type).text == text


@pytest.mark.parametrize(("name", "what"), [("a.exe", ".exe"), ("a", "no suffix")])
def test_other_suffixes_are_refused_with_those_that_are_read(name: str, what: str) -> None:
    with pytest.raises(UnsupportedFormat) as refused:
        parse(b"x", name=name)

    assert refused.value.detail.startswith(f"{name}: {what} is not read; what is: .md .markdown")
    assert all(suffix in refused.value.detail for suffix in READABLE_SUFFIXES)
    assert "/" not in refused.value.detail


def test_other_content_types_are_refused_with_those_that_are_read() -> None:
    with pytest.raises(UnsupportedFormat, match=r"a\.md: application/x-unknown is not read; what is: text/markdown, "):
        parse(b"x", name="a.md", content_type="application/x-unknown")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"ab\0c", "a.md: This file contains NUL bytes; is it a binary file?"),
        (b"", "a.md: there is no text in it"),
        (b"<!-- only a comment -->\n\n***\n", "a.md: there is no text in it"),
        (b"---\nauthor: T\n---\n", "a.md: there is no text in it"),
    ],
)
def test_bytes_without_readable_text_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(data, name="a.md")

    assert refused.value.detail == says


def test_a_page_of_front_matter_alone_is_found_by_its_title() -> None:
    parsed = parse(b"---\ntitle: Rule index\ndoc_type: reference\n---\n", name="a.md")

    assert parsed.text == "Rule index"
    assert parsed.facets.doc_type == "reference"


def test_plain_text_has_paragraphs_and_only_clear_headings() -> None:
    source = "Annual\n\nIntro line\nwrapped.  \n\n4.2 Fees\n\nTwo.\n\n \nSCOPE OF WORK\n\n1. Buy milk\n\nOK\n\nGO!\n"

    parsed = parse(source.encode(), name="a.txt")

    assert parsed.facets.title == "Annual"
    assert [(block.kind, block.level, parsed.of(block)) for block in parsed.blocks] == [
        ("heading", 1, "Annual"),
        ("paragraph", 0, "Intro line\nwrapped."),
        ("heading", 2, "4.2 Fees"),
        ("paragraph", 0, "Two."),
        ("heading", 1, "SCOPE OF WORK"),
        ("paragraph", 0, "1. Buy milk"),
        ("paragraph", 0, "OK"),
        ("paragraph", 0, "GO!"),
    ]


@pytest.mark.parametrize("first", ["It rained.", "A line of wrapped prose that\ngoes on below", "x" * 90])
def test_prose_at_the_top_of_plain_text_is_no_title(first: str) -> None:
    parsed = parse(f"{first}\n\nMore.".encode(), name="a.txt")

    assert parsed.facets.title == ""
    assert parsed.text == f"{first}\n\nMore."


@pytest.mark.parametrize(
    "first", ["body { margin: 0 }", "2026-01-01 INFO started (port=8080)", "$ cd /opt/app", "/*", "----", "a <- b"]
)
def test_a_line_of_code_or_data_at_the_top_of_plain_text_is_no_title(first: str) -> None:
    parsed = parse(f"{first}\nMore.".encode(), name="a.txt")

    assert parsed.facets.title == ""
    assert parsed.text == f"{first}\nMore."


def test_the_first_line_of_indented_lines_keeps_its_indent_and_that_of_wrapped_prose_does_not() -> None:
    source = "   Dear all,\nsee below.\n\n    def total(self):\n        return 1\n\n\tif x:\n\t\ty\n\n    Bye.\n"

    parsed = parse(source.encode(), name="a.txt")

    assert parsed.text == "Dear all,\nsee below.\n\n    def total(self):\n        return 1\n\n\tif x:\n\t\ty\n\nBye."


@pytest.mark.parametrize(("name", "text"), [("a.txt", "退款政策"), ("a.md", "# 退款政策\n\n## 期限")])
def test_headings_alone_show_a_language(name: str, text: str) -> None:
    assert parse(text.encode(), name=name).facets.lang == "zh"


def test_words_cut_at_the_line_ends_of_plain_text_are_whole_again() -> None:
    source = (
        "The tariff for a house-\nhold is in the Haus\u00adord\u00ad\nnung, a well-\nknown rule.\n\nLand-\nlords pay."
    )

    parsed = parse(source.encode(), name="a.txt")

    assert parsed.text == "The tariff for a household is in the Hausordnung, a well-known rule.\n\nLandlords pay."


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "a.md",
            "# O\ufb03ce\n\nWert\u00adpapier\n\n| e\ufb03cient |\n|--|\n| \ufb01ne |\n\n`\ufb01`\n\n```\n\ufb01\n```",
        ),
        (
            "a.html",
            "<h1>O\ufb03ce</h1><p>Wert&shy;papier</p><table><tr><th>e\ufb03cient<th><tr><td>\ufb01ne<td></table>"
            "<p>\ufb01</p><pre>\ufb01</pre>",
        ),
    ],
)
def test_print_glyphs_are_letters_everywhere_but_in_code(name: str, source: str) -> None:
    parsed = parse(source.encode(), name=name)

    assert parsed.text == "Office\n\nWertpapier\n\nefficient: fine\n\nfi\n\n\ufb01"
    assert parsed.facets.title == "Office"
    assert [block.rows for block in parsed.blocks if block.rows] == [(("efficient: fine",),)]


@pytest.mark.parametrize(
    ("name", "text", "lang"),
    [
        (
            "a.txt",
            "Die Rückerstattung wird auf die Karte gebucht, mit der bezahlt wurde, und das dauert fünf Tage.",
            "de",
        ),
        ("a.md", "# 退款\n\n退款需要五个工作日。", "zh"),
        ("a.txt", "The refund is paid to the card that the order was paid with.", "en"),
        ("a.md", "---\nlang: fr\n---\nThe refund is paid to the card that the order was paid with.", "fr"),
        ("a.txt", "Rückerstattung fünf Tage", "en"),
        ("a.py", '"""Die Rückerstattung wird auf die Karte gebucht, mit der bezahlt wurde."""\nx = 1\n', "en"),
    ],
    ids=["German", "Chinese", "English", "named by the document", "too short to show", "source code"],
)
def test_a_document_that_names_no_language_is_in_the_one_it_shows(name: str, text: str, lang: str) -> None:
    assert parse(text.encode(), name=name).facets.lang == lang
