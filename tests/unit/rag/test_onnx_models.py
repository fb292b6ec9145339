from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

from rag.inference.onnx import MAX_TOKENS, QUERY_PREFIX, OnnxEmbedder, OnnxReranker
from rag.values import Deadline

TEXTS = ["Refunds take five days.", "The pump must be primed before use. " * 12, "SEC-2042", "退款需要五天", ""]
LATER = Deadline(float("inf"))


async def test_an_embedding_does_not_depend_on_its_neighbours(embedder: OnnxEmbedder) -> None:
    together = await embedder.embed_documents(TEXTS)

    for n, text in enumerate(TEXTS):
        assert (await embedder.embed_documents([text]))[0].tobytes() == together[n].tobytes()


async def test_a_question_is_embedded_with_the_models_prefix(embedder: OnnxEmbedder) -> None:
    query = await embedder.embed_query("how long do refunds take?")
    [document] = await embedder.embed_documents([QUERY_PREFIX + "how long do refunds take?"])

    assert query.tobytes() == document.tobytes()


async def test_a_long_text_is_cut_and_not_refused(embedder: OnnxEmbedder) -> None:
    long = "oil " * (MAX_TOKENS - 2)  # one token a word, and two marks

    full, longer = await embedder.embed_documents([long, long + "refund " * 500])

    assert full.tobytes() == longer.tobytes()


def test_tokens_are_counted_before_any_cut_marks_included(embedder: OnnxEmbedder) -> None:
    assert embedder.count_tokens(["", "oil", "oil " * 600]) == [2, 3, 602]


async def test_the_text_that_answers_has_the_highest_logit(reranker: OnnxReranker) -> None:
    texts = ["The pump needs oil.", "Refunds take five business days.", "Money is printed on paper."]

    scores = await reranker.score("how long does a refund take?", texts, LATER)

    assert max(range(3), key=lambda n: scores[n] or -99.0) == 1


async def test_a_logit_does_not_depend_on_its_neighbours(reranker: OnnxReranker) -> None:
    texts = TEXTS[:4]

    together = await reranker.score("refund?", texts, LATER)

    assert [(await reranker.score("refund?", [text], LATER))[0] for text in texts] == together


async def test_a_logit_is_that_of_the_pair_as_the_models_tokenizer_writes_it(
    reranker: OnnxReranker, models: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(models / "reranker_en/tokenizer.json"))
    tokenizer.no_padding()
    pair = tokenizer.encode("how long does a refund take?", TEXTS[0])
    inputs = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
    session = InferenceSession(models / "reranker_en/model.onnx", providers=["CPUExecutionProvider"])
    [expected] = session.run(None, {name: np.array([row]) for name, row in inputs.items()})

    [score] = await reranker.score("how long does a refund take?", TEXTS[:1], LATER)

    assert score == pytest.approx(float(expected[0, 0]), abs=1e-5)


async def test_a_long_question_leaves_room_for_the_text(reranker: OnnxReranker) -> None:
    question = "how long does a refund take " * 200
    texts = ["Refunds take five days.", "The pump needs oil.", "Offices close at six."]

    scores = await reranker.score(question, texts, LATER)

    assert len(set(scores)) == 3
    assert max(range(3), key=lambda n: scores[n] or -99.0) == 0


async def test_what_is_asked_at_the_end_of_a_long_question_is_read(
    embedder: OnnxEmbedder, reranker: OnnxReranker
) -> None:
    account = "On Monday we drove to the office by car with two colleagues and waited for the others in the hall. " * 40
    texts = ["A text about boats.", "The parking fee is 3.", "The pump needs oil."]

    near = await embedder.embed_documents(texts) @ await embedder.embed_query(account + "How much is the parking fee?")
    scores = [await reranker.score(account + asked, texts, LATER) for asked in ("The parking fee?", "Which boats?")]

    assert int(near.argmax()) == 1
    assert scores[0] != scores[1]


async def test_a_long_text_is_scored_by_its_beginning(reranker: OnnxReranker) -> None:
    long = "oil " * 400

    scores = await reranker.score("refund?", [long, long + "refunds take five days"], LATER)

    assert scores[0] == scores[1]
