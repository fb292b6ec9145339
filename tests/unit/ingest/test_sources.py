from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ingest.pipeline import Result, Source
from ingest.sources import Found, find_all, find_files, fingerprint
from rag.errors import InvalidInput
from tests.directories import UNREADABLE_FILE, make_unlistable, write


def names(found: list[Found]) -> list[str]:
    return [one.external_id for one in found]


def test_files_are_named_relative_to_their_folder_in_order_and_hidden_ones_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"b.md": "b", "a/z.txt": "z", ".hidden/c.md": "c", ".d.md": "d"})

    listing = find_files([tmp_path])

    assert names(listing.found) == [".d.md", ".hidden/c.md", "a/z.txt", "b.md"]
    assert (listing.others, listing.unlisted) == ({}, [])


def test_what_is_not_read_is_counted_by_kind_and_hidden_files_are_not(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a", "one.PNG": "1", "two.png": "2", "LICENSE": "l", ".DS_Store": "s"})
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "circle.md").symlink_to(tmp_path / "circle.md")
    os.mkfifo(tmp_path / "pipe.md")

    listing = find_files([tmp_path])

    assert names(listing.found) == ["a.md"]
    assert listing.other_kinds() == Counter({".png": 2, "broken link": 2, "no suffix": 1, "special file": 1})
    assert listing.others[".DS_Store"] == "no suffix"


def test_a_link_to_a_file_is_read_and_a_link_to_a_folder_is_not(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write(outside, {"o.md": "o", "p.md": "p"})
    inside.mkdir()
    (inside / "a.md").symlink_to(outside / "o.md")
    (inside / "folder.md").symlink_to(outside)

    listing = find_files([inside])

    assert names(listing.found) == ["a.md"]
    assert listing.other_kinds() == Counter({"link to a folder": 1})
    with pytest.raises(InvalidInput, match=r"folder\.md is a link to a folder, which is not followed"):
        find_all(inside, perhaps_none=False)


def test_a_folder_that_cannot_be_listed_is_a_failure_beside_the_files_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a", "z/b.md": "b"})
    make_unlistable(tmp_path)

    listing = find_files([tmp_path])

    [failure] = listing.unlisted
    assert names(listing.found) == ["a.md", "z/b.md"]
    assert (failure.state, failure.code) == ("failed", "unreadable")
    assert failure.external_id.startswith("ddd")
    assert failure.external_id.endswith("d/")
    assert failure.reason.endswith(f"cannot be listed: {os.strerror(errno.ENAMETOOLONG)}")
    shutil.rmtree(tmp_path / ("d" * 200))


def test_no_whole_list_comes_from_a_directory_with_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a"})
    make_unlistable(tmp_path)

    with pytest.raises(InvalidInput, match=r"cannot be listed: .*; nothing was changed"):
        find_all(tmp_path, perhaps_none=True)

    shutil.rmtree(tmp_path / ("d" * 200))


@pytest.mark.parametrize(("name", "reason"), [("nowhere", "does not exist"), ("a.md", "is no directory")])
def test_no_whole_list_comes_from_what_is_no_directory(tmp_path: Path, name: str, reason: str) -> None:
    write(tmp_path, {"a.md": "a"})

    with pytest.raises(InvalidInput, match=f"{name} {reason}"):
        find_all(tmp_path / name, perhaps_none=True)


def test_an_empty_directory_is_a_whole_list_only_when_that_is_expected(tmp_path: Path) -> None:
    write(tmp_path, {"logo.png": "p"})

    with pytest.raises(InvalidInput, match=r"no readable file in .*--delete-all"):
        find_all(tmp_path, perhaps_none=False)

    assert find_all(tmp_path, perhaps_none=True).others == {"logo.png": ".png"}


@pytest.mark.parametrize("size", [0, 1, 3 * 2**20 + 1])
def test_the_fingerprint_of_a_file_is_that_of_its_document(tmp_path: Path, size: int) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"x" * size)

    hashed = fingerprint(Found("a.md", file), "papers")

    assert hashed == Source("renamed.md", b"x" * size, folder="papers").fingerprint()
    assert hashed != Source("a.md", b"x" * size, folder="default").fingerprint()


def test_a_file_that_cannot_be_read_has_a_failure_for_a_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to(UNREADABLE_FILE)
    [found] = find_files([tmp_path]).found

    failed = fingerprint(found, "default")

    assert isinstance(failed, Result)
    assert (failed.external_id, failed.state, failed.code) == ("a.md", "failed", "unreadable")


def test_a_name_that_no_document_can_have_is_a_failure_that_says_so(tmp_path: Path) -> None:
    failed = fingerprint(Found("half \udcff.md", tmp_path / "never read"), "default")

    assert isinstance(failed, Result)
    assert failed.code == "invalid_input"
