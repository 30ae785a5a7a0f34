"""Fingerprints of files: their whole content, read once; later calls look the digest up."""

import hashlib
import os
import re
import time
from contextlib import suppress
from pathlib import Path

_SMALL = 2**20  # bytes; hashed each time, faster than a look-up
_SETTLED = 2 * 10**9  # nanoseconds: a file younger than this may change again without its times showing it
_known: dict[str, str] = {}  # of this process, for machines without a place to keep digests


def fingerprint_file(path: str | Path) -> str:
    """Return the SHA-256 of a file's content, in hex.

    A digest is kept under the file's path, size, inode and times of change, in `$VFKIT_CACHE` (default: `vfkit` in
    `$XDG_CACHE_HOME` or `~/.cache`): a large file is read once for as long as it does not change. A file of the hub's
    cache that is named by its own SHA-256 is not read at all.

    Raises:
        OSError: the file cannot be read.
    """
    path = Path(path).resolve()
    if path.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", path.name):
        path.stat()  # raises where the link leads nowhere
        return path.name
    state = path.stat()
    if state.st_size <= _SMALL:
        return _digest(path)
    what = (str(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
    key = hashlib.sha256(repr(what).encode()).hexdigest()
    kept = cache_folder() / "fingerprints" / key
    if key not in _known:
        with suppress(OSError):
            _known[key] = kept.read_text()
    if not re.fullmatch(r"[0-9a-f]{64}", _known.get(key, "")):
        digest = _digest(path)
        if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) < _SETTLED:
            return digest
        _known[key] = digest
        _keep(kept, digest)
    return _known[key]


def cache_folder() -> Path:
    """Return the folder of the kit's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("VFKIT_CACHE") or Path(home, "vfkit"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _keep(kept: Path, digest: str) -> None:
    """Write atomically; do nothing if the folder is not writable."""
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_name(f"{kept.name}.{os.getpid()}")
        draft.write_text(digest)
        draft.replace(kept)
