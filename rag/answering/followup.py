"""A question that leans on the turns before it, and what is searched for in its place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.analysis import identifiers
from rag.calls import Message
from rag.language import language, small_words
from rag.retrieval.phrases import phrases
from rag.storable import cleaned

FEW = 3  # words of its own, up to which a message that points back or goes on says too little
FEWEST = 2  # up to which any does
MOST_TURNS = 3  # of the user that are searched together, the last one included
TURN_CHARS = 400  # of each; a question stands at the end of what is pasted before it

_WORD = re.compile(r"[^\W_](?:[\w'\u2019.\-]*\w)?")
_MARKS = re.compile('["\uff02“”„‟«»]')  # what one turn quotes need not stand in what another asks for

# How a message goes on with what was said, and what points back to it, in the languages whose words are known.
_GOES_ON = {
    "en": "and|or|but|also|then|so|what about|how about|what if|what else|same|ok|okay",
    "de": "und|oder|aber|auch|dann|was ist mit|wie ist es|wie sieht es|was wenn|sonst",
    "fr": "et|ou|mais|aussi|alors|sinon",
    "es": "y|e|o|pero|también|entonces|qué tal",
    "it": "e|o|ma|anche|allora",
    "pt": "e|ou|mas|também|então",
    "nl": "en|of|maar|ook|dan|hoe zit het",
}
_POINTS_BACK = {
    "en": "it its that this these those they them their there then ones same other others else instead",
    "de": "das es sie ihn ihm dies diese dieser dieses davon dafür dazu damit dort dabei darin andere anderen sonst",
    "fr": "il elle ils elles ça cela celui celle ceux celles y en autre autres même",
    "es": "eso esto esa ese esos esas ello él ella ellos ellas allí otro otra otros otras mismo",
    "it": "questo quello questi quelli esso essa ne ci altro altri stesso",
    "pt": "isso isto esse essa ele ela eles elas ali outro outra mesmo",
    "nl": "het dat dit deze die daar daarvan ervan ander andere hetzelfde",
}
_ASKING = frozenset(
    "i me my mine us our ours your yours a am must may might shall being get got do does did have has much many long"  # noqa: SIM905
    " far often soon fast large big let tell please thanks thank you want need know say happens happen mean means use"
    " still too yes no about again anything something everything exactly".split()
)


def names_its_own(question: str) -> bool:
    """Whether the question has an identifier or a quoted phrase, which is looked for as it stands."""
    return bool(identifiers(question) or phrases(question))


def leans(question: str) -> bool:
    """Whether the question can hardly be searched for without the turns before it."""
    if names_its_own(question):
        return False
    lang = language(question) or "en"
    if lang not in _GOES_ON:
        return False  # what is content cannot be told
    words = [word.casefold() for word in _WORD.findall(question)]
    goes_on = re.match(rf"\W*(?:{_GOES_ON[lang]})\b", question.casefold()) is not None
    pointing = frozenset(_POINTS_BACK[lang].split())
    own = [word for word in words if word not in small_words(lang) | pointing | _ASKING]
    points_back = any(word in pointing for word in words)
    return len(own) <= (FEW if goes_on or points_back else FEWEST)


def joined(question: str, history: Sequence[Message]) -> str:
    """The question behind the user's turns that it leans on; alone if it stands alone."""
    turns = [question]
    earlier = [turn.text for turn in history if turn.role == "user" and turn.text.strip()]
    while len(turns) < MOST_TURNS and earlier and leans(turns[0]):
        turns.insert(0, unquoted(earlier.pop()[-TURN_CHARS:]))
    # its own words twice: they are what it asks, and the others only what about
    return " ".join([question, *turns] if len(turns) > 1 else turns)


def unquoted(text: str) -> str:
    """The text on one line, quoting nothing, as it can be searched for."""
    return " ".join(_MARKS.sub(" ", cleaned(text)).split())
