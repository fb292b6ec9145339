"""What Word and PowerPoint files have in common: how they are opened, and their properties."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar
from zipfile import ZipFile

from docx.exceptions import PythonDocxError
from docx.opc.constants import RELATIONSHIP_TYPE
from pptx.exc import PythonPptxError

from ingest.parsers.archives import open_archive
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the container of encrypted files and of those before 2007
# what the two libraries raise for damaged parts and for other kinds of file; SyntaxError is lxml's
DAMAGE = (PythonDocxError, PythonPptxError, KeyError, ValueError, AttributeError, SyntaxError)
DEFAULT_TITLES = frozenset({"PowerPoint Presentation", "PowerPoint-Präsentation", "Word Document", "Untitled"})

TEXTS = ("title", "author", "subject", "keywords")
LIBRARIES = frozenset({"python-docx", "Steve Canny"})  # authors whom their templates name

PROLOGUE_BYTES = 4096  # a document type stands before the first element

T = TypeVar("T")


def read_office(data: bytes, kind: str, read: Callable[[BinaryIO], T]) -> T:
    """What *read* makes of the file; *kind* is such as `Word document (.docx)`.

    Raises InvalidInput for one that is encrypted, damaged or of another kind.
    """
    if data.startswith(OLE):
        raise InvalidInput(f"This file is encrypted or in a format before 2007; save it as {kind} without a password.")
    with open_archive(data) as archive:
        declaring = next((name for name in archive.namelist() if _declares_entities(archive, name)), None)
    if declaring:
        raise InvalidInput(f"This is no {kind}: {declaring} declares a document type, which Office never writes.")
    try:
        return read(io.BytesIO(data))
    except DAMAGE as exc:
        raise InvalidInput(f"This is no {kind}, or it is damaged ({exc}); open it and save it again.") from exc


def _declares_entities(archive: ZipFile, name: str) -> bool:
    if not name.endswith((".xml", ".rels")):
        return False
    with archive.open(name) as part:
        return b"<!DOCTYPE" in part.read(PROLOGUE_BYTES)


def read_facets(package: Any) -> Facets:
    """The title, author, subject, keywords and dates among the properties of an opened file's *package*."""
    try:
        package.part_related_by(RELATIONSHIP_TYPE.CORE_PROPERTIES)
    except KeyError:
        return Facets()  # the libraries would make some up
    properties = package.core_properties
    texts = {name: " ".join((getattr(properties, name) or "").split()) for name in TEXTS}
    title = texts.pop("title")
    metadata: dict[str, Scalar] = {name: text for name, text in texts.items() if text and text not in LIBRARIES}
    for name in ("created", "modified"):
        if moment := getattr(properties, name):
            metadata[name] = moment.isoformat()
    return Facets(title="" if title in DEFAULT_TITLES else title, metadata=metadata)
