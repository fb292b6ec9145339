from __future__ import annotations

from email.message import EmailMessage

import pytest

from ingest.parsers.eml import parse_eml
from rag.errors import InvalidInput
from rag.storable import storable


def message(subject: str = "Lunch", body: str = "At noon.") -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ann <ann@example.org>"
    mail["To"] = "bo@example.org, Cy <cy@example.org>"
    mail["Subject"] = subject
    mail["Date"] = "Tue, 03 Feb 2026 09:00:00 +0100"
    mail.set_content(body)
    return mail


def test_headers_are_metadata_and_stand_above_the_body() -> None:
    parsed = parse_eml(message("Grüße", "One.\n\n> Two\n> three\n").as_bytes())

    assert parsed.text == (
        "Grüße\n\nFrom: Ann <ann@example.org>\nTo: bo@example.org, Cy <cy@example.org>\n"
        "Date: Tue, 03 Feb 2026 09:00:00 +0100\n\nOne.\n\n> Two\n> three"
    )
    assert parsed.facets.title == "Grüße"
    assert parsed.facets.metadata == {
        "from": "Ann <ann@example.org>",
        "to": "bo@example.org, Cy <cy@example.org>",
        "subject": "Grüße",
        "created": "2026-02-03T09:00:00+01:00",
    }


def test_plain_text_is_preferred_to_html_and_an_empty_one_is_not() -> None:
    both, html_only = message(body="Plain."), message(body="\n")
    both.add_alternative("<p>Rich.</p>", subtype="html")
    html_only.add_alternative("<h1>Menu</h1><p>Rich.</p>", subtype="html")

    assert parse_eml(both.as_bytes()).text.endswith("\n\nPlain.")
    assert parse_eml(html_only.as_bytes()).text.endswith("\n\nMenu\n\nRich.")


def test_attachments_are_named_and_those_of_text_are_read_once() -> None:
    mail = message()
    mail.add_attachment("Soup: 3\n", filename="menu.txt")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="bill.pdf")

    parsed = parse_eml(mail.as_bytes())

    assert parsed.text.endswith("At noon.\n\nmenu.txt\n\nSoup: 3\n\nAttachment: bill.pdf")
    assert parsed.warnings == ("the attachment bill.pdf (application/pdf) is not read; upload it by itself",)


def test_files_put_inside_the_html_alternative_are_read_too() -> None:
    data = (
        b"Subject: s\nContent-Type: multipart/alternative; boundary=a\n\n--a\nContent-Type: text/plain\n\nPlain.\n"
        b"--a\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>Plain.\n"
        b"--b\nContent-Type: text/plain; name=n.txt\n\nNote.\n--b--\n--a--\n"
    )

    assert parse_eml(data).text == "s\n\nPlain.\n\nn.txt\n\nNote."


def test_an_attached_message_stands_under_its_subject() -> None:
    mail = message()
    mail.add_attachment(message("Before", "Earlier."))

    parsed = parse_eml(mail.as_bytes())

    headings = [(parsed.of(block), block.level) for block in parsed.blocks if block.kind == "heading"]
    assert headings == [("Lunch", 1), ("Before", 2)]
    assert parsed.text.endswith("\n\nEarlier.")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (b"Content-Type: text/plain; charset=koi8-r\n\n" + "Привет".encode("koi8-r"), "Привет"),
        (b"Content-Type: text/plain; charset=us-ascii\n\n" + "Grüße".encode("cp1252"), "Grüße"),
        (b"Content-Type: text/plain; charset=made-up\n\n" + "Grüße".encode(), "Grüße"),
        (b'Content-Type: text/plain; charset="a\\0b"\n\nWords.', "Words."),
        (b"Content-Type: text/plain; charset=iso-2022-jp\n\n" + "日本".encode("iso-2022-jp"), "日本"),
        (b"Content-Type: text/plain; charset=unicode_escape\n\na\\ud800b", "a\\ud800b"),
        (b"Content-Transfer-Encoding: base64\n\nV29yZHMu!!", "Words."),
        (b"Content-Transfer-Encoding: quoted-printable\n\n=57ords=ZZ", "Words=ZZ"),
        (b"Content-Type: ;;;\nDate: nonsense\n\nWords.", "Date: nonsense\n\nWords."),
        (b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nNever closed.", "Never closed."),
        (b"Content-Type: multipart/mixed\n\nNo boundary.", "No boundary."),
        (b"Content-Type: text/plain\n\nbeep\x00.", "beep."),
    ],
)
def test_wrong_encodings_and_broken_parts_still_give_their_text(part: bytes, text: str) -> None:
    parsed = parse_eml(b"Subject: =?utf-8?q?Caf=C3=A9?=\n" + part)

    assert parsed.text == f"Café\n\n{text}"
    assert storable(parsed.text)


def test_header_bytes_beyond_ascii_can_be_stored() -> None:
    parsed = parse_eml(b"From: \xff <a@b>\nSubject: caf\xc3\xa9 =?utf-8?b?////?=\nTo: [[\n\nx")

    assert storable(parsed.facets.metadata)
    assert parsed.facets.title.startswith("caf")


@pytest.mark.parametrize("data", [b"", b"  \n\n  \n", b"Just words.\nNo headers.", "Nur Wörter.".encode("utf-16")])
def test_what_has_no_mail_headers_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="no e-mail message"):
        parse_eml(data)


def test_parts_nested_without_end_are_refused() -> None:
    levels = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(1000))

    with pytest.raises(InvalidInput, match="nested too deeply"):
        parse_eml(f"Subject: deep\n{levels}".encode())


def test_messages_attached_too_deep_are_left_out_with_a_warning() -> None:
    levels = "".join(f"Subject: s{n}\nContent-Type: message/rfc822\n\n" for n in range(50))

    parsed = parse_eml(levels.encode())

    assert parsed.text.endswith("\n\ns20")
    assert parsed.warnings == ("messages attached over 20 deep are not read",)
