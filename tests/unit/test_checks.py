"""The repository's own checks find what they are for."""

from pathlib import Path

import pytest

import check_docs
import check_sizes
import install
import lock


def test_a_function_of_61_lines_is_too_long_and_one_of_60_is_not():
    long = "def long():\n" + "    x = 1\n" * 60
    fits = "async def fits():\n" + "    x = 1\n" * 59
    assert list(check_sizes.long_functions(Path("a.py"), fits + long)) == [
        "a.py:61: function long has 61 lines (limit 60)"
    ]


def test_an_sql_block_is_measured_without_the_blank_lines_after_it():
    fits = "-- name: fits (a)\n" + "SELECT 1\n" * 59 + "\n\n"
    long = "-- name: long (a)\n" + "SELECT 1\n" * 60
    assert list(check_sizes.long_blocks(Path("a.sql"), fits + long)) == [
        "a.sql:63: SQL block long has 61 lines (limit 60)"
    ]


def test_a_link_to_a_page_that_is_not_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("[a](page.md) [b](https://example.com/x) [c](#here)\n[d](gone.md#part)\n")
    assert list(check_docs.broken_links(page)) == ["page.md:2: gone.md does not exist"]


def test_the_locks_pin_every_package_by_hash_and_hold_no_address():
    for name in lock.LOCKS:
        text = (lock.ROOT / name).read_text()
        assert lock.ADDRESS.search(text) is None
        entries = [line for line in text.splitlines() if "==" in line]
        assert text.count("\\\n    --hash=sha256:") >= len(entries) > 30


def test_a_pin_is_taken_from_the_lock_with_all_its_hashes():
    pin = install.locked("pytest-xdist")
    assert pin.startswith("pytest-xdist==")
    assert pin.count("--hash=sha256:") == 2
    assert pin.count("==") == 1
