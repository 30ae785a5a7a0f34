"""Several models on the same samples (vfkit.metrics.scaling): hand-worked tables, their sentences and figures."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from vfkit import figures, metrics, paper
from vfkit.perturb import HI_FAMILIES

matplotlib.use("Agg")
MODELS = pd.DataFrame(
    [("small", "one", 0.001, ""), ("large", "one", 0.01, ""), ("third", "two", 0.001, "")],
    columns=["model", "series", "params", "hub"],
)


def _run(model: str, flips: dict[str, list[str]], samples="abcdefgh", wrong="", dataset="d") -> pd.DataFrame:
    """One run: two instances of each family; a sample flips in both where `flips` says so; `wrong` ones start wrong."""
    rows = []
    for sample in samples:
        base = int(sample in wrong)  # the true answer is 0
        for family in ("base", *flips):
            for i in range(1 if family == "base" else 2):
                moved = family != "base" and sample in flips[family]
                row = dict(sample_id=sample, image_id=f"image {sample}", family=family, instance=f"{family}_{i}")
                row |= dict(prediction=1 - base if moved else base, base_prediction=base, answer=0, n_options=4)
                rows.append(row | dict(applicable=True, category="c", tied=False, margin=1.0, base_margin=1.0))
    return pd.DataFrame(rows).assign(dataset=dataset, model=model)


@pytest.fixture
def records() -> pd.DataFrame:
    """`small` and `large` differ in text overlays alone; `third` orders the families the other way."""
    steady = {"identity": "", "translation": "a", "scale": "ab", "rotation": "abc"}
    runs = [
        _run("small", steady | {"text_overlay": "abcdef"}, wrong="gh"),
        _run("large", steady | {"text_overlay": "ab"}, wrong="h"),
        _run("third", {"translation": "abcdef", "scale": "ab", "rotation": "a", "text_overlay": ""}),
    ]
    return pd.concat(runs, ignore_index=True)


def _one(table: pd.DataFrame, **where) -> pd.Series:
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_shared_samples_are_those_that_every_model_answered(records):
    records = records[~((records["model"] == "third") & (records["sample_id"] == "a"))]
    records.loc[(records["model"] == "large") & (records["sample_id"] == "b"), "prediction"] = None
    kept, counts = metrics.shared_samples(pd.concat([records, _run("small", {}, dataset="other")]))
    assert set(kept[kept["dataset"] == "d"]["sample_id"]) == set("cdefgh")
    assert counts.set_index(["dataset", "model"])["read"].to_dict() == {
        ("d", "small"): 8, ("d", "large"): 7, ("d", "third"): 7, ("other", "small"): 8,
    }  # fmt: skip
    assert counts["shared"].to_list() == [6, 6, 6, 8]


def test_models_without_a_common_sample_and_samples_of_one_name_are_refused():
    apart = pd.concat([_run("small", {}, "abc"), _run("large", {}, "xy")])
    with pytest.raises(ValueError, match="share no sample of d; samples that each read: small 3, large 2"):
        metrics.shared_samples(apart)
    same_name = pd.concat([_run("small", {}, "abc"), _run("large", {}, "abc").assign(image_id="another")])
    with pytest.raises(ValueError, match="'a' of d: its images are not the same"):
        metrics.shared_samples(same_name)


def test_summary_by_hand(records):
    table = metrics.scale_summary(records, MODELS)
    assert table["model"].to_list() == ["small", "large", "third"] and (table["samples"] == 8).all()
    small, large, third = (_one(table, model=model) for model in table["model"])
    assert (small.accuracy, large.accuracy, small.chance) == (6 / 8, 7 / 8, 1 / 4)
    assert (small.overlay_IFR, large.overlay_IFR, third.overlay_IFR) == (6 / 8, 2 / 8, 0)
    assert small.union == "union (translation, scale, rotation, text_overlay)" and small.per_sample == 8
    assert (small.union_IV, large.union_IV) == (6 / 8, 3 / 8)
    assert small["R->W_rate"] == 12 / 24 and small["W->R_rate"] == 0  # g and h are wrong and stay so
    assert small.identity_IFR == 0 and np.isnan(third.identity_IFR)
    assert small.union_IV_low < 6 / 8 < small.union_IV_high
    assert "drift" not in table


def test_order_within_a_series_is_by_size_whatever_was_asked_first(records):
    turned = MODELS.iloc[[1, 2, 0]]
    table = metrics.scale_summary(records, turned)
    assert table["model"].to_list() == ["small", "large", "third"]
    with pytest.raises(ValueError, match="nothing is said of the model 'third'"):
        metrics.scale_summary(records, MODELS.iloc[:2])


def test_differences_compare_sizes_of_one_series(records):
    table = metrics.scale_differences(records, MODELS)
    assert set(zip(table["smaller"], table["larger"], strict=True)) == {("small", "large")}
    assert (table["times"] == 10).all()
    overlay = _one(table, measure="IV", family="text_overlay")
    assert (overlay.share_smaller, overlay.share_larger, overlay.difference) == (6 / 8, 2 / 8, -4 / 8)
    assert overlay.difference_low < -0.5 < overlay.difference_high < 0.05
    assert (overlay.only_smaller, overlay.only_larger, overlay.p) == (4, 0, pytest.approx(2 * 0.5**4))
    assert overlay.p_holm == pytest.approx(4 * 2 * 0.5**4)  # four families; neither the union nor the noise floor
    same = _one(table, measure="IFR", family="rotation")  # the very same samples: no image differs
    assert same.difference == 0 and same.difference_high == pytest.approx(1 - 0.025 ** (1 / 8)) and same.p == 1
    union = _one(table[table["family"].str.startswith("union")], measure="IV")
    assert union.difference == -3 / 8 and np.isnan(union.p_holm)
    accuracy = _one(table, measure="accuracy")
    assert (accuracy.difference, accuracy.only_smaller, accuracy.only_larger) == (1 / 8, 0, 1)


def test_models_of_one_size_are_not_compared(records):
    table = metrics.scale_differences(records, MODELS.assign(params=0.001))
    assert table.empty and "difference_low" in table
    with pytest.raises(ValueError, match="doubled|twice"):
        metrics.scale_differences(pd.concat([records, records]), MODELS)


def test_rank_agreement_by_hand(records):
    table = metrics.rank_agreement(records, MODELS)
    # flips of translation, scale, rotation, text overlay: 1 2 3 6; 1 2 3 2; 6 2 1 0 of 8 samples
    assert _one(table, model="small", other="third").rho == pytest.approx(-1)
    assert _one(table, model="small", other="large").rho == pytest.approx(0.6325, abs=1e-4)
    assert _one(table, model="small", other="large").series == "same"
    mean = _one(table, model="mean", series="other")
    assert mean.pairs == 2 and mean.families == 4 and mean.samples == 8
    assert mean.rho == pytest.approx(table[(table["model"] != "mean") & (table["series"] == "other")]["rho"].mean())
    assert table["p"].between(0, 1).all() and "rho_low" not in table


def test_ranks_need_something_to_rank(records):
    few = records[records["family"].isin(["base", "scale", "rotation"])]
    assert metrics.rank_agreement(few, MODELS)["rho"].isna().all()
    still = pd.concat([records, _run("never", dict.fromkeys(HI_FAMILIES, ""))])
    models = pd.concat([MODELS, pd.DataFrame([dict(model="never", series="two", params=1.0, hub="")])])
    table = metrics.rank_agreement(still, models)
    never = table[table["other"] == "never"]
    assert len(never) == 3 and never[["rho", "p"]].isna().all(axis=None)
    assert metrics.rank_agreement(records[records["model"] == "small"], MODELS).empty


def test_agreement_by_chance_is_seldom_called_shared_and_a_shared_order_is():
    rng = np.random.default_rng(0)
    samples = [f"s{i}" for i in range(60)]

    def p(rates) -> float:
        flips = [{f: set(rng.choice(samples, k, replace=False)) for f, k in zip(HI_FAMILIES, own, strict=True)}
                 for own in rates]  # fmt: skip
        runs = pd.concat([_run(model, own, samples) for model, own in zip(("small", "third"), flips, strict=True)])
        return _one(metrics.rank_agreement(runs, MODELS), model="small").p

    chance = [p([rng.permutation(range(5, 35, 5)) for _ in range(2)]) for _ in range(40)]
    assert np.mean(np.array(chance) < 0.05) <= 0.125
    assert p([range(5, 35, 5)] * 2) < 0.05


def test_by_model_hands_on_the_rows_of_the_samples_compared(records):
    records = records[records["sample_id"] != "a"]
    controls = pd.DataFrame({"sample_id": list("aab"), "dataset": "d", "model": ["small", "large", "small"], "x": 1})
    seen = []

    def make(records, controls=None):
        seen.append(None if controls is None else controls["sample_id"].to_list())
        assert "model" not in records
        return pd.DataFrame({"rows": [len(records)]})

    table = metrics.by_model(make, records, MODELS, controls=controls, vectors=None)
    assert seen == [["b"], [], []]
    assert table.columns.to_list() == ["dataset", "model", "series", "params", "rows"]


@pytest.mark.parametrize(
    "params, name", [(0.0014, "1.4 M"), (0.0304, "30 M"), (0.45, "450 M"), (8.8, "8.8 B"), (235, "235 B")]
)
def test_size_name(params, name):
    assert metrics.size_name(params) == name


def _finding(records, models=MODELS) -> str:
    flips = metrics.by_model(metrics.flip_table, records, models)
    tables = (
        make(records, models) for make in (metrics.scale_summary, metrics.scale_differences, metrics.rank_agreement)
    )
    return metrics.scale_finding(*tables, flips, models)


def test_finding_says_what_the_tables_say(records):
    text = _finding(records)
    assert "on the 8 samples that all 3 models answered" in text
    assert "from small (1 M) to large (10 M), 10 times the size, accuracy changes by +12.5 points" in text
    assert "IV changes by -37.5 points" in text and "the text overlay's IFR changes by -50.0 points" in text
    assert "two: one size only" in text
    assert "over 2 pairs of models of different series (not shown to be shared, Holm-adjusted p = " in text
    assert "What flips most: text overlay in 1, rotation in 1, translation in 1 of 3 models." in text
    assert "pairs of sizes" not in text
    assert "Does robustness change with scale: too few flips to tell" not in text
    assert "Does robustness change with scale: undecided (n = 8 images)" in text  # three samples more that hold
    worse = _finding(records, MODELS.assign(params=[0.01, 0.001, 0.001]))
    assert "from large (1 M) to small (10 M)" in worse
    many = [f"s{i}" for i in range(40)]
    runs = [
        _run("small", dict.fromkeys(HI_FAMILIES, many[:30]), many),
        _run("large", dict.fromkeys(HI_FAMILIES, many[:8]), many),
    ]
    runs = pd.concat(runs)
    assert "scale: it improves, fewer samples flip in the larger model (n = 40 images)" in _finding(runs, MODELS[:2])
    turned = MODELS[:2].assign(params=[0.01, 0.001])
    assert "scale: it gets worse, more samples flip in the larger (n = 40 images)" in _finding(runs, turned)
    alone = records[records["model"] == "small"]
    assert "rank correlation" not in _finding(alone, MODELS.iloc[:1])


def test_published_values_stand_beside_their_own_models(records):
    table = metrics.scale_summary(records.assign(dataset="mmmu"), MODELS)
    hubs = MODELS.assign(hub=["google/gemma-3-4b-it", "google/gemma-3-12b-it", "someone/else"])
    beside = paper.beside_scale(table, hubs)
    ours = beside.iloc[:3]
    assert ours["overlay_IFR_published"].fillna(0).to_list() == [pytest.approx(0.202), pytest.approx(0.318), 0]
    assert ours["union_IV_published"].fillna(0).to_list() == [pytest.approx(0.443), pytest.approx(0.54), 0]
    assert ours["published_source"].to_list() == ["HI sec 5.1 (C.4)"] * 2 + [""]
    rest = beside.iloc[3:].set_index(["dataset", "model"])
    assert set(rest.index.get_level_values("dataset")) == {"SEEDBench_IMG"} and rest["accuracy"].isna().all()
    qwen = rest.loc[("SEEDBench_IMG", "Qwen3-VL-2B-Instruct")]
    names = [f"{name}_published" for name in ("accuracy", "overlay_IFR", "union_IV", "drift")]
    assert qwen[names].astype(float).to_list() == pytest.approx([0.6167, 0.1922, 0.3757, 0.03])
    gemma = rest.loc[("SEEDBench_IMG", "Gemma-3-12B-IT")]
    assert gemma["drift_published"] == pytest.approx(1 - 0.918) and np.isnan(gemma["union_IV_published"])
    unmatched = paper.beside_scale(table.assign(dataset="mini_seed"), hubs)
    assert len(unmatched) == 3 and len(paper.beside_scale(table.assign(dataset="mini_seed"), hubs, True)) == 3 + 5
    assert unmatched["union_IV_published"].isna().all()


# Figures


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def _labels(ax) -> list[str]:
    return [text.get_text() for legend in ax.figure.legends for text in legend.get_texts()]


def test_no_line_joins_points_without_an_interval(records):
    table = metrics.scale_summary(records, MODELS)
    assert table["base_wrong"].to_list() == [16, 8, 0] and table["base_right"].to_list() == [48, 56, 64]
    ax = figures.plot_scale(table, ["W->R_rate"]).axes[0]
    joined = [line.get_ydata() for line in ax.lines if line.get_linestyle() == "-"]
    assert table["W->R_rate_low"].isna().all() and all(np.isnan(ys).all() for ys in joined)
    assert {"n = 16", "n = 8"} <= {text.get_text().strip() for text in ax.texts}
    ax = figures.plot_scale(table, ["R->W_rate"]).axes[0]
    assert any(np.isfinite(line.get_ydata()).all() for line in ax.lines if line.get_linestyle() == "-")


def test_what_flips_most_is_said_of_five_images_or_more():
    few = [_run(name, {"rotation": "a", "scale": ""}, "abcd") for name in ("small", "large")]
    assert "What flips most: too few images to tell." in _finding(pd.concat(few), MODELS[:2])


def test_scale_figure_draws_the_table(records):
    table = metrics.scale_summary(records, MODELS)
    axes = figures.plot_scale(table, ["accuracy", "overlay_IFR", "union_IV"]).axes
    assert len(axes) == 3
    points = {line.get_label(): line for line in axes[2].lines}
    assert points["large (10 M, one)"].get_ydata()[0] == pytest.approx(37.5)
    row = _one(table, model="large")
    ends = [path.vertices[:, 1] for lines in axes[2].collections for path in lines.get_paths()]
    assert any(np.allclose(end, [100 * row.union_IV_low, 100 * row.union_IV_high]) for end in ends)
    x = {name: points[name].get_xdata()[0] for name in points if "(1 M" in name}
    assert len(x) == 2 and x["small (1 M, one)"] != x["third (1 M, two)"]  # of one size, and both to be seen
    axes[0].figure.canvas.draw()
    assert [tick.get_text() for tick in axes[0].get_xticklabels()] == ["1 M", "10 M"]
    assert axes[0].get_title(loc="left") == "d, n = 8 samples"
    assert {"chance", "noise floor (identity), largest"} <= set(_labels(axes[0]))


def test_scale_figure_shows_published_values_of_its_models_only(records):
    hubs = MODELS.assign(hub=["Qwen/Qwen3-VL-2B-Instruct", "", ""])
    table = paper.beside_scale(metrics.scale_summary(records.assign(dataset="seedbench"), MODELS), hubs)
    axes = figures.plot_scale(table, ["union_IV"]).axes
    hollow = [line for line in axes[0].lines if line.get_label().startswith("published")]
    assert [line.get_ydata()[0] for line in hollow] == [pytest.approx(37.57)]
    assert len(axes) == 1  # no panel for HI's other data
    assert axes[0].get_title(loc="left") == "seedbench, n = 8 samples"


def test_differences_figure(records):
    axes = figures.plot_scale_differences(metrics.scale_differences(records, MODELS)).axes
    (points,) = [line for line in axes[1].lines if line.get_label() == "d: large - small"]
    assert points.get_xdata() == pytest.approx([0, 0, 0, 0, -50, -37.5])
    assert [label.get_text() for label in axes[0].get_yticklabels()][4] == "text overlay\nn = 8 samples"


def test_ranks_figure(records):
    flips = metrics.by_model(metrics.flip_table, records, MODELS)
    axes = figures.plot_ranks(flips, metrics.rank_agreement(records, MODELS)).axes
    left = [text.get_text() for text in axes[0].texts]
    assert left[:3] == ["12.5", "12.5", "75.0"]  # translation in the three models
    right = [text.get_text() for text in axes[1].texts]
    assert right[0].startswith("0.63\np = ") and right[1].startswith("-1.00\np = ")
    assert [label.get_text() for label in axes[0].get_yticklabels()][0] == "translation\nn = 16"
    one = records[records["model"] == "small"]
    flips = metrics.by_model(metrics.flip_table, one, MODELS)
    axes = figures.plot_ranks(flips, metrics.rank_agreement(one, MODELS)).axes
    assert not axes[1].axison


def test_figures_keep_a_notebook_interactive():
    """A notebook's backend turns interactive mode on within its first figure; taken back, no second one is shown."""
    before = matplotlib.is_interactive()
    try:
        with figures.styled():
            plt.ion()
        assert matplotlib.is_interactive()
    finally:
        matplotlib.interactive(before)
