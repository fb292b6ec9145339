from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rag.language import language


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("How long does a refund take?", "en"),
        ("Wie lange dauert eine Rückerstattung?", "de"),
        ("Was war die Hauptstadt?", "de"),
        ("¿Cuánto tarda un reembolso?", "es"),
        ("Combien de temps dure le remboursement dans ce cas ?", "fr"),
        ("Quanto tempo richiede il rimborso della fattura?", "it"),
        ("Quanto tempo demora o reembolso da fatura?", "pt"),
        ("Hoeveel dagen duurt het voordat een retour wordt betaald?", "nl"),
        ("退款需要多久?", "zh"),
        ("返金には何日かかりますか", "ja"),
        ("환불은 얼마나 걸리나요?", "ko"),
        ("Сколько длится возврат?", "ru"),
        ("คืนเงินใช้เวลานานเท่าไร", "th"),
    ],
)
def test_a_question_shows_its_language(text: str, lang: str) -> None:
    assert language(text) == lang


def test_languages_that_show_as_much_are_told_apart_alike_in_every_process() -> None:
    texts = ("de la un", "det en", "le dans il lo gli", "the of der die")
    program = f"from rag.language import language; print([language(text) for text in {texts!r}])"

    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout.strip()
        for seed in ("0", "1", "2", "3", "4711")
    }  # fmt: skip

    assert outputs == {"['es', 'sv', 'it', 'en']"}


@pytest.mark.parametrize("text", ["", "HLY-4031", "reset password", "src/de/la/el.py", "x = y + de.un(2)", "42"])
def test_what_has_no_small_word_shows_none(text: str) -> None:
    assert language(text) is None


@pytest.mark.parametrize(
    "text",
    ["What does 退款 mean?", "the café in Zürich", "Who wrote Das Kapital?", "is El Niño due?", "how is über spelt"],
)
def test_a_foreign_word_does_not_make_an_english_question_foreign(text: str) -> None:
    assert language(text) == "en"


def test_a_text_may_have_to_show_more() -> None:
    text = "Wie lange dauert eine Rückerstattung?"  # wie, eine

    assert (language(text, least=2), language(text, least=3)) == ("de", None)


def test_accents_may_be_composed_or_not() -> None:
    assert language("¿qué más? según") == language("¿que\u0301 ma\u0301s? segu\u0301n") == "es"
