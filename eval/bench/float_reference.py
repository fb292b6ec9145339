"""The cross-encoder as sentence-transformers runs it: in torch, with float32 weights, in batches.

The weights are those of the quantised ONNX file, turned back into numbers: the activations are the float32 model's,
the weights are rounded as ours are. Run as `python -m eval.bench.float_reference MODEL_FOLDER EMPTY_FOLDER MAX_TOKENS`
it answers each line `{"query", "texts"}` with a line `{"seconds", "cpu_seconds", "logits"}`. It is a process of its
own, so that torch's memory and threads are not the benchmark's.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADS = 12  # of every MiniLM-L12-H384; no weight's shape tells
LAYER = re.compile(r"bert\.encoder\.layer\.(\d+)\.")
QUANTISED, SCALE, ZERO = "_quantized", "_scale", "_zero_point"
PRODUCT = re.compile(r"/(?:Gemm_)?MatMul_quant$")
OURS = ("bert.", "classifier.")

Weights = dict[str, NDArray[np.float32]]


def float_weights(stored: Mapping[str, NDArray[Any]], products: Iterable[tuple[str, str]]) -> Weights:
    """The float32 weights of a quantised BERT by their names in torch.

    *stored* are the numbers of the ONNX file; *products* are the names of its integer products and of their matrices.
    """
    found = {
        name: np.asarray(array, np.float32)
        for name, array in stored.items()
        if name.startswith(OURS) and not name.endswith((QUANTISED, SCALE, ZERO))
    }
    for name in stored:
        if name.startswith("bert.embeddings.") and name.endswith(QUANTISED):
            found[name.removesuffix(QUANTISED)] = dequantised(stored, name.removesuffix(QUANTISED))
    for product, matrix in products:  # named after its module; torch keeps the matrix the other way round
        module = PRODUCT.sub("", product).strip("/").replace("/", ".")
        found[f"{module}.weight"] = np.ascontiguousarray(dequantised(stored, matrix.removesuffix(QUANTISED)).T)
    return found


def dequantised(stored: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.float32]:
    """(quantised - zero point) x scale."""
    steps = stored[name + QUANTISED].astype(np.int32) - stored[name + ZERO].astype(np.int32)
    return np.asarray(steps * stored[name + SCALE], np.float32)


def config(weights: Weights) -> dict[str, object]:
    """The model's config.json, read off the shapes of its weights."""
    layers = {int(found[1]) for name in weights if (found := LAYER.match(name))}
    vocabulary, hidden = weights["bert.embeddings.word_embeddings.weight"].shape
    return {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "num_hidden_layers": len(layers),
        "num_attention_heads": HEADS,
        "intermediate_size": weights["bert.encoder.layer.0.intermediate.dense.weight"].shape[0],
        "max_position_embeddings": weights["bert.embeddings.position_embeddings.weight"].shape[0],
        "type_vocab_size": weights["bert.embeddings.token_type_embeddings.weight"].shape[0],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "num_labels": weights["classifier.weight"].shape[0],
    }


def write_model(source: Path, folder: Path) -> None:
    """Put the model of *source* into *folder* as transformers reads it."""
    import onnx  # noqa: PLC0415 - an extra
    from onnx import numpy_helper  # noqa: PLC0415
    from safetensors.numpy import save_file  # noqa: PLC0415 - comes with sentence-transformers

    graph = onnx.load(source / "model.onnx").graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    products = [(node.name, node.input[1]) for node in graph.node if node.op_type == "MatMulInteger"]
    weights = float_weights(stored, products)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config(weights)), "utf-8")
    tokenizer = json.loads((source / "tokenizer.json").read_bytes())
    tokenizer |= {"padding": None, "truncation": None}  # the file pads everything to 512
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    marks = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, **marks}
    inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (folder / "tokenizer_config.json").write_text(json.dumps({**kind, **inputs}), "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Answer the lines of standard input."""
    source, folder, max_tokens = Path(arguments[0]), Path(arguments[1]), int(arguments[2])
    write_model(source, folder)
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - an extra
    from torch.nn import Identity  # noqa: PLC0415

    model = CrossEncoder(str(folder), device="cpu", max_length=max_tokens, activation_fn=Identity())
    for line in sys.stdin:
        asked = json.loads(line)
        pairs = [(asked["query"], text) for text in asked["texts"]]
        started, cpu_started = time.perf_counter(), time.process_time()
        logits = model.predict(pairs, show_progress_bar=False)
        spent = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu_started}
        sys.stdout.write(json.dumps({**spent, "logits": [float(logit) for logit in logits]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
