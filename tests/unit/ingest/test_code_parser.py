from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.blocks import Parsed
from ingest.parsers.code import LANGUAGE_BY_CONTENT_TYPE, LANGUAGE_BY_SUFFIX, parse_code
from ingest.parsers.grammars import GRAMMARS
from ingest.splitter import split


def read(source: str, language: str, *, joined_chars: int = 0) -> Parsed:
    return parse_code(source, language=language, name="src/file", joined_chars=joined_chars)


def symbols(parsed: Parsed) -> list[tuple[str, str]]:
    """Each block of code with the path of headings it stands under."""
    path: list[str] = []
    found = []
    for block in parsed.blocks:
        if block.kind == "heading":
            path[block.level - 1 :] = [parsed.of(block)]
        else:
            found.append((" > ".join(path[1:]), parsed.of(block)))
    return found


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def test_a_symbol_is_a_block_under_the_path_to_it_with_its_comment_and_decorators() -> None:
    source = (
        '"""Orders."""\n\nimport os\n\n\n# Holds lines.\n@final\nclass Order(Base):\n    """Doc."""\n\n'
        "    limit = 3\n\n    @property\n    def total(self):\n        a = 1\n\n        return a\n\n"
        "    x = 2\n\n\nMAX = 1\n"
    )

    parsed = read(source, "python")

    assert symbols(parsed) == [
        ("", '"""Orders."""'),
        ("", "import os"),
        ("Order", '# Holds lines.\n@final\nclass Order(Base):\n    """Doc."""'),
        ("Order", "    limit = 3"),
        ("Order > total", "    @property\n    def total(self):\n        a = 1\n\n        return a"),
        ("Order", "    x = 2"),
        ("", "MAX = 1"),
    ]
    assert parsed.facets.title == "src/file"
    assert parsed.facets.metadata == {"language": "python"}


SOURCES = {
    "python": "try:\n    def f():\n        pass\nexcept E:\n    pass\n\nasync def g():\n    pass\n",
    "javascript": (
        "exports.f = function () {\n};\n\n/** Doc. */\nexport const g = async () => {\n};\n\n"
        "class A {\n  x = () => {\n  };\n\n  get y() {\n  }\n}\n"
    ),
    "typescript": (
        "namespace N {\n  export function f(): void {\n  }\n}\n\n@Dec()\nexport class A {\n  b: string;\n\n"
        "  @Out()\n  c() {\n  }\n}\n\nexport interface I {\n  x: 1;\n}\n\ntype T = string;\n"
    ),
    "tsx": "export function App() {\n  return <p>hi</p>;\n}\n",
    "go": (
        "package p\n\n// T is.\ntype T struct {\n}\n\nfunc (t *T[K]) Run() {\n}\n\nfunc New() *T {\n}\n\nconst A = 1\n"
    ),
    "java": (
        "package p;\n\n/** A. */\npublic class A {\n  int x;\n\n"
        "  /** Runs. */\n  @Override\n  public void run() {\n  }\n}\n"
    ),
    "rust": (
        "use a::b;\n\n/// S.\n#[derive(Debug)]\nstruct S;\n\nimpl<T> Run<T> for a::S<T> {\n    type X = T;\n\n"
        "    /// Runs.\n    fn run() {\n    }\n}\n\nmod m {\n    fn g() {\n    }\n}\n"
    ),
    "c": (
        "#ifndef A_H\n#define A_H\n\ntypedef struct {\n  int x;\n} point;\n\n"
        "/* Adds. */\nint *add(int a) {\n}\n\n#endif\n"
    ),
    "cpp": (
        "namespace n {\n\ntemplate <class T>\nclass A {\n public:\n  ~A() {\n  }\n};\n\nint& B::get() {\n}\n\n"
        "B::operator bool() {\n}\n\n}  // namespace n\n"
    ),
    "csharp": (
        "using X;\n\nnamespace N\n{\n  /// C.\n  class C\n  {\n    int P { get; }\n\n"
        "    public void Run()\n    {\n    }\n  }\n}\n"
    ),
}
PATHS = {
    "python": ["", "f", "", "g"],
    "javascript": ["exports.f", "g", "A > x", "A > y"],
    "typescript": ["N > f", "A", "A > c", "I", "T"],
    "tsx": ["App"],
    "go": ["", "T", "T.Run", "New", ""],
    "java": ["", "A", "A > run"],
    "rust": ["", "S", "Run for a::S", "Run for a::S > run", "m > g"],
    "c": ["", "point", "add"],
    "cpp": ["n > A", "n > A", "n > A > ~A", "n > B::get", "n > B::operator bool()"],
    "csharp": ["", "N > C", "N > C > Run"],
}


@pytest.mark.parametrize("language", GRAMMARS)
def test_every_language_has_its_symbols_found_and_its_lines_kept(language: str) -> None:
    found = symbols(read(SOURCES[language], language))

    assert [path for path, _ in found] == PATHS[language]
    assert lines("\n".join(code for _, code in found)) == lines(SOURCES[language])


ORDERS = "import os\n\nclass Order:\n    def total(self):\n        return 1\n\n    def tax(self):\n        return 2\n"


def test_small_neighbours_share_a_section_under_what_they_stand_in_and_their_names() -> None:
    limit = "    limit = " + "1 + " * 30 + "1"
    source = (
        f"class Order:\n{limit}\n\n    def total(self):\n        return 1\n\n    def tax(self):\n        return 2\n"
    )

    found = symbols(read(source, "python", joined_chars=110))

    assert found == [
        ("Order", f"class Order:\n{limit}"),
        ("Order > total, tax", "    def total(self):\n        return 1"),
        ("Order > total, tax", "    def tax(self):\n        return 2"),
    ]


def test_a_small_file_is_one_section_that_names_all_its_symbols() -> None:
    found = symbols(read(ORDERS, "python", joined_chars=1000))

    assert {path for path, _ in found} == {"Order, total, tax"}
    assert lines("\n".join(code for _, code in found)) == lines(ORDERS)


def test_a_large_symbol_is_joined_with_nothing() -> None:
    body = "\n".join(f"    step_{n}()" for n in range(200))
    source = f"def one():\n    pass\n\ndef large():\n{body}\n\ndef two():\n    pass\n\ndef three():\n    pass\n"

    found = symbols(read(source, "python", joined_chars=1000))

    assert [path for path, _ in found] == ["one", "large", "two, three", "two, three"]


@pytest.mark.parametrize("language", GRAMMARS)
def test_joining_keeps_every_line_in_its_place(language: str) -> None:
    for most in (20, 60, 120, 1000):
        found = symbols(read(SOURCES[language], language, joined_chars=most))

        assert lines("\n".join(code for _, code in found)) == lines(SOURCES[language])


def test_comments_a_blank_line_away_stay_apart_and_those_behind_code_stay_there() -> None:
    source = "// License\n\nint a = 1;  // one\nint f() {\n}\n"

    assert symbols(read(source, "cpp")) == [("", "// License"), ("", "int a = 1;  // one"), ("f", "int f() {\n}")]


def test_syntax_errors_are_plain_code_and_the_symbols_around_them_are_found() -> None:
    source = "def one():\n    return 1\n\nclass :::\n\ndef two():\n    return 2\n\n)) what (\n"

    found = symbols(read(source, "python"))

    assert ("one", "def one():\n    return 1") in found
    assert "two" in [path for path, _ in found]
    assert lines("\n".join(code for _, code in found)) == lines(source)


@pytest.mark.parametrize("language", GRAMMARS)
@pytest.mark.parametrize(
    "source",
    [
        "class A { " * 3000,
        "int f(){return 1;}" * 3000,
        "{" * 20000,
        "".join(f"{' ' * n}if x:\n" for n in range(500)),
        "é\n\n",
    ],
)
def test_nesting_and_long_lines_lose_nothing(language: str, source: str) -> None:
    assert lines("\n".join(code for _, code in symbols(read(source, language)))) == lines(source)


def test_a_long_function_is_cut_at_blank_lines_and_each_part_knows_where_it_stands(
    count_tokens: Callable[..., list[int]],
) -> None:
    steps = "\n\n".join("\n".join(f"        step_{n}_{m} = call({m})" for m in range(20)) for n in range(12))
    parsed = read(f"class A:\n    x = 1\n\n    def run(self):\n{steps}\n", "python")

    drafts = split(parsed, count_tokens=count_tokens)

    run = [draft for draft in drafts if draft.breadcrumb == ("src/file", "A", "run")]
    assert len(drafts) == len(run) + 1
    assert len(run) > 1
    assert all(draft.text.rstrip().endswith("call(19)") for draft in run)
    assert "\n\n".join(draft.text for draft in run) == f"    def run(self):\n{steps}"


def test_every_suffix_and_content_type_has_a_grammar() -> None:
    assert {*LANGUAGE_BY_SUFFIX.values(), *LANGUAGE_BY_CONTENT_TYPE.values()} == {*GRAMMARS}
