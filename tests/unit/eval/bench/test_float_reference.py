"""The numbers of the quantised file as torch takes them."""

from __future__ import annotations

import numpy as np

from eval.bench.float_reference import config, dequantised, float_weights


def quantised(name: str, steps: list[list[int]], *, scale: float, zero: int) -> dict[str, np.ndarray]:
    return {
        f"{name}_quantized": np.array(steps, np.uint8),
        f"{name}_scale": np.array(scale, np.float32),
        f"{name}_zero_point": np.array(zero, np.uint8),
    }


def test_a_weight_is_its_steps_from_the_zero_point() -> None:
    stored = quantised("w", [[0, 128], [129, 255]], scale=0.5, zero=128)

    found = dequantised(stored, "w")

    assert found.dtype == np.float32
    assert found.tolist() == [[-64.0, 0.0], [0.5, 63.5]]


def test_weights_get_the_names_and_the_orientation_of_torch() -> None:
    stored = {
        **quantised("bert.embeddings.word_embeddings.weight", [[3, 5]], scale=1.0, zero=1),
        **quantised("onnx::MatMul_7", [[2, 3, 4]], scale=2.0, zero=2),
        **quantised("classifier.weight", [[9], [7]], scale=1.0, zero=8),
        "bert.encoder.layer.0.output.dense.bias": np.array([1, 2, 3], np.float32),
        "/bert/Constant_output_0": np.array(1.0, np.float32),
    }
    products = [
        ("/bert/encoder/layer.0/output/dense/MatMul_quant", "onnx::MatMul_7_quantized"),
        ("/classifier/Gemm_MatMul_quant", "classifier.weight_quantized"),
    ]

    found = float_weights(stored, products)

    assert {name: array.tolist() for name, array in found.items()} == {
        "bert.embeddings.word_embeddings.weight": [[2.0, 4.0]],
        "bert.encoder.layer.0.output.dense.weight": [[0.0], [2.0], [4.0]],
        "bert.encoder.layer.0.output.dense.bias": [1.0, 2.0, 3.0],
        "classifier.weight": [[1.0, -1.0]],
    }


def test_the_configuration_is_read_off_the_shapes() -> None:
    def weight(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    found = config(
        {
            "bert.embeddings.word_embeddings.weight": weight(100, 24),
            "bert.embeddings.position_embeddings.weight": weight(64, 24),
            "bert.embeddings.token_type_embeddings.weight": weight(2, 24),
            "bert.encoder.layer.0.intermediate.dense.weight": weight(96, 24),
            "bert.encoder.layer.1.intermediate.dense.weight": weight(96, 24),
            "classifier.weight": weight(1, 24),
        }
    )

    assert (found["vocab_size"], found["hidden_size"], found["intermediate_size"]) == (100, 24, 96)
    assert (found["num_hidden_layers"], found["max_position_embeddings"], found["num_labels"]) == (2, 64, 1)
