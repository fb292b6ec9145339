"""PDF files as simple as they can be, made here; closed ones too."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
PERMISSIONS = -44
FILE_ID = b"0123456789abcdef"
Text = tuple[float, float, float, str]  # x, y from below, size, words


def drawn(texts: Sequence[Text], lines: Sequence[tuple[float, float, float, float]] = ()) -> bytes:
    """A page's content: texts in Helvetica, and straight lines."""
    shown = [f"BT /F1 {size} Tf {x} {y} Td ({words}) Tj ET" for x, y, size, words in texts]
    ruled = [f"{x0} {y0} m {x1} {y1} l S" for x0, y0, x1, y1 in lines]
    return "\n".join([*shown, *ruled]).encode("cp1252")


def pdf(*contents: bytes, info: str = "", encryption: str = "") -> bytes:
    """A PDF with a page for each content; the font F1 is Helvetica, F2 is bold."""
    kids = " ".join(f"{6 + 2 * n} 0 R" for n in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< {info} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    ]
    for n, content in enumerate(contents):
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {7 + 2 * n} 0 R"
        objects.append(f"{page} /Resources << /Font << /F1 3 0 R /F2 5 0 R >> >> >>".encode())
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    body = b"%PDF-1.4\n"
    places = []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    trailer = (
        f"<< /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R /ID [<{FILE_ID.hex()}> <{FILE_ID.hex()}>]{encryption} >>"
    )
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(body)}\n%%EOF\n"
    return body + end.encode()


def rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def encrypted(content: bytes, *, user: bytes, owner: bytes) -> bytes:
    """A page closed by the standard security handler of revision 2."""
    padded = (user + PADDING)[:32]
    owner_entry = rc4(hashlib.md5((owner + PADDING)[:32]).digest()[:5], padded)
    key = hashlib.md5(padded + owner_entry + struct.pack("<i", PERMISSIONS) + FILE_ID).digest()[:5]
    user_entry = rc4(key, PADDING)
    stream_key = hashlib.md5(key + (7).to_bytes(3, "little") + bytes(2)).digest()[:10]
    entries = f"/O <{owner_entry.hex()}> /U <{user_entry.hex()}> /P {PERMISSIONS}"
    return pdf(rc4(stream_key, content), encryption=f" /Encrypt << /Filter /Standard /V 1 /R 2 {entries} >>")
