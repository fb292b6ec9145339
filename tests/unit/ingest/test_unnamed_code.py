"""Source code that came as plain text, against text that only looks like it."""

from __future__ import annotations

import pytest

from ingest.parsers import parse
from ingest.parsers.unnamed_code import SAMPLE_CHARS, parse_unnamed_code

EXCERPTS = {  # and the symbols in them
    "java": (
        "     */\n    @Override\n    public Hash hash(CharSequence plain)\n    {\n"
        "        return peppered(plain);\n    }\n}\n",
        "hash",
    ),
    "rust": (
        "impl<A, B> Pair<A, B> {\n    /// The first.\n    pub fn first(&self) -> &A {\n        &self.first\n    }\n",
        "Pair",
    ),
    "cpp": (
        "namespace PO {\nclass Error {\npublic:\n  int code() const noexcept { return Code; }\n};\n}\n",
        "PO",
    ),
    "csharp": (
        "public sealed class Order : IOrder\n{\n    public int Total { get; init; }\n\n    Order() => Total = 1;\n}\n",
        "Order",
    ),
    "go": (
        "func (s *Server) Close() error {\n\ts.once.Do(func() { close(s.done) })\n\treturn nil\n}\n",
        "Server.Close",
    ),
    "javascript": (
        "export const total = (order) => {\n  return order.lines.reduce((sum, line) => sum + line.cents, 0);\n};\n",
        "total",
    ),
    "typescript": (
        "interface Order {\n  total: number;\n}\n\nexport function total(order: Order): number {\n"
        "  return order.total;\n}\n",
        "Order, total",
    ),
    "python": (
        'def paste(xsel=False):\n    """Returns what is on the clipboard."""\n    return check_output(["xclip"])\n',
        "paste",
    ),
}


@pytest.mark.parametrize(("source", "symbols"), EXCERPTS.values(), ids=EXCERPTS)
def test_an_excerpt_of_code_without_a_file_name_stands_as_it_is_under_its_symbols(source: str, symbols: str) -> None:
    parsed = parse(source.encode(), name="1", content_type="text/plain")

    assert parsed.first_heading() == symbols
    assert {block.kind for block in parsed.blocks} == {"heading", "code"}
    for line in filter(str.strip, source.split("\n")):
        assert line in parsed.text


@pytest.mark.parametrize(
    "text",
    [
        "The function total(order) returns cents:\nit adds the lines (see below),\nand rounds them.\n",
        "Bring:\n- milk;\n- bread;\n- salt, pepper,\n- tea (green);\n",
        "Ada Lovelace,\nSt James's Square 12,\nLondon,\nEngland;\n",
        "# Settings\nport: 8080\nhosts:\n  - a.example\n  - b.example\n@include other\n",
        '{"a": 1,\n "b": [1, 2],\n "c": {}}\n',
        "a { color: red; }\nb { margin: 0; }\nc > d { top: 1px; }\n",
        "SELECT id, total\nFROM orders\nWHERE total > 3;\nUPDATE orders SET total = 4;\n",
        "for f in *.txt; do\n  cp $f /tmp;\ndone;\n",
        "x = 1;\ny = 2;\nz = x + y;\n",
        "2026-01-01 ERROR [main] (pool.py:3)\n2026-01-01 ERROR [main] (pool.py:9)\n2026-01-02 WARN [io] (net.py:3)\n",
        "f(x) { return x; }",
    ],
)
def test_text_that_ends_its_lines_like_code_stays_text(text: str) -> None:
    assert parse_unnamed_code(text) is None


def test_a_remark_above_code_leaves_it_code_and_much_prose_does_not() -> None:
    remark, code = "Hello, see what I found:\n\n", EXCERPTS["python"][0] * 5

    assert parse_unnamed_code(remark + code) is not None
    assert parse_unnamed_code(remark * 30 + code) is None


def test_code_longer_than_what_tells_its_language_is_read_whole() -> None:
    methods = [f"def method_{n}(self):\n    return self.rows[{n}]\n" for n in range(SAMPLE_CHARS // 10)]
    source = "\n".join(methods)
    assert len(source) > 2 * SAMPLE_CHARS

    parsed = parse_unnamed_code(source)

    assert parsed is not None
    assert f"method_{len(methods) - 1}(self)" in parsed.text
