"""Bytes of text formats to text: byte order mark, UTF-8 even if damaged, UTF-16, then charset detection."""

from __future__ import annotations

import codecs
import re
import unicodedata

from charset_normalizer import CharsetMatch, from_bytes

from rag.errors import InvalidInput

BOMS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# of encodings that explain the bytes equally well, the earlier is the likelier
CHARSETS = (
    *("cp1252", "cp1250", "cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949"),
    *("cp1253", "cp1254", "cp1255", "cp1256", "iso8859_15", "iso8859_2", "cp850", "mac_roman"),
)
MAX_MESS = 0.1  # share of unlikely character sequences; wrong guesses on real text lie above
SAME_MESS = 0.02
SAMPLE_BYTES = 64 * 1024
MIN_GOOD = 4  # characters of valid UTF-8 for each byte that is none; other encodings have hardly any by chance
ESCAPED = re.compile("[\udc80-\udcff]")  # how Python marks bytes that are no UTF-8
LAYOUT = "\t\n\r\f\x0b\x1c\x1d\x1e\x85"


def decode_text(data: bytes) -> str:
    """The text in *data* with LF line ends and without its byte order mark.

    Raises InvalidInput for bytes that are no text, or text in an encoding that cannot be told.
    """
    text = _decode(data)
    if "\0" in text:
        raise InvalidInput("This file contains NUL bytes; is it a binary file?")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes) -> str:
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return _decode_as(data, encoding)
    if b"\0" in data:
        return _utf32(data) or _utf16(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        return _surrogates(data) or _damaged_utf8(data) or _decode_as(data, _charset(data, exc.start))


def _decode_as(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"This file is not valid {encoding.upper()} at byte {exc.start}; save it as UTF-8.") from exc


def _surrogates(data: bytes) -> str:
    """The text of UTF-8 that spells out surrogates, as some databases export emoji; nothing if it is not that."""
    try:
        return data.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except UnicodeDecodeError:
        return ""


def _damaged_utf8(data: bytes) -> str:
    """The text of what is UTF-8 but for a few bytes; nothing if it is another encoding."""
    # not final: a character that is cut at the end of the file is left away
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data)
    valid = ESCAPED.sub("", text)
    beyond_ascii = len(valid) - len(valid.encode("ascii", "ignore"))
    if MIN_GOOD * (len(text) - len(valid)) >= beyond_ascii:
        return ""
    is_western = all(c.encode("cp1252", "ignore") for c in set(valid))  # so the odd bytes are most likely too
    encoding = "cp1252" if is_western else "ascii"
    return ESCAPED.sub(lambda match: bytes([ord(match[0]) - 0xDC00]).decode(encoding, "replace"), text)


def _utf32(data: bytes) -> str:
    """UTF-32 without a mark: of four bytes, one or two are always zero; nothing if it is not that."""
    for encoding, top in (("utf-32-le", data[3::4]), ("utf-32-be", data[::4])):
        if len(data) % 4 == 0 and not top.strip(b"\0"):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                continue
    return ""


def _utf16(data: bytes) -> str:
    """UTF-16 without a mark: the zero bytes of Latin letters and blanks are all on one side."""
    even, odd = data[::2].count(0), data[1::2].count(0)
    only_ascii = data.replace(b"\0", b"").isascii()
    if min(even, odd) or len(data) % 2 or (only_ascii and 2 * (even + odd) < len(data)):
        return "\0"
    try:
        text = data.decode("utf-16-be" if even else "utf-16-le")
    except UnicodeDecodeError:
        return "\0"
    return text if all(c in LAYOUT or unicodedata.category(c) not in ("Cc", "Cn", "Co") for c in text) else "\0"


def _charset(data: bytes, bad_byte: int) -> str:
    sample = _sample(data)
    matches = from_bytes(sample, cp_isolation=list(CHARSETS), threshold=MAX_MESS, preemptive_behaviour=False)
    if not matches:
        raise InvalidInput(f"This file is not UTF-8 at byte {bad_byte}, and its encoding is unclear; save it as UTF-8.")
    least = min(match.chaos for match in matches)
    return min((match for match in matches if match.chaos <= least + SAME_MESS), key=_rank).encoding


def _rank(match: CharsetMatch) -> tuple[float, int]:
    return -round(match.coherence, 1), CHARSETS.index(match.encoding)


def _sample(data: bytes) -> bytes:
    """The first lines with bytes beyond ASCII: only they tell encodings apart."""
    lines: list[bytes] = []
    size = 0
    for line in data.splitlines():
        if not line.isascii():
            lines.append(line)
            size += len(line)
        if size > SAMPLE_BYTES:
            break
    return b"\n".join(lines)[: 4 * SAMPLE_BYTES]
