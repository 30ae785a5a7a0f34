"""Finished runs under the names of real models, made up from the published numbers: what a reproduction would leave.

`python tests/made_up.py FOLDER` writes them all; `vfkit.open_runs(FOLDER)` opens them.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vfkit import paper
from vfkit.metrics import UNION
from vfkit.paper.vf import REASONING
from vfkit.perturb import ATTACKS, HI_FAMILIES
from vfkit.readout.readout import PROBES
from vfkit.study import store

PER_SAMPLE = dict(zip(HI_FAMILIES, (8, 8, 1, 2, 2, 3), strict=True)) | {"random_text": 3, "box_overlay": 3}
WIDTH = 12  # of made-up states
HI_MODELS = {"qwen3vl_2b": "seedbench", "gemma3_4b": "seedbench mmmu", "gemma3_12b": "seedbench mmmu"}


def write(folder: Path, n: int = 600, **changes: Any) -> Path:
    """Write runs of all models and data sets of both papers.

    Args:
        n: samples of a run of HI's; a third of it where it looks inside.
        changes: of every config, such as `rule="letter"`.
    """
    for seed, (model, datasets) in enumerate(HI_MODELS.items()):
        for dataset in datasets.split():
            frames = natural(model, dataset, n, seed, probes=False)
            write_run(folder, {"model": model, "dataset": dataset, "n": 3500} | changes, **frames)
    main: dict[str, Any] = {"model": "qwen3vl_2b", "dataset": "seedbench", "n": 3500}
    write_run(folder, main | {"subset": 1} | changes, **natural("qwen3vl_2b", "seedbench", n, 9, probes=False))
    inside = natural("qwen3vl_2b", "seedbench", n // 3, 10, probes=True)
    write_run(folder, main | {"study": "inside", "n": n // 3, "probes": True} | changes, **inside)
    attack: dict[str, Any] = {
        "model": "qwen3vl_2b",
        "dataset": "seedbench",
        "study": "attack",
        "families": list(ATTACKS),
    }
    write_run(folder, attack | changes, **attacked(60))
    write_run(folder, {"model": "qwen3vl_2b", "dataset": "pope", "study": "pope", "n": 3000} | changes, **yes_no(160))
    for model, name in paper.VFAT_MODELS.items():
        frames = vfat(name)
        write_run(folder, {"model": model, "dataset": "vfat", "study": "vfat", "n": 1812} | changes, **frames)
    return folder


def write_run(folder: Path, config: dict[str, Any], **frames: pd.DataFrame) -> Path:
    """Write one finished run; frames by kind, columns that are missing stay empty."""
    preset = "vf" if config["dataset"] == "vfat" else "hi_program"
    config = {"study": "perturbation", "subset": 0, "protocol": {"preset": preset}} | config
    name = f"{config['study']}/{config['model']}/{config['dataset']}/{config['subset']:012d}"
    rows = {kind: frame.to_dict("records") for kind, frame in frames.items()}
    records = rows.pop("records")
    ids = list(dict.fromkeys(row["sample_id"] for row in records))
    store.write_part(folder / name, ids, records, **rows)
    mode = "thinking" if paper.VFAT_MODELS.get(config["model"]) in REASONING else "instruct"
    count = {"asked": config.get("n", len(ids)), "done": len(ids), "failed": 0}
    manifest: dict[str, Any] = {
        "config": config,
        "started": "2026-01-01",
        "finished": "2026-01-02",
        "seconds": 1.0,
        "samples": count,
    }
    store.write_json(
        folder / name / "run.json", manifest | {"versions": {}, "error_rows": 0, "readers": [{"mode": mode}]}
    )
    return folder / name


def natural(model: str, dataset: str, n: int, seed: int, probes: bool) -> dict[str, pd.DataFrame]:
    """Base rows and perturbed rows whose flips, transitions and drift have the rates that HI states."""
    rng = np.random.default_rng(seed)
    known = _stated(model, dataset)
    right = rng.permutation(n) / n < known.get(("base", "accuracy"), 0.6)
    base = np.where(right, 0, 1)
    union = known.get((UNION, "IV"), 0.38)
    parts = [_rows(n, "base", 1, base[:, None])]
    for family, k in PER_SAMPLE.items():
        rate = known.get((family, "IFR"), 0.06)
        share = min(known.get((family, "IV"), min(1.6 * rate, 0.9 * union)), union)
        lost, won = known.get((family, "R->W"), 0.4 * rate), known.get((family, "W->R"), 0.35 * rate)
        prediction = np.repeat(base[:, None], k, axis=1)
        for group, part, reach in ((right, lost / rate, 0.8 * union), (~right, 1 - lost / rate, 1.32 * union)):
            size = int(group.sum())
            own = max(share, rate) * part * n / size  # share of the group that flips at least once
            start = {"text_overlay": 0, "pad_crop": 0.13}.get(family, 1)
            start = max(min(start, reach - own), 0)
            order = np.arange(size) / size
            flips = _spread_out((order >= start) & (order < start + own), round(rate * part * n * k), k, rng)
            to = np.where(rng.random((size, k)) < won / (rate - lost), 0, 3)
            rows = prediction[group]
            prediction[group] = np.where(flips, 2 if group is right else to, rows)
        parts.append(_rows(n, family, k, prediction))
    records = pd.concat(parts, ignore_index=True)
    records["answer"], records["n_options"], records["margin"] = 0, 4, 0.5
    records["base_prediction"] = base[records["at"]]
    records["base_margin"] = np.where(records["prediction"] == records["base_prediction"], 0.5, -0.5)
    records["category"] = "count"
    scores = np.full((len(records), 4), -3.0)
    scores[np.arange(len(records)), records["prediction"]] = -1.0
    records["logp_text"], records["logp_end"] = list(scores), [np.zeros(4)] * len(records)
    records["logp_letter"], records["n_tokens"] = list(scores), [np.ones(4, int)] * len(records)
    frames = {"records": records}
    if probes:
        frames |= _inside(records, known, rng)
    asked = {"sample_id": records["sample_id"].unique(), "question": "?", "hint": "", "prompt": "mcq", "n_images": 1}
    samples = pd.DataFrame(asked).assign(category="count", answer=0, meta="{}", options=[list("abcd")] * n)
    return frames | {"samples": samples}


def _stated(model: str, dataset: str) -> dict[tuple[str, str], float]:
    """HI's numbers of its run 0, or those of its text, by family, quantity and part."""
    table = paper.places()
    here = table["models"].map(lambda models: model in models) & table["data"].eq(dataset) & table["reason"].eq("")
    here &= table["value"].notna() & table["run"].isin(["0", ""])
    known = {}
    for row in table[here].iloc[::-1].itertuples():  # of several the first in the list stands
        known[(row.families[0], row.quantity, row.part) if row.part else (row.families[0], row.quantity)] = row.value
    return known


def _spread_out(vulnerable: np.ndarray, flips: int, k: int, rng) -> np.ndarray:
    """[sample, instance]: one flip for each vulnerable sample, the rest among their other instances."""
    found = np.zeros((len(vulnerable), k), dtype=bool)
    found[vulnerable, 0] = True
    free = np.argwhere(vulnerable[:, None] & ~found)
    extra = min(max(flips - int(vulnerable.sum()), 0), len(free))
    found[tuple(free[rng.permutation(len(free))[:extra]].T)] = True
    return found


def _rows(n: int, family: str, k: int, prediction: np.ndarray) -> pd.DataFrame:
    at = np.repeat(np.arange(n), k)
    instance = [family if family == "base" else f"{family}_{'ABC'[i] if i < 3 else i}" for i in range(k)] * n
    rows = pd.DataFrame({"at": at, "sample_id": [f"s{i:05d}" for i in at], "family": family, "instance": instance})
    rows = rows.assign(image_id=rows["sample_id"].radd("i"), params="{}", applicable=True, reason="", tied=False)
    return rows.assign(prediction=prediction.ravel())


def _inside(records: pd.DataFrame, known: dict, rng) -> dict[str, pd.DataFrame]:
    """Distances of the means HI states, energies, base states and same-question controls."""
    is_base = (records["family"] == "base").to_numpy()
    columns: dict[str, np.ndarray] = {}
    samples = pd.factorize(records["sample_id"] + records["family"])[0]
    families = records["family"].unique()
    for probe in PROBES:
        for distance, part in (("cos", "cos"), ("l2", "L2")):
            mean = {f: known.get((f, "drift", f"{part} {probe}"), 0.01) for f in families}
            spread = {f: known.get((f, "drift_sd", f"{part} {probe}"), mean[f]) for f in families}
            shape = records["family"].map({f: (mean[f] / spread[f]) ** 2 for f in families}).to_numpy()
            drawn = rng.gamma(pd.Series(shape).groupby(samples).first())[samples]
            drawn = drawn / shape * records["family"].map(mean).to_numpy()
            for tap in ("pre_norm", "post_norm"):
                columns[f"{distance}_{probe}_{tap}"] = np.where(is_base, 0.0, drawn)
    energy = {f: known.get((f, "energy", "all"), 0.0) for f in families}
    spread = {f: known.get((f, "energy_sd", "all"), 60.0) for f in families}
    noise = rng.standard_normal(len(records)) * records["family"].map(spread).to_numpy()
    moved = records["family"].map(energy).to_numpy() + noise
    columns["dirichlet"] = 200 + np.where(is_base, 0.0, moved)
    columns["dirichlet_sum"], columns["grid"] = columns["dirichlet"] * 100, np.full(len(records), "8x8", dtype=object)
    for name, values in columns.items():
        records[name] = values
    ids = records.loc[is_base, "sample_id"].tolist()
    states = rng.standard_normal((len(ids), WIDTH)) + 1.8
    hooks = [(probe, tap) for probe in PROBES for tap in ("pre_norm", "post_norm")]
    vectors = [
        {"sample_id": i, "instance": "base", "probe": probe, "tap": tap, "vector": state}
        for i, state in zip(ids, states, strict=True)
        for probe, tap in hooks
    ]
    pairs = pd.DataFrame({"sample_id": np.repeat(ids, 3), "partner_id": np.roll(np.repeat(ids, 3), 3)})
    for name in columns:
        if name.startswith(("cos_", "l2_")):
            pairs[name] = rng.gamma(8.0, 0.025, len(pairs))
    return {"vectors": pd.DataFrame(vectors), "controls": pairs}


def attacked(n: int) -> dict[str, pd.DataFrame]:
    """Attacks at 4/255 and 8/255 of which nine in ten succeed."""
    parts = []
    for family in ("base", *ATTACKS):
        for eps in (4, 8) if family != "base" else (0,):
            rows = _rows(n, family, 1, ((np.arange(n) % 10 > 0) & (family != "base")).astype(int)[:, None])
            named = {"instance": family if family == "base" else f"{family}_{eps}"}
            params = json.dumps({"eps": eps / 255, "target": "", "label": 0, "band": "all"})
            parts.append(rows.assign(**named, params=params))
    records = pd.concat(parts, ignore_index=True).assign(answer=0, n_options=2, base_prediction=0, category="count")
    kept = (records["prediction"] == 0).to_numpy()
    scores = np.where(kept[:, None], [-1.0, -2.0], [-2.0, -1.0])
    records["margin"], records["base_margin"] = 1.0, np.where(kept, 1.0, -1.0)
    for name in ("logp_text", "logp_letter"):
        records[name] = list(scores)
    records["logp_end"], records["n_tokens"] = [np.zeros(2)] * len(records), [np.ones(2, int)] * len(records)
    return {"records": records}


def yes_no(n: int, seed: int = 3) -> dict[str, pd.DataFrame]:
    """POPE's adversarial split: half hallucinations, whose flips have HI's margin."""
    rng = np.random.default_rng(seed)
    parts = []
    for family, k in {"base": 1, "blank": 1, **PER_SAMPLE}.items():
        flips = rng.random((n, k)) < (0 if family == "base" else 0.3)
        parts.append(_rows(n, family, k, flips.astype(int)))  # every base answer is Yes
    records = pd.concat(parts, ignore_index=True).assign(n_options=2, base_prediction=0, category="adversarial")
    records["answer"] = (records["at"] % 2).to_numpy()
    records.loc[records["family"] == "blank", "instance"] = "blank_white"
    flipped = (records["prediction"] == 1).to_numpy()
    records["margin"] = np.where(flipped, np.abs(0.96 + 0.2 * rng.standard_normal(len(records))), 1.5)
    records["base_margin"] = np.where(flipped, -records["margin"], records["margin"])
    asked = {"sample_id": records["sample_id"].unique(), "question": "Is there a cat?", "hint": "", "prompt": "mcq"}
    samples = pd.DataFrame(asked).assign(category="adversarial", n_images=1, meta="{}", options=[["Yes", "No"]] * n)
    return {"records": records, "samples": samples.assign(answer=np.arange(n) % 2)}


def vfat(name: str) -> dict[str, pd.DataFrame]:
    """VF's 302 items with as many right answers in each cell as its Table 1 says."""
    table = paper.published_vfat()
    own = table[(table["model"] == name) & (table["measure"] == "mAcc") & table["source"].str.contains("Table 1")]
    cells = own.set_index(["format", "level"])["value"]
    records, samples = [], []
    for form in ("mcq", "oe"):
        for level in ("L1", "L2", "L3"):
            right = round(cells[form, level] * paper.VFAT_ITEMS)
            for item in range(paper.VFAT_ITEMS):
                text = "blue" if item < right else "green" if item % 4 == 0 else "red"
                row = {"sample_id": f"{item}/{level}/{form}", "family": "base", "instance": "base", "params": "{}"}
                row |= {"category": "Physical", "image_id": f"{item}", "applicable": True, "n_options": 3, "answer": 0}
                prediction = ["blue", "red", "green"].index(text)
                row |= {"prediction": prediction, "base_prediction": prediction, "prediction_text": text}
                records.append(row | {"text_mcq": text, "text_open": text, "tied": False, "margin": 1.0})
                meta = {"item": f"{item}", "level": level, "format": form, "truth": "blue", "trap": "red"}
                asked = {
                    "sample_id": row["sample_id"],
                    "category": "Physical",
                    "question": "?",
                    "hint": "",
                    "answer": 0,
                }
                asked |= {"options": ["blue", "red", "green"], "prompt": "mcq", "n_images": 1, "meta": json.dumps(meta)}
                samples.append(asked)
    return {"records": pd.DataFrame(records), "samples": pd.DataFrame(samples)}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
