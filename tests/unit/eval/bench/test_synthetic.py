"""Synthetic corpora are what the store and the oracle both take them for."""

from __future__ import annotations

import numpy as np
import pytest

from eval.bench.synthetic import LONGEST, SHORTEST, Chunks, Corpus, Lexicon, Space, invented
from rag.analysis import analyse
from rag.values import content_id


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon(invented(), size=500)


def corpus(lexicon: Lexicon, seed: int = 1) -> Corpus:
    return Corpus(lexicon, Space.random(7), seed=seed)


def only_part(made: Corpus, chunks: int) -> Chunks:
    [part] = made.parts(chunks)
    return part


def test_words_are_one_term_each_and_no_two_have_the_same() -> None:
    lexicon = Lexicon(["the", "parcel", "parcels", "big-boat", "boat"])

    assert lexicon.words == ["parcel", "boat"]
    assert lexicon.terms == ["parcel", "boat"]


def test_there_are_words_for_a_whole_lexicon() -> None:
    assert len(set(Lexicon(invented()).terms)) == 50_000


def test_frequent_words_come_first(lexicon: Lexicon) -> None:
    counts = np.bincount(lexicon.draw(np.random.default_rng(1), (50_000,)), minlength=500)

    assert counts[:10].min() > counts[-100:].max()


def test_documents_have_ten_chunks_whose_terms_are_those_of_their_text(lexicon: Lexicon) -> None:
    made = corpus(lexicon)
    documents = made.prepared(only_part(made, 25))

    assert [len(document.drafts) for document in documents] == [10, 10, 5]
    assert len({document.external_id for document in documents}) == 3
    for document in documents:
        for draft, terms in zip(document.drafts, document.terms, strict=True):
            assert document.text[draft.start : draft.end] == draft.text == draft.indexed
            assert analyse(draft.indexed) == terms
            assert SHORTEST <= len(terms) <= LONGEST


def test_contents_are_in_the_order_of_the_rows_and_no_two_alike(lexicon: Lexicon) -> None:
    made = corpus(lexicon)
    part = only_part(made, 200)
    documents = made.prepared(part)

    contents = made.contents(part)

    assert contents == [content_id(draft.indexed) for document in documents for draft in document.drafts]
    assert len(set(contents)) == 200


def test_vectors_have_length_one_in_the_precision_that_is_stored_and_lie_in_clusters(lexicon: Lexicon) -> None:
    vectors = only_part(corpus(lexicon), 2000).vectors

    similar = np.sort(vectors @ vectors[0])[::-1]

    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-3)
    assert np.array_equal(vectors, vectors.astype(np.float16).astype(np.float32))
    assert similar[1] > 0.5  # of its own cluster
    assert np.median(similar) < 0.1


def test_facets_are_of_the_document_and_keep_the_share_they_name(lexicon: Lexicon) -> None:
    made = corpus(lexicon)
    part = only_part(made, 20_000)

    first, second = made.prepared(part)[:2]

    assert np.mean(part.n < 0.1) == pytest.approx(0.1, abs=0.03)
    assert np.mean(part.closed) == pytest.approx(0.15, abs=0.03)
    assert len(set(part.n[:10])) == 1
    assert first.facets.metadata == {"n": part.n[0]}
    assert second.facets.metadata == {"n": part.n[10]}
    assert (first.facets.acl == ("board",)) == part.closed[0]


def test_the_same_seed_gives_the_same_chunks_and_another_gives_others(lexicon: Lexicon) -> None:
    first, again, other = (corpus(lexicon, seed) for seed in (3, 3, 4))

    one, two, three = (only_part(made, 30) for made in (first, again, other))

    assert np.array_equal(one.vectors, two.vectors)
    assert first.contents(one) == again.contents(two)
    assert not set(first.contents(one)) & set(other.contents(three))


def test_chunks_of_documents_with_gaps_between_their_numbers_stay_with_them(lexicon: Lexicon) -> None:
    made = corpus(lexicon)

    documents = made.prepared(made.chunks(np.repeat(np.array([3, 20], np.int32), 2)))

    assert [(document.external_id, len(document.drafts)) for document in documents] == [("0000003", 2), ("0000020", 2)]
