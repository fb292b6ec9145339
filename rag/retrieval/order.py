"""The order of what both legs found: fused, with feedback, and with the cross-encoder's logits."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from rag.protocols import Vectors
from rag.ranking import Ranking
from rag.retrieval.feedback import HEAD, by_the_best
from rag.retrieval.fusion import by_scores, rrf, scaled
from rag.retrieval.repeats import repeats
from rag.retrieval.rerank import blend, by_logit
from rag.values import Chunk, ContentId, Hit, LegResult

FOREIGN_WEIGHT = 0.5  # of an embedder that does not know the question's language, beside words that do


@dataclass(frozen=True, slots=True)
class Order:
    """What a dense and a lexical leg found of one index, with the fused scores, best first."""

    fused: Mapping[ContentId, float]
    legs: tuple[LegResult, LegResult]
    ranking: Ranking

    @classmethod
    def of(cls, dense: LegResult, lexical: LegResult, ranking: Ranking) -> Order:
        """The order by the scores of both, or by their ranks alone, as *ranking* says."""
        weights = _weights(dense, ranking)
        fuse = rrf if ranking.fusion == "rrf" else by_scores
        return cls(dict(fuse((dense, lexical), weights=weights)), (dense, lexical), ranking)

    @property
    def generation(self) -> int:
        """The index that both legs searched."""
        return self.legs[0].generation

    def first(self, count: int) -> Order:
        """The best *count*."""
        return replace(self, fused=dict(islice(self.fused.items(), count)))

    def among(self, contents: Container[ContentId]) -> Order:
        """Those of *contents*."""
        return replace(self, fused={content: score for content, score in self.fused.items() if content in contents})

    @property
    def takes_feedback(self) -> bool:
        """Whether `with_feedback` may change it: ranks stay what they are, and so does what no dense leg found."""
        found_by_nearness = self.ranking.dense_weight > 0 and bool(self.legs[0].ranked)
        return len(self.fused) > HEAD and self.ranking.fusion == "scores" and found_by_nearness

    def with_feedback(self, vectors: Mapping[ContentId, Vectors]) -> Order:
        """What follows the first sorted by what the best are like, as much as the dense leg counts."""
        weights = _weights(self.legs[0], self.ranking)
        return replace(self, fused=by_the_best(self.fused, vectors, weight=weights[0] / sum(weights)))

    def hits(self, chunks: Mapping[ContentId, Chunk], logits: Mapping[ContentId, float]) -> list[Hit]:
        """The hits, with their chunks, blended with the *logits* of those that the cross-encoder read."""
        dense, lexical = ({ranked.content: ranked for ranked in leg.ranked} for leg in self.legs)
        fused_at = {content: rank for rank, content in enumerate(self.fused, 1)}
        reranked_at = {content: rank for rank, content in enumerate(by_logit(list(self.fused), logits), 1)}
        return [
            Hit(
                chunk=chunks[content],
                score=final,
                fused_rank=fused_at[content],
                fused_score=self.fused[content],
                dense=dense.get(content),
                lexical=lexical.get(content),
                rerank_rank=reranked_at.get(content),
                rerank_score=logits.get(content),
            )
            for content, final in self._blended(logits)
        ]

    def _blended(self, logits: Mapping[ContentId, float]) -> list[tuple[ContentId, float]]:
        if not logits:
            return list(self.fused.items())
        weights = {"fused_weight": self.ranking.fused_weight, "rerank_weight": self.ranking.rerank_weight}
        # reciprocal ranks are small numbers beside a relevance
        fused = scaled(self.fused, floor=0.0) if self.ranking.fusion == "rrf" else self.fused
        return blend(fused, logits, **weights)


def varied(hits: list[Hit], question: str) -> list[Hit]:
    """The hits, those after the others that say what a better one says, with no better score than the others."""
    repeated = repeats([hit.chunk for hit in hits], question)
    if not any(repeated):
        return hits
    first = [hit for hit, again in zip(hits, repeated, strict=True) if not again]
    last = [hit for hit, again in zip(hits, repeated, strict=True) if again]
    return [*first, *(replace(hit, score=min(hit.score, first[-1].score)) for hit in last)]


def _weights(dense: LegResult, ranking: Ranking) -> tuple[float, float]:
    return ranking.dense_weight * (1.0 if dense.fits else FOREIGN_WEIGHT), ranking.lexical_weight
