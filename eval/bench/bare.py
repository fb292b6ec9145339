"""The embedding model alone, in the best way we know of: what no service around it can be faster than.

Run as `python -m eval.bench.bare MODEL_FOLDER TEXTS.json [WAY]` it prints the texts a second of each way, or of one.
It is a process of its own, so that neither its memory nor its threads are the benchmark's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession, SessionOptions
from tokenizers import Tokenizer

MAX_TOKENS = 512
CORES = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Way:
    """How the texts are given to one session: by how many threads, with how many of its own, how many at a time."""

    threads: int
    intra_op: int
    batch: int

    @property
    def name(self) -> str:
        """The way in words."""
        texts = "one text" if self.batch == 1 else f"{self.batch} texts"
        return f"{texts} a run, {self.threads} at a time, intra_op {self.intra_op}"


ALONE = Way(CORES, 1, 1)
WAYS = tuple(dict.fromkeys((ALONE, Way(1, CORES, 1), Way(CORES, 1, 8), Way(1, CORES, 8), Way(1, CORES, 32))))


def model(folder: Path, way: Way) -> Callable[[Sequence[str]], None]:
    """What embeds one batch with the model in *folder*, tokenising included."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()  # the file carries a padding to 512
    tokenizer.enable_truncation(MAX_TOKENS)
    if way.batch > 1:
        tokenizer.enable_padding()  # to the longest of its batch
    session = _session(folder, way)

    def embed(batch: Sequence[str]) -> None:
        encodings = tokenizer.encode_batch(list(batch)) if len(batch) > 1 else [tokenizer.encode(batch[0])]
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})

    return embed


def texts_a_second(folder: Path, texts: Sequence[str], way: Way) -> float:
    """The rate at which the model in *folder* embeds *texts*, the longest first."""
    embed = model(folder, way)
    ordered = sorted(texts, key=len, reverse=True)
    embed(ordered[:1])  # the first run allocates
    started = time.perf_counter()
    with ThreadPoolExecutor(way.threads) as pool:
        list(pool.map(embed, (ordered[n : n + way.batch] for n in range(0, len(ordered), way.batch))))
    return len(texts) / (time.perf_counter() - started)


def rates(folder: Path, texts: Sequence[str], ways: Sequence[Way]) -> dict[str, float]:
    """Texts a second by the name of each way: the better of two turns, for machines where others work too."""
    turns = [{way.name: texts_a_second(folder, texts, way) for way in ways} for _ in range(2)]
    return {way.name: max(turn[way.name] for turn in turns) for way in ways}


def _session(folder: Path, way: Way) -> InferenceSession:
    options = SessionOptions()
    options.intra_op_num_threads = way.intra_op
    options.inter_op_num_threads = 1
    return InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def main(arguments: Sequence[str]) -> None:
    """Print the rates that *arguments* ask for."""
    folder, texts = Path(arguments[0]), json.loads(Path(arguments[1]).read_bytes())
    if len(arguments) > 2:  # noqa: PLR2004 - a way is named
        [way] = (way for way in WAYS if way.name == arguments[2])
        found = {way.name: texts_a_second(folder, texts, way)}
    else:
        found = rates(folder, texts, WAYS)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
