"""Rows that another run has read under equal settings: of a sample with the same words and images no family is read
twice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vfkit.perturb import ATTACKS, Suite
from vfkit.sample import Instance, Sample
from vfkit.study import store
from vfkit.study.rows import image_hash

WORDS = ("question", "hint", "options", "prompt")  # what a model is asked besides the images


Place = tuple[Path, str, frozenset[str]]
"""Where a sample's rows are: a run's folder, a chunk, and the families that are wanted of it."""


@dataclass
class Kept:
    """One sample's rows of another run, in place of the readout of its base.

    Args:
        image_id: content of the images that were read.
        prediction: of the base.
        probes: states of the base, as in a `Readout`.
        rows: rows by kind of part: `records`, `vectors`, `controls`, `images`.
        families: of the instances among them.
    """

    image_id: str
    prediction: int | None
    probes: dict[str, dict[str, np.ndarray]]
    rows: dict[str, list[dict[str, Any]]]
    families: frozenset[str]

    def left(self, suite: Suite) -> Suite:
        """The families that were not read."""
        return Suite({name: params for name, params in suite.families.items() if name not in self.families})

    def drop_base(self) -> None:
        """Drop the rows of the base, which is read again."""
        for kind in ("records", "vectors"):
            self.rows[kind] = [row for row in self.rows[kind] if row["instance"] != "base"]

    def lacking(self, wanted: Sequence[Instance]) -> list[Instance]:
        """The control images among `wanted` that were not read; rows of controls that are not wanted are dropped."""
        there = {(row["partner_id"], row["partner_image_id"]): row for row in self.rows["controls"]}
        names = [(one.name, image_hash(one.images)) for one in wanted]
        self.rows["controls"] = [there[name] for name in names if name in there]
        return [one for one, name in zip(wanted, names, strict=True) if name not in there]


def find_kept(sisters: Iterable[tuple[Path, frozenset[str]]], samples: Sequence[Sample]) -> dict[str, list[Place]]:
    """By id of each sample that other runs hold without an error: where its rows are.

    Args:
        sisters: folders of runs, each with the families that are wanted of it.
        samples: those to read.

    Words are compared here; images, which are not open yet, by whoever opens them.
    """
    asked = {sample.id: _words({name: getattr(sample, name) for name in WORDS}) for sample in samples}
    kept: dict[str, list[Place]] = {}
    for folder, families in sisters:
        errors = store.read(folder, "errors")
        failed = set(errors[errors.stage != "control"].sample_id)
        for chunk, rows in store.chunks(folder, "samples"):
            for row in rows.to_pylist():
                sample_id = row["sample_id"]
                if sample_id in asked and sample_id not in failed and _words(row) == asked[sample_id]:
                    kept.setdefault(sample_id, []).append((folder, chunk, families))
    return kept


def _words(row: Mapping[str, Any]) -> tuple:
    return tuple(tuple(row[name]) if name == "options" else row[name] for name in WORDS)


def kept_sample(folder: Path, chunk: str, families: frozenset[str], sample: Sample) -> Kept:
    """The rows of a sample, of its base and some families; what is not read off its images (category, answer) is what
    the sample says now."""
    rows = {kind: _of(sample.id, _table(folder, kind, chunk)) for kind in ("records", "vectors", "controls", "images")}
    own = {"category": sample.category, "answer": sample.answer}
    rows["records"] = [row | own for row in rows["records"] if family_of(row["family"]) in families | {"base"}]
    names = {row["instance"] for row in rows["records"]}
    for kind in ("vectors", "images"):
        rows[kind] = [row for row in rows[kind] if row["instance"] in names]
    probes: dict[str, dict[str, np.ndarray]] = {}
    for row in rows["vectors"]:
        if row["instance"] == "base":
            probes.setdefault(row["probe"], {})[row["tap"]] = np.array(row["vector"], np.float32)
    base = next(row for row in rows["records"] if row["family"] == "base")
    return Kept(base["image_id"], base["prediction"], probes, rows, families)


def family_of(name: str) -> str:
    """The family of the suite that a row's family belongs to: of an attack's noise control, the attack."""
    attack = name.removesuffix("_noise")
    return attack if attack in ATTACKS else name


def _of(sample_id: str, table: pa.Table) -> list[dict[str, Any]]:
    return table.filter(pc.equal(table["sample_id"], sample_id)).to_pylist()


@lru_cache(maxsize=8)  # the samples of a chunk follow each other
def _table(folder: Path, kind: str, chunk: str) -> pa.Table:
    return store.read_chunk(folder, kind, chunk)
