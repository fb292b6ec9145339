"""A small sound file of every format, made here."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import BinaryIO

import docx
import openpyxl
import pptx

from tests.pdf_files import drawn, pdf

WORD = "Nachtigall"  # in the text of every sample
SENTENCE = f"The {WORD} rule allows thirty days."
CONTAINER = '<container><rootfiles><rootfile full-path="book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Rules</dc:title></metadata><manifest>
<item id="one" href="one.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="one"/></spine>
</package>"""


def zipped(members: dict[str, str | bytes]) -> bytes:
    """A zip archive of *members*, compressed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def members_of(data: bytes) -> dict[str, str | bytes]:
    """The members of a zip archive by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _saved(save: Callable[[BinaryIO], object]) -> bytes:
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


def _docx() -> bytes:
    document = docx.Document()
    document.add_heading("Leave", 1)
    document.add_paragraph(SENTENCE)
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Plan", "Days", "Basic", "30"), strict=True):
        cell.text = text
    return _saved(document.save)


def _pptx() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Leave"
    slide.placeholders[1].text = SENTENCE
    return _saved(deck.save)


def _xlsx() -> bytes:
    workbook = openpyxl.Workbook()
    for row in (["Plan", "Days", "Note"], ["Basic", 30, SENTENCE], ["Full", 40, "more"]):
        workbook.active.append(row)
    return _saved(workbook.save)


def _epub() -> bytes:
    page = f"<html><body><h1>Leave</h1><p>{SENTENCE}</p></body></html>"
    mimetype = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    return zipped({**mimetype, "book.opf": PACKAGE, "one.xhtml": page})


def _eml() -> bytes:
    parts = (
        f"--b\nContent-Type: text/plain; charset=utf-8\n\n{SENTENCE}\n--b\nContent-Type: text/html\n\n<p>x</p>\n--b--\n"
    )
    return f"From: Ann <a@b.example>\nSubject: Leave\nContent-Type: multipart/mixed; boundary=b\n\n{parts}".encode()


NOTEBOOK = {"cells": [{"cell_type": "markdown", "source": f"# Leave\n\n{SENTENCE}"}], "metadata": {}}
FRONT = "---\ntitle: Leave\ntags: [hr]\n---\n"
TEXTS = {
    "a.md": f"{FRONT}# Leave\n\n{SENTENCE}\n\n| A | B |\n|---|---|\n| 1 | 2 |\n\n- one\n  - two\n",
    "a.txt": f"Leave\n\n{SENTENCE}\n",
    "a.html": f"<!DOCTYPE html><html><body><h1>Leave</h1><p>{SENTENCE}</p><table><tr><td>1<td>2</table></body></html>",
    "a.csv": f'plan,days,note\nbasic,30,"{SENTENCE}"\nfull,40,"more, much"\n',
    "a.json": json.dumps({"title": "Leave", "rules": [{"text": SENTENCE, "days": 30}, {"text": "more", "days": 40}]}),
    "a.jsonl": json.dumps({"text": SENTENCE}) + '\n{"text": "more"}\n',
    "a.yaml": f"title: Leave\nrules:\n  - text: {SENTENCE}\n    days: 30\n",
    "a.ipynb": json.dumps(NOTEBOOK),
    "a.py": f'def leave() -> int:\n    """{SENTENCE}"""\n    return 30\n',
}
SAMPLES: dict[str, bytes] = {
    **{name: text.encode() for name, text in TEXTS.items()},
    "a.docx": _docx(),
    "a.pptx": _pptx(),
    "a.xlsx": _xlsx(),
    "a.epub": _epub(),
    "a.pdf": pdf(drawn([(50, 700, 12, SENTENCE)])),
    "a.eml": _eml(),
}
