"""Fingerprints of files: every byte counts, and a large file is read once."""

import os
import time

import pytest

from vfkit import fingerprint
from vfkit.fingerprint import fingerprint_file

LARGE = 80 * 2**20


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprint, "_known", {})
    return tmp_path / "cache" / "fingerprints"


@pytest.fixture
def large(tmp_path):
    """80 MB, all zeros but the ends, taking no room on the disk; last changed an hour ago."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(b"head")
        file.truncate(LARGE - 4)
        file.seek(0, os.SEEK_END)
        file.write(b"tail")
    _age(path)
    return path


def _age(path):
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))


def _patch(path, place):
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"changed")


def _settled(monkeypatch):
    """As if it were an hour later: the times of change have settled."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 3600 * 10**9)


@pytest.mark.parametrize("place", [0, LARGE // 2, LARGE - 7])
def test_a_change_anywhere_shows_even_where_size_and_time_are_put_back(large, monkeypatch, place):
    _settled(monkeypatch)
    before = fingerprint_file(large)
    times = large.stat().st_mtime_ns
    _patch(large, place)
    os.utime(large, ns=(times, times))
    assert fingerprint_file(large) != before


def test_a_large_file_is_read_once_also_by_other_processes(large, cache, monkeypatch):
    _settled(monkeypatch)
    first = fingerprint_file(large)
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(fingerprint, "_digest", lambda path: pytest.fail("read again"))
    assert fingerprint_file(large) == first
    monkeypatch.setattr(fingerprint, "_known", {})  # another process
    assert fingerprint_file(large) == first


def test_a_file_just_written_is_not_trusted_to_its_times(large, cache):
    _patch(large, 10)
    fingerprint_file(large)
    assert not cache.exists()


def test_a_damaged_note_is_not_believed(large, cache, monkeypatch):
    _settled(monkeypatch)
    first = fingerprint_file(large)
    for kept in cache.iterdir():
        kept.write_text("")
    monkeypatch.setattr(fingerprint, "_known", {})
    assert fingerprint_file(large) == first


def test_without_a_place_to_keep_digests_they_are_made(large, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("VFKIT_CACHE", str(tmp_path / "file"))
    _settled(monkeypatch)
    assert fingerprint_file(large) == fingerprint._digest(large)


def test_a_blob_of_the_hubs_cache_is_known_by_its_name(tmp_path):
    blob = tmp_path / "blobs" / ("ab" * 32)
    blob.parent.mkdir()
    blob.write_bytes(b"anything")
    link = tmp_path / "model.safetensors"
    link.symlink_to(blob)
    assert fingerprint_file(link) == "ab" * 32
    blob.unlink()
    with pytest.raises(OSError):
        fingerprint_file(link)


def test_a_copy_has_the_fingerprint_of_its_original(large, tmp_path):
    copy = tmp_path / "copy"
    copy.write_bytes(large.read_bytes())
    assert fingerprint_file(copy) == fingerprint_file(large)
