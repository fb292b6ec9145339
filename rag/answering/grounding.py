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
    """The sentence of a source that a claim rests on, at [start, end) of the passage, with what stands around it."""

    start: int
    end: int
    text: str
    around: str


class Source:
    """A passage, read sentence by sentence once for all claims."""

    def __init__(self, passage: Passage) -> None:
        """Read *passage*."""
        self.passage = passage
        self.headings = " ".join((passage.chunk.title, *passage.chunk.breadcrumb))
        self._sentences = list(sentences(passage.text)) or [(0, "")]
        self._terms = [frozenset(analyse(text)) for _, text in self._sentences]

    def near(self, claim: str) -> str:
        """What the facts of the claim must stand in: the sentence it rests on, those beside it, and others like it."""
        terms = set(analyse(claim))
        like = [
            text
            for (_, text), own in zip(self._sentences, self._terms, strict=True)
            if len(terms & own) >= LIKE * len(terms)
        ]
        return " ".join((self.place(claim).around, *like))

    def place(self, claim: str) -> Place:
        """Where the claim stands word for word, or else the sentence that shares most terms with it."""
        at = self.passage.text.find(claim) if claim else -1
        if at >= 0:
            return Place(at, at + len(claim), claim, claim)
        terms = set(analyse(claim))
        best = max(range(len(self._sentences)), key=lambda n: len(terms & self._terms[n]))
        start, text = self._sentences[best]
        beside = self._sentences[max(0, best - 1) : best + 2]
        return Place(start, start + len(text), text, " ".join((self.headings, *(s for _, s in beside))))


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
    cited = {n: sources[n] for n in clause.sources}
    places = {n: source.place(clause.text) for n, source in cited.items()}
    if any(clause.text == place.text for place in places.values()):
        return frozenset(n for n, place in places.items() if clause.text == place.text)
    if not _known(clause.text, cited.values()) or any(_negates(clause.text, p.text) for p in places.values()):
        return frozenset()
    wanted = frozenset(analyse(clause.text)) - _VAGUE
    covered = {n: wanted & frozenset(analyse(place.around)) for n, place in places.items()}
    if len(frozenset[str]().union(*covered.values())) >= COVERED * len(wanted):
        return frozenset(n for n, terms in covered.items() if len(terms) >= COVERED_OF_EACH * len(wanted))
    return await _relevant(clause.text, places, reranker=reranker, deadline=deadline)


def _known(claim: str, cited: Iterable[Source]) -> bool:
    near = "\n".join(source.near(claim) for source in cited)
    missing = facts(claim) - facts(near)
    return not missing or missing <= set(analyse(near))  # total_cents is a part of invoice.total_cents


def _negates(claim: str, source: str) -> bool:
    """Whether two sentences say the same but for a negation in one of them."""
    ours, theirs = frozenset(analyse(claim)), frozenset(analyse(source))
    if len(ours & theirs) < SAME_WORDS * max(len(ours), len(theirs), 1):
        return False
    return bool(_NEGATION.search(claim)) != bool(_NEGATION.search(source))


async def _relevant(
    claim: str, places: Mapping[int, Place], *, reranker: Reranker, deadline: Deadline
) -> frozenset[int]:
    try:
        logits = await reranker.score(claim, [place.around for place in places.values()], deadline)
    except (UpstreamError, SetupError) as exc:  # the words alone have judged
        log.warning("claim not judged by the cross-encoder", code=exc.code, detail=exc.detail)
        return frozenset()
    return frozenset(n for n, logit in zip(places, logits, strict=True) if logit is not None and logit >= LOGIT)


def _canonical(number: str) -> str:
    """15,000 and 15000, 25.00 and 25, 07 and 7 are the same."""
    plain = re.sub(r"[,'\u00a0\u202f]", ".", _THOUSANDS.sub("", number))
    return _NO_CENTS.sub("", plain).lstrip("0") or "0"
