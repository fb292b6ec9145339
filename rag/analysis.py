"""The one text analyser of the lexical leg: ingestion and queries share it, so both see the same terms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b

import Stemmer

ANALYSER = "identifiers+snowball-3"  # change it with the rules: stored postings are of one analyser

# Scripts written without blanks between words, and Hangul, whose particles stick to the noun.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"  # kana, Han, Hangul
)
# `re` counts combining marks as no part of a word, yet they are vowels in Thai and in India's scripts.
_MARKS = "".join(chr(c) for c in range(0x300, 0x3100) if unicodedata.category(chr(c)).startswith("M"))
_CHAR = rf"[\w{_MARKS}]"
_LETTER = rf"(?:[^\W\d_]|[{_MARKS}])"
_GROUPED_NUMBER = r"(?=\d)(?<![\w.,])\d{1,3}(?:[,'’ ]\d{3})+(?:\.\d+)?(?!\w|,\d|#|\+\+)"
_SIGN = "[\u2600-\u27bf\U0001f000-\U0001faff]"  # emoji
_WORD = re.compile(rf"{_GROUPED_NUMBER}|\.?{_CHAR}+(?:[._\-/@&]+{_CHAR}+)*(?:\+\+|#)?|{_SIGN}")
_DOTTED = re.compile(r"(?<!\d)\d+(?:\.\d+)+")
_JOINED_GROUPS = re.compile(r"\d{1,3}(?:[._]\d{3})+")
_GROUPS = re.compile(r"(\d{1,3}(?:[,'’ ]\d{3})+)(\.\d+)?")
_DIGITS = re.compile(r"\d+")
_JOINTS = re.compile("[._,'’ -]")
_JOINED = re.compile(rf"{_LETTER}+(?:[._\-]{_LETTER}+)+")
_RUN = re.compile(f"{_CHAR}+")
_SIGNED = re.compile(rf"(?<!{_CHAR}){_CHAR}+(?:\+\+|#)")  # whole runs alone, or a long one takes its length squared
_PARTS = re.compile(rf"\d+|{_LETTER}+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_ACCENTS = re.compile(f"[{''.join(c for c in _MARKS if unicodedata.combining(c) and not _UNSPACED_RUN.match(c))}]+")
_SPACED = f"(?![{_UNSPACED}]){_CHAR}"
_PLAIN = re.compile(f"{_LETTER}+")
# Within words these are not seen, and at their ends they are no letters: soft hyphen, zero widths, directions, marks.
_UNSEEN = re.compile("[\u00ad\u200b\u200d-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u2120\u2122]")
_NAME = re.compile(r"(?<![\w.])[A-Za-z][\w.\-/]*\w")
_DIGIT_OR_JOINER = re.compile(r"[\d_]")

# What no decomposition makes plain: strokes, as Lucene's ASCIIFoldingFilter writes them, and typography.
_PLAINLY = {
    "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe",
    "‘": "'", "’": "'", "‐": "-", "‒": "-", "–": "-", "—": "-",
}  # fmt: skip

# Lucene's English list, and what the apostrophe leaves of "what's" and "don't": words in most documents, whose
# postings cost more than their idf is worth.
_ENGLISH_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they"  # noqa: SIM905
    " this to was will with s t".split()
)

_LETTERS_OF_NAMES = frozenset("AST")  # the stop words of one letter, as capitals right behind a word
SHOUTED_WORDS = 3  # so many in capitals, and capitals say nothing
_NAMED = re.compile(r"[\w&] \Z")

_SNOWBALL = {
    "ar": "arabic", "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip


def analyse(text: str, lang: str = "en") -> list[str]:
    """The terms of *text* in order, repeats kept: identifiers whole and in parts, other words stemmed.

    Unknown languages are folded but not stemmed; scripts without blanks give character pairs.
    """
    stem = _stemmer(lang)
    stop = _ENGLISH_STOP_WORDS if lang == "en" else frozenset[str]()
    composed = _compose(text)
    shouted = composed.isupper() and len(composed.split()) >= SHOUTED_WORDS
    return [
        term
        for found in _WORD.finditer(composed)
        for term in _terms(found[0], stem=stem, stop=frozenset() if _is_a_name(found, shouted=shouted) else stop)
    ]


def folded(text: str) -> str:
    """The text as quoted phrases are compared: no case, accents or kinds of white space, hyphen and apostrophe."""
    composed = _compose(text)
    if composed.isascii():
        return " ".join(composed.lower().split())
    return " ".join(unicodedata.normalize("NFC", _bare(composed)).split())


def phrase_terms(phrase: str, langs: Sequence[str]) -> list[set[str]]:
    """For each word of *phrase*, its terms by language: of each set, every text with the phrase has one.

    Words without postings are left out: stop words, lone letters and digits.
    """
    composed = _compose(phrase)
    stop = _ENGLISH_STOP_WORDS if "en" in langs else frozenset[str]()
    pairs = [{pair} for run in _UNSPACED_RUN.findall(composed) if len(run) > 1 for pair in _pairs(_fold(run))]
    signed = [{_fold(word)} for word in _SIGNED.findall(_UNSPACED_RUN.sub(" ", composed))]
    runs = [run for run in _RUN.findall(_UNSPACED_RUN.sub(" ", composed)) if len(run) > 1 and _fold(run) not in stop]
    return [*pairs, *signed, *({_whole(run, _stemmer(lang)) for lang in langs} for run in runs)]


def whole_words(phrase: str) -> re.Pattern[str] | None:
    """What finds a folded phrase in folded text, with whole words and numbers at its edges; None if it has no word."""
    if not _RUN.search(phrase):
        return None
    return re.compile(_between_edges(phrase, re.escape(phrase), _SPACED))


def whole_words_posix(phrase: str) -> str:
    """The same for PostgreSQL, in ASCII text in lower case that is otherwise as it was."""
    return _between_edges(phrase, re.escape(phrase).replace("\\ ", r"[\s\x1c-\x1f]+"), "[a-z0-9_]")


def _between_edges(phrase: str, pattern: str, char: str) -> str:
    """The pattern where no word or number goes on before or after it."""
    before = f"(?<!{char})" if re.match(_SPACED, phrase[0]) else ""
    after = f"(?!{char})" if re.match(_SPACED, phrase[-1]) else ""
    before += "(?<![0-9][.,])" if phrase[0].isdigit() else ""
    after += "(?![.,][0-9])" if phrase[-1].isdigit() else ""
    return before + pattern + after


def identifiers(text: str) -> list[str]:
    """The names in *text* that only one thing bears, case folded: with a digit, or a joiner between letters."""
    return [name.casefold() for name in _NAME.findall(text) if _DIGIT_OR_JOINER.search(name)]


@lru_cache(maxsize=200_000)
def term_id(term: str) -> int:
    """The 64-bit number that stands for *term* in the postings: no dictionary to keep, no text to leak."""
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "big", signed=True)


def _compose(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).replace(
        "\u2010", "-"
    )  # a hyphen, also where no line ends


def _is_a_name(found: re.Match[str], *, shouted: bool) -> bool:
    """Whether a stop word is meant by name: the IT department, or the letter that tells plan A from plan B."""
    word, start = found[0], found.start()
    if word == "IT":
        return not shouted
    return word in _LETTERS_OF_NAMES and _NAMED.search(found.string, max(0, start - 2), start) is not None


@lru_cache(maxsize=100_000)
def _fold(word: str) -> str:
    """Case folded and without accents, equal for composed and decomposed forms."""
    if word.isascii():
        return word.lower()
    if _UNSPACED_RUN.search(word):
        return word.casefold()  # marks carry meaning here: Thai vowels, Japanese voicing
    return _bare(word)


def _bare(text: str) -> str:
    """Case folded, without accents, strokes and typography; the marks of unspaced scripts stay."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    for written, plain in _PLAINLY.items():  # a fraction of the time of a table or a pattern
        bare = bare.replace(written, plain)
    return bare


def _terms(word: str, *, stem: Stemmer.Stemmer | None, stop: frozenset[str]) -> Iterator[str]:
    if _UNSPACED_RUN.search(word):
        yield from _mixed(word, stem=stem, stop=stop)
        return
    plain = _PLAIN.fullmatch(word) is not None
    if plain and _fold(word) in stop:
        return
    if not plain and (number := _GROUPS.fullmatch(word)):
        yield from _grouped(number[1], number[2] or "")
        return
    whole = _whole(word, stem)
    yield whole
    if plain and not _HUMP.search(word):
        return
    # the parts let "session" find delete_user_session, the whole keeps the exact name first; a lone letter or digit
    # of an identifier ("2" of v1.2.3) says nothing, but R&D may be asked for as R & D
    parts = [_fold(signed) for signed in _SIGNED.findall(word)]
    parts += [part for run in _RUN.findall(word) if len(run) > 1 or "&" in word for part in _run_terms(run, stem)]
    yield from (part for part in (*parts, *_numbers(word)) if part != whole)


def _numbers(word: str) -> Iterator[str]:
    """The numbers with joints in a word: 3.2 of v3.2, 1000000 of 1.000.000 and of 1_000_000."""
    yield from _DOTTED.findall(word)
    if _JOINED_GROUPS.fullmatch(word):
        yield _JOINTS.sub("", word)


def _grouped(groups: str, decimals: str) -> Iterator[str]:
    """The terms of 1,250.00: 1250.00 and its parts, and the groups by themselves, which may be a list of numbers.

    A lone digit before a blank is one of them as often as not: tier 3 500 requests.
    """
    plain = _JOINTS.sub("", groups) + decimals
    runs = (run for number in (plain, groups) for run in _DIGITS.findall(number))
    parts = (run for run in runs if len(run) > 1 or groups.startswith(f"{run} "))
    yield from dict.fromkeys((plain, *parts))


def _run_terms(run: str, stem: Stemmer.Stemmer | None) -> Iterator[str]:
    """The terms of what stands between the joiners of a word: the run whole, and its parts if it has some."""
    yield _whole(run, stem)
    parts = (part for letters in _PARTS.findall(run) for part in _HUMP.split(letters))
    yield from (_whole(part, stem) for part in parts if len(part) > 1 and part != run)


def _whole(word: str, stem: Stemmer.Stemmer | None) -> str:
    """The one term of a word: if it is of letters, stemmed and without joints, so that e-mail and Emails are one."""
    if _PLAIN.fullmatch(word):
        return _stemmed(_fold(word), stem)
    return _stemmed(_fold(_JOINTS.sub("", word)), stem) if _JOINED.fullmatch(word) else _fold(word)


def _mixed(word: str, *, stem: Stemmer.Stemmer | None, stop: frozenset[str]) -> Iterator[str]:
    at = 0
    for run in _UNSPACED_RUN.finditer(word):
        yield from _latin(word[at : run.start()], stem=stem, stop=stop)
        yield from _pairs(_fold(run.group()))
        at = run.end()
    yield from _latin(word[at:], stem=stem, stop=stop)


def _latin(text: str, *, stem: Stemmer.Stemmer | None, stop: frozenset[str]) -> Iterator[str]:
    for word in _WORD.findall(text):
        yield from _terms(word, stem=stem, stop=stop)


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    yield from (run[i : i + 2] for i in range(len(run) - 1))


def _stemmed(word: str, stem: Stemmer.Stemmer | None) -> str:
    return stem.stemWord(word) if stem is not None else word


@cache
def _stemmer(lang: str) -> Stemmer.Stemmer | None:
    name = _SNOWBALL.get(lang.lower().split("-")[0])
    return Stemmer.Stemmer(name) if name else None
