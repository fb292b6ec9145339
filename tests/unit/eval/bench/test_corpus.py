"""The generated documents."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

from eval.bench.corpus import ARTICLES, NOTES, Vocabulary, documents, write

WORDS = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst"]  # 720
VOCABULARY = Vocabulary(WORDS, ["ing", "ed", "ness"])


def _texts(seed: int = 1, chunks: int = 200) -> list[str]:
    return [text for _, text in documents(VOCABULARY, ARTICLES, chunks=chunks, seed=seed)]


def test_the_same_seed_writes_the_same_documents_and_another_one_others() -> None:
    assert _texts(seed=1) == _texts(seed=1)
    assert not set(_texts(seed=1)) & set(_texts(seed=2))


def test_no_document_and_no_paragraph_comes_twice() -> None:
    texts = _texts(chunks=500)

    paragraphs = [part for text in texts for part in text.split("\n\n") if len(part.split()) > 5]
    assert len(texts) > 20
    assert len(set(texts)) == len(texts)
    assert len(set(paragraphs)) == len(paragraphs)


def test_documents_have_every_kind_of_part() -> None:
    text = "\n\n".join(_texts())

    marks = ("---\ndoc_type: ", "---\n# ", "\n\n## ", "\n\n### ", "\n| -- |", "\n\n- ", "\n\n```python\n")
    assert [mark for mark in marks if mark not in text] == []


def test_documents_end_when_there_are_enough_bytes_for_the_chunks() -> None:
    few, many = (sum(len(t.encode()) for t in _texts(chunks=n)) for n in (200, 2000))

    longest = 10_000
    assert 200 * ARTICLES.chunk_bytes <= few < 200 * ARTICLES.chunk_bytes + longest
    assert 2000 * ARTICLES.chunk_bytes <= many < 2000 * ARTICLES.chunk_bytes + longest


def test_a_larger_corpus_begins_with_the_smaller_one() -> None:
    assert _texts(chunks=300)[: len(_texts(chunks=100))] == _texts(chunks=100)


def test_words_are_drawn_by_zipfs_law() -> None:
    drawn = Counter(VOCABULARY.draw(random.Random(1), 100_000))

    # a word of rank r comes (r + 2.7) ** -1.07 times: (7.7 / 3.7) ** 1.07 = 2.19, (52.7 / 3.7) ** 1.07 = 17.2
    assert 2.0 < drawn[WORDS[0]] / drawn[WORDS[4]] < 2.4
    assert 14 < drawn[WORDS[0]] / drawn[WORDS[49]] < 21


def test_many_of_the_rare_words_have_an_ending() -> None:
    drawn = VOCABULARY.draw(random.Random(1), 20_000)

    ended = [word for word in drawn if len(word) > 3 and word.endswith(("ing", "ed", "ness"))]
    assert 0.05 < len(ended) / len(drawn) < 0.3
    assert not {word for word in ended if word[:3] in WORDS[:100]}
    assert 0.03 < sum(word.isdigit() for word in drawn) / len(drawn) < 0.05


def test_the_vocabulary_of_a_tokenizer_is_its_words_by_their_ids(tmp_path: Path) -> None:
    pieces = {"[CLS]": 0, "a": 1, "##s": 5, "of": 3, "the": 2, "##ing": 4, "größe": 6, "pump": 7, "##1": 8, "2024": 9}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"vocab": pieces}}))

    drawn = Counter(Vocabulary.of_tokenizer(file).draw(random.Random(1), 5000))

    assert [word for word, _ in drawn.most_common() if word.isalpha()] == ["the", "of", "pump"]


def test_documents_are_written_under_their_names(tmp_path: Path) -> None:
    written = write(tmp_path, VOCABULARY, NOTES, chunks=1500, seed=3)

    files = {path.relative_to(tmp_path).as_posix(): path.read_text("utf-8") for path in tmp_path.rglob("*.md")}
    assert files == dict(documents(VOCABULARY, NOTES, chunks=1500, seed=3))
    assert written == len(files) > 100
    assert {name.partition("/")[0] for name in files} == {"000", "001"}
