"""Rows that another run has read under equal settings: a sample with the same words and images is not read twice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vfkit.sample import Instance, Sample
from vfkit.study import store
from vfkit.study.rows import image_hash

WORDS = ("question", "hint", "options", "prompt")  # what a model is asked besides the images


@dataclass
class Kept:
    """One sample's rows of another run, in place of the readout of its base.

    Args:
        image_id: content of the images that were read.
        probes: states of the base, as in a `Readout`.
        rows: rows by kind of part: `records`, `vectors`, `controls`, `images`.
    """

    image_id: str
    probes: dict[str, dict[str, np.ndarray]]
    rows: dict[str, list[dict[str, Any]]]

    def lacking(self, wanted: Sequence[Instance]) -> list[Instance]:
        """The control images among `wanted` that were not read; rows of controls that are not wanted are dropped."""
        there = {(row["partner_id"], row["partner_image_id"]): row for row in self.rows["controls"]}
        names = [(one.name, image_hash(one.images)) for one in wanted]
        self.rows["controls"] = [there[name] for name in names if name in there]
        return [one for one, name in zip(wanted, names, strict=True) if name not in there]


def find_kept(folders: Iterable[Path], samples: Sequence[Sample]) -> dict[str, list[tuple[Path, str]]]:
    """By id of each sample that runs in these folders hold without an error: each run's folder and chunk.

    Words are compared here; images, which are not open yet, by whoever opens them.
    """
    asked = {sample.id: _words({name: getattr(sample, name) for name in WORDS}) for sample in samples}
    kept: dict[str, list[tuple[Path, str]]] = {}
    for folder in folders:
        errors = store.read(folder, "errors")
        failed = set(errors[errors.stage != "control"].sample_id)
        for chunk, rows in store.chunks(folder, "samples"):
            for row in rows.to_pylist():
                sample_id = row["sample_id"]
                if sample_id in asked and sample_id not in failed and _words(row) == asked[sample_id]:
                    kept.setdefault(sample_id, []).append((folder, chunk))
    return kept


def _words(row: Mapping[str, Any]) -> tuple:
    return tuple(tuple(row[name]) if name == "options" else row[name] for name in WORDS)


def kept_sample(folder: Path, chunk: str, sample: Sample) -> Kept:
    """The rows of a sample; what is not read off its images (category, answer) is what the sample says now."""
    rows = {kind: _of(sample.id, _table(folder, kind, chunk)) for kind in ("records", "vectors", "controls", "images")}
    rows["records"] = [row | {"category": sample.category, "answer": sample.answer} for row in rows["records"]]
    probes: dict[str, dict[str, np.ndarray]] = {}
    for row in rows["vectors"]:
        if row["instance"] == "base":
            probes.setdefault(row["probe"], {})[row["tap"]] = np.array(row["vector"], np.float32)
    return Kept(rows["records"][0]["image_id"], probes, rows)


def _of(sample_id: str, table: pa.Table) -> list[dict[str, Any]]:
    return table.filter(pc.equal(table["sample_id"], sample_id)).to_pylist()


@lru_cache(maxsize=8)  # the samples of a chunk follow each other
def _table(folder: Path, kind: str, chunk: str) -> pa.Table:
    return store.read_chunk(folder, kind, chunk)
