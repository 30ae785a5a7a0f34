"""Datasets by name: each loader turns one format into samples; all are chosen from, checked and fingerprinted alike."""

import inspect
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from vfkit.datasets.base import DatasetUnavailable, RowError, Rows, SampleList, distinct, fingerprint, seen, select
from vfkit.names import unknown
from vfkit.sample import Sample

__all__ = ["LOADERS", "DatasetUnavailable", "RowError", "Rows", "SampleList", "load_dataset", "resolve"]

TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
"""How files with one's own questions end."""

# name -> a loader or where to import one. A loader is `load(path=None, **options) -> Rows`; add your own here.
LOADERS: dict[str, str | Callable[..., Rows]] = {
    "cdh_bench": "vfkit.datasets.conflicts:cdh_bench",
    "easy_vqa": "vfkit.datasets.easy_vqa:load",
    "mini_seed": "vfkit.datasets.mini:seed",
    "mini_mmmu": "vfkit.datasets.mini:mmmu",
    "mini_pope": "vfkit.datasets.mini:pope",
    "mini_vfat": "vfkit.datasets.mini:vfat",
    "mmmu": "vfkit.datasets.mmmu:load",
    "pope": "vfkit.datasets.pope:load",
    "seedbench": "vfkit.datasets.seedbench:load",
    "table": "vfkit.datasets.table:load",
    "vfat": "vfkit.datasets.vfat:load",
    "visual_counterfact": "vfkit.datasets.conflicts:visual_counterfact",
    "vlind": "vfkit.datasets.vlind:load",
    "vlms_are_biased": "vfkit.datasets.conflicts:vlms_are_biased",
    "weird": "vfkit.datasets.weird:load",
}


def load_dataset(
    name: str,
    n: int | None = None,
    seed: int = 0,
    path: str | Path | None = None,
    subset: int = 0,
    sampling: str = "stratified",
    **options: Any,
) -> SampleList:
    """Load samples of a dataset, or a seeded choice of `n` of them, stratified by category by default.

    Args:
        name: a key of `LOADERS`, or a file with one's own questions (`vfkit.datasets.table`).
        n: how many samples; None takes all, and so does more than there are, with a warning.
        seed: of the choice and of the order. The same seed gives the same samples however the rows are ordered.
        path: where the data lie on disk, for datasets that need it.
        subset: which of several choices of `n` that share no sample: 0, 1, ... (HI takes four of SEEDBench).
        sampling: `stratified`, each category in proportion to its size, or `random`, all samples alike.
        options: the loader's own, such as `split` or `enlarge`.

    Returns:
        A list of samples in seeded order, with `.name`, `.fingerprint`, the rows left out in `.errors`, and `.notes` on
        the data.

    Raises:
        ValueError: unknown name, sampling or option (the nearest valid one is named), n < 1, no usable row, or a subset
            for which there are too few.
        DatasetUnavailable: no `path` is given, and the data are neither installed nor available from the hub.
    """
    loader, path, name = resolve(name, path)
    if n is not None and n < 1:
        raise ValueError(f"n is {n}; at least one sample must be asked for (None takes all)")
    if not isinstance(subset, int) or subset < 0:
        raise ValueError(f"subset is {subset}; subsets are counted from 0")
    load = _loader(loader)
    valid = [option for option in inspect.signature(load).parameters if option != "path"]
    for option in options:
        if option not in valid:
            raise unknown(f"option of dataset {name!r}", option, valid)

    rows = load(path=path, **options)
    if not isinstance(rows, Rows) or not all(isinstance(sample, Sample) for sample in rows.samples):
        raise ValueError(f"the loader of dataset {name!r} must return vfkit.datasets.Rows of vfkit.Sample")
    samples, errors = distinct(rows.samples)
    errors = [*rows.errors, *errors]
    if not samples:
        why = f"; the first of {len(errors)} bad rows: {errors[0].reason}" if errors else ""
        raise ValueError(f"dataset {name!r} holds no usable row{why}")
    for note in rows.notes:
        warnings.warn(f"dataset {name!r}: {note}", stacklevel=2)
    if n is not None and n > len(samples):
        warnings.warn(f"dataset {name!r} holds {len(samples)} samples; all are taken, not {n}", stacklevel=2)

    chosen = []
    for sample in select(samples, n, seed, subset, sampling):
        try:
            chosen.append(rows.finish(sample))
        except ValueError as error:
            errors.append(RowError(sample.id, str(error)))
    chosen = seen(chosen)
    return SampleList(chosen, name, fingerprint(chosen, errors), errors, rows.notes)


def resolve(name: str | Path, path: str | Path | None = None) -> tuple[str, str | Path | None, str]:
    """The key of a data set's loader in `LOADERS`, where its data lie, and what it is called.

    A table of one's own questions is called by its file: `photos.csv` gives `("table", "photos.csv", "photos")`, and so
    do `table` and `photos` with that path. A file called like a loader gets `own_` before its name.

    Raises:
        ValueError: there is no such data set (the nearest is named).
    """
    name = str(name)
    if path is None and name not in LOADERS and name.endswith(TABLES):
        if not Path(name).expanduser().is_file():
            raise ValueError(f"there is no file {name!r} with questions, and no data set of that name")
        name, path = "table", name
    own = "" if path is None else Path(path).stem
    own = f"own_{own}" if own in LOADERS else own
    if name == "table" or (own and name == own and name not in LOADERS and str(path).endswith(TABLES)):
        return "table", path, own or name
    if name not in LOADERS:
        raise unknown("dataset", name, LOADERS)
    return name, path, name


def _loader(name: str) -> Callable[..., Rows]:
    loader = LOADERS[name]
    if callable(loader):
        return loader
    module, function = loader.split(":")
    return getattr(import_module(module), function)
