from __future__ import annotations

import pytest

from ingest.parsers.encodings import decode_text
from rag.errors import InvalidInput

ENGLISH = "Fees rise.\r\nTwo percent."
GERMAN = "Der Betrag für Zürich beträgt 12 €;\nÜberweisung möglich."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_is_read_with_and_without_its_mark_and_line_ends_are_lf(encoding: str) -> None:
    assert decode_text(ENGLISH.encode(encoding)) == "Fees rise.\nTwo percent."


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", GERMAN),
        ("cp1252", "café!"),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
        ("cp1251", "Привет мир, это текст на русском языке."),
        ("koi8-r", "Привет мир, это текст на русском языке."),
        ("shift_jis", "これは日本語のテキストです。東京都に住んでいます。"),
        ("gb18030", "这是中文文本，我们住在北京。数据库连接错误。"),
    ],
)
def test_older_encodings_are_told_by_their_letters(encoding: str, text: str) -> None:
    assert decode_text(text.encode(encoding)) == text


def test_a_mark_inside_the_text_stays() -> None:
    assert decode_text("\ufeffa\ufeffb".encode()) == "a\ufeffb"


@pytest.mark.parametrize(
    "data", [b"ab\0c", bytes(range(256)) * 8, b"\x7fELF\x02\x01\0\0\0", b"\xff\xfea", bytes(range(128, 256)) * 20]
)
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_text(data)
