"""`rag eval --beir`, whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.directories import write

BENCHMARK = {
    "corpus.jsonl": '{"_id": "refunds", "title": "", "text": "Refunds take five days."}\n'
    '{"_id": "parking", "title": "", "text": "Parking is free of charge."}\n',
    "queries.jsonl": '{"_id": "q1", "text": "how long do refunds take"}\n'
    '{"_id": "q2", "text": "what does parking cost"}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\trefunds\t1\nq2\trefunds\t1\n",
}


def _evaluated(
    folder: Path, details: Path, environment: dict[str, str], database_url: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rag.eval", "--beir", str(folder), "--details", str(details)],
        cwd=REPOSITORY,
        env={**environment, "DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_benchmark_is_measured_and_each_question_noted(
    tmp_path: Path, process_environment: dict[str, str], database_url: str
) -> None:
    write(tmp_path, BENCHMARK)
    details = tmp_path / "new" / "details.jsonl"

    done = _evaluated(tmp_path, details, process_environment, database_url)

    result = json.loads(done.stdout)
    assert (result["queries"], result["docs"], result["recall@1"], result["mrr@10"]) == (2, 2, 0.5, 0.75)
    found, missed = map(json.loads, details.read_text().splitlines())
    assert (found["_id"], found["found"], found["recall@1"]) == ("q1", ["refunds", "parking"], 1.0)
    assert (missed["_id"], missed["found"], missed["relevant"]) == ("q2", ["parking", "refunds"], {"refunds": 1})


def test_details_that_cannot_be_written_are_refused_before_anything_is_ingested(
    tmp_path: Path, process_environment: dict[str, str], database_url: str
) -> None:
    write(tmp_path, BENCHMARK)

    done = _evaluated(tmp_path, tmp_path / "qrels.tsv" / "details", process_environment, database_url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"cannot run: --details: {tmp_path}/qrels.tsv/details cannot be written: File exists\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_details_on_a_full_disk_are_named(
    tmp_path: Path, process_environment: dict[str, str], database_url: str
) -> None:
    write(tmp_path, BENCHMARK)

    done = _evaluated(tmp_path, Path("/dev/full"), process_environment, database_url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("cannot run: --details: /dev/full cannot be written: No space left on device\n")
