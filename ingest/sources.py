"""The documents under paths: files of a folder by their relative names, or the rows of a JSONL file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from ingest.parsers import READABLE_SUFFIXES
from ingest.pipeline import Result, Source, refused
from rag.errors import InvalidInput, TooLarge
from rag.formats import SUFFIXES

MAX_FILE_BYTES = 256 * 2**20  # read whole, and kept in the queue until it is ingested
MAX_FIRST_ROW = 16 * 2**20  # bytes that are read of it to see whether a file has a document in each row
LINK = "link to a folder"  # not followed: it may lead anywhere, and round in circles
UNREADABLE = "unreadable"  # the code of what the file system would not give
_MARKDOWN = re.compile(r"\A---\n.+?\n---\n|(?:\A|\n\n)#{1,6} \S[^\n]*\n\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """A place where a document is: `row` counts from 1 in a JSONL file."""

    external_id: str
    path: Path
    row: int | None = None
    line: bytes = b""

    def size_bytes(self) -> int:
        """The size of what will be read, 0 when it cannot be told: reading it will say so."""
        if self.row is not None:
            return len(self.line)
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


@dataclass(slots=True)
class Listing:
    """What is under paths: documents, why other names there are not read, and folders that cannot be listed."""

    found: list[Found] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    unlisted: list[Result] = field(default_factory=list)

    def other_kinds(self) -> Counter[str]:
        """How many files of each kind are not read, hidden ones left out."""
        return Counter(kind for name, kind in self.others.items() if not PurePosixPath(name).name.startswith("."))


def find_files(paths: Sequence[Path]) -> Listing:
    """Every readable file: those of a folder named relative to it, in order; a file given by itself by its name.

    Raises InvalidInput for a path that does not exist, and for paths without a readable file.
    """
    listing = Listing()
    for path in paths:
        if path.is_dir():
            _list(path, listing)
        elif path.exists():
            listing.found.append(Found(path.name, path))
        else:
            raise InvalidInput(f"{path} does not exist")
    if not listing.found:
        raise InvalidInput("; ".join(f.reason for f in listing.unlisted) or f"no readable file there; {_kinds_read()}")
    return listing


def find_all(directory: Path, *, perhaps_none: bool) -> Listing:
    """Every readable file of the directory, named relative to it; *perhaps_none* allows that there is none.

    Raises InvalidInput when the list cannot be trusted to be whole.
    """
    if not directory.is_dir():
        raise InvalidInput(f"{directory} {'is no directory' if directory.exists() else 'does not exist'}")
    listing = Listing()
    _list(directory, listing)
    links = [f"{name} is a link to a folder, which is not followed" for name, k in listing.others.items() if k == LINK]
    if unsure := [*(failure.reason for failure in listing.unlisted), *links]:
        raise InvalidInput(
            f"{unsure[0]}, so nobody can say what is gone; nothing was changed. Make it a folder that can be read, or"
            " leave out --sync"
        )
    if not listing.found and not perhaps_none:
        raise InvalidInput(
            f"no readable file in {directory}, as when a share is not mounted; nothing was changed. --delete-all"
            f" deletes every document of the folder; {_kinds_read()}"
        )
    return listing


def _list(directory: Path, listing: Listing) -> None:
    errors: list[OSError] = []
    walk = list(os.walk(directory, onerror=errors.append))
    for link in (Path(at, name) for at, folders, _ in walk for name in folders if os.path.islink(Path(at, name))):
        listing.others[link.relative_to(directory).as_posix()] = LINK
    for file in sorted(Path(folder, name) for folder, _, names in walk for name in names):
        external_id = file.relative_to(directory).as_posix()
        if reason := _not_read(file):
            listing.others[external_id] = reason
        else:
            listing.found.append(Found(external_id, file))
    for error in errors:
        name = f"{Path(error.filename).relative_to(directory).as_posix()}/"
        reason = f"{error.filename} cannot be listed: {error.strerror}"
        listing.unlisted.append(Result(name, "failed", code=UNREADABLE, reason=reason))


def _not_read(file: Path) -> str:
    """The kind of a file that is not read, empty for one that is."""
    try:
        mode = file.stat().st_mode
    except OSError as exc:  # of another one, reading it will say what is wrong
        return "broken link" if exc.errno in {errno.ENOENT, errno.ELOOP} else ""
    if not stat.S_ISREG(mode):
        return "special file"
    suffix = file.suffix.lower()
    return "" if suffix in READABLE_SUFFIXES else suffix or "no suffix"


def _kinds_read() -> str:
    return f"the kinds read are {', '.join(sorted(READABLE_SUFFIXES))}"


def find_rows(paths: Sequence[Path]) -> Iterator[Found]:
    """Every row of JSONL files with `_id`, `title`, `text` and perhaps `metadata`; blank lines are skipped.

    Raises InvalidInput, before the first row, for a file that cannot be opened.
    """
    for path in paths:
        try:
            path.open("rb").close()
        except OSError as exc:
            raise InvalidInput(f"{path} cannot be read as JSONL: {exc}") from exc
    return _rows(paths)


def _rows(paths: Sequence[Path]) -> Iterator[Found]:
    for path in paths:
        with path.open("rb") as lines:
            yield from (Found(f"{path.name}:{n}", path, n, line) for n, line in enumerate(lines, 1) if line.strip())


def may_be_rows(found: Found) -> bool:
    """Whether a file that is taken for one document may have one in each row: the first of them is one."""
    if found.row is not None or SUFFIXES.get(found.path.suffix.lower()) != "jsonl":
        return False
    try:
        with found.path.open("rb") as file:
            rows = (line for line in iter(partial(file.readline, MAX_FIRST_ROW), b"") if line.strip())
            _row(Found(found.external_id, found.path, 1, next(rows, b"")))
    except (OSError, InvalidInput):
        return False
    return True


def load(found: Found) -> Source | Result:
    """The document, or the failed result that says why it cannot be read."""
    try:
        if found.row is not None:
            return _row(found)
        return _too_large(found) or Source(found.external_id, found.path.read_bytes())
    except (OSError, InvalidInput) as exc:
        return Result(found.external_id, "failed", code=UNREADABLE, reason=str(exc))


def fingerprint(found: Found, folder: str) -> bytes | Result:
    """The fingerprint of what `load` reads of a file, without holding it in memory, or the failed result."""
    source = Source(found.external_id, b"", folder=folder)
    if failed := refused(source) or _too_large(found):
        return failed
    try:
        with found.path.open("rb") as file:
            return hashlib.file_digest(file, source.hashed).digest()
    except OSError as exc:
        return Result(found.external_id, "failed", code=UNREADABLE, reason=str(exc))


def refuse_repeated(item: Source | Result, seen: set[str]) -> Source | Result:
    """The item; a second document of the same id is a failure, not a silent replacement."""
    if item.external_id in seen and isinstance(item, Source):
        return Result(item.external_id, "failed", code="duplicate_id", reason="another document has this id")
    seen.add(item.external_id)
    return item


def _too_large(found: Found) -> Result | None:
    if found.size_bytes() <= MAX_FILE_BYTES:
        return None
    reason = f"over {MAX_FILE_BYTES // 2**20} MB; split it"
    return Result(found.external_id, "failed", code=TooLarge.code, reason=reason)


def _row(found: Found) -> Source:
    try:
        row = json.loads(found.line)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"not JSON that can be read: {exc}") from exc
    if not isinstance(row, dict) or not isinstance(row.get("_id"), str) or not isinstance(row.get("text"), str):
        raise InvalidInput("a row needs `_id` and `text`, both text")
    title, metadata = row.get("title") or "", row.get("metadata") or {}
    stated = row.get("content_type")
    if not isinstance(title, str) or not isinstance(metadata, dict) or not isinstance(stated, str | None):
        raise InvalidInput("`title` and `content_type` must be text and `metadata` an object")
    text = row["text"] if row["text"].strip() else title
    scalars = {key: value for key, value in metadata.items() if isinstance(value, str | int | float | bool)}
    kind = stated or _kind_of(text)
    return Source(row["_id"], text.encode(errors="surrogatepass"), kind, {"title": title, "metadata": scalars})


def _kind_of(text: str) -> str:
    """Markdown when the text has front matter or a heading under a blank line, which code comments rarely are."""
    return "text/markdown" if _MARKDOWN.search(text) else "text/plain"
