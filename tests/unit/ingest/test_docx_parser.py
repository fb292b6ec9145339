from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from ingest.blocks import Parsed
from ingest.parsers.docx import parse_docx
from rag.errors import InvalidInput


def saved(document: Any) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def read(write: Callable[[Any], object]) -> Parsed:
    document = docx.Document()
    write(document)
    return parse_docx(saved(document))


def with_body(xml: str) -> Parsed:
    return read(lambda document: [document.element.body.insert(n, part) for n, part in enumerate(elements(xml))])


def elements(xml: str) -> list[Any]:
    spaces = nsdecls("w") + ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    return list(parse_xml(f"<w:body {spaces}>{xml}</w:body>"))


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def table_of(document: Any, rows: list[list[str]]) -> Any:
    table = document.add_table(len(rows), len(rows[0]))
    for cells, row in zip(table.rows, rows, strict=True):
        for cell, text in zip(cells.cells, row, strict=True):
            cell.text = text
    return table


def test_the_body_keeps_its_order_and_tables_stay_under_their_heading() -> None:
    def write(document: Any) -> None:
        document.core_properties.title = "Price list"
        document.core_properties.author = "Ann"
        document.add_heading("Prices", 1)
        document.add_paragraph("Above.")
        table_of(document, [["Item", "Size"], ["Bolt", "M4|M5"], ["Nut", ""]])
        document.add_paragraph("Below.")
        document.add_heading("Terms", 2)
        document.add_paragraph("Last.")

    parsed = read(write)

    assert [(block.kind, block.level) for block in parsed.blocks] == [
        ("heading", 1),
        ("paragraph", 0),
        ("table", 0),
        ("paragraph", 0),
        ("heading", 2),
        ("paragraph", 0),
    ]
    assert parsed.text == "Prices\n\nAbove.\n\nItem: Bolt; Size: M4|M5\nItem: Nut\n\nBelow.\n\nTerms\n\nLast."
    assert parsed.facets.title == "Price list"
    assert parsed.facets.metadata["author"] == "Ann"


def test_merged_cells_fill_what_they_cover_and_two_header_rows_are_joined() -> None:
    def write(document: Any) -> None:
        table = table_of(
            document,
            [["Team", "Score", ""], ["", "Home", "Away"], ["Reds", "1", "2"], ["", "3", "4"]],
        )
        table.cell(0, 0).merge(table.cell(1, 0))
        table.cell(0, 1).merge(table.cell(0, 2))
        table.cell(2, 0).merge(table.cell(3, 0))

    parsed = read(write)

    assert parsed.text == "Team: Reds; Score Home: 1; Score Away: 2\nTeam: Reds; Score Home: 3; Score Away: 4"


def test_a_table_in_a_cell_is_read_once_and_in_place() -> None:
    def write(document: Any) -> None:
        outer = table_of(document, [["Left", "Before"]])
        inner = outer.cell(0, 1).add_table(2, 2)
        for cell, text in zip([*inner.rows[0].cells, *inner.rows[1].cells], ("A", "B", "1", "2"), strict=True):
            cell.text = text

    assert read(write).text == "Left\n\nBefore\n\nA: 1; B: 2"


def test_lists_keep_their_bullets_levels_and_numbers() -> None:
    def write(document: Any) -> None:
        document.add_paragraph("You need:")
        document.add_paragraph("Wood", "List Bullet")
        document.add_paragraph("Nails", "List Bullet")
        document.add_paragraph("Then:")
        document.add_paragraph("Cut", "List Number")
        document.add_paragraph("Join", "List Number")

    parsed = read(write)

    assert parsed.text == "You need:\n\n- Wood\n- Nails\n\nThen:\n\n1. Cut\n2. Join"
    assert [block.caption for block in parsed.blocks if block.kind == "list"] == ["You need:", "Then:"]


def test_clause_numbers_that_word_counts_are_in_the_text_and_the_headings() -> None:
    levels = (("decimal", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)"))
    definition = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="{style}"/><w:lvlText w:val="{shown}"/></w:lvl>'
        for n, (style, shown) in enumerate(levels)
    )

    def write(document: Any) -> None:
        numbering = document.part.numbering_part.element
        numbering.insert(0, elements(f'<w:abstractNum w:abstractNumId="77">{definition}</w:abstractNum>')[0])
        numbering.append(elements('<w:num w:numId="77"><w:abstractNumId w:val="77"/></w:num>')[0])
        for level, style, text in (
            *((0, "Heading 1", "Fees"), (1, None, "Due at once."), (2, None, "in cash"), (2, None, "by card")),
            *((1, None, "Late fees."), (0, "Heading 1", "Law"), (1, None, "Local.")),
        ):
            properties = document.add_paragraph(text, style)._p.get_or_add_pPr()
            properties.append(
                elements(f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="77"/></w:numPr>')[0],
            )

    assert read(write).text == (
        "1. Fees\n\n1.1 Due at once.\n    (a) in cash\n    (b) by card\n  1.2 Late fees.\n\n2. Law\n\n2.1 Local."
    )


def test_outline_levels_of_own_styles_are_headings() -> None:
    def write(document: Any) -> None:
        style = document.styles.add_style("Chapter", WD_STYLE_TYPE.PARAGRAPH)
        style.element.get_or_add_pPr().append(elements('<w:outlineLvl w:val="1"/>')[0])
        based = document.styles.add_style("Wide chapter", WD_STYLE_TYPE.PARAGRAPH)
        based.base_style = style
        document.add_paragraph("Start", "Title")
        document.add_paragraph("Rules", "Wide chapter")
        document.add_paragraph("Text")

    assert [block.level for block in read(write).blocks] == [1, 2, 0]


def test_the_table_of_contents_is_not_read_twice() -> None:
    def write(document: Any) -> None:
        document.styles.add_style("toc 1", WD_STYLE_TYPE.PARAGRAPH)
        document.add_paragraph("Rules\t7", "toc 1")
        document.add_heading("Rules", 1)

    assert read(write).text == "Rules"


def test_headers_and_footers_of_all_sections_stand_once_and_page_numbers_do_not() -> None:
    def write(document: Any) -> None:
        document.sections[0].header.paragraphs[0].text = "Acme internal"
        document.sections[0].footer.paragraphs[0].text = "12"
        document.add_paragraph("Body.")
        section = document.add_section()
        section.header.is_linked_to_previous = False
        section.header.paragraphs[0].text = "Acme internal"

    assert read(write).text == "Acme internal\n\nBody."


def test_insertions_are_read_and_deletions_and_hidden_text_are_not() -> None:
    parsed = with_body(
        f"<w:p>{run('Pay ')}<w:del><w:r><w:delText>ten</w:delText></w:r></w:del><w:ins>{run('five')}</w:ins>"
        f"<w:hyperlink>{run(' euros')}</w:hyperlink><w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r>"
        "<w:r><w:tab/><w:t>now</w:t><w:br/><w:t>here</w:t></w:r></w:p>"
        f"<w:sdt><w:sdtContent><w:p>{run('Form field')}</w:p></w:sdtContent></w:sdt>"
    )

    assert parsed.text == "Pay five euros now\nhere\n\nForm field"


def test_a_text_box_is_read_once_after_its_paragraph() -> None:
    box = f"<w:txbxContent><w:p>{run('Boxed')}</w:p></w:txbxContent>"
    alternates = (
        f"<mc:AlternateContent><mc:Choice Requires='wps'>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent>"
    )

    parsed = with_body(f"<w:p>{run('Around')}<w:r>{alternates}</w:r></w:p><w:p>{run('After')}</w:p>")

    assert parsed.text == "Around\n\nBoxed\n\nAfter"


def test_comments_follow_the_paragraph_they_are_on() -> None:
    def write(document: Any) -> None:
        paragraph = document.add_paragraph("Ten days.")
        document.add_comment(paragraph.runs, "Was five.", author="Bo")
        document.add_paragraph("End.")

    assert read(write).text == "Ten days.\n\nComment by Bo: Was five.\n\nEnd."


def test_footnotes_follow_the_paragraph_they_are_on() -> None:
    note = (
        f'<w:footnotes {nsdecls("w")}><w:footnote w:id="5"><w:p>{run("Net of tax.")}</w:p></w:footnote></w:footnotes>'
    )
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"

    def write(document: Any) -> None:
        paragraph = document.add_paragraph("Ten euros.")
        paragraph._p.append(elements('<w:r><w:footnoteReference w:id="5"/></w:r>')[0])
        document.add_paragraph("End.")
        part = Part(PackURI("/word/footnotes.xml"), "application/xml", note.encode())
        document.part.relate_to(part, kind)

    assert read(write).text == "Ten euros.\n\nNet of tax.\n\nEnd."


def without(data: bytes, part: str, replacement: bytes | None = None) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
            elif replacement is not None:
                new.writestr(name, replacement)
    return file.getvalue()


WHOLE = saved(docx.Document())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "damaged"),
        (b"plain text", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "encrypted or in a format before 2007"),
        (WHOLE[: len(WHOLE) // 2], "damaged"),
        (without(WHOLE, "[Content_Types].xml"), "no Word document"),
        (without(WHOLE, "word/document.xml"), "no Word document"),
        (without(WHOLE, "word/document.xml", b"<broken"), "no Word document"),
        (without(WHOLE, "word/document.xml", b" " * 20_000_000), "unpacks"),
        (without(WHOLE, "word/document.xml", b"<a>" * 5000 + b"</a>" * 5000), "no Word document"),
        (WHOLE, "no text"),
    ],
)
def test_what_is_no_readable_document_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_docx(data)
