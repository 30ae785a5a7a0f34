"""A verdict for each published number: runs made up to agree, to differ, and to differ in settings (vfkit.paper)."""

import made_up
import numpy as np
import pandas as pd
import pytest

import vfkit
from vfkit import paper
from vfkit.metrics import UNION


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return vfkit.open_runs(made_up.write(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def table(runs):
    return paper.verdicts(runs)


def test_each_number_has_a_cell_of_ours_or_a_reason(table):
    assert len(table) == len(paper.published()) == 925
    assert (table["published"] == paper.published()["printed"]).all()
    assert table["verdict"].isin(paper.VERDICTS).all()
    placed = table["ours"].notna()
    assert (placed | (table["why"] != "")).all() and not (table["verdict"] == "not run").any()
    # without a cell are what the data cannot say and what is no measurement: no other
    left = table[~placed].groupby(["paper", "metric"]).size().to_dict()
    assert left == {
        ("HI", "IFR"): 1,
        ("HI", "cos_ctx_open"): 2,
        ("HI", "dirichlet_delta_mean_example"): 1,
        ("HI", "instances_with_GT"): 28,
        ("HI", "n_instances"): 1,
        ("HI", "n_random_pairs"): 1,
        ("HI", "n_samples"): 3,
        ("VF", "category_count"): 6,
        ("VF", "count"): 7,
    }
    assert table.loc[placed, ["n", "images", "cell", "run"]].notna().all(axis=None)


def test_a_run_in_the_published_settings_goes_before_a_larger_one_in_others(tmp_path):
    main = {"model": "qwen3vl_2b", "dataset": "seedbench", "n": 3500}
    frames = made_up.natural("qwen3vl_2b", "seedbench", 60, 1, probes=False)
    made_up.write_run(tmp_path, main, **frames)
    more = made_up.natural("qwen3vl_2b", "seedbench", 90, 1, probes=False)
    made_up.write_run(tmp_path, main | {"study": "letters", "rule": "letter"}, **more)
    table = paper.verdicts(vfkit.open_runs(tmp_path))
    row = table[(table["where"] == "Table 1 (run 0)") & (table["metric"] == "IFR")].iloc[0]
    assert row.verdict != "settings differ" and "letters" not in row.run and row.images == 60


def test_ours_stands_in_the_unit_of_the_published_number(table):
    shown = paper.in_their_units(table)
    close = (shown["verdict"] == "reproduced") & shown["unit"].isin(["%", "count"])
    printed = pd.to_numeric(shown.loc[close, "published"], errors="coerce").dropna()
    assert len(printed) > 100 and {"%", "count"} == set(shown.loc[printed.index, "unit"])
    off = (shown.loc[printed.index, "ours"] - printed - shown.loc[printed.index, "difference"]).abs()
    assert (off <= 1e-6 + 1e-6 * printed).all(), shown.loc[off.nlargest(3).index]


def test_each_number_meets_the_cell_of_its_own_name(table, runs):
    """Ours at a number is what our tables say at its model, family and quantity."""
    by_name = {run.folder.parts[-4:-1]: run for run in runs.runs.values() if run.config.subset == 0}
    main = by_name["perturbation", "qwen3vl_2b", "seedbench"]
    flips = main.table("flips").set_index("family")
    first = table[(table["where"] == "Table 1 (run 0)") & (table["metric"] != "base_accuracy")]
    assert len(first) == 14
    for row in first.itertuples():
        ours = flips.loc[paper.FAMILIES[row.family]]
        assert [row.ours, row.ours_low] == [ours[row.metric], ours[f"{row.metric}_low"]]
    moves = main.table("transitions").set_index("family")
    row = table[(table["where"] == "Table 2 (run 0)") & (table["family"] == "Rotation") & (table["metric"] == "R->W")]
    assert row["ours"].item() == pytest.approx(moves.loc["rotation", "R->W"] / moves.loc["rotation", "instances"])
    assert row["published"].item() == "390" and row["n"].item() == moves.loc["rotation", "instances"]
    inside = by_name["inside", "qwen3vl_2b", "seedbench"]
    drift = inside.table("drift", probe="ans_mcq_free", tap="pre_norm", distance="l2")
    drift = drift[(drift.family == "rotation") & (drift.answer == "all")].iloc[0]
    own = table[(table["where"] == "Appendix B / Table 7 (L2)") & table["family"].isin(["Rotation", "control"])]
    own = own.set_index("metric")["ours"]
    names = {
        "drift": "drift_mean",
        "drift_sd": "drift_sd",
        "other_sample": "control_mean",
        "other_sample_sd": "control_sd",
    }
    for ours, theirs in {**names, "d_other_sample": "cohen_d"}.items():
        assert own[f"{theirs}_L2_ans_mcq_free"] == pytest.approx(drift[ours])
    cosine = table[(table["where"] == "Table 3 (run 0)") & (table["metric"] == "cos_ans_open")].set_index("family")
    drift = inside.table("drift", probe="ans_open", tap="pre_norm").query("answer == 'all'").set_index("family")
    assert cosine.loc["Scale", "ours"] == pytest.approx(1 - drift.loc["scale", "drift"])
    several = table[table["family"] == "Translation and Pad/Crop"]  # the one of them that is furthest off
    assert several["cell"].str.contains("IV, (?:translation|pad_crop)|cosine, (?:translation|pad_crop)").all()
    for name, family in {"RandomText": "random_text", "Any(union)": UNION}.items():
        cells = table.loc[(table["family"] == name) & (table["verdict"] != "not comparable"), "cell"]
        assert len(cells) and cells.str.contains(family, regex=False).any()
    gemma = table[(table["dataset"] == "MMMU") & (table["metric"] == "IFR")].set_index("model")
    for theirs, ours in {"Gemma-3-4B-IT": "gemma3_4b", "Gemma-3-12B-IT": "gemma3_12b"}.items():
        flips = by_name["perturbation", ours, "mmmu"].table("flips").set_index("family")
        assert gemma.loc[theirs, "ours"] == flips.loc["text_overlay", "IFR"]


def test_vfat_cells_come_out_as_they_were_put_in(table):
    own = table[(table["paper"] == "VF") & table["metric"].isin(["Acc", "mAcc"]) & (table["where"] == "Table 1")]
    published = own["published"].astype(float) / 100
    assert len(own) == 96 and (own["ours"] - published).abs().max() < 0.0035  # one cell is no share of 302 items
    chosen = own[own["family"].str.startswith("MCQ")]
    assert (chosen["verdict"] == "reproduced").mean() > 0.9 and not (own["verdict"] == "differs").any()
    assert own.loc[own["family"].str.startswith("OE"), "why"].str.contains("judge").all()
    pooled = table[table["model"] == "12 models pooled"]
    assert pooled["ours"].notna().all() and (pooled["images"] == 12 * 302).all()


def test_runs_made_up_to_agree_reproduce(table):
    own = table[(table["paper"] == "HI") & table["cell"].str.contains("accuracy|IFR,|IV,|->|energy,|pope")]
    assert len(own) > 230 and not (own["verdict"] == "differs").any()
    assert (own["verdict"] == "reproduced").mean() > 0.85
    assert (own["why"][own["verdict"] == "not comparable"].str.startswith("too uncertain")).sum() >= 1
    judged = own[own["verdict"] == "reproduced"]
    assert (judged["difference"].abs() <= judged["margin"]).all()


def test_other_answers_differ_and_other_settings_are_named(tmp_path):
    wrong = made_up.natural("gemma3_12b", "seedbench", 500, 0, probes=False)  # a third more flips than Gemma-3 4B
    made_up.write_run(tmp_path, {"model": "gemma3_4b", "dataset": "seedbench", "n": 500}, **wrong)
    changed = {"model": "gemma3_4b", "dataset": "mmmu", "n": 500, "rule": "letter", "study": "letters"}
    made_up.write_run(tmp_path, changed | {"family_params": {"rotation": {"angles": [5]}}}, **wrong)
    ours = {"protocol": "vfkit", "model": "glm46v", "dataset": "vlind", "study": "vfat"}
    folder = made_up.write_run(tmp_path, ours, **made_up.vfat("GLM-4.6v-106B"))
    manifest = (folder / "run.json").read_text().replace('"thinking"', '"reasoning closed"')
    (folder / "run.json").write_text(manifest)
    table = paper.verdicts(vfkit.open_runs(tmp_path))
    gemma = table[(table["model"] == "Gemma-3-4B-IT") & (table["ours"].notna())].set_index(["dataset", "metric"])
    row = gemma.loc["SEEDBench_IMG", "IFR"]
    assert row["verdict"] == "differs" and row["difference"] > row["margin"] > 0
    for metric in ("IFR", "IV"):
        assert gemma.loc[("MMMU", metric), "verdict"] == "settings differ"
        assert "scoring rule letter" in gemma.loc[("MMMU", metric), "why"]
    assert "rotation" in gemma.loc[("MMMU", "IV"), "why"] and "rotation" not in gemma.loc[("MMMU", "IFR"), "why"]
    mcq = table[(table["model"] == "GLM-4.6v-106B") & (table["family"] == "MCQ L1")].iloc[0]
    assert mcq["why"] == "items made from vlind, not VF's own; mode: reasoning closed, published thinking"
    assert mcq["noted"] == "prompts in our words"
    rest = table[table["ours"].isna() & table["verdict"].isin(["not run", "not comparable"])]
    main = rest[(rest["where"] == "Table 1 (run 0)")]
    assert (main["verdict"] == "not run").all() and main["why"].str.contains("qwen3vl_2b on seedbench").all()
    assert (rest[rest["metric"] == "VRS"]["verdict"] == "not run").all()


def test_embedded_models_are_not_comparable(tmp_path):
    frames = made_up.natural("gemma3_4b", "seedbench", 20, 0, probes=False)
    made_up.write_run(tmp_path, {"model": "mini_gemma3", "dataset": "mini_seed"}, **frames)
    table = paper.verdicts(vfkit.open_runs(tmp_path))
    assert table["ours"].isna().all()
    first = table[table["where"] == "Table 1 (run 0)"]
    assert (first["verdict"] == "not comparable").all() and first["why"].str.contains("mini_gemma3 on mini_seed").all()
    assert (table[table["metric"] == "VRS"]["verdict"] == "not run").all()
    counts = paper.count_verdicts(table)
    assert counts[counts["verdict"] == "all"]["numbers"].sum() == 925
    assert counts[counts["verdict"] != "all"]["numbers"].sum() == 925


@pytest.mark.parametrize(
    "ours, low, high, error, verdict",
    [(0.2, 0.19, 0.19, 0.005, "reproduced"), (0.25, 0.19, 0.19, 0.005, "differs"), (0.25, 0.19, 0.19, 0.1, "too"),
     (0.9, 0.79, np.inf, 0.01, "reproduced"), (0.7, 0.79, np.inf, 0.01, "differs"), (0.2, 0.19, 0.19, np.nan, "too"),
     (0.165, 0.16, 0.17, 0.01, "reproduced")],
)  # fmt: skip
def test_the_rule(ours, low, high, error, verdict):
    found = paper.compare(ours, error, low, high, 0.005, "IFR")
    assert found["verdict"] == verdict or found["why"].startswith("too uncertain")
    nearest = min(max(ours, low), high)
    assert found["difference"] == pytest.approx(ours - nearest)


def test_uncertainties_of_published_numbers():
    table = paper.places().set_index(["where", "family", "metric"])
    translation = table.loc[("Table 1 (run 0)", "Translation", "IFR")]
    runs = [
        paper.published(where=f"Table 1 (run {r})", family="Translation", metric="IFR")["value"][0] for r in range(4)
    ]
    assert translation["uncertainty"] == pytest.approx(np.std(runs, ddof=1))  # more than binomial and rounding
    mean = table.loc[("Table 1 (mean of 4 runs)", "Translation", "IFR_mean")]
    assert mean["uncertainty"] >= np.std(runs, ddof=1) / 2
    probed = table.loc[("Table 4", "Translation", "drift_mean_cosdist_ans_mcq_free")]
    assert probed["uncertainty"] == pytest.approx(0.0338 / np.sqrt(600))
    assert table.loc[("sec 6 / Table 29", "PGD pixel/low/high eps=8/255", "attack_success_rate"), "high"] == np.inf
    interval = table.loc[("sec 4.1", "Translation and Pad/Crop", "IV")]
    assert [interval["low"], interval["high"]] == [0.16, 0.17] and interval["families"] == ("translation", "pad_crop")
    assert pd.isna(table.loc[("sec 4.3", "TextOverlay", "L2_ctx_open"), "value"])
    vfat = table.loc[("Table 1", "MCQ L1", "Acc")].iloc[0]
    assert vfat["uncertainty"] == pytest.approx(np.sqrt(vfat["value"] * (1 - vfat["value"]) / 302))


def test_columns_of_verdicts_are_told_apart(table):
    assert table.columns.is_unique
    finding = paper.verdict_finding(table)
    judged = table["verdict"].isin(["reproduced", "differs"]).groupby(table["paper"]).sum()
    assert all(f"of {n}**" in finding for n in judged)
    nothing = paper.verdict_finding(table[table["verdict"] == "not possible"])
    assert "0 of 13 published numbers can be compared" in nothing
