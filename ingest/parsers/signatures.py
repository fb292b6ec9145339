"""What a file is by its own bytes, whatever its name says."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass

from ingest.parsers.archives import DAMAGE
from rag.errors import InvalidInput, UnsupportedFormat
from rag.formats import SUFFIXES


@dataclass(frozen=True, slots=True)
class Signature:
    """A kind of file by its name in a sentence; the formats that take it, the first being its own."""

    name: str
    formats: tuple[str, ...] = ()
    is_read: bool = True


PDF = Signature("a PDF", ("pdf",))
HTML = Signature("an HTML page", ("html", "markdown", "text", "code", "yaml"))  # tags may stand in any text
# the parsers of the formats named say better what is wrong with these two
ARCHIVE = Signature("a zip archive", ("docx", "pptx", "xlsx", "epub"), is_read=False)
OLE = Signature(
    "an Outlook message, or an Office file that is encrypted or older than 2007",
    ("docx", "pptx", "xlsx"),
    is_read=False,
)
PREFIXES: tuple[tuple[bytes, Signature], ...] = (  # no text begins like them
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"\x89PNG\r\n", Signature("a PNG picture", is_read=False)),
    (b"\xff\xd8\xff", Signature("a JPEG picture", is_read=False)),
    (b"\x1f\x8b", Signature("a gzip archive", is_read=False)),
    (b"BZh9", Signature("a bzip2 archive", is_read=False)),
    (b"7z\xbc\xaf\x27\x1c", Signature("a 7z archive", is_read=False)),
    (b"Rar!\x1a\x07", Signature("a RAR archive", is_read=False)),
    (b"\x7fELF", Signature("a program", is_read=False)),
    (b"SQLite format 3\0", Signature("an SQLite database", is_read=False)),
    (b"{\\rtf", Signature("an RTF document", is_read=False)),
    (b"%!PS-Adobe-", Signature("a PostScript file", is_read=False)),
)
PATTERNS = (
    (re.compile(rb"\s*%PDF-\d\.\d"), PDF),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE), HTML),
)
LOOKED_AT_BYTES = 1024
ZIP = b"PK\x03\x04"
MEMBERS = (
    ("word/", Signature("a Word document", ("docx",))),
    ("ppt/", Signature("a PowerPoint presentation", ("pptx",))),
    ("xl/", Signature("an Excel workbook", ("xlsx",))),
    ("META-INF/container.xml", Signature("an EPUB book", ("epub",))),
    ("content.xml", Signature("an OpenDocument file", is_read=False)),
)
SUFFIX_OF = {kind: suffix for suffix, kind in reversed(SUFFIXES.items())}


def check_signature(data: bytes, kind: str) -> None:
    """Return if *data* may be of the format *kind*.

    Raises InvalidInput for what is of another that is read, UnsupportedFormat for one that is not.
    """
    found = _signature(data)
    if found is None or kind in found.formats:
        return
    if not found.is_read:
        raise UnsupportedFormat(f"This is {found.name}, which is not read; save its text in a format that is.")
    suffix = SUFFIX_OF[found.formats[0]]
    raise InvalidInput(f"This is {found.name}, not what its name or content type says; send it as {suffix}.")


def _signature(data: bytes) -> Signature | None:
    if data.startswith(ZIP):
        return _zipped(data)
    prefixed = (signature for prefix, signature in PREFIXES if data.startswith(prefix))
    matched = (signature for pattern, signature in PATTERNS if pattern.match(data, 0, LOOKED_AT_BYTES))
    return next(prefixed, None) or next(matched, None)


def _zipped(data: bytes) -> Signature:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except DAMAGE:
        return ARCHIVE
    known = (signature for start, signature in MEMBERS if any(name.startswith(start) for name in names))
    return next(known, ARCHIVE)
