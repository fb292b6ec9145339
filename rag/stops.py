"""Whether a full stop ends a sentence, by the words on both sides of it: abbreviations, ordinals and dates go on."""

from __future__ import annotations

import re
from collections.abc import Callable

from rag.language import small_words


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# What never ends a sentence, or so seldom that a reader loses nothing; in lower case, a capital first letter too.
_ABBREVIATIONS = _words(
    "e.g i.e etc vs cf al ca approx resp incl excl viz p pp"
    " abzgl bspw bzw d.h evtl exkl ggf i.d.R inkl m.E o.g s.o s.u sog u.a u.U u.E v.a vgl z.B z.H zzgl zzt"
    " aprox p.ej c.-à-d p.ex p.es b.v bijv d.w.z i.v.m m.b.t m.n o.a t.a.v zgn dhr mevr mw drs mr"
    " bl.a d.v.s f.eks s.k t.ex esim m.in np tj tzn örn inż mgr św"
    " Dr Mr Mrs Ms Prof Sr Jr St No Nos Fig Figs Eq Sec Ch Vol Inc Ltd Co Corp Art Abs Nr U.S U.K"
)
# Before a name, or anything else with a capital.
_TITLES = _words(
    "Adm Brig Capt Cmdr Col Cpl Gen Gov Hon Insp Lt Maj Messrs Pres Rep Rev Sen Sgt Supt Mt Dept"
    " Fa Frl Hr Hrn Dipl Ing Mag RA Hptm Bgm Ste Mme Mmes Mlle MM Pr Avda Av Dña Dra Sra Sras Sres Srta"
    " Ud Uds Excmo EE Avv Dott Geom Sig Sigg Spett Dhr Drs Exma Exmo Eng Profa Doç Sn geb hr prof ul"
)
_ENDS_TOO = ("Fr", "Mio", "Mrd", "Tsd")  # Frau and Friday, 3 Mio. Euro: the next word tells
# Before a number.
_COUNTED = _words(
    "abb abt anl anm art aufl av bd blz cap chap col ed ext fig gl kap kl lfd lt max min mind n no nr nrn num núm"
    " pag pagg par pág págs pos rd ref réf str tab tel tél vol ziff"
)
_MONTHS = _words(
    "January February March April May June July August September October November December"
    " Januar Jänner Februar Feber März Mai Juni Juli Oktober Dezember Januari Februari Maart Mars Marts Maj Augusti"
    " Augustus Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık"
)
_SHORT_MONTHS = _words(
    "jan feb febr mar mär mrz apr jun jul aug sep sept oct okt nov dec dez"
    " ene abr ago dic janv févr fév avr juil déc gen mag giu lug sett ott fev mrt"
)
_WEEKDAYS = _words("Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun Mo Di Mi Do Fr Sa So Lun Mar Mié Jue Vie")

# What a day or an ordinal follows, and what no sentence ends with; the first not even a line above a list.
_ARTICLES = _words("am im ins beim vom zum zur den dem des der die das jeder jede jedes jeden jedem det")
_OPENS_A_DATE = _ARTICLES | _words(
    "ab bis vor nach seit ein eine einen und oder on by until till from since before after the of to and or"
)
# Languages that write ordinals with a stop and may have a capital behind it. In German and Turkish anything but a name
# may stand before one ("in 2. Lesung"; after "Seite 2." a sentence ends), in the others only such words as these.
_ORDINALS: dict[str, frozenset[str]] = {
    "de": _words(""),
    "tr": _words(""),
    "da": _words("den det de i til fra før efter"),
    "pl": _words("w z do od na po dla przez"),
}
_ANYWHERE = ("de", "tr")
_BEGINNERS = _words(
    "außerdem anschließend bitte dafür daher damit danach dann daran darum davon dazu deshalb dort falls heute hier"
    " jetzt jedoch sobald sonst zudem zuletzt alle"
)

_BEFORE = re.compile(r"(?<![^\W_])(?:[^\W\d_]{1,3}\.-?\s?){0,3}[^\W\d_]+(?:-[^\W\d_]+)?\Z")
_FOR_EXAMPLE = re.compile(r"\b[Pp](?:er es|ar ex|or ej)\Z")
_ITEM = re.compile(r"^\W*\d+\Z", re.MULTILINE)
_ORDINAL = re.compile(r"(?<![\w.,:'])(?:\d{1,3}|[IVX]{2,6})\Z")
_NUMBERED = re.compile(r"\s*\d{1,2}\.\s+")
_ROMAN = re.compile(r"[IVX]{2,6}\Z")
_UNIT = re.compile(r"\d\s[^\W\d_]+\Z")
_WORD = re.compile(r"[^\W\d_]{1,40}")
_LAST_WORD = re.compile(r"[^\W\d_]+\Z")
_LETTER_WITH_STOP = re.compile(r"(?:[^\W\d_]|Chr|Hd|Zt)\.")
_DAY = re.compile(r"(?:[12]\d|3[01]|0?[1-9])(?!\d|[.,]\d{3})")
_SHORTENED = re.compile(r"\.|\s+\d")
_YEAR = re.compile(r",?\s*(?:19|20)\d\d(?!\d)")
_MONTH_AND_MORE = re.compile(r"(?:0?[1-9]|1[0-2])\.(?:\s?(?:19|20)\d\d(?!\d)|\s+\d\d(?!\d)|\s+[^\W\d_A-Z])")
_DAY_AND_MONTH = re.compile(r"(?<![\w.])\d{1,2}\.\s?\d{1,2}\Z")
_PREDICATE = re.compile(
    r"\s+(?:is|was|has|had|will|can|should|I|we|you|he|she|it|they|ist|war|hat|hatte|wird|kann)\b",
)
_BACK = 24  # characters: more than the longest abbreviation and its blanks

Language = Callable[[], "str | None"]


def ends_sentence(text: str, stop: int, after: int, lang: Language) -> bool:
    """Whether the full stop at *stop* ends one; the next word begins at *after*, *lang* is asked if need be."""
    if text[after].islower():
        return False
    if _ITEM.search(text, max(0, stop - 12), stop):
        return False
    if text[stop - 1 : stop].isdigit():
        return not _in_numeric_date(text, stop, after) and _ends_after_number(text, stop, after, lang)
    found = _BEFORE.search(text, max(0, stop - _BACK), stop)
    if not found:
        return True
    if _FOR_EXAMPLE.search(text, max(0, stop - 8), stop):
        return False
    parts = "".join(found[0].split()).split(".")
    if _is_abbreviation(parts) or _goes_on(parts[-1], text, stop, after):
        return False
    return not _ROMAN.match(parts[-1]) or _ends_after_number(text, stop, after, lang)


def breaks_before_number(text: str, end: int, after: int) -> bool:
    """Whether the line up to *end* breaks off before the day or the ordinal at *after*, which is no list item then."""
    number = _NUMBERED.match(text, after)
    if not number:
        return False
    word = _word_before(text, end).casefold()
    name = _WORD.match(text, number.end())
    return word in _ARTICLES or bool(name and word in _OPENS_A_DATE and _is_month(text, name))


def _is_abbreviation(parts: list[str]) -> bool:
    if len(parts[-1]) == 1 and parts[-1].isupper():
        return True  # an initial
    tails = [".".join(parts[n:]) for n in range(len(parts))]
    return any(t in _ABBREVIATIONS or t[:1].lower() + t[1:] in _ABBREVIATIONS for t in tails)


def _goes_on(word: str, text: str, stop: int, after: int) -> bool:
    """Whether what follows is what *word* is short before: a number, a day, a name."""
    if text[after].isdigit():
        return _leads_to_day(word, text, after) or _leads_to_number(word, text, stop)
    if name := _WORD.match(text, after):
        return _leads_to_name(word, text, stop, name)
    return text[after] in "-–—" and (word in _WEEKDAYS or word.lower() in _SHORT_MONTHS)


def _leads_to_number(word: str, text: str, stop: int) -> bool:
    return (word.lower() in _COUNTED or word.endswith(("str", "Str"))) and not _is_unit(word, text, stop)


def _is_unit(word: str, text: str, stop: int) -> bool:
    """Whether a number stands before it, as in "5 min."."""
    return bool(_UNIT.search(text, max(0, stop - len(word) - 2), stop))


def _leads_to_name(word: str, text: str, stop: int, name: re.Match[str]) -> bool:
    if len(word) == 1:
        return bool(_LETTER_WITH_STOP.match(text, name.start()))  # z. B.
    if word in _WEEKDAYS and _is_month(text, name):
        return True
    if word in _ENDS_TOO:
        return name[0].lower() not in small_words("de")
    return word in _TITLES and not _is_unit(word, text, stop)


def _is_month(text: str, name: re.Match[str]) -> bool:
    short = name[0].lower() in _SHORT_MONTHS
    return name[0] in _MONTHS or (short and bool(_SHORTENED.match(text, name.end())))


def _leads_to_day(word: str, text: str, after: int) -> bool:
    if word in _WEEKDAYS:
        return bool(_DAY.match(text, after))
    if word.lower() not in _SHORT_MONTHS:
        return False
    return bool(_YEAR.match(text, after) or (word[0].isupper() and _DAY.match(text, after)))


def _in_numeric_date(text: str, stop: int, after: int) -> bool:
    """31. 12. 2027, at either stop."""
    if _YEAR.match(text, after) and _DAY_AND_MONTH.search(text, max(0, stop - 8), stop):
        return True
    return bool(_ORDINAL.search(text, max(0, stop - 4), stop) and _MONTH_AND_MORE.match(text, after))


def _ends_after_number(text: str, stop: int, after: int, lang: Language) -> bool:
    number = _ORDINAL.search(text, max(0, stop - 8), stop)
    name = _WORD.match(text, after)
    if not number or not name:
        return True
    if _DAY.fullmatch(number[0]) and _is_month(text, name):
        return not _is_date(text, number.start(), name, lang)
    return not _is_ordinal(text, number.start(), name[0], lang())


def _is_date(text: str, start: int, month: re.Match[str], lang: Language) -> bool:
    """Whether the day at *start* belongs to *month*: "It costs 31. March is cheaper." has none."""
    if _word_before(text, start).casefold() in _OPENS_A_DATE or _YEAR.match(text, month.end()):
        return True
    if lang() == "en":  # which writes no stop there, so it needs a word that says so
        return _mark_before(text, start) in ("", ",", ":", ";", "(", "/", "-", "–")
    return not _PREDICATE.match(text, month.end())


def _is_ordinal(text: str, start: int, name: str, lang: str | None) -> bool:
    """Whether the number at *start* counts *name*, which has a capital: the language decides, then the word before."""
    if lang not in _ORDINALS or name.lower() in small_words(lang) or name.lower() in _BEGINNERS:
        return False
    before = _word_before(text, start)
    if before.casefold() in _OPENS_A_DATE or before.casefold() in _ORDINALS[lang]:
        return True
    if lang not in _ANYWHERE:
        return False
    if before:
        return before.islower() or before.lower() in small_words(lang)
    return _mark_before(text, start) not in (":", "=", "%")


def _word_before(text: str, end: int) -> str:
    """The word before *end*, only blanks between; empty at a mark, a number or the beginning."""
    while end and text[end - 1].isspace():
        end -= 1
    found = _LAST_WORD.search(text, max(0, end - _BACK), end)
    return found[0] if found else ""


def _mark_before(text: str, end: int) -> str:
    return text[max(0, end - _BACK) : end].rstrip()[-1:]
