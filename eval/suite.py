"""Golden questions: read, and checked before the first request."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from eval.errors import CannotRun
from eval.matching import contains, same

QuestionType = Literal[
    "identifier",
    "paraphrase",
    "table",
    "comparison",
    "multi_hop",
    "version",
    "date",
    "filter",
    "group",
    "unanswerable",
]
Documents = Mapping[str, str]
Item = TypeVar("Item")


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Words = Annotated[str, Field(pattern=r"\S")]
Moment = Annotated[str, AfterValidator(_moment)]


class Strict(BaseModel):
    """A frozen value read from a file; a field it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Gold(Strict):
    """Where an answer stands: words of one paragraph or table row of a document."""

    document: Words
    passage: Words


class Question(Strict):
    """One labelled question, with what its asker may see."""

    id: Words
    tenant: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    type: QuestionType
    question: Words
    gold: tuple[Gold, ...]
    filters: dict[str, Any] | None = None
    as_of: Moment | None = None
    groups: tuple[str, ...] = ()


class _SuiteFile(Strict):
    corpus: Words
    questions: list[dict[str, Any]] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Suite:
    """Checked questions over a folder of documents by tenant; `sha256` changes with either."""

    corpus: Path
    questions: tuple[Question, ...]
    sha256: str


def load(path: Path) -> Suite:
    """The suite at *path*; CannotRun lists every fault of it at once."""
    try:
        raw = path.read_bytes()
        file = _SuiteFile.model_validate_json(raw)
    except OSError as exc:
        raise CannotRun(f"the suite cannot be read: {exc}") from exc
    except ValidationError as exc:
        raise CannotRun(_listed(path, _faults(path.name, exc))) from exc
    corpus = path.parent / file.corpus
    questions, faults = _parse(file.questions)
    documents = {tenant: _documents(corpus / tenant) for tenant in sorted({q.tenant for q in questions})}
    faults += [f"{id_}: the id is used {n} times" for id_, n in Counter(q.id for q in questions).items() if n > 1]
    faults += [f"{q.id}: {fault}" for q in questions for fault in _contradictions(q, documents[q.tenant])]
    if faults:
        raise CannotRun(_listed(path, faults))
    return Suite(corpus, tuple(questions), _digest(raw, documents))


def _parse(records: Sequence[dict[str, Any]]) -> tuple[list[Question], list[str]]:
    questions, faults = [], []
    for position, record in enumerate(records, 1):
        try:
            questions.append(Question.model_validate_json(json.dumps(record)))
        except ValidationError as exc:
            faults += _faults(str(record.get("id") or f"question {position}"), exc)
    return questions, faults


def _contradictions(question: Question, documents: Documents) -> Iterator[str]:
    if not documents:
        yield f"the corpus has no documents of tenant {question.tenant}"
    if question.type == "unanswerable" and question.gold:
        yield "unanswerable, yet it has gold"
    if question.type != "unanswerable" and not question.gold:
        yield "no gold; only an unanswerable question has none"
    if any(a.document == b.document and same(a.passage, b.passage) for a, b in combinations(question.gold, 2)):
        yield "the same gold passage is named twice"
    for gold in question.gold:
        if gold.document not in documents:
            yield f"no document {gold.document}"
        elif not contains(documents[gold.document], gold.passage):
            yield f"{gold.document} does not contain {gold.passage!r}"


def _documents(folder: Path) -> Documents:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8", errors="replace") for path in files}


def _digest(raw: bytes, documents: Mapping[str, Documents]) -> str:
    return hashlib.sha256(raw + json.dumps(documents, sort_keys=True).encode()).hexdigest()


def _faults(where: str, exc: ValidationError) -> list[str]:
    return [f"{where}: {'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()]


def _listed(path: Path, faults: Iterable[str]) -> str:
    return "\n  ".join([f"the suite {path} has faults:", *faults])


def spread(items: Sequence[Item], limit: int | None) -> tuple[Item, ...]:
    """*limit* of the items at even distances: files are often ordered by kind, so the first ones are no sample."""
    count = min(limit or len(items), len(items))
    return tuple(items[n * len(items) // count] for n in range(count))
