"""Does it reproduce? One verdict for each published number, from finished runs (METHODS 18)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vfkit.judge import match
from vfkit.metrics.intervals import FEWEST
from vfkit.paper.ours import copies_alone, kind_of, ours
from vfkit.paper.places import SHARES, places
from vfkit.paper.values import SIZELESS, canonical
from vfkit.paper.vf import REASONING, VFAT_DATASETS, VFAT_MODELS
from vfkit.perturb import ATTACKS, HI_FAMILIES

Z = 1.96  # of the margin, and of the intervals that our errors are taken from
_INSIDE = ("drift", "drift_sd", "cosine", "control", "control_sd", "d", "percent", "energy", "energy_sd")
_KEYS = ["model", "data", "quantity", "family", "part"]
_SHOWN = [
    "paper",
    "where",
    "model",
    "dataset",
    "family",
    "metric",
    "unit",
    "published",
    "uncertainty",
    "ours",
    "ours_low",
]
_SHOWN += ["ours_high", "n", "images", "difference", "margin", "verdict", "why", "noted", "cell", "run", "evidence"]


@dataclass(frozen=True)
class _Known:
    """A run of the sweep under the names that places use."""

    run: Any
    name: str
    model: str
    dataset: str
    data: str  # `vfat` for all that V-FAT is made of
    subset: int
    kind: str  # of `kind_of`


def verdicts(runs, judge: Callable[..., str] = match) -> pd.DataFrame:
    """Judge every published number against finished runs.

    Args:
        runs: of `vfkit.open_runs`: several models, data sets and subsets. judge: of open V-FAT answers; VF's was a
            language model, and with `match` the numbers of open answers are said to differ in settings.

    Returns:
        One row per number of `published`, in its order: where it appears (`paper`, `where`, `model`, `dataset`,
        `family`, `metric`, `unit`), `published` as printed and its `uncertainty` (one SD); our `cell` (quantity, family
        and part), `ours` with its 95 % interval, `n` and `images`, and the `run` it comes from; shares are fractions.
        `difference` = ours - published (to the nearest end of a range or bound), `margin` = 1.96 sqrt(uncertainty^2 +
        error^2), `verdict` (of `VERDICTS`) and `why`; `noted` are settings that may matter and decide nothing here:
        whose words the prompts are in, the weights' type, how samples are chosen.
    """
    known = [_known(name, run) for (_, name), run in runs.runs.items()]
    table = places()
    published_at = {(model, row.data) for row in table.itertuples() for model in row.models}
    of_paper = [one for one in known if (one.model, one.data) in published_at]
    cells = _Cells(of_paper, judge)
    rows = [_judge(row, cells, known, of_paper) for row in table.to_dict("records")]
    table = table.assign(published=table["printed"]).drop(columns=["n", "images", "uncertainty", "run"])
    return pd.concat([table, pd.DataFrame(rows, index=table.index)], axis=1)[_SHOWN]


def compare(value: float, error: float, low: float, high: float, uncertainty: float, quantity: str) -> dict[str, Any]:
    """The rule: one number of ours against one published value, range or bound.

    Args:
        value, error: ours and its standard error. low, high: the published value twice, or the ends of its range,
            infinite where open. uncertainty: of the published, one SD. quantity: what it is, for the useful width.

    Returns:
        `difference`, `margin`, `verdict` and `why`: `differs` where the difference exceeds the margin; else
        `reproduced` where the margin is at most `useful_margin`, `not comparable` where it is wider.
    """
    difference = value - min(max(value, low), high)
    margin = Z * np.hypot(uncertainty, error)
    found = {"difference": difference, "margin": margin}
    if not np.isfinite(margin):
        return found | {"verdict": "not comparable", "why": f"too uncertain: fewer than {FEWEST} images of ours"}
    if abs(difference) > margin:
        return found | {"verdict": "differs", "why": f"by {difference:.3g}, more than the margin {margin:.3g}"}
    useful = useful_margin(low if np.isfinite(low) else high, quantity)
    if margin > useful:
        return found | {"verdict": "not comparable", "why": f"too uncertain: margin {margin:.3g}, useful {useful:.3g}"}
    return found | {"verdict": "reproduced", "why": ""}


def useful_margin(published: float, quantity: str) -> float:
    """The widest margin within which agreement says something: half the published value; for shares half the way to
    the nearer of 0 and 1, between 1 and 10 points; for cosines half the way to 1; for SDs over runs their whole."""
    if quantity in SHARES:
        return float(np.clip(min(published, 1 - published) / 2, 0.01, 0.1))
    if quantity.endswith("_sd") and quantity.startswith(("IFR", "IV")):
        return abs(published)
    return abs(1 - published if quantity == "cosine" else published) / 2


class _Cells:
    """Numbers of all runs of the papers' models and data, by model, data, quantity, family and part."""

    def __init__(self, known: list[_Known], judge: Callable[..., str]):
        self.known, self.by_words = known, judge is match
        tables = [ours(one.run, one.model, one.dataset, judge).assign(at=i) for i, one in enumerate(known)]
        table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["at", *_KEYS])
        table["model"] = [known[at].model for at in table["at"]]
        table["data"] = [known[at].data for at in table["at"]]
        self.groups: dict[tuple, list] = {}
        for row in table.itertuples():
            self.groups.setdefault(tuple(getattr(row, name) for name in _KEYS), []).append(row)

    def of(self, place: dict[str, Any]) -> dict[str, Any] | None:
        """Our number at a place, with its error and the runs that it comes from; None where no run has it."""
        if place["models"] == tuple(VFAT_MODELS):
            return self._pooled(place)
        for model in place["models"]:
            own = [self._one(model, place, family) for family in place["families"]]
            if found := [one for one in own if one is not None]:
                return self._furthest(found, place) if len(found) == len(own) else None
        return None

    def _one(self, model: str, place: dict[str, Any], family: str) -> dict[str, Any] | None:
        if place["quantity"] in ("IFR_sd", "IV_sd"):
            return self._over_runs(model, place["quantity"].removesuffix("_sd"), place["data"])
        rows = self.groups.get((model, place["data"], place["quantity"], family, place["part"]), [])
        if not rows:
            return None
        largest = {}  # of each subset: of runs in the published settings if there are any
        asked = [not _settings(self.known[row.at], place, self.by_words) for row in rows]
        for _, row in sorted(zip(asked, rows, strict=True), key=lambda each: (each[0], each[1].n)):
            largest[self.known[row.at].subset] = row
        if place["run"] == "mean" and len(largest) > 1:
            return _mean([_number(row) for row in largest.values()])
        wanted = int(place["run"]) if place["run"] in list("0123") else 0
        return _number(largest.get(wanted, largest[min(largest)]))

    def _over_runs(self, model: str, quantity: str, data: str) -> dict[str, Any] | None:
        """The largest SD, over families, of a rate over subsets that share no sample."""
        found = []
        for family in HI_FAMILIES:
            rows = {self.known[row.at].subset: row for row in self.groups.get((model, data, quantity, family, ""), [])}
            if len(rows) > 1:
                sd = float(np.std([row.value for row in rows.values()], ddof=1))
                error = sd / np.sqrt(2 * (len(rows) - 1))
                found.append(
                    _mean([_number(row) for row in rows.values()]) | {"value": sd, "error": error, "family": family}
                )
        return max(found, key=lambda one: one["value"], default=None)

    def _pooled(self, place: dict[str, Any]) -> dict[str, Any] | None:
        """The mean over all twelve models of VF; None unless all are there."""
        rows = [self._one(model, place, place["families"][0]) for model in place["models"]]
        return None if any(row is None for row in rows) else _mean([row for row in rows if row is not None])

    @staticmethod
    def _furthest(found: list[dict[str, Any]], place: dict[str, Any]) -> dict[str, Any]:
        """Of several families the one that speaks most against the statement."""
        if "(max)" in place["family"]:
            return max(found, key=lambda one: one["value"])
        if np.isinf(place["high"]):
            return min(found, key=lambda one: one["value"])
        return max(found, key=lambda one: abs(one["value"] - min(max(one["value"], place["low"]), place["high"])))


def _number(row) -> dict[str, Any]:
    error = (row.high - row.low) / (2 * Z)
    found = {"value": row.value, "low": row.low, "high": row.high, "error": error, "family": row.family}
    return found | {"n": row.n, "images": row.images, "at": [row.at]}


def _mean(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of independent numbers."""
    error = float(np.sqrt(sum(row["error"] ** 2 for row in rows))) / len(rows)
    value = float(np.mean([row["value"] for row in rows]))
    found = {"value": value, "low": value - Z * error, "high": value + Z * error, "error": error}
    found |= {name: sum(row[name] for row in rows) for name in ("n", "images")}
    return found | {"family": rows[0]["family"], "at": [at for row in rows for at in row["at"]]}


def _judge(place: dict[str, Any], cells: _Cells, known: list[_Known], of_paper: list[_Known]) -> dict[str, Any]:
    """Our side of one row of `verdicts`."""
    nothing = dict.fromkeys(["ours", "ours_low", "ours_high", "n", "images", "difference", "margin"], np.nan)
    row: dict[str, Any] = nothing | {"cell": _cell(place, " / ".join(place["families"])), "run": ""}
    row |= {"uncertainty": place["uncertainty"], "noted": ""}
    if place["reason"]:
        verdict, why = place["reason"].split(": ", 1)
        return row | {"cell": "", "verdict": verdict, "why": why}
    number = cells.of(place)
    if number is None:
        return row | _missing(place, known, of_paper)
    used = [cells.known[at] for at in number["at"]]
    row |= {"ours": number["value"], "ours_low": number["low"], "ours_high": number["high"]}
    row |= {"n": number["n"], "images": number["images"], "run": ", ".join(one.name for one in used)}
    row["noted"] = "; ".join(sorted({one for each in used for one in _noted(each, place["paper"])}))
    row["cell"] = _cell(place, number["family"])
    scaled = number["error"] * np.sqrt(number["images"] / place["images"])  # the error of ours at their images
    row["uncertainty"] = np.nanmax([place["uncertainty"], scaled if np.isfinite(scaled) else 0])
    ends = place["low"], place["high"], row["uncertainty"]
    found = compare(number["value"], number["error"], *ends, place["quantity"])
    differing = sorted({one for each in used for one in _settings(each, place, cells.by_words)})
    if place["quantity"] in ("IFR_sd", "IV_sd") and (images := number["images"] / len(used)) < place["images"] / 1.2:
        differing.append(f"subsets of {images:.0f} images, published {place['images']:.0f}: smaller ones vary more")
    if differing:
        return row | found | {"verdict": "settings differ", "why": "; ".join(differing)}
    if found["verdict"] == "differs" and place["models"] == SIZELESS:
        why = f"the paper does not state the model's size: ours is {used[0].model}, and differs"
        return row | found | {"verdict": "not comparable", "why": why}
    return row | found


def _cell(place: dict[str, Any], family: str) -> str:
    return ", ".join(filter(None, [place["quantity"], family, place["part"]]))


def _missing(place: dict[str, Any], known: list[_Known], of_paper: list[_Known]) -> dict[str, str]:
    """Why no run of ours has this number."""
    at = [one for one in of_paper if one.data == place["data"]]
    needs = f"{_several(place['models'])} on {place['data']}"
    if place["quantity"] in ("IFR_sd", "IV_sd"):
        needs += ", several subsets"
    elif place["quantity"] == "success_rate":
        needs += ", attacked at 8/255"
    elif place["paper"] == "VF":
        needs += ", with generated answers"
    elif place["quantity"] in _INSIDE:
        needs += ", with probes"
    if at:
        return {"verdict": "not run", "why": f"needs {needs}"}
    kind = {"pope": "pope", "vfat": "vfat"}.get(place["data"], "natural")
    kind = "attack" if place["quantity"] == "success_rate" else kind
    others = [one for one in known if one.kind == kind]
    if not others:
        return {"verdict": "not run", "why": f"needs {needs}"}
    models, data = (_several(dict.fromkeys(getattr(one, name) for one in others)) for name in ("model", "dataset"))
    return {"verdict": "not comparable", "why": f"another model and data: {models} on {data}; needs {needs}"}


def _several(names: Iterable[str]) -> str:
    """Names in one phrase, the first three spelled out."""
    names = list(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _settings(one: _Known, place: dict[str, Any], by_words: bool) -> list[str]:
    """Settings of a run by which it asks for another number than the published one.

    Args:
        by_words: open answers were judged by their words, not by a language model.
    """
    config, quantity = one.run.config, place["quantity"]
    differing = []
    scored = quantity not in _INSIDE
    if place["paper"] == "HI" and scored and config.rule != "paper":
        differing.append(f"scoring rule {config.rule}, published with full option texts")
    changed = set(config.family_params or {}) & _families(place)
    if place["paper"] == "HI" and changed:
        differing.append(f"parameters of {', '.join(sorted(changed))}")
    if quantity == "success_rate" and not copies_alone(config):
        differing.append("attack: one image for all options, published for the base label's copy alone")
    if "scale" in place["families"] and config.protocol.scale != "restored":
        differing.append("scale: left small, published brought back to its size")
    if place["paper"] == "VF":
        if one.dataset != "vfat":
            differing.append(f"items made from {one.dataset}, not VF's own")
        if VFAT_MODELS[one.model] in REASONING and one.run.mode != "thinking":
            differing.append(f"mode: {one.run.mode}, published thinking")
        if by_words and place["families"] != ("mcq",):
            differing.append("judge: answers matched by their words, published a language model's verdicts")
    return differing


def _noted(one: _Known, paper: str) -> list[str]:
    """Settings that may matter and decide nothing: those of the paper's preset that the run does not have."""
    protocol = one.run.config.protocol
    preset = type(protocol).model_validate({"HI": "hi_program", "VF": "vf"}[paper])
    names = [name for name in preset.changes(protocol) if name in ("sampling", "dtype")]
    words = [f"{name} {getattr(protocol, name) or 'as the model has it'}" for name in names]
    return ["prompts in our words" if protocol.prompts is None else "prompts in words of the user's", *words]


def _families(place: dict[str, Any]) -> set[str]:
    """The families whose instances a number is made of."""
    own = set(place["families"])
    if place["quantity"] == "success_rate":
        return own & set(ATTACKS)
    return own | (set(HI_FAMILIES) if any(name.startswith("union (") for name in own) else set())


def _known(name: str, run) -> _Known:
    manifest = run.manifest
    config = manifest["config"]
    model = canonical(config["model"])
    about = manifest.get("about") or {}
    if about.get("hub") and model == config["model"]:
        model = canonical(about["hub"])
    dataset = config["dataset"]
    data = "vfat" if dataset in VFAT_DATASETS else dataset
    return _Known(run, name, model, dataset, data, int(config.get("subset", 0)), kind_of(run.config))
