"""What language a text is in, as far as that changes how it is searched: by its script, then by its small words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

SAMPLE_CHARS = 20_000  # a document's beginning says what it is in
FEW_LETTERS = 0.3  # of the letters of a text: below, a script is quoted, not written in

_WORD = re.compile(r"(?<![\w./-])[^\W\d_]+(?![\w/-]|\.\w)")  # no part of a name or a path
_LETTER = re.compile(r"[^\W\d_]")

# What no other script is written in; kana before Han, since Japanese has both.
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("zh", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")),
    ("ko", re.compile(r"[\u1100-\u11ff\uac00-\ud7af]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)
_OTHERS = re.compile(r"[\u0370-\u1fff\u2c00-\ud7ff\uf900-\ufaff]")

# The small words of each language, without those that are English words or names in programs as well.
_SMALL_WORDS = {
    "en": (
        "the of and to is are was were be been has have had does do did what which who whom whose when where why how"
        " that this these those it its with from for not or by on at as in an can could should would will there their"
        " they you your my we our if than then into about after before between during any more most many much no per"
    ),
    "de": (
        "der die das den dem des ein eine einer eines einem einen und oder ist sind war waren wird werden wurde wurden"
        " hat hatte haben nicht mit von vom zu zum zur für auf bei beim nach aus über unter durch gegen wie wer was wo"
        " wann warum welche welcher welches welchen welchem welch wieviel wieviele viele sich auch als im wenn dass"
        " kann können muss ich wir sie ihre ihr ihm ihn sein seine seiner seinen diese dieser dieses gibt gab es man"
        " heißt hieß nannte liegt während seit zwischen nur noch mehr in an"
    ),
    "es": (
        "el la los las un una unos unas de del en es son fue fueron era eran ha han había con por para que qué cuál"
        " cuáles quién quiénes cómo cuándo dónde cuánto cuánta cuántos cuántas se su sus lo más este esta estos estas"
        " según sobre entre también muy pero desde hasta cuando donde está están puede tipo hace al"
    ),
    "fr": (
        "le la les un une des de du en et ou est sont était étaient été qui que quoi quel quelle quels quelles"
        " pourquoi où quand combien dans avec pour sur par pas ne ce cette ces il elle ils elles nous vous au aux se"
        " leur leurs être avoir selon"
    ),
    "it": (
        "il la lo gli le un una della dello dei degli delle del di è sono era erano ha hanno che chi cosa quale quali"
        " quando quanto quanti quante dove perché con nel nella nei nelle dal dalla più anche si alla al questo questa"
    ),
    "pt": (
        "os as um uma de da dos das em nos nas é são foi foram era eram que quem qual quais quando quanto quantos onde"
        " como porque por para com não mais ao aos também se seu sua pelo pela está"
    ),
    "nl": (
        "de het een van en is zijn was waren wordt werd worden heeft hebben had niet met voor op aan bij naar uit wie"
        " wat welke wanneer waar waarom hoe hoeveel dat deze dit er ook als kan ik je wij in"
    ),
    "sv": "och eller är var ett en det den som på av för till från inte har hade vad vem vilka vilken när hur varför",
    "da": "og eller er var et en det den som på af til fra ikke har havde hvad hvem hvilke hvilken hvornår hvor",
    "fi": "ja tai on oli ovat olivat että ei mikä mitä kuka missä milloin miten miksi kun joka jotka myös mutta",
    "tr": "ve veya bir bu için ile nerede nasıl neden hangi kaç olan olarak değil mı daha çok gibi",
    "pl": "lub jest są był była było nie się od dla że kto gdzie kiedy jak dlaczego który która które",
}


def language(text: str, *, least: int = 1) -> str | None:
    """The ISO 639-1 code of the language *text* is most likely in; None when it shows none.

    It is shown by a script, or by *least* different small words or more, none of them as many as English has.
    """
    sample = unicodedata.normalize("NFC", text[:SAMPLE_CHARS])
    return _by_script(sample) or _by_words(sample, least)


@cache
def small_words(lang: str) -> frozenset[str]:
    """The words by which *lang* is known, and which say little else; none of a language known by its script."""
    return frozenset(_SMALL_WORDS.get(lang, "").split())


def _by_script(text: str) -> str | None:
    if not _OTHERS.search(text):
        return None
    letters = len(_LETTER.findall(text))
    counts = {lang: len(script.findall(text)) for lang, script in _SCRIPTS}
    if counts["ja"]:  # as much of it is Han
        counts["ja"] += counts.pop("zh")
    lang, most = max(counts.items(), key=lambda pair: pair[1])
    return lang if most > FEW_LETTERS * letters else None


def _by_words(text: str, least: int) -> str | None:
    shown: Counter[str] = Counter()
    for word in set(_WORD.findall(text.lower())):
        shown.update(_languages_of().get(word, ()))
    if not shown:
        return None
    # the order of a set of words differs from one process to the next, so nothing may be left to it
    listed = list(_SMALL_WORDS)
    first, most = min(shown.items(), key=lambda pair: (-pair[1], listed.index(pair[0])))
    return first if most >= least else None


@cache
def _languages_of() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for lang, words in _SMALL_WORDS.items():
        for word in words.split():
            found[word] = (*found.get(word, ()), lang)
    return found
