"""Frames of stored runs, and every table of `vfkit.metrics` as a function of them: the builders stand once, here."""

import json
from functools import cache
from pathlib import Path

import inside_rows
import pandas as pd

from vfkit import metrics

STORED = Path(__file__).parent / "data" / "stored"
RUNS = [path.parent for path in sorted(STORED.rglob("run.json"))]
PERTURBATION = next(path for path in RUNS if (path / "tables" / "drift_cosine.csv").is_file())


def run_of(study: str, model: str = "") -> Path:
    return next(path for path in RUNS if path.is_relative_to(STORED / study) and model in path.parts[-3])


POPE, SPECTRAL, ATTACK = map(run_of, ("pope", "spectral", "attack"))
VFAT = {
    name: next(p for p in RUNS if p.parts[-3] == name and "vfat" in p.parts)
    for name in ("mini_qwen3vl", "mini_qwen3vl_clean")
}


@cache
def frame(run: Path, kind: str) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(part) for part in sorted((run / kind).glob("*.parquet"))], ignore_index=True)


def frames(run: Path, *kinds: str) -> list[pd.DataFrame]:
    return [frame(run, kind) for kind in kinds]


@cache
def vfat(model: str, kind: str) -> pd.DataFrame:
    table = frame(VFAT[model], kind)
    return table.assign(meta=table.meta.map(json.loads)) if kind == "samples" else table


@cache
def answers(*models: str) -> pd.DataFrame:
    rules = ["paper", "text", "text_mean", "letter"]
    parts = [metrics.vfat_answers(vfat(m, "records"), vfat(m, "samples"), rules).assign(model=m) for m in models]
    return pd.concat(parts, ignore_index=True)


def generated(model: str) -> pd.DataFrame:
    rows = answers(model)
    return rows[rows.reading == "generation"].reset_index(drop=True)


@cache
def several(kind: str) -> pd.DataFrame:
    """The frames of one kind of the scaling study's runs."""
    folders = [path for path in RUNS if path.is_relative_to(STORED / "perturbation") and path != PERTURBATION]
    parts = [frame(path, kind).assign(dataset="mini_seed", model=path.parts[-3]) for path in folders]
    return pd.concat(parts, ignore_index=True)


MODELS = pd.DataFrame(
    [("mini_llava_ov", "llava", 1.2e-3), ("mini_qwen3vl", "qwen", 1.7e-3), ("mini_qwen3vl_l", "qwen", 3.3e-3)],
    columns=["model", "series", "params"],
)

# name -> (function, its frames): what each table of `vfkit.metrics` takes
ONE, INSIDE = frames(PERTURBATION, "records"), frames(PERTURBATION, "records", "vectors", "controls")
YES_NO, NOISE, ATTACKED = frames(POPE, "records", "samples"), frames(SPECTRAL, "records"), frames(ATTACK, "records")
BOTH = ("mini_qwen3vl", "mini_qwen3vl_clean")
TABLES = {
    name: (getattr(metrics, name), taken)
    for names, taken in (
        ("flip_table transition_table margin_table accuracy_table compliance_table overlay_table rule_table", ONE),
        ("calibration_table temperature_table reliability_table risk_table flip_confidence_table confidence_rows", ONE),
        ("dirichlet_table spectrum_table inside_correlations", ONE),
        ("sample_drift drift_table", INSIDE),
        ("pope_answers pope_table pope_transition_table pope_margin_table prior_table question_priors", YES_NO),
        ("reliance_table corrected_flip_table prior_rows", YES_NO[:1]),
        ("prior_drift_table verdict_table pope_balance_table", YES_NO),
        ("noise_table ablation_table thresholds threshold_table smoothness_table band_test", NOISE),
        ("attack_table trace_table audit_table", ATTACKED),
        ("vfat_answers vfat_table", [vfat("mini_qwen3vl", kind) for kind in ("records", "samples")]),
        ("vfat_pressure vfat_transitions vfat_scores vfat_interaction", [answers("mini_qwen3vl")]),
        ("vfat_scaling", [answers(*BOTH)]),
        ("scale_summary", [several("records"), MODELS, several("vectors"), several("controls")]),
        ("scale_differences rank_agreement", [several("records"), MODELS]),
        ("shared_samples", [several("records")]),
        ("vfat_differences", [answers(one) for one in BOTH]),
        ("vfat_moves", [generated(BOTH[0]), vfat(BOTH[0], "records")]),
        ("vfat_drift", [generated(BOTH[0]), *(vfat(BOTH[0], kind) for kind in ("records", "vectors", "controls"))]),
        ("vfat_correlations", [metrics.vfat_scores(answers(*BOTH), ())]),
        ("control_distances", frames(PERTURBATION, "vectors")),
        ("embedding_table", frames(PERTURBATION, "records", "vectors")),
        ("compare_table", frames(PERTURBATION, "records", "records")),
    )
    for name in names.split()
    if hasattr(metrics, name)
}
TURNS = {"rotation_-30": '{"strength": 15}', "rotation_+30": '{"strength": 30}'}  # as if they were of two strengths
STRENGTHS = ONE[0][ONE[0].family.isin(["base", "rotation"])].reset_index(drop=True)
STRENGTHS = STRENGTHS.assign(
    family=STRENGTHS.family.replace("rotation", "severity_rotation"),
    params=STRENGTHS.instance.map(TURNS).fillna("{}"),
)
for name in ("severity_table", "onset_table"):
    TABLES[name] = (getattr(metrics, name), [STRENGTHS, INSIDE[2]])
TABLES["rescore"] = (lambda records: metrics.rescore(records, "text_mean"), ONE)
TABLES["by_case"] = (lambda *taken: metrics.by_case(metrics.flip_table, *taken), YES_NO)
TABLES["by_model"] = (lambda *taken: metrics.by_model(metrics.flip_table, *taken), [several("records"), MODELS])
TABLES["drift_summary"] = (lambda *taken: metrics.drift_summary(*taken, probes=["ans_open"]), INSIDE)
TABLES["across_runs"] = (lambda *tables: metrics.across_runs(tables), [metrics.flip_table(*ONE)] * 2)
_INSIDE = inside_rows.inside()
for names, taken in (
    ("layer_drift_table", _INSIDE["layers"]),
    ("sensitivity_table", _INSIDE["layers"][:1]),
    ("lens_table crossover_table crossovers", _INSIDE["lens"]),
    ("attention_table attention_outcomes", _INSIDE["attention"]),
    ("radius_rows radius_table", _INSIDE["radius"]),
    ("flipping_eps", _INSIDE["radius"][1:]),
    ("edit_reasons patch_table patch_contrasts knockout_table knockout_contrasts", _INSIDE["edits"]),
):
    TABLES |= {name: (getattr(metrics, name), taken) for name in names.split()}
