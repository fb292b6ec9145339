from __future__ import annotations

import io
import zipfile

import pytest

from ingest.parsers.epub import parse_epub
from rag.errors import InvalidInput

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
)


def archive(parts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in parts.items():
            packed.writestr(name, text)
    return file.getvalue()


def book(chapters: dict[str, str], more: dict[str, str] | None = None, title: str = "Tides") -> bytes:
    """A book whose spine has the chapters in the given order, and its manifest in the opposite one."""
    items = "".join(
        f'<item id="{name}" href="text/{name}%20.xhtml" media-type="application/xhtml+xml"/>'
        for name in reversed(chapters)
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{title}</dc:title><dc:creator>Ann Lee</dc:creator><dc:creator>Bo</dc:creator>"
        f"<dc:language>en-GB</dc:language></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    pages = {f"OPS/text/{name} .xhtml": text for name, text in chapters.items() if text}
    return archive({"META-INF/container.xml": CONTAINER, "OPS/book.opf": package, **pages, **(more or {})})


def test_chapters_come_in_the_order_of_the_spine_with_the_books_properties() -> None:
    parsed = parse_epub(book({"z": "<h1>One</h1><p>First.</p>", "a": "<h1>Two</h1><p>Second.</p>"}))

    assert parsed.text == "One\n\nFirst.\n\nTwo\n\nSecond."
    assert [block.level for block in parsed.blocks] == [1, 0, 1, 0]
    assert parsed.facets.title == "Tides"
    assert parsed.facets.lang == "en"
    assert parsed.facets.metadata == {"author": "Ann Lee, Bo"}


def test_a_chapter_without_a_heading_is_named_by_its_page() -> None:
    named = "<head><title>Foreword</title></head><body><p>Hello.</p></body>"
    like_the_book = "<head><title>Tides</title></head><body><p>More.</p></body>"

    parsed = parse_epub(book({"a": named, "b": like_the_book}))

    assert parsed.text == "Foreword\n\nHello.\n\nMore."


def test_a_missing_chapter_is_a_warning() -> None:
    parsed = parse_epub(book({"a": "", "b": "<p>Here.</p>"}))

    assert parsed.text == "Here."
    assert parsed.warnings == ("OPS/text/a .xhtml is missing in the book",)


def test_encrypted_chapters_are_refused_and_encrypted_fonts_are_not() -> None:
    def encryption(path: str) -> dict[str, str]:
        return {"META-INF/encryption.xml": f'<e xmlns:x="urn:x"><x:CipherReference URI="{path}"/></e>'}

    assert parse_epub(book({"a": "<p>Text</p>"}, encryption("OPS/font.otf"))).text == "Text"
    with pytest.raises(InvalidInput, match="DRM"):
        parse_epub(book({"a": "<p>Text</p>"}, encryption("OPS/text/a%20.xhtml")))


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "laugh" * 10}">' for n in range(10))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"no archive", "damaged"),
        (archive({"a.txt": "x"}), "not an EPUB"),
        (archive({"META-INF/container.xml": CONTAINER}), "not an EPUB"),
        (archive({"META-INF/container.xml": "<open>"}), "no XML"),
        (archive({"META-INF/container.xml": f"<!DOCTYPE c [{ENTITIES}]><c>&e9;</c>"}), "no XML"),
        (book({"a": "<img src=cover.jpg>"}), "no text"),
        (book({"a": "<p>" + " " * 5_000_000}), "unpacks"),
    ],
)
def test_what_is_no_readable_book_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_epub(data)
