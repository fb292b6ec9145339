"""Jupyter notebooks to blocks: Markdown cells with their headings, code, and what it printed as text."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.encodings import decode_text
from ingest.parsers.json_data import load_json
from ingest.parsers.markdown import parse_markdown
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

Json: TypeAlias = Any
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FIGURE = re.compile(r"<[\w.]*Figure size [^>]*>|<IPython\.core\.display\.\w+ object>")  # stands for what is not text
LEVELS = {str(level): level for level in range(1, 7)}
EMBEDDED_DATA = re.compile(r"data:[\w.+/-]+;base64,[A-Za-z0-9+/=\s]{40,}")


def parse_notebook(data: bytes) -> Parsed:
    """The cells of a notebook in order, with their outputs that are text; pictures are left out."""
    try:
        notebook = load_json(decode_text(data))
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"This is not a Jupyter notebook: {exc}.") from exc
    cells = _cells(notebook)
    if cells is None:
        raise InvalidInput("This is not a Jupyter notebook: it has no list of cells.")
    document = TextBuilder()
    for cell in cells:
        _add_cell(document, _object(cell))
    parsed = document.parsed(Facets())
    return document.parsed(Facets(title=parsed.first_heading(), metadata=_metadata(_object(notebook))))


def _cells(notebook: Json) -> list[Json] | None:
    found = _object(notebook)
    sheets = found.get("worksheets")  # notebooks of format 3
    if isinstance(sheets, list):
        return [cell for sheet in sheets for cell in _list(_object(sheet).get("cells"))]
    cells = found.get("cells")
    return cells if isinstance(cells, list) else None


def _metadata(notebook: dict[str, Json]) -> dict[str, Scalar]:
    about = _object(notebook.get("metadata"))
    name = _object(about.get("language_info")).get("name") or _object(about.get("kernelspec")).get("language")
    return {"language": name} if isinstance(name, str) else {}


def _add_cell(document: TextBuilder, cell: dict[str, Json]) -> None:
    source = _text(cell.get("source", cell.get("input")))
    match cell.get("cell_type"):
        case "code":
            document.add("code", source.strip("\n"))
            for output in _list(cell.get("outputs")):
                document.add("code", _output(_object(output)).strip("\n"))
        case "markdown":
            _add_markdown(document, source)
        case "heading":
            document.add("heading", " ".join(source.split()), level=LEVELS.get(str(cell.get("level")), 1))
        case _:
            document.add("paragraph", source.strip())


def _add_markdown(document: TextBuilder, source: str) -> None:
    parsed = parse_markdown("\n" + source)  # the line end keeps a rule on top from being front matter
    for block in parsed.blocks:
        text = parsed.of(block)
        document.add(block.kind, text, level=block.level, caption=block.caption, rows=block.rows)


def _output(output: dict[str, Json]) -> str:
    """The text of a stream, a result or an error, without colours and embedded pictures."""
    data = _object(output.get("data", output))  # format 3 has the data beside the type
    text = _text(output.get("text")) or _text(data.get("text/markdown")) or _text(data.get("text/plain"))
    if output.get("ename"):
        text = f"{output['ename']}: {output.get('evalue', '')}"
    return EMBEDDED_DATA.sub("", FIGURE.sub("", TERMINAL_CODES.sub("", text)))


def _text(value: Json) -> str:
    """A text as the format stores it: whole, or as a list of lines."""
    return value if isinstance(value, str) else "".join(part for part in _list(value) if isinstance(part, str))


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
