"""Per-sample data of runs as plain values for a page: scores, margins, answers, drift, errors."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from vfkit.datasets.base import quotas, rank
from vfkit.metrics.controls import control_distances, control_pairs
from vfkit.metrics.drift import about_samples
from vfkit.metrics.frames import same_answers
from vfkit.metrics.hidden import thresholds
from vfkit.readout import rules
from vfkit.readout.readout import PROBES
from vfkit.study.run import Run

COLUMNS = (
    *("family", "instance", "prediction", "flip", "kept_open", "margin", "base_margin", "scores", "drift"),
    *("text_open", "text_mcq", "reason", "size", "pictures", "difference", "change", "seen"),
)
"""Of one form of a sample: its own image (`base`) or a perturbed one. Texts are indices in `texts` of the page."""
DRIFT = "cos_{}_post_norm"
UNCOUNTED = ("blank", "identity")
"""Families that counts over all families leave out: another image, and the same pixels again."""


class Texts:
    """A table of texts that occur many times: each is stored once and referred to by its index."""

    def __init__(self):
        self.index: dict[str, int] = {}

    def __call__(self, text: Any) -> int | None:
        """Return the index of a text; None for an empty cell."""
        return self.index.setdefault(str(text), len(self.index)) if pd.notna(text) else None


def collect(runs: Sequence[Run], texts: Texts) -> list[dict[str, Any]]:
    """Collect the samples of all runs by id: `runs` holds what each run says of one, None where nothing; `state` is
    what matters most.

    Samples that failed, and rows of data that gave no sample, are included with their errors only.
    """
    samples: dict[str, dict[str, Any]] = {}
    for number, run in enumerate(runs):
        for sample_id, about, entry in _of_run(run, texts):
            sample = samples.setdefault(sample_id, {"id": sample_id, "runs": [None] * len(runs)})
            sample.update(about)
            sample["runs"][number] = entry
    uncounted = [texts.index[name] for name in UNCOUNTED if name in texts.index]
    return [sample | {"state": state(sample, uncounted)} for sample in samples.values()]


def _of_run(run: Run, texts: Texts):
    """(id, what is asked, what the run says) of each sample."""
    records, errors, rule = run.records(), run.errors(), run.config.rule
    asked = {row["sample_id"]: row for row in run.samples().to_dict("records")}
    failed = {sample_id: part for sample_id, part in errors.groupby("sample_id", sort=False)}
    controls, probes = _controls(run), probes_of(records)
    order = records.family.ne("base")
    said = same_answers(records).kept_open.to_numpy()
    for sample_id, part in records.assign(order=order, kept_open=said).groupby("sample_id", sort=False):
        part = part.sort_values("order", kind="stable").to_dict("records")
        forms = [_form(row, rule, probes, texts) for row in part]
        yield (
            sample_id,
            _about(asked.get(sample_id)),
            {"forms": forms, **controls(sample_id), "errors": _errors(failed.pop(sample_id, None))},
        )
    for sample_id, part in failed.items():
        yield sample_id, {}, {"forms": [], "errors": _errors(part)}


def probes_of(records: pd.DataFrame) -> list[str]:
    """List the probes for which the records hold distances."""
    return [probe for probe in PROBES if records.get(DRIFT.format(probe), pd.Series(dtype=float)).notna().any()]


def _about(row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {}
    about = {name: row[name] for name in ("category", "question", "hint", "prompt")}
    about |= {"options": list(row["options"]), "answer": _whole(row["answer"])}
    return about | {name: row["meta"][name] for name in ("level", "item", "format") if name in row["meta"]}


def _form(row: dict[str, Any], rule: str, probes: Sequence[str], texts: Texts) -> dict[str, Any]:
    form: dict[str, Any] = dict.fromkeys(COLUMNS)
    form |= {name: texts(row[name]) for name in ("family", "instance", "text_open", "text_mcq")}
    form["reason"] = texts(row["reason"] or None)
    form["prediction"] = _whole(row["prediction"])
    form["flip"] = None if row["family"] == "base" or pd.isna(row["flip"]) else bool(row["flip"])
    form["margin"], form["base_margin"] = _short(row["margin"]), _short(row["base_margin"])
    form["drift"] = [_short(row[DRIFT.format(probe)]) for probe in probes]
    form["kept_open"] = None if pd.isna(row["kept_open"]) else bool(row["kept_open"])
    if row["logp_text"] is not None:
        parts = (row[name] for name in ("logp_text", "logp_end", "n_tokens", "logp_letter"))
        form["scores"] = [_short(score) for score in rules.scores(rule, *parts)]
    if pd.notna(row["width"]):
        form["size"] = [int(row["width"]), int(row["height"])]
    form["hash"] = row["image_hash"] if pd.notna(row["image_hash"]) else None  # taken out when the page is written
    return form


def _errors(part: pd.DataFrame | None) -> list[list[str]]:
    return [] if part is None else part[["instance", "stage", "error", "message"]].fillna("").values.tolist()


def _controls(run: Run):
    """Make a function that gives a sample's controls of drift, each a list by probe.

    `same_question` and `other_sample` are mean distances, `pairs` how many images the first is of; `threshold` is the
    distance from which a state has moved like another image's (METHODS 8), in the sample's category.
    """
    records, controls, vectors = run.records(), run.controls(), run.vectors()
    probes = probes_of(records)
    if not probes:
        return lambda sample_id: {}
    about = about_samples(records)
    by_probe = [control_pairs(controls, DRIFT.format(probe), about) for probe in probes]
    same = [pairs.groupby("sample").drift.agg(["mean", "size"]) for pairs in by_probe]
    limits = [thresholds(pairs).threshold for pairs in by_probe]
    others = [control_distances(vectors, probe).set_index("sample_id").cos for probe in probes] if len(vectors) else []

    def of(sample_id: str) -> dict[str, Any]:
        category = about.category.get(sample_id)
        row: dict[str, Any] = {"same_question": [_short(one["mean"].get(sample_id)) for one in same]}
        row["pairs"] = max((int(one["size"].get(sample_id, 0)) for one in same), default=0)
        row["other_sample"] = [_short(one.get(sample_id)) for one in others]
        return row | {"threshold": [_short(one.get(category)) for one in limits]}

    return of


def _short(value: Any) -> float | None:
    """Round a number to four digits; None where it is missing or infinite."""
    return None if value is None or pd.isna(value) or not math.isfinite(value) else float(f"{value:.4g}")


def _whole(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


# --- which samples a page holds ---------------------------------------------------------------------------------------


def state(sample: dict[str, Any], uncounted: Sequence[int] = ()) -> str:
    """Classify a sample over all runs: `flipped`, `failed`, `moved` (answer kept, state beyond the threshold of any
    probe) or `kept`. Forms of the families `uncounted` do not count."""
    entries = [entry for entry in sample["runs"] if entry]
    forms = [(entry, form) for entry in entries for form in entry["forms"][1:] if form["family"] not in uncounted]
    if any(form["flip"] for _, form in forms):
        return "flipped"
    if any(entry["errors"] for entry in entries):
        return "failed"
    return "moved" if any(_moved(entry, form) for entry, form in forms) else "kept"


def _moved(entry: dict[str, Any], form: dict[str, Any]) -> bool:
    pairs = zip(form["drift"], entry.get("threshold", ()), strict=False)
    return any(far is not None and limit is not None and far > limit for far, limit in pairs)


def choose(samples: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Choose at most `n` samples, seeded and in proportion to categories and states; their order stays."""
    if len(samples) <= n:
        return samples
    groups: dict[Any, list[dict[str, Any]]] = {}
    for sample in samples:
        groups.setdefault((sample.get("category", ""), sample["state"]), []).append(sample)
    share = quotas({key: len(group) for key, group in groups.items()}, n)
    taken = set()
    for key, group in groups.items():
        group = sorted(group, key=lambda sample: rank(0, sample["id"]))
        taken |= {sample["id"] for sample in group[: share[key]]}
    return [sample for sample in samples if sample["id"] in taken]
