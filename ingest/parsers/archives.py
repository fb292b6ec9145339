"""Zip files that are safe to unpack."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib

from rag.errors import InvalidInput

MAX_MEMBERS = 10_000
MAX_UNPACKED_BYTES = 200 * 1024 * 1024
MAX_RATIO = 200
RATIO_FLOOR_BYTES = 1024 * 1024  # a smaller file of blanks may well shrink more
# what zipfile lets through for damaged members: bad headers, unknown methods, passwords, broken streams
DAMAGE = (
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
)
CHUNK_BYTES = 1024 * 1024


def open_archive(data: bytes) -> zipfile.ZipFile:
    """The archive in *data*, all of it within the limits by what it declares and by what it really holds.

    Raises InvalidInput.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise InvalidInput(f"This file packs {len(members)} parts, over the limit of {MAX_MEMBERS}.")
        _check_size(sum(member.file_size for member in members), len(data))
        _check_size(_real_size(archive, members, len(data)), len(data))
    except DAMAGE as exc:
        raise InvalidInput(f"This file is cut short, damaged or no such file ({exc}); save and send it again.") from exc
    return archive


def _real_size(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], packed: int) -> int:
    total = 0
    for member in members:
        with archive.open(member) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                total += len(chunk)
                _check_size(total, packed)
    return total


def _check_size(unpacked: int, packed: int) -> None:
    if unpacked > MAX_UNPACKED_BYTES or (unpacked > RATIO_FLOOR_BYTES and unpacked > MAX_RATIO * packed):
        raise InvalidInput(f"This file unpacks to over {unpacked >> 20} MB from {packed >> 10} kB; it is not read.")
