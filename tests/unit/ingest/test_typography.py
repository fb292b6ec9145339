from __future__ import annotations

import time

import pytest

from ingest.typography import plain_letters, rejoin, vocabulary


@pytest.mark.parametrize(
    ("printed", "plain"),
    [
        ("of\ufb01ce e\ufb03ciency \ufb02ow", "office efficiency flow"),
        ("Haus\u00adtür, Gar\u00ad\nten", "Haustür, Garten"),
        ("\ufeb3\ufefc\ufee1", "\u0633\u0644\u0627\u0645"),
        ("x² ½ ™ Ａ", "x² ½ ™ Ａ"),
    ],
)
def test_glyphs_become_the_letters_they_stand_for(printed: str, plain: str) -> None:
    assert plain_letters(printed) == plain


@pytest.mark.parametrize(
    ("printed", "whole"),
    [
        ("Wohn-\nungen und Häuser", "Wohnungen und Häuser"),
        ("a self-\nservice desk", "a self-service desk"),
        ("a state-of-\nthe-art desk", "a state-of-the-art desk"),
        ("the Nord-\nSüd line", "the Nord-Süd line"),
        ("fast-\ntrack cases; every fast-track case", "fast-track cases; every fast-track case"),
        ("a blue-\ngreen sea is blue, not green", "a blue-green sea is blue, not green"),
        ("pay-\nments; payments are due when you pay", "payments; payments are due when you pay"),
        ("1990-\n1995 and so -\non", "1990-\n1995 and so -\non"),
    ],
)
def test_words_cut_at_line_ends_are_whole_again_and_compounds_keep_their_hyphen(printed: str, whole: str) -> None:
    assert rejoin(printed, vocabulary(printed)) == whole


def test_long_runs_take_linear_time() -> None:
    started = time.monotonic()

    rejoin("a" * 300_000 + "-" * 300_000 + "a-" * 100_000, frozenset())

    assert time.monotonic() - started < 2
