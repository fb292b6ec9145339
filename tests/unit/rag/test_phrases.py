from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.analysis import analyse, folded, phrase_terms
from rag.errors import InvalidInput
from rag.retrieval.phrases import MOST_PHRASES, phrases

PIECES = [
    *(
        "getUser",
        "GETUSER",
        "user_session",
        "Büro",
        "BÜRO",
        "Übersicht",
        "naïve",
        "fees",
        "Fees",
        "the",
        "to",
        "be",
        "a",
    ),
    *(
        "5",
        "31",
        "v1",
        "0x5",
        "C++",
        "C#",
        ".NET",
        "東京",
        "東",
        "が",
        "データ",
        "결제를",
        "ภาษา",
        "Straße",
        "ıŞık",
        "Łódź",
    ),
    *("1,000", "12 500.75", "1.250", "AT&T", "IT", "A", "e-mail", "ACME™", "🚀", "&", "\u200b", "\u2060"),
    *(" ", " ", " ", "\n", "\u00a0", ".", "-", "/", "@", "_", ",", "'", "’", "–", "(", ")", "++", "#", "\u00ad"),
]
LANGS = ["en", "de", "tr", "ja", "xx"]


def quoted(text: str) -> list[str]:
    return [phrase.text for phrase in phrases(text)]


def stands(phrase: str, text: str) -> bool:
    [wanted] = phrases(f'"{phrase}"')
    return wanted.stands_in(folded(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('how long is "annual leave"?', ["annual leave"]),
        ('"annual leave" or "sick leave"', ["annual leave", "sick leave"]),
        ("“annual leave” „Urlaub“ ”semester”", ["annual leave", "Urlaub", "semester"]),
        ("«congé» »Pause« ＂休暇＂", ["congé", "Pause", "休暇"]),
        ('请问"年假"怎么申请', ["年假"]),
        ('the "unbalanced one', []),
        ('"leave" and "more', ["leave"]),
        ('a 19" rack and a 24" rack', []),
        ('a 19" rack, "quiet"', ["quiet"]),
        ('""', []),
        ('"  "', []),
        ('"?!" "++"', []),
        ("it's the user's 'single' choice", []),
        ("Home » Settings » Keys", []),
        ('{"error": "timeout"}', ["error", "timeout"]),
    ],
)  # fmt: skip
def test_a_phrase_stands_between_double_quotation_marks(text: str, found: list[str]) -> None:
    assert quoted(text) == found


def test_a_phrase_that_is_quoted_twice_counts_once() -> None:
    assert quoted('"annual leave" and “ANNUAL leave”') == ["ANNUAL leave"]


def test_no_text_is_searched_for_very_many_phrases() -> None:
    few, many = (" ".join(f'"word{n}"' for n in range(number)) for number in (MOST_PHRASES, MOST_PHRASES + 1))

    assert len(phrases(few)) == MOST_PHRASES
    with pytest.raises(InvalidInput, match="quotes 17 phrases"):
        phrases(many)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("Annual  leave", "The ANNUAL\n leave policy"),
        ("annual leave", "annual\u00a0leave"),
        ("theorie generale", "Théorie ge\u0301ne\u0301rale"),
        ("théorie", "THEORIE"),
        ("refund", "re\u00adfund"),
        ("what's new", "What’s new"),
        ("non-refundable", "non‑refundable"),
        ("user session", "super-user session.id"),
        ("C++", "Objective-C++ only"),
        (".NET runtime", "the .NET runtime"),
        ("再設定", "パスワードの再設定手順"),
        ("승인", "승인을 요청"),
        ("API", "東京API設定"),
        ("costs 5", "It costs 5."),
        ("HLY-4031", "(hly-4031)"),
        ("5,000 EUR", "at least 5,000 EUR"),
    ],
)
def test_a_phrase_stands_in_a_text_whatever_case_accents_and_blanks(phrase: str, text: str) -> None:
    assert stands(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("annual leave", "biannual leave"),
        ("annual leave", "annual leaves"),
        ("annual leave", "annual paid leave"),
        ("leave annual", "annual leave"),
        ("session", "user_session"),
        ("vitamin C", "vitamin CD"),
        ("costs 5", "costs 55"),
        ("costs 5", "costs 5.50"),
        ("2.3", "1.2.3"),
        ("か", "が"),
        ("가", "각"),
        ("มีด", "มืด"),
        ("refund.", "refund"),
    ],
)
def test_a_phrase_is_whole_words_and_numbers_in_their_order(phrase: str, text: str) -> None:
    assert not stands(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "langs", "words"),
    [
        ("the annual leave", ["en"], [{"annual"}, {"leav"}]),
        ("Häuser", ["en", "de"], [{"hauser", "haus"}]),
        ("was will", ["de"], [{"was"}, {"will"}]),
        ("was will", ["de", "en"], []),
        ("to be or not to be", ["en"], []),
        ("plan B", ["en"], [{"plan"}]),
        ("C++ 17", ["en"], [{"c++"}, {"17"}]),
        ("東京都API", ["ja"], [{"東京"}, {"京都"}, {"api"}]),
        ("東", ["ja"], []),
        ("anything", [], [set()]),
    ],
)
def test_the_words_of_a_phrase_that_the_postings_know(phrase: str, langs: list[str], words: list[set[str]]) -> None:
    assert phrase_terms(phrase, langs) == words


@settings(max_examples=1500)
@given(st.data(), st.lists(st.sampled_from(PIECES), min_size=1, max_size=14), st.sampled_from(LANGS))
def test_every_text_with_a_phrase_has_a_term_of_each_of_its_words(
    data: st.DataObject, pieces: list[str], lang: str
) -> None:
    text = "".join(pieces)
    start = data.draw(st.integers(0, len(text) - 1))
    part = text[start : data.draw(st.integers(start + 1, len(text)))]
    change = data.draw(
        st.sampled_from([str.upper, str.lower, str.title, str, lambda t: unicodedata.normalize("NFD", t)])
    )

    terms = set(analyse(text, lang))

    for phrase in phrases(f'"{change(part)}"'):
        if phrase.stands_in(folded(text)):
            assert all(words & terms for words in phrase_terms(phrase.text, [lang, "en"])), phrase.text
