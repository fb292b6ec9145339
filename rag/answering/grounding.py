"""Whether a source supports what an answer claims of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag.analysis import analyse, identifiers
from rag.answering.claims import Clause
from rag.errors import SetupError, UpstreamError
from rag.protocols import Reranker
from rag.sentences import sentences
from rag.telemetry import log
from rag.values import Deadline, Passage

# Chosen on tests/unit/rag/judged_claims.py: half of a claim's words in the sentence it rests on or beside it; with
# fewer, the cross-encoder must find that sentence an answer to the claim. A claim of two sources takes from each.
COVERED, COVERED_OF_EACH = 0.5, 0.2
LOGIT = 2.0
LIKE = 0.3
SAME_WORDS = 0.8  # above which two sentences differ in little but a "not"

_NUMBER = re.compile(r"\d+(?:[.,'\u00a0\u202f]\d+)*")
_THOUSANDS = re.compile(r"(?<=\d)[.,'\u00a0\u202f](?=\d{3}(?!\d))")
_NO_CENTS = re.compile(r"\.0+\Z")
_LIST_NUMBER = re.compile(r"\A\W*\d+[.)]\s")
_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|cannot|without|\w+n['\u2019]t)\b", re.IGNORECASE)
_IN_WORDS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"  # noqa: SIM905
        " seventeen eighteen nineteen twenty".split()
    )
}
_VAGUE = frozenset(("one", "yes", "no"))  # "one of them" counts nothing
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Place:
    """The sentence of a source that a claim rests on, at [start, end) of the passage.

    `terms` are its own, `around` and `terms_around` with those of headings and of the sentences beside it; `near` is
    what the claim's facts must stand in: all that, and other sentences that share its words.
    """

    start: int
    end: int
    text: str
    terms: frozenset[str]
    around: str
    terms_around: frozenset[str]
    near: str


class Source:
    """A passage, read sentence by sentence once for all claims."""

    def __init__(self, passage: Passage) -> None:
        """Read *passage*."""
        self.passage = passage
        self._headings = " ".join((passage.chunk.title, *passage.chunk.breadcrumb))
        self._heading_terms = frozenset(analyse(self._headings))
        self._sentences = list(sentences(passage.text)) or [(0, "")]
        self._terms = [frozenset(analyse(text)) for _, text in self._sentences]
        self._places: dict[str, Place] = {}

    def place(self, claim: str) -> Place:
        """Where the claim stands word for word, or else the sentence that shares most terms with it."""
        if claim not in self._places:
            at = self.passage.text.find(claim) if claim else -1
            self._places[claim] = self._likest(claim) if at < 0 else _verbatim(claim, at)
        return self._places[claim]

    def _likest(self, claim: str) -> Place:
        terms = frozenset(analyse(claim))
        shared = [len(terms & own) for own in self._terms]
        best = max(range(len(shared)), key=shared.__getitem__)
        beside = slice(max(0, best - 1), best + 2)
        around = " ".join((self._headings, *(text for _, text in self._sentences[beside])))
        like = (text for n, (_, text) in enumerate(self._sentences) if shared[n] >= LIKE * len(terms))
        start, text = self._sentences[best]
        return Place(
            start,
            start + len(text),
            text,
            terms=self._terms[best],
            around=around,
            terms_around=self._heading_terms.union(*self._terms[beside]),
            near=" ".join((around, *like)),
        )


def _verbatim(claim: str, at: int) -> Place:
    terms = frozenset(analyse(claim))
    return Place(at, at + len(claim), claim, terms, around=claim, terms_around=terms, near=claim)


def facts(text: str) -> frozenset[str]:
    """What a paraphrase must leave as it is: numbers, however they are written, and identifiers."""
    plain = _LIST_NUMBER.sub("", text)
    numbers = {_canonical(number) for number in _NUMBER.findall(plain)}
    counted = {_IN_WORDS[w] for w in map(str.lower, _WORD.findall(plain)) if w in _IN_WORDS and w not in _VAGUE}
    return frozenset(numbers | counted | set(identifiers(plain)))


async def supporting(
    clause: Clause, sources: Mapping[int, Source], *, reranker: Reranker, deadline: Deadline
) -> frozenset[int]:
    """Which of the sources that *clause* names support it: none when they lack a number or an identifier of it."""
    places = {n: sources[n].place(clause.text) for n in clause.sources}
    if any(clause.text == place.text for place in places.values()):
        return frozenset(n for n, place in places.items() if clause.text == place.text)
    terms = frozenset(analyse(clause.text))
    if not _known(clause.text, places.values()) or any(_negates(clause.text, terms, p) for p in places.values()):
        return frozenset()
    wanted = terms - _VAGUE
    covered = {n: wanted & place.terms_around for n, place in places.items()}
    if len(frozenset[str]().union(*covered.values())) >= COVERED * len(wanted):
        return frozenset(n for n, shared in covered.items() if len(shared) >= COVERED_OF_EACH * len(wanted))
    return await _relevant(clause.text, places, reranker=reranker, deadline=deadline)


def _known(claim: str, places: Iterable[Place]) -> bool:
    stated = facts(claim)
    near = "\n".join(place.near for place in places) if stated else ""
    missing = stated - facts(near)
    # total_cents is a part of invoice.total_cents
    return not missing or {analyse(fact)[0] for fact in missing} <= set(analyse(near))


def _negates(claim: str, terms: frozenset[str], place: Place) -> bool:
    """Whether two sentences say the same but for a negation in one of them."""
    if len(terms & place.terms) < SAME_WORDS * max(len(terms), len(place.terms), 1):
        return False
    return bool(_NEGATION.search(claim)) != bool(_NEGATION.search(place.text))


async def _relevant(
    claim: str, places: Mapping[int, Place], *, reranker: Reranker, deadline: Deadline
) -> frozenset[int]:
    try:
        logits = await reranker.score(claim, [place.around for place in places.values()], deadline)
    except (UpstreamError, SetupError) as exc:  # the words alone have judged
        log.warning("claim not judged by the cross-encoder", code=exc.code, detail=exc.detail)
        return frozenset()
    return frozenset(n for n, logit in zip(places, logits, strict=True) if isinstance(logit, float) and logit >= LOGIT)


def _canonical(number: str) -> str:
    """15,000 and 15000, 25.00 and 25, 07 and 7 are the same."""
    plain = re.sub(r"[,'\u00a0\u202f]", ".", _THOUSANDS.sub("", number))
    return _NO_CENTS.sub("", plain).lstrip("0") or "0"
