"""Bytes whose format declares their encoding, often wrongly."""

from __future__ import annotations

import codecs

from ingest.parsers.encodings import BOMS, decode_text
from rag.errors import InvalidInput

NOT_ASCII = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")  # their bytes are valid UTF-8 and mean something else
LATIN = frozenset({"iso8859-1", "ascii"})


def declared_text(data: bytes, charset: str) -> str:
    """The text of *data* with LF line ends: by its byte order mark, else UTF-8, else *charset*, else by its letters."""
    for encoding in _candidates(data, charset):
        try:
            return _clean(data.decode(encoding))
        except (LookupError, ValueError):  # no encoding of text, or not in it
            continue
    try:
        return decode_text(data)
    except InvalidInput:
        return _clean(data.decode("cp1252", "replace"))


def _candidates(data: bytes, charset: str) -> tuple[str, ...]:
    marked = next((encoding for bom, encoding in BOMS if data.startswith(bom)), None)
    if marked:
        return (marked,)
    try:
        name = codecs.lookup(charset.strip()).name
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        return ("utf-8",)
    if name.startswith(NOT_ASCII):
        return (name,)
    # UTF-8 first: other text is hardly ever valid UTF-8; and what is declared Latin 1 is written by Windows
    return ("utf-8", "cp1252" if name in LATIN else name)


def _clean(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # some codecs make lone surrogates
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
