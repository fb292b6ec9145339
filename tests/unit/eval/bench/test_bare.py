"""The bare model, measured on the real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.bench.bare import ALONE, WAYS, main, texts_a_second

TEXTS = ["a short text", "another text that is a little longer", "words " * 600]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_way_embeds_texts_of_any_length(models: Path, way: object) -> None:
    assert texts_a_second(models / "bge_small_en", TEXTS, way) > 0  # type: ignore[arg-type]


def test_a_named_way_is_measured_alone(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(TEXTS))

    main([str(models / "bge_small_en"), str(texts), ALONE.name])

    assert list(json.loads(capsys.readouterr().out)) == [ALONE.name]
