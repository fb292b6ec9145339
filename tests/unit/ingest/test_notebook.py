from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.blocks import Parsed
from ingest.parsers.notebook import parse_notebook
from rag.errors import InvalidInput


def notebook(*cells: dict[str, Any]) -> Parsed:
    return parse_notebook(json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}}).encode())


def blocks(parsed: Parsed) -> list[tuple[str, str, int]]:
    return [(block.kind, parsed.of(block), block.level) for block in parsed.blocks]


def test_markdown_code_and_text_outputs_are_blocks_in_order() -> None:
    parsed = notebook(
        {"cell_type": "markdown", "source": ["# Churn\n", "\n", "We *count*.\n", "\n", "## Load\n"]},
        {
            "cell_type": "code",
            "source": "rows = load()\nrows",
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[31m12 rows\x1b[0m\n"]},
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": ["   id\n", "0   7"], "text/html": "<b>7</b>"},
                },
                {"output_type": "error", "ename": "KeyError", "evalue": "'day'", "traceback": ["\x1b[0;31m..."]},
            ],
        },
        {"cell_type": "raw", "source": "As is."},
    )

    assert blocks(parsed) == [
        ("heading", "Churn", 1),
        ("paragraph", "We count.", 0),
        ("heading", "Load", 2),
        ("code", "rows = load()\nrows", 0),
        ("code", "12 rows", 0),
        ("code", "   id\n0   7", 0),
        ("code", "KeyError: 'day'", 0),
        ("paragraph", "As is.", 0),
    ]
    assert parsed.facets.title == "Churn"
    assert parsed.facets.metadata == {"language": "python"}


def test_pictures_leave_no_trace() -> None:
    picture = "iVBORw0KGgo" * 50
    parsed = notebook(
        {
            "cell_type": "code",
            "source": "plot()",
            "outputs": [
                {"data": {"image/png": picture, "text/plain": "<Figure size 640x480 with 1 Axes>"}},
                {"data": {"text/plain": f"<img src='data:image/png;base64,{picture}'>"}},
            ],
        },
        {
            "cell_type": "markdown",
            "source": f"![chart](data:image/png;base64,{picture})",
            "attachments": {"a": picture},
        },
    )

    assert "iVBOR" not in parsed.text
    assert "chart" in parsed.text


def test_a_rule_on_top_of_a_cell_is_no_front_matter() -> None:
    assert notebook({"cell_type": "markdown", "source": "---\nnote: kept\n---\nEnd"}).text == "note: kept\n\nEnd"


def test_notebooks_of_format_3_are_read() -> None:
    old = {
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": ["Old"]},
                    {"cell_type": "code", "input": ["print(1)"], "outputs": [{"output_type": "stream", "text": ["1"]}]},
                ]
            }
        ]
    }

    assert blocks(parse_notebook(json.dumps(old).encode())) == [
        ("heading", "Old", 2),
        ("code", "print(1)", 0),
        ("code", "1", 0),
    ]


@pytest.mark.parametrize("data", [b"{}", b"[1]", b"print(1)", b'{"cells": 3}'])
def test_what_is_no_notebook_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a Jupyter notebook"):
        parse_notebook(data)
