"""EPUB books to blocks: the chapters in the order of the spine."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.archives import open_archive
from ingest.parsers.charsets import declared_text
from ingest.parsers.html import read_html
from ingest.parsers.parts import add_part
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
METADATA = {"creator": "author", "date": "created", "subject": "subject", "publisher": "publisher", "identifier": "id"}
CHAPTERS = frozenset({"application/xhtml+xml", "text/html"})


def parse_epub(data: bytes) -> Parsed:
    """The chapters of a book; one without a heading of its own is named by its page's title.

    Raises InvalidInput for a book that is damaged, protected or without text.
    """
    archive = open_archive(data)
    package_path = _package_path(archive)
    package = _xml(archive, package_path)
    facets = _facets(package)
    document = TextBuilder()
    warnings: list[str] = []
    locked = _encrypted(archive)
    for path in _spine(package, posixpath.dirname(package_path)):
        if path in locked:
            raise InvalidInput("This book's chapters are encrypted (DRM); use a copy without protection.")
        if path not in archive.NameToInfo:
            warnings.append(f"{path} is missing in the book")
            continue
        chapter = read_html(declared_text(archive.read(path), ""))
        warnings += chapter.warnings
        _add_chapter(document, chapter, facets.title)
    parsed = document.parsed(facets, tuple(warnings))
    if not parsed.text:
        raise InvalidInput("This book has no text; its pages may be pictures.")
    return parsed if facets.title else replace(parsed, facets=replace(facets, title=parsed.first_heading()))


def _package_path(archive: zipfile.ZipFile) -> str:
    if CONTAINER in archive.NameToInfo:
        for rootfile in _xml(archive, CONTAINER).iterfind(".//{*}rootfile"):
            if (path := rootfile.get("full-path", "")) in archive.NameToInfo:
                return path
    raise InvalidInput(f"This is not an EPUB book: {CONTAINER} names no package; export it again.")


def _xml(archive: zipfile.ZipFile, path: str) -> ET.Element:
    try:
        return ET.fromstring(archive.read(path))  # noqa: S314  # expat reads no external entity and limits the others
    except (ET.ParseError, LookupError, ValueError) as exc:  # the last two for encodings that it does not know
        raise InvalidInput(f"This book is damaged: {path} is no XML ({exc}); export it again.") from exc


def _encrypted(archive: zipfile.ZipFile) -> frozenset[str]:
    """The paths of encrypted parts; fonts often are, chapters only under DRM."""
    if ENCRYPTION not in archive.NameToInfo:
        return frozenset()
    references = _xml(archive, ENCRYPTION).iterfind(".//{*}CipherReference")
    return frozenset(unquote(reference.get("URI", "")) for reference in references)


def _spine(package: ET.Element, folder: str) -> Iterator[str]:
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is not None and item.get("media-type") in CHAPTERS:
            href = unquote(item.get("href", "").partition("#")[0])
            yield posixpath.normpath(posixpath.join(folder, href))


def _facets(package: ET.Element) -> Facets:
    metadata: dict[str, Scalar] = {}
    for name, key in METADATA.items():
        if values := _dublin_core(package, name):
            metadata[key] = values[0] if name == "identifier" else ", ".join(values)
    titles, languages = _dublin_core(package, "title"), _dublin_core(package, "language")
    return Facets(
        title=titles[0] if titles else "",
        lang=languages[0].replace("_", "-").partition("-")[0].lower() if languages else "en",
        metadata=metadata,
    )


def _dublin_core(package: ET.Element, name: str) -> list[str]:
    elements = package.iterfind(f"{{*}}metadata//{{http://purl.org/dc/elements/1.1/}}{name}")
    return list(filter(None, (" ".join("".join(element.itertext()).split()) for element in elements)))


def _add_chapter(document: TextBuilder, chapter: Parsed, book_title: str) -> None:
    begins_bare = bool(chapter.blocks) and chapter.blocks[0].kind != "heading"
    if begins_bare and chapter.facets.title not in ("", book_title, chapter.first_heading()):
        document.add("heading", chapter.facets.title, level=1)
    add_part(document, chapter)
