"""Files made to harm or to confuse: each ends as a clear refusal or a sound document, and its neighbours are read."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from ingest.blocks import Parsed
from ingest.sandbox import Sandbox
from rag.errors import CallerError
from tests.integration.parsing import is_as_expected, outcomes
from tests.pdf_files import drawn, encrypted
from tests.samples import SAMPLES, SENTENCE, WORD, members_of, zipped

MB = 1024 * 1024
CONTENTS = {
    "docx": "word/document.xml",
    "pptx": "ppt/slides/slide1.xml",
    "xlsx": "xl/worksheets/sheet1.xml",
    "epub": "one.xhtml",
}
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4000)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100)
CLOSED = encrypted(drawn([(50, 700, 10, SENTENCE)]), user=b"open", owner=b"secret")
ENTITIES = '<!DOCTYPE x [<!ENTITY e0 "boom boom boom">{}]>'.format(
    "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
)
ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12))


@pytest_asyncio.fixture(scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as opened:
        yield opened


def inside(kind: str, change: Callable[[str], str]) -> bytes:
    """The sample of a zipped format with its content part changed."""
    members = members_of(SAMPLES[f"a.{kind}"])
    content = members[CONTENTS[kind]]
    assert isinstance(content, bytes)
    return zipped({**members, CONTENTS[kind]: change(content.decode())})


def with_entities(source: str, declarations: str, word: str) -> str:
    head, _, rest = source.rpartition("?>")
    head = f"{head}?>" if head else '<?xml version="1.0"?>'
    return head + declarations + rest.replace(WORD, word)


@pytest.mark.parametrize("kind", CONTENTS)
async def test_zip_bombs_are_refused_before_they_unpack(sandbox: Sandbox, kind: str) -> None:
    members = members_of(SAMPLES[f"a.{kind}"])
    blank = bytes(150 * MB)
    bombs = [
        (f"beside.{kind}", zipped({**members, "x/bomb.bin": blank})),
        (f"within.{kind}", zipped({**members, CONTENTS[kind]: blank})),
        (f"many.{kind}", zipped({**members, **{f"x/{n}": b"" for n in range(10_001)}})),
        (f"packed-twice.{kind}", zipped({**members, "x/bomb.zip": zipped({"bomb.bin": blank})})),
    ]

    beside, within, many, packed_twice = await outcomes(sandbox, bombs)

    assert is_as_expected(beside, r"refused: unpacks to over \d+ MB")
    assert is_as_expected(within, r"refused: unpacks to over \d+ MB")
    assert is_as_expected(many, "refused: over the limit of 10000")
    assert is_as_expected(packed_twice, SENTENCE)


@pytest.mark.parametrize(
    ("kind", "bomb", "file"),
    [
        ("docx", "refused: declares a document type", "refused: declares a document type"),
        ("pptx", "refused: declares a document type", "refused: declares a document type"),
        ("xlsx", "refused: amplification", "refused: undefined entity"),
        ("epub", "The &e9; rule", "The &x; rule"),  # pages are read as browsers do, which know no such entities
    ],
)
async def test_xml_entities_neither_multiply_nor_read_files(sandbox: Sandbox, kind: str, bomb: str, file: str) -> None:
    external = '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    files = [
        (f"bomb.{kind}", inside(kind, lambda xml: with_entities(xml, ENTITIES, "&e9;"))),
        (f"file.{kind}", inside(kind, lambda xml: with_entities(xml, external, "&x;"))),
    ]

    multiplied, read = await outcomes(sandbox, files)

    assert is_as_expected(multiplied, bomb)
    assert is_as_expected(read, file)


LINE = b"words of one line, "
LONG_LINES: dict[str, Callable[[int], bytes]] = {
    "line.txt": lambda size: LINE * (size // len(LINE)),
    "line.md": lambda size: LINE * (size // len(LINE)),
    "line.csv": lambda size: LINE * (size // len(LINE)),
    "line.json": lambda size: b'["' + LINE * (size // len(LINE)) + b'"]',
    "line.html": lambda size: b"<p>" + LINE * (size // len(LINE)) + b"</p>",
    "unbroken.txt": lambda size: b"x" * size,
}


@pytest.mark.parametrize("name", LONG_LINES)
async def test_a_single_line_of_20_mb_is_read_in_bounded_memory(sandbox: Sandbox, name: str) -> None:
    data = LONG_LINES[name](20 * MB)
    tracemalloc.start()
    try:
        [outcome] = await outcomes(sandbox, [(name, data)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert isinstance(outcome, Parsed)
    assert len(outcome.text) > 19 * MB
    assert peak < 10 * len(data)


@pytest.mark.parametrize("name", ["line.txt", "line.json"])
async def test_a_single_line_of_100_mb_is_refused_in_bounded_memory(sandbox: Sandbox, name: str) -> None:
    data = LONG_LINES[name](100 * MB)
    tracemalloc.start()
    try:
        [outcome] = await outcomes(sandbox, [(name, data)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert is_as_expected(
        outcome, "refused: (over 50 million characters|more memory than a document may take); split it"
    )
    assert peak < 20 * MB


DEEP: list[tuple[str, bytes, str]] = [
    ("deep.json", b"[" * 100_000 + b"]" * 100_000, "refused: nested more than 60 levels deep"),
    ("objects.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "refused: nested more than 60 levels deep"),
    ("lines.jsonl", b"[" * 100_000, "refused: nested more than 60 levels deep"),
    ("deep.ipynb", b'{"cells":' + b"[" * 100_000, "refused: nested more than 60 levels deep"),
    ("divs.html", b"<div>" * 100_000 + b"x" + b"</div>" * 100_000, "refused: nested over 2000 deep"),
    ("tables.html", b"<table><tr><td>" * 20_000 + b"x", "refused: nested over 2000 deep"),
    ("attributes.html", b"<p " + b" ".join(b"a%d=1" % n for n in range(100_000)), "refused: attributes"),
    ("quotes.md", b">" * 50_000 + b" end", "end"),
    ("brackets.md", b"[" * 50_000 + b" end", "end"),
    ("links.md", b"[a](" * 20_000 + b" end", "end"),
    ("list.md", b"- " * 50_000 + b"end", "end"),
    ("steps.md", b"".join(b" " * (2 * n) + b"- a\n" for n in range(1_000)) + b"\nend", "end"),
    ("admonitions.md", b"".join(b"    " * n + b"!!! note\n" for n in range(500)) + b"\nend", "end"),
    ("front.md", b"---\n" + b"- " * 50_000 + b"a\n---\nend", "refused: not valid YAML"),
    ("aliases.yaml", ALIASES.encode(), "refused: too much text when its values are written out"),
    ("circle.yaml", b"a: &a [*a]\n", "refused: not valid YAML"),
    ("flow.yaml", b"[" * 100_000, "refused: exceeded maximum nesting depth"),
    ("keys.yaml", b"? " * 20_000, "refused: exceeded maximum nesting depth"),
    ("messages.eml", b"From: a@b.c\nContent-Type: message/rfc822\n\n" * 3_000 + b"x", "refused: nested too deeply"),
    ("addresses.eml", b"From: " + b"a@b.c, " * 50_000 + b"\n\nend", "end"),
    ("encoded.eml", b"From: a@b.c\nSubject: " + b"=?utf-8?q?a?= " * 20_000 + b"\n\nend", "end"),
    ("parameters.eml", b"From: a@b.c\nContent-Type: text/plain; " + b"a*0=b; " * 20_000 + b"\n\nend", "end"),
    ("brackets.py", b"(" * 100_000, r"\(\(\("),
    ("quotes.csv", b'"' * 200_001, '"""'),
    ("header.csv", b"a," * 5_000 + b"\n" + b"b\n" * 5_000, "b\nb"),
    ("delimiters.csv", b"," * 1_000_000, "refused: no text"),
]


@pytest.mark.parametrize(("name", "data", "expected"), DEEP, ids=[name for name, _, _ in DEEP])
async def test_what_is_nested_or_repeated_without_end_ends_in_time(
    sandbox: Sandbox, name: str, data: bytes, expected: str
) -> None:
    [outcome] = await outcomes(sandbox, [(name, data)])

    assert is_as_expected(outcome, expected)
    assert isinstance(outcome, CallerError) or len(outcome.text) < 4 * len(data)


@pytest.mark.parametrize("kind", ["docx", "pptx"])
async def test_xml_nested_without_end_is_refused(sandbox: Sandbox, kind: str) -> None:
    tags = 100_000
    data = inside(kind, lambda xml: xml.replace(WORD, "<b>" * tags + WORD + "</b>" * tags))

    [outcome] = await outcomes(sandbox, [(f"deep.{kind}", data)])

    assert is_as_expected(outcome, "refused: Excessive depth")


MISNAMED: list[tuple[str, bytes, str]] = [
    ("pdf.docx", SAMPLES["a.pdf"], r"refused: This is a PDF, .* send it as \.pdf"),
    ("pdf.md", SAMPLES["a.pdf"], r"refused: This is a PDF, .* send it as \.pdf"),
    ("docx.txt", SAMPLES["a.docx"], r"refused: This is a Word document, .* send it as \.docx"),
    ("docx.xlsx", SAMPLES["a.docx"], r"refused: This is a Word document, .* send it as \.docx"),
    ("xlsx.csv", SAMPLES["a.xlsx"], r"refused: This is an Excel workbook, .* send it as \.xlsx"),
    ("pptx.docx", SAMPLES["a.pptx"], r"refused: This is a PowerPoint presentation, .* send it as \.pptx"),
    ("epub.html", SAMPLES["a.epub"], r"refused: This is an EPUB book, .* send it as \.epub"),
    ("html.pdf", SAMPLES["a.html"], r"refused: This is an HTML page, .* send it as \.html"),
    ("html.docx", SAMPLES["a.html"], r"refused: This is an HTML page, .* send it as \.html"),
    ("html.csv", SAMPLES["a.html"], r"refused: This is an HTML page, .* send it as \.html"),
    ("html.md", SAMPLES["a.html"], SENTENCE),
    ("markdown.html", SAMPLES["a.md"], SENTENCE),
    ("text.md", SAMPLES["a.txt"], SENTENCE),
    ("json.yaml", SAMPLES["a.json"], SENTENCE),
    ("jsonl.json", SAMPLES["a.jsonl"], SENTENCE),
    ("text.pdf", SAMPLES["a.txt"], "refused: not a PDF"),
    ("text.docx", SAMPLES["a.txt"], "refused: no such file"),
    ("text.json", SAMPLES["a.txt"], "refused: not valid JSON"),
    ("png.pdf", PNG, "refused: This is a PNG picture, which is not read"),
    ("jpeg.docx", b"\xff\xd8\xff\xe0" + bytes(100), "refused: This is a JPEG picture, which is not read"),
    ("zip.md", zipped({"a.txt": "hello"}), "refused: This is a zip archive, which is not read"),
    ("zip.docx", zipped({"a.txt": "hello"}), r"refused: no Word document \(\.docx\)"),
    ("rtf.txt", b"{\\rtf1\\ansi hello}", "refused: This is an RTF document, which is not read"),
    ("outlook.eml", OLE, "refused: an Outlook message"),
    ("password.docx", OLE, "refused: encrypted .* without a password"),
    ("password.pptx", OLE, "refused: encrypted .* without a password"),
    ("password.xlsx", OLE, "refused: encrypted .* without a password"),
    ("password.pdf", CLOSED, "refused: needs a password to open; save it without a password"),
    ("program.txt", b"MZ\x90\0\x03" + bytes(100), "refused: is it a binary file"),
]


@pytest.mark.parametrize(("name", "data", "expected"), MISNAMED, ids=[name for name, _, _ in MISNAMED])
async def test_a_wrong_name_is_told_with_what_the_file_is(
    sandbox: Sandbox, name: str, data: bytes, expected: str
) -> None:
    [outcome] = await outcomes(sandbox, [(name, data)])

    assert is_as_expected(outcome, expected)


RUSSIAN = "Правила отпуска: тридцать дней в году, остальное без оплаты."
JAPANESE = "休暇の規則です。一年に三十日の休みがあります。残りは無給です。"
ENCODED: list[tuple[str, bytes, str]] = [
    ("random.txt", random.Random(7).randbytes(5_000), "refused: "),
    (
        "high.txt",
        bytes(random.Random(7).choices(range(128, 256), k=5_000)),
        "refused: encoding is unclear; save it as UTF-8",
    ),
    ("nul.txt", b"before\0after", "refused: NUL bytes"),
    ("nuls.csv", b"a,b\n1,\0\n", "refused: NUL bytes"),
    ("nul.json", b'{"a": "x\\u0000y"}', "a: x\ufffdy"),
    ("utf16.txt", "Thirty days of leave.".encode("utf-16-le"), "Thirty days of leave"),
    ("utf16be.md", "# Leave\n\nThirty days.".encode("utf-16-be"), "^Leave\n\nThirty days"),
    ("utf32.txt", "Thirty days of leave.".encode("utf-32"), "^Thirty days of leave"),
    ("utf32-without-mark.txt", "Thirty days of leave.".encode("utf-32-le"), "^Thirty days of leave"),
    ("cp1251.txt", RUSSIAN.encode("cp1251"), RUSSIAN),
    ("sjis.txt", JAPANESE.encode("shift_jis"), JAPANESE),
    ("mixed.txt", ("Grüße " * 50).encode() + ("Grüße " * 5).encode("cp1252"), "^(Grüße ?){55}$"),
    ("cut.txt", RUSSIAN.encode()[:-2], "остальное без оплат$"),
    ("broken.txt", RUSSIAN.encode().replace("г".encode(), b"\xd0"), "тридцать дней в \ufffdоду"),
    ("surrogate.txt", b"a \xed\xa0\x80 b", "^a \ufffd b"),
    ("emoji.txt", b"smile \xed\xa0\xbd\xed\xb8\x80", "^smile \U0001f600"),
    ("empty.txt", b"", "refused: no text"),
    ("blank.md", b" \n\t\n", "refused: no text"),
]


@pytest.mark.parametrize(("name", "data", "expected"), ENCODED, ids=[name for name, _, _ in ENCODED])
async def test_text_in_any_encoding_is_read_right_or_refused(
    sandbox: Sandbox, name: str, data: bytes, expected: str
) -> None:
    [outcome] = await outcomes(sandbox, [(name, data)])

    assert is_as_expected(outcome, expected)


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"a.py"}))  # a code file stands for its name
async def test_an_empty_file_of_any_format_is_refused(sandbox: Sandbox, name: str) -> None:
    [outcome] = await outcomes(sandbox, [(name, b"")])

    assert isinstance(outcome, CallerError)


NAMES = ["../../etc/passwd.md", "/etc/passwd.md", "a/../b.md", "C:\\x\\y.md", "a\nb.md", "a\0b.md", "\udcff.md"]


@pytest.mark.parametrize("name", [*NAMES, "x" * 10_000 + ".md"], ids=repr)
async def test_a_name_is_only_a_name(sandbox: Sandbox, name: str) -> None:
    [outcome] = await outcomes(sandbox, [(name, SAMPLES["a.md"])])

    assert is_as_expected(outcome, SENTENCE)


async def test_members_that_point_outside_the_archive_are_not_followed(sandbox: Sandbox) -> None:
    package = members_of(SAMPLES["a.epub"])["book.opf"]
    assert isinstance(package, bytes)
    pointing = package.decode().replace("one.xhtml", "../../../etc/passwd")
    book = zipped({**members_of(SAMPLES["a.epub"]), "book.opf": pointing, "../../etc/evil": b"x"})

    [outcome] = await outcomes(sandbox, [("book.epub", book)])

    assert is_as_expected(outcome, "refused: no text")


async def test_a_parser_that_does_not_end_is_ended_and_the_next_file_is_read() -> None:
    async with Sandbox(timeout_s=3) as sandbox:
        [outcome] = await outcomes(sandbox, [("slow.md", b"[" * 5_000_000)])

    assert is_as_expected(outcome, "refused: was not read within 3 s; split it")


@pytest.mark.parametrize("name", ["line.md", "line.html", "line.json", "line.csv"])
async def test_a_parser_that_eats_memory_is_refused_and_the_next_file_is_read(name: str) -> None:
    async with Sandbox(max_memory_bytes=400 * MB) as sandbox:
        [outcome] = await outcomes(sandbox, [(name, LONG_LINES[name](80 * MB))])

    assert is_as_expected(outcome, "refused: needs more memory.*; split it")
