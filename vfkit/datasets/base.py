"""What all data sets share: lists of samples, rows that cannot be used, the seeded choice, the fingerprint."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from vfkit.fingerprint import fingerprint_file
from vfkit.images import ImageError, content_hash, load_image
from vfkit.names import unknown  # noqa: F401 - what else imports it from here may go on
from vfkit.sample import Sample

UNREADABLE = "unreadable"
"""The digest of an image that cannot be read, which becomes an error row."""


class DatasetUnavailable(RuntimeError):
    """A data set that is not available; the message says which, what was tried, and what to do."""


class RowError(NamedTuple):
    """A row of the data that gives no sample, and why."""

    sample_id: str
    reason: str


@dataclass
class Rows:
    """What a loader returns: every sample it can make, cheaply, and the rows it cannot use.

    `finish` is applied to the chosen samples only: the place for work such as enlarging or drawing images.
    A ValueError it raises becomes that row's error. `notes` say what a user should know of the data as a whole.
    """

    samples: list[Sample]
    errors: list[RowError] = field(default_factory=list)
    finish: Callable[[Sample], Sample] = lambda sample: sample
    notes: list[str] = field(default_factory=list)


class SampleList(list):
    """A list of samples that knows its dataset's name, its content's fingerprint, the rows left out of it and the notes
    on the data as a whole."""

    def __init__(
        self,
        samples: Iterable[Sample],
        name: str,
        fingerprint: str,
        errors: Iterable[RowError] = (),
        notes: Iterable[str] = (),
    ):
        super().__init__(samples)
        self.name, self.fingerprint, self.errors, self.notes = name, fingerprint, list(errors), list(notes)


def distinct(samples: Iterable[Any]) -> tuple[list[Any], list[RowError]]:
    """Samples (or items) of distinct ids, the first of equals kept, and an error for each of the others."""
    kept: dict[str, Any] = {}
    errors = []
    for sample in samples:
        if kept.setdefault(sample.id, sample) is not sample:
            errors.append(RowError(sample.id, f"the id {sample.id!r} occurs again; this later row is left out"))
    return list(kept.values()), errors


# --- the seeded choice ------------------------------------------------------------------------------------------------


def rank(*parts: Any) -> str:
    """Seeded random key: sorting by it shuffles, the same on every machine and for every first order."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


SAMPLING = ("stratified", "random")


def select(
    samples: list[Sample], n: int | None, seed: int, subset: int = 0, sampling: str = "stratified"
) -> list[Sample]:
    """`n` samples in seeded order; None or a large `n` takes all.

    Those whose `meta` names the same `image` (several questions on one image) follow each other, so that it is encoded
    once; those of the same `item` (V-FAT's six questions about one thing) are chosen together. `subset` counts choices
    of `n` that share no sample: 0 is the choice itself, each next one is made alike among the samples that those before
    it have left. `stratified` takes of each category in proportion to its size, `random` from all alike.

    Raises:
        ValueError: there are too few samples for so many subsets, or another sampling.
    """
    if sampling not in SAMPLING:
        raise unknown("sampling", sampling, SAMPLING)
    take = _stratified if sampling == "stratified" else lambda order, n: order[:n]
    order = sorted(samples, key=lambda sample: (rank(seed, sample.meta.get("item", sample.id)), sample.id))
    if subset and (n is None or n * (subset + 1) > len(order)):
        raise ValueError(f"subset {subset} of {n} samples each: there are {len(order)} samples in all")
    for _ in range(subset):
        taken = {sample.id for sample in take(order, n or 0)}
        order = [sample for sample in order if sample.id not in taken]
    chosen = order if n is None or n >= len(order) else take(order, n)
    return sorted(chosen, key=lambda sample: rank(seed, _shown(sample)))


def _shown(sample: Sample) -> str:
    """Name of the image or item that samples which follow each other share."""
    return sample.meta.get("image", sample.meta.get("item", sample.id))


def _stratified(order: list[Sample], n: int) -> list[Sample]:
    """Take `n` of seeded order, of each category in proportion to its size: by whole items, but for the last."""
    items: dict[Any, list[Sample]] = {}
    for place, sample in enumerate(order):
        items.setdefault(sample.meta.get("item", place), []).append(sample)
    n_items = -(-n * len(items) // max(len(order), 1))  # rounded up
    left = quotas(Counter(item[0].category for item in items.values()), n_items)
    chosen: list[Sample] = []
    rest: list[Sample] = []  # needed where the chosen items are smaller than others
    for item in items.values():
        taken = bool(left[item[0].category])
        left[item[0].category] -= taken
        (chosen if taken else rest).extend(item)
    return (chosen + rest)[:n]


def quotas(sizes: dict[str, int], n: int) -> dict[str, int]:
    """How many of `n` each stratum gives: its share rounded down, what is left to the largest remainders."""
    total = sum(sizes.values())
    shares = {name: divmod(n * size, total) for name, size in sizes.items()}
    left = n - sum(whole for whole, _ in shares.values())
    favoured = sorted(shares, key=lambda name: (-shares[name][1], name))[:left]
    return {name: whole + (name in favoured) for name, (whole, _) in shares.items()}


# --- the fingerprint --------------------------------------------------------------------------------------------------


def fingerprint(samples: Iterable[Sample], errors: Iterable[RowError] = ()) -> str:
    """Digest of everything a model is asked, image contents included, and of what runs keep of each sample, so that
    edited data never pass for the old."""
    file_digest = cache(_file_digest)  # several questions may share an image
    whole = hashlib.sha256()
    for s in samples:
        images = [digest(source, file_digest) for source in s.images]
        meta = json.dumps(s.meta, sort_keys=True, default=str)
        row = (s.id, images, s.question, s.options, s.answer, s.category, s.hint, s.prompt, meta)
        whole.update(repr(row).encode())
    for error in errors:
        whole.update(repr(tuple(error)).encode())
    return whole.hexdigest()[:16]


def digest(source: Any, file_digest: Callable[[str], str]) -> str:
    """Digest of an image's content; of a path, what `file_digest` makes of it."""
    if isinstance(known := getattr(source, "digest", None), str):
        return known  # of an image inside a data file, seen when that was read
    if callable(source):
        try:
            source = source()
        except (OSError, ValueError):
            return UNREADABLE  # becomes an error row
    if isinstance(source, str | os.PathLike):
        return file_digest(os.fspath(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return hashlib.sha256(source).hexdigest()
    if isinstance(source, Image.Image | np.ndarray):
        try:
            return content_hash(load_image(source))
        except ImageError:
            return UNREADABLE  # becomes an error row
    return type(source).__name__  # nothing that `load_image` opens: becomes an error row


class ImageFile(str):
    """The path of an image whose content is known, as `digest`; to call it is to read its bytes.

    Raises:
        ValueError: on reading, the file no longer holds the content seen.
        OSError: on reading, it is gone.
    """

    digest: str

    def __new__(cls, path: str, digest: str = "") -> "ImageFile":
        file = super().__new__(cls, path)
        file.digest = digest
        return file

    def __call__(self) -> bytes:
        with open(self, "rb") as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise ValueError("the file has changed since the data set was read: another image stands there")
        return content


def seen(samples: Iterable[Sample]) -> list[Sample]:
    """The samples with the files of their images as they are now: opening one that has changed since is an error."""
    file_digest = cache(_file_digest)  # several questions may share an image

    def look(source: Any) -> Any:
        if not isinstance(source, str | os.PathLike):
            return source
        known = file_digest(os.fspath(source))
        return source if known == UNREADABLE else ImageFile(os.fspath(source), known)

    return [replace(sample, images=tuple(map(look, sample.images))) for sample in samples]


def image_identity(sample: Sample) -> tuple[str, ...]:
    """Identity of a sample's images: the content of each, or its path. Names in `meta` do not count."""
    return tuple(digest(source, os.path.abspath) for source in sample.images)


def _file_digest(path: str) -> str:
    try:
        return fingerprint_file(path)
    except OSError:
        return UNREADABLE  # becomes an error row; its key differs once the file is there
