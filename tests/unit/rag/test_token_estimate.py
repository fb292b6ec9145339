from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from rag.inference.tokens import count, estimate, open_tokenizer

REPOSITORY = Path(__file__).parents[3]
PROSE = {
    "Spanish": "Los Panthers cedieron solo 308 puntos y lideraron la liga en intercepciones (24), ¿verdad? " * 3,
    "German": "Die Verteidigung der Rechtsschutzversicherung kostete 3,5 Millionen Euro; das überraschte niemanden. "
    * 3,
    "Russian": "Функция пути может быть асинхронной, и тогда она выполняется в цикле событий. " * 3,
    "Chinese": "诺曼人开始进入意大利后不久，他们逐步进入拜占庭帝国和亚美尼亚，与佩切涅格人作战。" * 3,
    "Japanese": "パスオペレーション関数は、通常の関数でも非同期関数でも定義できます。" * 3,
}


@pytest.fixture(scope="module")
def tokenizer(models: Path) -> Tokenizer:
    return open_tokenizer(models / "bge_small_en/tokenizer.json")


def pieces(pattern: str, size: int) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(REPOSITORY.glob(pattern))]
    return [text[at : at + size] for text in texts for at in range(0, len(text), size)]


def test_two_letters_and_every_other_character_and_gap_before_a_sign_are_a_token() -> None:
    assert estimate(["", "oil", "ab, 12", "a  b", "x  {", "ß退"]) == [2, 4, 6, 4, 5, 4]


@pytest.mark.parametrize("pattern", ["fixtures/corpus/**/*.md", "rag/**/*.py", "rag/store/sql/*.sql"])
def test_documents_and_code_are_never_undercounted_piece_by_piece(tokenizer: Tokenizer, pattern: str) -> None:
    texts = pieces(pattern, 300)

    assert len(texts) > 20
    assert [
        text for text, n, true in zip(texts, estimate(texts), count(tokenizer, texts), strict=True) if n < true
    ] == []


@pytest.mark.parametrize("language", PROSE)
def test_other_languages_are_not_undercounted(tokenizer: Tokenizer, language: str) -> None:
    [estimated], [true] = estimate([PROSE[language]]), count(tokenizer, [PROSE[language]])

    assert true <= estimated <= 2 * true


def test_english_prose_leaves_chunks_most_of_their_size(tokenizer: Tokenizer) -> None:
    texts = pieces("fixtures/corpus/brightwater/**/*.md", 800)

    assert sum(estimate(texts)) <= 2.1 * sum(count(tokenizer, texts))
    assert sorted(estimate(texts))[len(texts) // 2] < 448  # the chunk's limit of tokens
