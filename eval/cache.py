"""`rag eval cache`: how near a question must be to have another's answer, by labelled pairs of questions."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench.result import Result, table
from eval.errors import CannotRun
from rag.answering.wording import says_the_same
from rag.errors import RagError
from rag.inference.opening import open_embedders
from rag.settings import Settings, load_settings

RAN, COULD_NOT_RUN = 0, 2
DISTANCES = tuple(round(0.01 * n, 2) for n in range(1, 21))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions, and whether one answer is right for both; `kind` says what tells them apart."""

    a: str
    b: str
    same: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair with the distance of its vectors, and whether its words pass the gate."""

    pair: Pair
    distance: float
    passes: bool


@dataclass(frozen=True, slots=True)
class Rates:
    """At one distance: pairs that are the same and hit, and pairs that are not and hit, as shares of their kind."""

    distance: float
    hits: float
    false_hits: float
    ungated_hits: float
    ungated_false_hits: float


def main(argv: Sequence[str]) -> int:
    """The exit code: 0, or 2 when it could not run."""
    arguments = _parser().parse_args(argv)
    try:
        pairs = read_pairs(arguments.pairs)
        compared, embedder = asyncio.run(_compare(pairs, load_settings()))
    except (CannotRun, RagError, OSError) as exc:
        sys.stderr.write(f"cannot run: {exc}\n")
        return COULD_NOT_RUN
    result = calibration(compared, most_false=arguments.most_false, embedder=embedder)
    sys.stdout.write(result.as_table() + result.as_json())
    return RAN


def read_pairs(path: Path) -> list[Pair]:
    """The labelled pairs of a JSONL file.

    Raises CannotRun naming the line at fault, and when there are not pairs of both labels.
    """
    pairs = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            pairs.append(_pair(json.loads(line)))
        except (ValueError, TypeError, KeyError) as exc:
            raise CannotRun(f'{path}:{number}: expected {{"a": text, "b": text, "same": true or false}}') from exc
    if {pair.same for pair in pairs} != {True, False}:
        raise CannotRun(f"{path}: pairs that are the same and pairs that are not are both needed")
    return pairs


def rates(compared: Sequence[Compared], distance: float) -> Rates:
    """What would hit at *distance*, with the gate and without."""
    same = [one for one in compared if one.pair.same]
    different = [one for one in compared if not one.pair.same]
    return Rates(
        distance,
        hits=_share(same, distance, gated=True),
        false_hits=_share(different, distance, gated=True),
        ungated_hits=_share(same, distance, gated=False),
        ungated_false_hits=_share(different, distance, gated=False),
    )


def calibration(compared: Sequence[Compared], *, most_false: float, embedder: str) -> Result:
    """The rates by distance, and the least distance with the most hits among those with few enough false ones."""
    found = [rates(compared, distance) for distance in DISTANCES]
    fit = [one for one in found if one.false_hits <= most_false]
    best = max(fit, key=lambda one: (one.hits, -one.distance), default=None)
    head = ["distance", "hits", "false hits", "hits without gate", "false hits without gate"]
    rows = [
        [f"{one.distance:.2f}", *(f"{share:.1%}" for share in (one.hits, one.false_hits))]
        + [f"{share:.1%}" for share in (one.ungated_hits, one.ungated_false_hits)]
        for one in found
    ]
    figures = {
        "RAG_ANSWER_CACHE_DISTANCE": best.distance if best else "none is safe enough",
        "hit_rate": best and best.hits,
        "false_hit_rate": best and best.false_hits,
        "hit_rate_without_gate": best and best.ungated_hits,
        "false_hit_rate_without_gate": best and best.ungated_false_hits,
        "pairs_same": sum(one.pair.same for one in compared),
        "pairs_different": sum(not one.pair.same for one in compared),
        "embedder": embedder,
    }
    return Result("cache", figures, table(head, rows) + _faults(compared, best))


async def _compare(pairs: Sequence[Pair], settings: Settings) -> tuple[list[Compared], str]:
    async with open_embedders(settings) as embedders:
        name, embedder = next(iter(embedders.items()))
        vectors = {text: await embedder.embed_query(text) for pair in pairs for text in (pair.a, pair.b)}
    compared = [
        Compared(pair, 1 - float(vectors[pair.a] @ vectors[pair.b]), says_the_same(pair.a, pair.b)) for pair in pairs
    ]
    return compared, name


def _share(compared: Sequence[Compared], distance: float, *, gated: bool) -> float:
    hits = [one for one in compared if one.distance <= distance and (one.passes or not gated)]
    return round(len(hits) / len(compared), 4)


def _faults(compared: Sequence[Compared], best: Rates | None) -> str:
    """The pairs that would wrongly hit, by name: what a threshold alone cannot tell."""
    wrong = [one for one in compared if best and not one.pair.same and one.passes and one.distance <= best.distance]
    return "".join(f"false hit at {one.distance:.3f}: {one.pair.a} | {one.pair.b}\n" for one in wrong)


def _pair(fields: dict[str, object]) -> Pair:
    a, b, same, kind = fields["a"], fields["b"], fields["same"], fields.get("kind", "")
    if not (isinstance(a, str) and isinstance(b, str) and isinstance(same, bool) and a.strip() and b.strip()):
        raise TypeError
    return Pair(a, b, same, str(kind))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rag eval cache",
        description="By labelled pairs of questions: the distance up to which one may have the other's answer.",
    )
    parser.add_argument(
        "--pairs", type=Path, required=True, metavar="FILE", help='lines of {"a": text, "b": text, "same": true|false}'
    )
    parser.add_argument(
        "--most-false", type=float, default=0.0, metavar="SHARE", help="of the different pairs that may hit; default: 0"
    )
    return parser
