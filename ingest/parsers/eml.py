"""E-mail messages to blocks: the subject, who wrote to whom, the body, and what is attached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.charsets import declared_text
from ingest.parsers.encodings import BOMS, decode_text
from ingest.parsers.html import read_html
from ingest.parsers.markdown import parse_markdown
from ingest.parsers.parts import add_part
from ingest.parsers.text import parse_text
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

SHOWN = ("From", "To", "Cc", "Date")
METADATA = {
    "from": "from",
    "to": "to",
    "cc": "cc",
    "bcc": "bcc",
    "reply-to": "reply_to",
    "subject": "subject",
    "message-id": "message_id",
    "in-reply-to": "in_reply_to",
}
MAIL_HEADERS = frozenset({*METADATA, "date", "received", "return-path", "mime-version", "content-type"})
MAX_HEADER_CHARS = 32_000  # a thousand addresses; the time to take a header apart grows with its square
MAX_ATTACHED = 20  # messages in messages; each is a level of headings
BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
# what the header parsers of the standard library let through for malformed values
HEADER_ERRORS = (MessageError, ValueError, LookupError, AttributeError, TypeError)
PART_HEADERS = "content-"  # they say what a part is; the others are shown
ATTACHED: dict[str, Callable[[str], Parsed]] = {"text/html": read_html, "text/markdown": parse_markdown}


def parse_eml(data: bytes) -> Parsed:
    """A message: headers as metadata, plain text rather than HTML, text attachments under their names.

    Raises InvalidInput for a file that is no message.
    """
    if b"\0" in data[:4] or data.startswith(tuple(mark for mark, _ in BOMS)):
        data = decode_text(data).encode()
    try:
        message = message_from_bytes(data, policy=_Policy())
        parsed = _Reader().read(message)
    except RecursionError as exc:
        raise InvalidInput("This message has parts nested too deeply; it is not read.") from exc
    if not MAIL_HEADERS.intersection(name.lower() for name in message.keys()):  # noqa: SIM118  # a message iterates oddly
        raise InvalidInput("This is no e-mail message: it has no mail headers; save it from the mail program as .eml.")
    return replace(parsed, facets=_facets(message))


class _Policy(policy.EmailPolicy):
    """Headers taken apart as usual, but for those too long for it: they stay as they are written."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        if len(value) <= MAX_HEADER_CHARS:
            return super().header_fetch_parse(name, value)
        return value[:MAX_HEADER_CHARS] if name.lower().startswith(PART_HEADERS) else value


def _facets(message: Message) -> Facets:
    metadata: dict[str, Scalar] = {key: value for name, key in METADATA.items() if (value := _header(message, name))}
    with suppress(ValueError, TypeError, IndexError, OverflowError):  # what is no date is still shown in the text
        metadata["created"] = parsedate_to_datetime(_header(message, "date")).isoformat()
    return Facets(title=_header(message, "subject"), metadata=metadata)


class _Reader:
    def __init__(self) -> None:
        self._document = TextBuilder()
        self._warnings: list[str] = []

    def read(self, message: Message) -> Parsed:
        self._message(message, 1)
        return self._document.parsed(Facets(), tuple(self._warnings))

    def _message(self, message: Message, level: int) -> None:
        subject = _header(message, "subject")
        self._document.add("heading", subject or ("Attached message" if level > 1 else ""), level=level)
        lines = ((name, _header(message, name)) for name in SHOWN)
        self._document.add("paragraph", "\n".join(f"{name}: {value}" for name, value in lines if value))
        self._part(message, level)

    def _part(self, part: Message, level: int) -> None:
        kind = part.get_content_type()
        if kind == "message/rfc822" and part.is_multipart():
            self._attached_messages(part, level)
        elif kind == "multipart/alternative":
            self._alternative(list(_subparts(part)), level)
        elif part.is_multipart():
            for subpart in _subparts(part):
                self._part(subpart, level)
        elif name := _file_name(part):
            self._attachment(part, name, level)
        elif part.get_content_maintype() in ("text", "multipart", "message"):  # the last two where they are broken
            self._body(part, level)

    def _attached_messages(self, part: Message, level: int) -> None:
        if level > MAX_ATTACHED:
            self._warnings.append(f"messages attached over {MAX_ATTACHED} deep are not read")
            return
        for message in _subparts(part):
            self._message(message, level + 1)

    def _alternative(self, parts: list[Message], level: int) -> None:
        """The plain text, unless it is empty, and the files that some programs put inside the HTML beside it."""
        plain = next((part for part in parts if part.get_content_type() == "text/plain" and _text(part).strip()), None)
        if plain is not None:
            self._part(plain, level)
            for part in filter(lambda part: part is not plain, parts):
                self._files(part, level)
            return
        for part in parts[::-1]:  # the last is the richest
            before = len(self._document.blocks)
            self._part(part, level)
            if len(self._document.blocks) > before:
                return

    def _files(self, part: Message, level: int) -> None:
        leaves = (leaf for leaf in part.walk() if not leaf.is_multipart() and leaf.get_content_maintype() != "image")
        for leaf in leaves:
            if name := _file_name(leaf):
                self._attachment(leaf, name, level)

    def _body(self, part: Message, level: int) -> None:
        text = _text(part)
        if part.get_content_type() == "text/html":
            add_part(self._document, read_html(text), below=level)
            return
        for paragraph in BLANK_LINES.split(text):
            lines = (line.rstrip() for line in paragraph.split("\n"))
            self._document.add("paragraph", "\n".join(lines).strip("\n"))

    def _attachment(self, part: Message, name: str, level: int) -> None:
        kind = part.get_content_type()
        if kind.startswith("text/"):
            self._document.add("heading", name, level=level + 1)
            add_part(self._document, ATTACHED.get(kind, parse_text)(_text(part)), below=level + 1)
        else:
            self._document.add("paragraph", f"Attachment: {name}")
            self._warnings.append(f"the attachment {name} ({kind}) is not read; upload it by itself")


def _subparts(part: Message) -> Iterator[Message]:
    payload = part.get_payload()
    return (subpart for subpart in payload if isinstance(subpart, Message)) if isinstance(payload, list) else iter(())


def _file_name(part: Message) -> str:
    try:
        name = part.get_filename("")
    except HEADER_ERRORS:
        name = "attachment"
    if not name and _header(part, "content-disposition").lower().startswith("attachment"):
        name = "attachment"
    return _clean(str(name))


def _text(part: Message) -> str:
    try:
        charset = str(part.get_content_charset(""))
    except HEADER_ERRORS:
        charset = ""
    payload = part.get_payload(decode=True)
    return declared_text(payload, charset).replace("\0", "") if isinstance(payload, bytes) else ""


def _header(message: Message, name: str) -> str:
    """The header's text, or as it stands in the message where it cannot be decoded."""
    try:
        return _clean(str(message.get(name, "")))
    except HEADER_ERRORS:
        raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
        return _clean(str(raw))


def _clean(text: str) -> str:
    """One line; bytes beyond ASCII, which the e-mail parser escapes, are UTF-8 or replaced."""
    text = text.replace("\0", "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(text.split())
