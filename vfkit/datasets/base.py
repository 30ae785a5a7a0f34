"""What all datasets share: the list that flows out, rows that cannot be used, the seeded choice, the fingerprint."""

import difflib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from vfkit.images import ImageError, content_hash, load_image
from vfkit.sample import Sample


class RowError(NamedTuple):
    """A row of the data that gives no sample, and why."""

    sample_id: str
    reason: str


@dataclass
class Rows:
    """What a loader returns: every sample it can make, cheaply, and the rows it cannot use.

    `finish` is applied to the chosen samples alone: the place for work such as enlarging or drawing images.
    A ValueError it raises becomes that row's error.
    """

    samples: list[Sample]
    errors: list[RowError] = field(default_factory=list)
    finish: Callable[[Sample], Sample] = lambda sample: sample


class SampleList(list):
    """A list of samples that knows its dataset's name, its content's fingerprint and the rows left out of it."""

    def __init__(self, samples: Iterable[Sample], name: str, fingerprint: str, errors: Iterable[RowError] = ()):
        super().__init__(samples)
        self.name, self.fingerprint, self.errors = name, fingerprint, list(errors)


def distinct(samples: Iterable[Sample]) -> tuple[list[Sample], list[RowError]]:
    """Samples of distinct ids, the first of equals kept, and an error for each of the others."""
    kept: dict[str, Sample] = {}
    errors = []
    for sample in samples:
        if kept.setdefault(sample.id, sample) is not sample:
            errors.append(RowError(sample.id, f"the id {sample.id!r} occurs again; this later row is left out"))
    return list(kept.values()), errors


# --- the seeded choice ------------------------------------------------------------------------------------------------


def rank(*parts: Any) -> str:
    """A seeded random key: to sort by it shuffles, alike on every machine and whatever the first order was."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def select(samples: list[Sample], n: int | None, seed: int) -> list[Sample]:
    """`n` samples in seeded order, each category in proportion to its size; None or a large `n` takes all.

    Samples whose meta names the same `item` (V-FAT's six questions about one thing) stay together.
    """
    order = sorted(samples, key=lambda sample: (rank(seed, sample.meta.get("item", sample.id)), sample.id))
    if n is None or n >= len(order):
        return order
    left = quotas(Counter(sample.category for sample in order), n)
    chosen = []
    for sample in order:
        if left[sample.category]:
            left[sample.category] -= 1
            chosen.append(sample)
    return chosen


def quotas(sizes: dict[str, int], n: int) -> dict[str, int]:
    """How many of `n` each stratum gives: its share rounded down, what is left to the largest remainders."""
    total = sum(sizes.values())
    shares = {name: divmod(n * size, total) for name, size in sizes.items()}
    left = n - sum(whole for whole, _ in shares.values())
    favoured = sorted(shares, key=lambda name: (-shares[name][1], name))[:left]
    return {name: whole + (name in favoured) for name, (whole, _) in shares.items()}


# --- the fingerprint --------------------------------------------------------------------------------------------------


def fingerprint(samples: Iterable[Sample], errors: Iterable[RowError] = ()) -> str:
    """Digest of everything a model is asked, image contents included, and of what runs keep of each sample beside, so
    that edited data never pass for the old."""
    file_digest = cache(_file_digest)  # several questions may share an image
    whole = hashlib.sha256()
    for s in samples:
        images = [_digest(source, file_digest) for source in s.images]
        meta = json.dumps(s.meta, sort_keys=True, default=str)
        row = (s.id, images, s.question, s.options, s.answer, s.category, s.hint, s.prompt, meta)
        whole.update(repr(row).encode())
    for error in errors:
        whole.update(repr(tuple(error)).encode())
    return whole.hexdigest()[:16]


def _digest(source: Any, file_digest: Callable[[str], str]) -> str:
    if isinstance(source, str | os.PathLike):
        return file_digest(os.fspath(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return hashlib.sha256(source).hexdigest()
    if isinstance(source, Image.Image | np.ndarray):
        try:
            return content_hash(load_image(source))
        except ImageError:
            return "unreadable"  # becomes an error row
    return type(source).__name__  # nothing the image door opens: becomes an error row


def _file_digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"  # becomes an error row; its key differs once the file is there


def unknown(what: str, name: str, valid: Iterable[str]) -> ValueError:
    """The error for a name that does not exist: says which is nearest, and which there are."""
    valid = sorted(valid)
    near = difflib.get_close_matches(str(name), valid, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ValueError(f"unknown {what}: {name!r}; {hint}There are: {', '.join(valid) or 'none'}")
