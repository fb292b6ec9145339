"""Source code that came as plain text, against text that only looks like it."""

from __future__ import annotations

import pytest

from ingest.blocks import Parsed
from ingest.parsers import parse, unnamed_code
from ingest.parsers.code import error_share
from ingest.parsers.text import parse_text
from ingest.parsers.unnamed_code import MOST_CHARS, SAMPLE_CHARS, parse_plain
from rag.values import Facets

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


def is_code(parsed: Parsed) -> bool:
    return {block.kind for block in parsed.blocks} <= {"heading", "code"}


@pytest.mark.parametrize(("source", "symbols"), EXCERPTS.values(), ids=EXCERPTS)
def test_an_excerpt_of_code_without_a_file_name_stands_as_it_is_under_its_symbols(source: str, symbols: str) -> None:
    parsed = parse(source.encode(), name="1", content_type="text/plain")

    assert parsed.first_heading() == symbols
    assert is_code(parsed)
    assert parsed.facets == Facets()
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
    assert parse_plain(text) == parse_text(text)


def test_most_text_is_told_without_a_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unnamed_code, "import_module", lambda name: pytest.fail(f"{name} was loaded"))

    parse_plain("It rained, and the river rose.\nNobody had seen it so high\nsince the bridge was built.\n" * 9)


def test_a_remark_above_code_leaves_it_code_and_much_prose_on_either_side_does_not() -> None:
    code = "\n\n".join(f"def f{n}(x):\n    return [x, {n}]" for n in range(SAMPLE_CHARS // 20))
    remark, prose = (
        "Hello, see what I found:\n\n",
        "\n\nIt rained, and (so they say) the river rose;\nthat was all." * 200,
    )

    assert is_code(parse_plain(remark + code))
    assert not is_code(parse_plain(remark * (len(code) // (5 * len(remark))) + code))
    assert not is_code(parse_plain(prose + code))
    assert not is_code(parse_plain(code + prose))


def test_code_longer_than_what_tells_its_language_is_read_whole() -> None:
    methods = [f"    public int total{n}() {{\n        return {n};\n    }}\n" for n in range(SAMPLE_CHARS // 20)]
    source = "public class Totals {\n" + "\n".join(methods) + "}\n"
    assert 2 * SAMPLE_CHARS < len(source) <= MOST_CHARS

    parsed = parse_plain(source)

    assert is_code(parsed)
    assert all(method.strip() in parsed.text for method in methods)


def test_a_text_too_long_to_be_tried_stays_text() -> None:
    source = "\n\n".join(f"def f{n}(x):\n    return [x, {n}]" for n in range(MOST_CHARS // 30))
    assert len(source) > MOST_CHARS

    assert parse_plain(source) == parse_text(source)


def test_where_the_grammar_that_reads_best_names_no_symbol_the_next_is_tried() -> None:
    declarations = (
        "public:\n    /// Appends it.\n    void Append(ColumnRef column) override;\n\n"
        "    bool LoadBody(InputStream* in);\n"
    )

    assert error_share(declarations, "cpp") < error_share(declarations, "java")
    assert parse_plain(declarations).first_heading() == "Append, LoadBody"


def test_remarks_in_another_language_leave_code_to_the_rules_of_english_as_in_a_file() -> None:
    source = (
        "# Die Summe aller Zeilen, wenn es keine gibt, ist null und nicht leer.\n"
        "def total(lines):\n    return sum(line.cents for line in lines)\n"
    )

    assert parse(source.encode(), name="a.txt").facets.lang == "en"
    assert parse(source.encode(), name="a.py").facets.lang == "en"


@pytest.mark.parametrize(
    ("source", "language", "least", "most"),
    [
        ("int f() { return 1; }\n", "cpp", 0.0, 0.0),
        ("int f( { return 1; }\n", "cpp", 0.01, 0.5),
        (
            "class A {\n    int a() { return 1; }\n\n    /** It is two. */\n    int b() { return 2; }\n",
            "java",
            0.01,
            0.2,
        ),
        ("It rained, and the river rose (so they say); nobody had seen it so high.\n", "java", 0.15, 1.0),
        ("{\n    LineNumberFilter filter3;", "rust", 0.3, 0.5),  # an error in what stands in an error
        ("", "go", 0.0, 0.0),
    ],
)
def test_what_a_grammar_makes_nothing_of(source: str, language: str, least: float, most: float) -> None:
    assert least <= error_share(source, language) <= most
