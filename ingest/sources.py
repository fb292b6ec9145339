"""The documents under paths: files of a folder by their relative names, or the rows of a JSONL file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.parsers import READABLE_SUFFIXES
from ingest.pipeline import Result, Source
from rag.errors import InvalidInput, TooLarge

MAX_FILE_BYTES = 256 * 2**20  # read whole, and kept in the queue until it is ingested
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


def other_kinds(paths: Sequence[Path]) -> Counter[str]:
    """How many files of each suffix that is not read are in the folders, hidden ones left out."""
    files = (file for path in paths if path.is_dir() for file in path.rglob("*"))
    shown = (file for file in files if file.is_file() and not file.name.startswith("."))
    return Counter(file.suffix.lower() or "no suffix" for file in shown if file.suffix.lower() not in READABLE_SUFFIXES)


def find_files(paths: Sequence[Path]) -> list[Found]:
    """Every readable file: those of a folder named relative to it, in order; a file given by itself by its name.

    Raises InvalidInput for a path that does not exist, and for paths without a readable file.
    """
    found: list[Found] = []
    for path in paths:
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.suffix.lower() in READABLE_SUFFIXES and p.is_file())
            found += [Found(file.relative_to(path).as_posix(), file) for file in files]
        elif path.exists():
            found.append(Found(path.name, path))
        else:
            raise InvalidInput(f"{path} does not exist")
    if not found:
        raise InvalidInput(f"no readable file there; the kinds read are {', '.join(sorted(READABLE_SUFFIXES))}")
    return found


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


def load(found: Found) -> Source | Result:
    """The document, or the failed result that says why it cannot be read."""
    try:
        if found.row is not None:
            return _row(found)
        if found.size_bytes() > MAX_FILE_BYTES:
            reason = f"over {MAX_FILE_BYTES // 2**20} MB; split it"
            return Result(found.external_id, "failed", code=TooLarge.code, reason=reason)
        return Source(found.external_id, found.path.read_bytes())
    except (OSError, InvalidInput) as exc:
        return Result(found.external_id, "failed", code="unreadable", reason=str(exc))


def refuse_repeated(item: Source | Result, seen: set[str]) -> Source | Result:
    """The item; a second document of the same id is a failure, not a silent replacement."""
    if item.external_id in seen and isinstance(item, Source):
        return Result(item.external_id, "failed", code="duplicate_id", reason="another document has this id")
    seen.add(item.external_id)
    return item


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
