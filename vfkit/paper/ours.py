"""Numbers of a finished run in the terms of published ones: quantity, family and part (see `vfkit.paper.places`)."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from vfkit.judge import match
from vfkit.metrics.drift import drift_summary, sample_drift
from vfkit.metrics.flips import (
    OVERLAYS,
    TRANSITIONS,
    accuracy_table,
    compliance_table,
    flip_table,
    transition_table,
)
from vfkit.metrics.frames import ANSWERS, UNION, base_value, counted_rows, numbers, rows_of, split_answers, with_union
from vfkit.metrics.frequency import attack_table
from vfkit.metrics.pope import HALLUCINATION, pope_margin_table
from vfkit.metrics.tabulate import count, deviation, distinct, family_index, mean, rate, tabulate
from vfkit.metrics.vfat import vfat_answers, vfat_scores
from vfkit.paper.values import MODELS, TAPS
from vfkit.paper.vf import VFAT_DATASETS
from vfkit.perturb import ATTACKS, HI_FAMILIES
from vfkit.readout.readout import PROBES

SPECTRAL = ("noise_low", "noise_high", "noise_all", "low_pass", "high_pass")
COLUMNS = ("quantity", "family", "part", "value", "low", "high", "n", "images")
HI_EPS = (
    8.0  # of 255, in the units of the attack: [-1, 1] where it is made for the base label's copy alone, else [0, 1]
)


def ours(run, model: str, dataset: str, judge: Callable[..., str] = match) -> pd.DataFrame:
    """The numbers of one run that a paper may have published.

    Args:
        run: finished; only its frames are read. model, dataset: by registered name.
        judge: of open V-FAT answers.

    Returns:
        `COLUMNS`: `value` with its 95 % interval `low`, `high`, and the `n` and `images` (of V-FAT: items) it rests
        on. Shares are fractions.
    """
    records = run.records()
    parts: list[pd.DataFrame] = []
    if dataset in VFAT_DATASETS:
        parts += _vfat(records, run.samples(), judge)
    elif dataset == "pope":
        parts += _pope(records, run.samples())
    elif not set(records["family"]).isdisjoint(HI_FAMILIES):
        parts += _answers(records)
        if run.config.probes:
            tap = TAPS.get(MODELS.get(model, ""), "post_norm")
            parts += _drift(records, run.vectors(), run.controls(), tap)
            parts.append(_energy(records))
    if not set(records["family"]).isdisjoint(ATTACKS):
        parts += _attacks(records, run.config)
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
    return table[table["value"].notna()].reset_index(drop=True)


def kind_of(config) -> str:
    """What a study is about: `vfat`, `pope`, `attack`, `spectral` (noise of a band, ablation), `natural` perturbations
    of questions, or `other`."""
    words = {config.study, config.dataset.removeprefix("mini_")}
    if config.dataset in VFAT_DATASETS or "vfat" in words:
        return "vfat"
    if "pope" in words:
        return "pope"
    families = set(HI_FAMILIES if config.families is None else config.families)
    kinds = {"attack": ATTACKS, "natural": HI_FAMILIES, "spectral": SPECTRAL}
    return next((kind for kind, own in kinds.items() if not families.isdisjoint(own)), "other")


def _cells(table: pd.DataFrame, quantity: str, column: str, n: str, part: str = "", images: str = "images"):
    """One column of a table, with its interval, in `COLUMNS`."""
    ends = {end: table.get(f"{column}_{end}", pd.Series(np.nan, table.index)) for end in ("low", "high")}
    known = {"quantity": quantity, "family": table["family"], "part": part or table.get("part", ""), **ends}
    frame = pd.DataFrame({**known, "value": table[column], "n": table[n], "images": table[images]})
    return frame[list(COLUMNS)].astype({name: float for name in COLUMNS[3:]})


def _answers(records: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Accuracy, flips, transitions and what text overlays bring about (HI 4.1, 4.2)."""
    accuracy = accuracy_table(records)
    yield _cells(
        accuracy[(accuracy["family"] == "base") & (accuracy["category"] == "all")], "accuracy", "accuracy", "samples"
    )
    flips = flip_table(records)
    yield _cells(flips, "IFR", "IFR", "instances")
    yield _cells(flips, "IV", "IV", "samples")
    moves = transition_table(records)
    for name in ("R->W_rate", "W->R_rate"):
        yield _cells(moves, name, name, "instances")
    yield from _transition_shares(records)
    if not set(records["family"]).isdisjoint(OVERLAYS):
        overlays = compliance_table(records)
        for name in ("corrected", "corrected_if_followed"):
            yield _cells(overlays, name, name, "instances")


def _transition_shares(records: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The four counts of HI's Table 2 as shares of the instances with ground truth."""
    rows = counted_rows(with_union(rows_of(records, "answer")))
    rows = rows[rows.answer.notna()]
    right, now = rows.base == rows.answer, rows.prediction == rows.answer
    kinds = dict(zip(TRANSITIONS, (right & ~now, ~right & now, right & now, ~right & ~now), strict=True))
    columns = {"n": count(), "images": distinct("image")} | {name: rate(name) for name in TRANSITIONS}
    table = tabulate(rows.assign(**kinds), family_index(rows), columns).reset_index()
    for name in TRANSITIONS:
        yield _cells(table, name, name, "n")


def _drift(records, vectors, controls, tap: str) -> Iterator[pd.DataFrame]:
    """Drift of all answers and the control HI takes, other samples' states, at HI's tap (HI 4.3, 4.4, Appendix B)."""
    table = drift_summary(records, vectors, controls, PROBES, [tap])
    table = table[table["answer"] == "all"]
    table = table.assign(part=table["distance"].replace("l2", "L2") + " " + table["probe"])
    yield _cells(table, "d", "d_other_sample", "instances")
    yield _cells(table, "percent", "percent_other_sample", "instances")
    for probe in PROBES:
        for distance, name in (("cos", "cos"), ("l2", "L2")):
            rows = sample_drift(records, vectors, controls, probe, tap, distance).rename(columns={"image_id": "image"})
            rows = rows[rows["answer"].isin(["all", "control"])]
            rows = rows.assign(family=rows["family"].replace("other_sample", "control"))
            columns = {"n": count(), "images": distinct("image"), "mean": mean("drift"), "sd": deviation("drift")}
            states = tabulate(rows, family_index(rows), columns).reset_index()
            control = states["family"] == "control"
            part = f"{name} {probe}"
            for moment, end in (("mean", ""), ("sd", "_sd")):
                yield _cells(states[~control], f"drift{end}", moment, "n", part)
                yield _cells(states[control], f"control{end}", moment, "n", part)
            if name == "cos":
                turned = states.assign(mean=1 - states["mean"], mean_low=1 - states["mean_high"])
                yield _cells(turned.assign(mean_high=1 - states["mean_low"])[~control], "cosine", "mean", "n", part)


def _energy(records: pd.DataFrame) -> pd.DataFrame:
    """Change of the Dirichlet energy per edge: mean and SD over instances (HI 4.5, Appendix E)."""
    rows = rows_of(records).assign(energy=numbers(records["dirichlet"]))
    rows["change"] = rows["energy"] - base_value(rows, "energy")
    rows = split_answers(counted_rows(with_union(rows)))
    rows = rows[np.isfinite(rows["change"])]
    columns = {"n": count(), "images": distinct("image"), "energy": mean("change"), "energy_sd": deviation("change")}
    table = tabulate(rows, family_index(rows, answer=ANSWERS), columns).reset_index()
    table = table.rename(columns={"answer": "part"})
    return pd.concat([_cells(table, name, name, "n") for name in ("energy", "energy_sd")], ignore_index=True)


def _attacks(records: pd.DataFrame, config) -> Iterator[pd.DataFrame]:
    """Success of untargeted attacks of HI's size (HI F.3)."""
    table = attack_table(records, config.rule)
    eps = HI_EPS / 2 if copies_alone(config) else HI_EPS
    yield _cells(table[(table["eps"] == eps) & (table["target"] == "")], "success_rate", "success_rate", "samples")


def copies_alone(config) -> bool:
    """Whether a study attacks the base label's copy of the image alone, as HI's program does (METHODS 19)."""
    return config.protocol.attack == "label_only"


def _pope(records: pd.DataFrame, samples: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The yes-no margin of hallucinations whose answer flipped, all families together, adversarial split (HI 7)."""
    records = records[records["category"] == "adversarial"]
    table = pope_margin_table(records, samples)
    here = (table["case"] == HALLUCINATION) & (table["answer"] == "flipped") & (table["family"] == UNION)
    yield _cells(table[here], "pope_margin", "margin", "instances")


def _vfat(records: pd.DataFrame, samples: pd.DataFrame, judge) -> Iterator[pd.DataFrame]:
    """Outcomes of generated answers by format and level, and both pooled (VF 4)."""
    answers = vfat_answers(records, samples, (), judge)
    scores = vfat_scores(answers[answers["reading"] == "generation"])
    scores = scores.rename(columns={"level": "part"}).assign(family=scores["format"])
    for name in ("mAcc", "mTDS", "other_share", "VRS"):
        yield _cells(scores, name, name, "n", images="items")
