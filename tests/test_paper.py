"""The packaged published values agree with themselves, and stand beside ours under the right names (vfkit.paper)."""

import re

import pandas as pd
import pytest

from vfkit import paper
from vfkit.metrics import UNION
from vfkit.paper import values
from vfkit.perturb import HI_FAMILIES

RUNS = range(4)
HI = "Qwen3-VL-2B-Instruct"


def test_rates_equal_the_counts_they_come_from():
    table = paper.published(paper="HI", where=[f"Table 1 (run {run})" for run in RUNS])
    counts = table["note"].str.extract(r"(\d+)/(\d+)").astype(float)
    assert len(table) == 60 and counts.notna().all(axis=None)
    assert (counts[0] / counts[1] - table["value"]).abs().max() < 0.5e-4 + 1e-9
    translation = table[(table["family"] == "Translation") & (table["metric"] == "IFR")]
    assert translation["note"].iloc[0] == "1742/28000 instances"


def test_transitions_add_up():
    for run in RUNS:
        table = paper.published(where=f"Table 2 (run {run})").pivot(index="family", columns="metric", values="value")
        assert len(table) == 7
        assert (table[["R->W", "W->R", "R->R", "W->W"]].sum(axis=1) == table["instances_with_GT"]).all()
        union = table.index.str.startswith("Any")
        assert (table[~union].sum() == table[union].sum()).all()


def test_vfat_cells_are_multiples_of_one_in_302():
    table = paper.published(paper="VF", where="Table 1", metric="Acc")
    cells = table[table["note"].str.contains("denominator inferred")]
    count = cells["note"].str.extract(r"^(\d+)/302")[0].astype(float)
    assert len(cells) == 71 and ((100 * count / 302).round(2) == cells["value"]).all()


def test_nothing_was_lost_in_packaging():
    table = paper.published()
    assert len(table) == 925
    assert (table["paper"].isin(["HI", "VF"]) & (table["printed"] != "") & (table["evidence"] != "")).all()
    # what is not a number is a range, a bound or words, and is still there to read
    assert set(table[table["value"].isna()]["printed"]) >= {"16-17", ">1000", "~0.99", "4.1 +- 14.8"}
    assert not table["printed"].duplicated(keep=False)[table["value"].isna()].any()


def test_filters():
    assert set(paper.published(family="pad_crop")["family"]) == {"Pad/Crop"}
    assert set(paper.published(family=UNION)["family"]) == {"Any(6 families, without Box/Random)", "Any(union)"}
    assert set(paper.published(model="GPT-5.1", metric=["Acc", "mAcc"])["metric"]) == {"Acc", "mAcc"}
    with pytest.raises(ValueError, match="model 'Gemma-3-4B'.*'Gemma-3-4B-IT'"):
        paper.published(model="Gemma-3-4B")
    first = paper.published(paper="HI")
    first["value"] = 0.0
    assert paper.published(paper="HI")["value"].abs().max() > 0  # a caller cannot spoil the table


def _flips(families=(*HI_FAMILIES, UNION, "identity", "random_text", "union (scale, rotation)")):
    return pd.DataFrame({"family": families, "IFR": 0.5, "IV": 0.5})


def test_beside_flips():
    ours = _flips()
    table = paper.beside(ours, HI).set_index("family")
    assert "IFR_published" not in ours
    assert table.loc["translation", ["IFR_published", "IV_published"]].to_list() == [0.0622, 0.1677]
    assert table.loc[UNION, ["IFR_published", "IV_published"]].to_list() == [0.0865, 0.3757]
    assert table.loc["random_text", "IFR_published"] == pytest.approx(0.064)  # printed in per cent, in running text
    source = table["published_source"]
    assert source["translation"] == "HI Table 1 (run 0), Qwen3-VL-2B-Instruct, SEEDBench_IMG"
    assert source["random_text"] == "HI sec 4.1, Qwen3-VL-2B-Instruct, SEEDBench_IMG"
    for family in ("identity", "union (scale, rotation)"):  # another set is another number
        assert pd.isna(table.loc[family, "IFR_published"]) and source[family] == ""


def test_beside_takes_the_mean_of_runs_and_other_models():
    table = paper.beside(_flips(), HI, runs=RUNS).set_index("family")
    means = paper.published(where="Table 1 (mean of 4 runs)", metric="IFR_mean").set_index("family")["value"]
    means.index = means.index.map(paper.FAMILIES)
    assert (table["IFR_published"] - means).dropna().abs().max() < 1.1e-4 and len(means) == 7
    assert re.search("mean of runs 0, 1, 2, 3", table.loc["scale", "published_source"])

    gemma = paper.beside(_flips(), model="Gemma-3-12B-IT", dataset="MMMU").set_index("family")
    assert gemma.loc["text_overlay", "IFR_published"] == pytest.approx(0.318) and gemma["IFR_published"].count() == 1
    assert gemma.loc[UNION, "IV_published"] == pytest.approx(0.54)
    assert "Gemma-3-12B-IT, MMMU" in gemma.loc["text_overlay", "published_source"]


def test_beside_transitions_and_accuracy():
    ours = pd.DataFrame({"family": ["text_overlay", "identity"], "R->W_rate": 0.5, "W->R_rate": 0.5})
    table = paper.beside(ours, HI)
    assert table["R->W_rate_published"][0] == pytest.approx(685 / (685 + 5738))
    assert table["W->R_rate_published"][0] == pytest.approx(881 / (881 + 3126))
    assert table["R->W_rate_published"].isna()[1]
    ours = pd.DataFrame({"family": ["base", "base", "scale"], "category": ["all", "count", "all"], "accuracy": 0.5})
    assert paper.beside(ours, HI)["accuracy_published"].fillna(0).to_list() == [0.6167, 0, 0]
    with pytest.raises(ValueError, match="IFR"):
        paper.beside(pd.DataFrame({"family": ["scale"], "drift": 1.0}))
    with pytest.raises(ValueError, match="runs"):
        paper.beside(_flips(), HI, runs=(4,))


def test_beside_compliance():
    ours = pd.DataFrame({"family": ["text_overlay", "random_text"], "compliance": 0.5, "corrected": 0.5})
    table = paper.beside(ours, "qwen3vl_2b", "seedbench")
    assert table["corrected_published"].fillna(0).to_list() == [0.22, 0]
    assert table["corrected_if_followed_published"].fillna(0).to_list() == [0.33, 0]
    source = "HI sec 4.2, Qwen3-VL-2B-Instruct, SEEDBench_IMG"
    assert table["published_source"].to_list() == [source, ""]


def test_without_a_model_nothing_stands_beside():
    compliance = pd.DataFrame({"family": ["text_overlay"], "corrected": 0.5})
    margins = pd.DataFrame({"case": ["Yes/No"], "family": UNION, "answer": "flipped", "margin": -0.5})
    attacks = pd.DataFrame({"family": ["pgd_low"], "eps": 8, "target": "", "success_rate": 0.5})
    for ours in (_flips(), _drifts(), compliance, margins, attacks):
        table = paper.beside(ours)
        assert table.filter(like="_published").isna().all(axis=None) and (table["published_source"] == "").all()


def _drifts(families=("identity", "translation", "text_overlay", UNION, "random_text")):
    cells = [(p, t, d, f, a) for p in ("ctx_open", "ans_mcq_free") for t in ("pre_norm", "post_norm")
             for d in ("cos", "l2") for f in families for a in ("all", "kept")]  # fmt: skip
    table = pd.DataFrame(cells, columns=["probe", "tap", "distance", "family", "answer"])
    return table.assign(drift=0.5, d_other_sample=-1.0)


def test_beside_drift():
    table = paper.beside(_drifts(), HI).set_index(["probe", "tap", "distance", "family", "answer"]).sort_index()
    columns = ["drift_published", "drift_sd_published", "control_published", "d_published"]
    moved = table.loc[("ans_mcq_free", "pre_norm", "cos", "text_overlay", "all")]
    assert moved[columns].to_list() == [0.1773, 0.2022, 0.2283, -0.3355]
    assert moved[["percent_published", "percent_sd_published"]].astype(float).round(1).to_list() == [77.7, 88.6]
    assert moved["published_source"] == "HI Table 4, Qwen3-VL-2B-Instruct, SEEDBench_IMG"
    moved = table.loc[("ans_mcq_free", "pre_norm", "cos", "translation", "all")]
    assert moved[["percent_published", "percent_sd_published"]].astype(float).round(1).to_list() == [4.1, 14.8]
    l2 = table.loc[("ctx_open", "pre_norm", "l2", "translation", "all")]
    assert l2[columns].to_list() == [221.2449, 107.296, 1880.5081, -9.0146]
    union = table.loc[("ctx_open", "pre_norm", "cos", UNION, "all")]
    assert union["drift_published"] == pytest.approx(0.03) and "Table 3 (run 0)" in union["published_source"]
    assert union[["control_published", "percent_published", "d_published"]].isna().all()
    third = paper.beside(_drifts(["pad_crop"]), HI).query("tap == 'pre_norm' and distance == 'cos' and answer == 'all'")
    assert third["drift_published"].between(0, 0.2).all() and len(third) == 2  # where Table 4 is silent, of Table 3
    empty = table.loc[table.index.get_level_values("family").isin(["identity", "random_text"])]
    kept = table.xs("kept", level="answer")  # HI never tells kept from flipped
    after = table.xs("post_norm", level="tap")  # its Qwen states are those before the final norm
    for part in (empty, kept, after):
        assert part.filter(like="_published").isna().all(axis=None) and (part["published_source"] == "").all()
    other = paper.beside(_drifts(), model="Gemma-3-4B-IT")
    assert other.filter(like="_published").isna().all(axis=None) and (other["published_source"] == "").all()


def test_beside_dirichlet():
    families = ["identity", "translation", "rotation"]
    ours = pd.DataFrame({"family": families * 2, "answer": ["all"] * 3 + ["kept"] * 3, "delta": 1.0, "delta_sum": 84.0})
    ours = pd.concat([ours, ours.iloc[[1]].assign(answer="flipped")], ignore_index=True)
    table = paper.beside(ours, HI)
    assert table["delta_published"].fillna(0).to_list() == [0, 10.34, -72.73, 0, 0, 0, 15.263]
    assert "size not stated" in table["published_source"][6]
    assert table["delta_sd_published"][2] == 99.95
    assert table["published_source"][1] == "HI sec 4.5 / App E, Qwen3-VL-2B-Instruct, SEEDBench_IMG"
    assert (table["published_source"][[0, 3, 4, 5]] == "").all()


@pytest.mark.parametrize("name", ["qwen3vl_2b", "Qwen/Qwen3-VL-2B-Instruct", "Qwen3-VL-2B-Instruct"])
def test_a_model_is_known_by_each_of_its_names(name):
    table = paper.beside(_flips(), name, "seedbench")
    assert table.set_index("family").loc["translation", "IFR_published"] == 0.0622


def test_a_model_is_known_by_the_config_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(values, "find", lambda name: type("Spec", (), {"name": "qwen3vl_2b"}))
    assert paper.beside(_flips(), str(tmp_path), "seedbench")["IFR_published"].notna().any()


@pytest.mark.parametrize(
    "model, dataset",
    [("mini_qwen3vl", "easy_vqa"), ("qwen3vl_2b", "mine.tsv"), ("Qwen/Qwen2.5-VL-72B-Instruct", "seedbench"),
     ("qwen3vl_8b", "seedbench"), ("qwen3vl_2b", "mmmu"), ("mini_qwen3vl", "seedbench")],
)  # fmt: skip
def test_beside_what_the_paper_does_not_state_stands_nothing(model, dataset):
    energy = pd.DataFrame({"family": ["rotation"], "answer": "all", "delta": 1.0, "delta_sum": 1.0})
    for ours in (_flips(), _drifts(), energy, pd.DataFrame({"family": ["base"], "category": "all", "accuracy": 0.5})):
        table = paper.beside(ours, model, dataset)
        assert table.filter(like="_published").isna().all(axis=None) and (table["published_source"] == "").all()


def test_what_is_stated_of_a_model_without_its_size_and_of_one_split():
    margins = pd.DataFrame({"case": ["Yes/No"], "family": UNION, "answer": "flipped", "margin": -0.5})
    attacks = pd.DataFrame({"family": ["pgd_low"], "eps": 8, "target": "", "success_rate": 0.5})
    assert paper.beside(margins, "qwen3vl_8b", "pope", split="adversarial")["margin_published"].tolist() == [-0.96]
    for model, split in (("qwen3vl_8b", "random"), ("qwen3vl_8b", None), ("gemma3_4b", "adversarial")):
        assert paper.beside(margins, model, "pope", split=split)["margin_published"].isna().all()
    assert paper.beside(attacks, "qwen3vl_4b", "seedbench")["success_rate_published"].tolist() == [0.79]
    assert paper.beside(attacks, "mini_qwen3vl", "mini_seed")["success_rate_published"].isna().all()
