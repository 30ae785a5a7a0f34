"""Drift (vfkit.metrics.drift): distances and controls worked out by hand, HI's published d, kept against flipped."""

import subprocess
import sys
from itertools import combinations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from vfkit import figures, metrics, paper
from vfkit.measure import distances
from vfkit.metrics import controls as controls_module
from vfkit.metrics import drift, effects
from vfkit.perturb import HI_FAMILIES

matplotlib.use("Agg")
NAN = float("nan")
COLUMN = "cos_ctx_open_post_norm"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def row(sample, image, family, instance, prediction, drift=0.0, base=0):
    """One record; prediction None: the instance does not apply."""
    record = {"sample_id": sample, "image_id": image, "family": family, "instance": instance}
    record |= {"applicable": prediction is not None, "prediction": prediction, "base_prediction": base}
    return record | {COLUMN: drift, "l2_ctx_open_post_norm": 10 * drift}


def frame(rows):
    return pd.DataFrame(rows).astype({"prediction": "Int64", "base_prediction": "Int64"})


@pytest.fixture
def records():
    """s1 and s2 ask about image A, s3 about B; the prediction of every base is 0, any other is a flip."""
    rows = [row("s1", "A", "base", "base", 0), row("s2", "A", "base", "base", 0), row("s3", "B", "base", "base", 0)]
    rows += [row(s, i, "identity", "identity", 0, 1e-8) for s, i in (("s1", "A"), ("s2", "A"), ("s3", "B"))]
    rows += [row("s1", "A", "translation", "t1", 0, 0.1), row("s1", "A", "translation", "t2", 1, 0.5)]
    rows += [row("s2", "A", "translation", "t1", 0, 0.2), row("s2", "A", "translation", "t2", 0, 0.4)]
    rows += [row("s3", "B", "translation", "t1", 0, 0.6), row("s3", "B", "translation", "t2", None, NAN)]
    rows += [row("s1", "A", "rotation", "r1", 0, NAN), row("s2", "A", "rotation", "r1", 2, 0.7)]
    rows += [row("s4", "B", "rotation", "r1", 1, 0.9)]  # its base failed
    return frame(rows)


@pytest.fixture
def vectors():
    """Base states 1, 2 and 4 units along three axes: every cosine distance is 1."""
    states = {"s1": [1, 0, 0], "s2": [0, 2, 0], "s3": [0, 0, 4]}
    rows = [(s, "base", "ctx_open", "post_norm", np.array(v, dtype=np.float32)) for s, v in states.items()]
    return pd.DataFrame(rows, columns=["sample_id", "instance", "probe", "tap", "vector"])


@pytest.fixture
def controls():
    pairs = pd.DataFrame({"sample_id": ["s1", "s1", "s2", "s2"], "partner_id": ["s3", "x", "s3", "x"], "image_id": "A"})
    return pairs.assign(**{COLUMN: [0.3, 0.5, 0.7, 0.9], "l2_ctx_open_post_norm": [3.0, 5.0, 7.0, 9.0]})


def test_distances_by_hand():
    cosine, l2 = distances([1.0, 0.0], [[0.0, 2.0], [-3.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(cosine, [1, 2, 0, 1 - 3 / 5], rtol=1e-12)
    np.testing.assert_allclose(l2, [5**0.5, 4, 0, 20**0.5], rtol=1e-12)
    cosine, l2 = distances([0.0, 0.0], [3.0, 4.0])
    assert np.isnan(cosine) and l2 == 5
    assert np.isnan(distances([1.0, NAN], [1.0, 2.0])).all()


def test_distances_keep_their_digits():
    """Where float32 sees nothing but its own rounding: 1 - cos of vectors an angle of 1e-4 apart is 5e-9."""
    rng = np.random.default_rng(0)
    one, other = (rng.normal(size=2560).astype(np.float32) for _ in range(2))
    assert distances(one, one) == (0, 0)
    one, other = one / np.linalg.norm(one), other - one * (other @ one) / (one @ one)
    turned = one.astype(float) * np.cos(1e-4) + other / np.linalg.norm(other) * np.sin(1e-4)
    cosine, _ = distances(one, 7 * turned)
    assert cosine == pytest.approx(5e-9, rel=1e-3)


def test_cohens_d_by_hand():
    # pooled variance (4 * 4 + 10 * 1) / 14
    assert effects.cohens_d(3, 2, 5, 1, 1, 11) == pytest.approx(2 / (26 / 14) ** 0.5)
    d = effects.cohens_d(pd.Series([3, 1]), np.array([2.0, 0.0]), [5, 5], 1, np.array([1.0, 0.0]), 11)
    np.testing.assert_allclose(d, [2 / (26 / 14) ** 0.5, NAN])
    assert np.isnan(effects.cohens_d(1, NAN, 1, 0, NAN, 1))


def _published_moments(name, table, probe, distance, family):
    own = table[(table["probe"] == probe) & (table["distance"] == distance) & (table["family"] == family)]
    return [own.loc[own["kind"] == f"{name}_{what}", "value"].item() for what in ("mean", "sd")]


def test_published_d_and_percent_follow_from_published_means():
    """Two samples with a published mean and SD, two control pairs with the control's: HI's 60 d, 12 of them printed."""
    table = paper.published(where=[*paper.hi.DRIFT_TABLES])
    parts = table["metric"].str.extract(r"^(.*(?:mean|sd|d))_(cos|L2)(?:dist)?_(ctx_open|ctx_mcq|ans_\w+)$")
    table = table.assign(kind=parts[0], distance=parts[1].str.lower(), probe=parts[2])
    table["family"] = table["family"].replace(paper.FAMILIES)
    spread = 0.5**0.5 * np.array([1, -1])
    found = []
    for probe, distance in [(p, d) for p in drift.PROBES for d in drift.DISTANCES]:
        column, rows = f"{distance}_{probe}_pre_norm", []
        for i, family in enumerate(("base", *HI_FAMILIES)):
            moments = _published_moments("drift", table, probe, distance, family) if i else (0, 0)
            drifts = moments[0] + moments[1] * spread
            rows += [row(s, s, family, family, 0) | {column: d} for s, d in zip("ab", drifts, strict=True)]
        mean, sd = _published_moments("control", table, probe, distance, "control")
        controls = pd.DataFrame({"sample_id": ["a", "b"], column: mean + sd * spread})
        found.append(metrics.drift_table(frame(rows), None, controls, probe, "pre_norm", distance))
    ours = pd.concat(found).query("answer == 'all' and family in @HI_FAMILIES")
    published = table[table["kind"] == "cohen_d"].set_index(["probe", "distance", "family"])["value"]
    ours = ours.set_index(["probe", "distance", "family"])
    assert len(published) == len(ours) == 60
    assert (ours["d_same_question"] / published - 1).abs().max() < 0.002
    printed = (
        ours.sort_index().loc[("ans_mcq_free", "cos")][["percent_same_question", "percent_sd_same_question"]].round(1)
    )
    assert printed.loc["translation"].to_list() == [4.1, 14.8]
    assert printed.loc["text_overlay"].to_list() == [77.7, 88.6]


def test_drift_table_by_hand(records, vectors, controls):
    table = metrics.drift_table(records, vectors, controls).set_index(["family", "answer"])
    union = "union (translation, rotation)"
    assert list(table.index.unique("family")) == ["identity", "translation", "rotation", union]
    every = table.loc[("translation", "all")]  # samples: s1 0.3, s2 0.3, s3 0.6
    assert (every["samples"], every["instances"]) == (3, 5)
    assert every["drift"] == pytest.approx(0.4) and every["drift_sd"] == pytest.approx(0.03**0.5)
    kept, flipped = table.loc[("translation", "kept")], table.loc[("translation", "flipped")]
    assert (kept["samples"], kept["instances"]) == (3, 4) and kept["drift"] == pytest.approx((0.1 + 0.3 + 0.6) / 3)
    assert (flipped["samples"], flipped["instances"], flipped["drift"]) == (1, 1, 0.5)
    assert np.isnan(flipped["drift_sd"]) and np.isnan(flipped["drift_low"]) and np.isnan(flipped["d_other_sample"])
    assert np.isnan(kept["drift_low"]) and np.isnan(kept["drift_high"])  # two images
    # a state that could not be compared, and a sample without base, are not counted
    assert table.loc[("rotation", "all"), ["samples", "instances", "drift"]].to_list() == [1, 1, 0.7]
    assert table.loc[(union, "all"), "drift"] == pytest.approx((0.3 + (0.2 + 0.4 + 0.7) / 3 + 0.6) / 3)
    # same question: 0.4 and 0.8 on average; other samples: always 1
    assert every["same_question"] == pytest.approx(0.6) and every["same_question_n"] == 2
    assert every["same_question_sd"] == pytest.approx(0.08**0.5)
    d = (0.4 - 0.6) / ((2 * 0.03 + 1 * 0.08) / 3) ** 0.5
    assert every["d_same_question"] == pytest.approx(d)
    assert every["percent_same_question"] == pytest.approx(100 * 0.4 / 0.6)
    assert every["percent_sd_same_question"] == pytest.approx(100 * 0.03**0.5 / 0.6)
    assert (every["other_sample"], every["other_sample_sd"], every["other_sample_n"]) == (pytest.approx(1), 0, 3)
    assert every["percent_other_sample"] == pytest.approx(40)
    # 5th percentile of 0.3, 0.5, 0.7, 0.9
    assert every["threshold"] == pytest.approx(0.33)
    assert every["beyond"] == pytest.approx(3 / 5) and every["hidden"] == pytest.approx(2 / 5)
    assert kept["beyond"] == kept["hidden"] == pytest.approx(2 / 4)
    assert flipped["beyond"] == 1 and np.isnan(flipped["hidden"])
    l2 = metrics.drift_table(records, vectors, controls, distance="l2").set_index(["family", "answer"])
    assert l2.loc[("translation", "all"), "drift"] == pytest.approx(4)
    pairs = [5**0.5, 17**0.5, 20**0.5]
    assert l2.loc[("translation", "all"), "other_sample"] == pytest.approx(sum(pairs) / 3)


def test_identity_is_the_noise_floor(records, vectors, controls):
    table = metrics.drift_table(records, vectors, controls).set_index(["family", "answer"]).loc["identity"]
    assert table.loc["all", "drift"] == table.loc["kept", "drift"] == pytest.approx(1e-8)
    assert table.loc["all", "hidden"] == 0 and table.loc["flipped", "instances"] == 0
    exact = metrics.drift_table(records.assign(**{COLUMN: 0.0}), vectors, controls)
    assert (exact.loc[exact["family"] == "identity", ["drift", "beyond"]].iloc[:2] == 0).all(axis=None)


def test_kept_and_flipped_recombine_to_all(records, vectors, controls):
    per = metrics.sample_drift(records, vectors, controls)
    assert per["answer"].value_counts()["control"] == 8
    own = per[per["answer"] != "control"].assign(total=lambda t: t["drift"] * t["instances"])
    whole = own["answer"] == "all"
    keys, sums = ["family", "sample_id"], ["instances", "total"]
    pd.testing.assert_frame_equal(own[whole].groupby(keys)[sums].sum(), own[~whole].groupby(keys)[sums].sum())
    table = metrics.drift_table(records, vectors, controls).set_index(["family", "answer"])
    counts = table["instances"].unstack()
    assert (counts["kept"] + counts["flipped"] == counts["all"]).all() and counts["all"].sum() == 15
    beyond = (table["beyond"] * table["instances"]).fillna(0).unstack()
    np.testing.assert_allclose(beyond["kept"] + beyond["flipped"], beyond["all"])
    np.testing.assert_allclose((table["hidden"] * table["instances"]).unstack()["all"], beyond["kept"])


def test_tables_take_what_users_have(records, vectors, controls, tmp_path):
    table = metrics.drift_table(records, vectors, controls)
    shuffled = (part.sample(frac=1, random_state=3) for part in (records, vectors, controls))
    pd.testing.assert_frame_equal(metrics.drift_table(*shuffled), table)
    for name, part in (("r", records), ("v", vectors), ("c", controls)):
        part.to_parquet(tmp_path / f"{name}.parquet")
    read = [pd.read_parquet(tmp_path / f"{name}.parquet") for name in "rvc"]
    pd.testing.assert_frame_equal(metrics.drift_table(*read), table)
    bare = metrics.drift_table(records)  # without vectors and controls
    pd.testing.assert_frame_equal(bare[table.columns[:11]], table[table.columns[:11]])
    assert (
        bare[["other_sample", "same_question", "d_other_sample", "threshold", "beyond", "hidden"]].isna().all(axis=None)
    )
    none = metrics.drift_table(records[:0], vectors[:0], controls[:0])
    assert list(none.columns) == list(table.columns) and none.empty
    metrics.drift_table(records[records["family"] != "base"], vectors, controls)
    with pytest.raises(ValueError, match="lack the columns cos_ctx_mcq_post_norm"):
        metrics.drift_table(records, probe="ctx_mcq")
    with pytest.raises(ValueError, match="'cosine' is none of cos, l2"):
        metrics.drift_table(records, distance="cosine")
    with pytest.raises(ValueError, match="'s1' has two base vectors"):
        metrics.drift_table(records, pd.concat([vectors, vectors]))


def test_summary_is_its_tables(records, vectors, controls):
    both = metrics.drift_summary(records, vectors, controls, ["ctx_open"], ["post_norm"])
    single = [metrics.drift_table(records, vectors, controls, distance=distance) for distance in ("cos", "l2")]
    pd.testing.assert_frame_equal(both, pd.concat(single, ignore_index=True))


def _states(values, **changes):
    rows = {"sample_id": [f"s{i}" for i in range(len(values))], "instance": "base", "probe": "ctx_open"}
    return pd.DataFrame(rows | {"tap": "post_norm", "vector": list(np.asarray(values, dtype=np.float32))} | changes)


def test_control_draws_distinct_others(monkeypatch):
    """Along axes of their own with lengths 1, 2, 4 ..., a mean of distances tells which others were drawn."""
    size = 2.0 ** np.arange(6)
    states = _states(np.diag(size))
    found = metrics.control_distances(states, k=4)
    for i, mean in enumerate(found["l2"]):
        others = [np.hypot(size[i], size[j]) for j in range(6) if j != i]
        possible = [np.mean(drawn) for drawn in combinations(others, 4)]
        assert np.min(np.abs(np.array(possible) - mean)) < 1e-9
    assert found["l2"].nunique() == 6 and (found["pairs"] == 4).all()
    monkeypatch.setattr(controls_module, "_BLOCK", 1)
    shuffled = states.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(metrics.control_distances(shuffled, k=4), found)
    assert not found["l2"].equals(metrics.control_distances(states, k=4, seed=1)["l2"])
    everyone = metrics.control_distances(states, k=25)
    assert (everyone["pairs"] == 5).all()
    assert everyone["l2"][0] == pytest.approx(np.mean([np.hypot(1, other) for other in size[1:]]))


def test_control_degenerates_honestly():
    zero = metrics.control_distances(_states([[1, 0], [0, 2], [0, 0]]))  # a dead state has no direction
    assert zero["pairs"].to_list() == [1, 1, 0] and zero["cos"].fillna(-1).to_list() == [1, 1, -1]
    alone = metrics.control_distances(_states([[1.0, 2.0]]))
    assert alone["pairs"].to_list() == [0] and alone["cos"].isna().all()
    assert metrics.control_distances(_states([])).empty
    with pytest.raises(ValueError, match="unequal length"):
        metrics.control_distances(_states([[1.0]]).assign(vector=[[1.0]]).pipe(lambda t: pd.concat([t, _longer()])))
    with pytest.raises(ValueError, match="'last' is none of"):
        metrics.control_distances(_states([[1.0]]), tap="last")


def _longer():
    return _states([[1.0, 2.0]], sample_id="other")


def test_embedding_shows_the_plane(records, vectors):
    """States on a plane are shown with their true distances."""
    rng = np.random.default_rng(0)
    plane, points = rng.normal(size=(2, 8)), rng.normal(size=(3, 2))
    moved = {("s1", "t1"): [0.5, 0], ("s1", "t2"): [3, 1], ("s2", "t1"): [-1, 0], ("s3", "t1"): [0, 1]}
    states = {(f"s{i + 1}", "base"): point for i, point in enumerate(points)}
    states |= {key: states[key[0], "base"] + np.array(by) for key, by in moved.items()}
    table = pd.DataFrame([(*key, "ctx_open", "post_norm", point @ plane + 5) for key, point in states.items()])
    table.columns = vectors.columns
    found = metrics.embedding_table(records, table).set_index(["sample_id", "instance"])
    assert len(found) == 7 and found["x_share"].iloc[0] + found["y_share"].iloc[0] == pytest.approx(1)
    assert found["answer"].value_counts().to_dict() == {"base": 3, "kept": 3, "flipped": 1}
    assert found.loc[("s1", "t2"), ["family", "answer"]].to_list() == ["translation", "flipped"]
    for one, other in combinations(states, 2):
        true = np.linalg.norm((states[one] - states[other]) @ plane)
        assert np.linalg.norm(found.loc[one, ["x", "y"]] - found.loc[other, ["x", "y"]]) == pytest.approx(
            true, rel=1e-5
        )
    few = metrics.embedding_table(records, table, samples=2)
    assert few["sample_id"].nunique() == 2
    axes = figures.plot_embedding(metrics.embedding_table(records, table)).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["translation\nn = 4, 1 flipped"]
    with pytest.raises(ValueError, match="keep_vectors"):
        metrics.embedding_table(records, vectors)


def test_a_hundred_thousand_rows_reduce_correctly():
    rng = np.random.default_rng(0)
    families = ["base", *np.repeat([f for f in HI_FAMILIES if f != "scale"], 6), "identity"]  # 32 rows per sample
    n, k = 3200, len(families)
    table = pd.DataFrame({"sample_id": np.repeat([f"s{i}" for i in range(n)], k), "family": families * n})
    table = table.assign(image_id=table["sample_id"], instance=[f"i{i}" for i in range(k)] * n, applicable=True)
    drifts, flips = rng.gamma(2, 0.1, (n, k)), rng.random((n, k)) < 0.2
    drifts[:, 0] = flips[:, 0] = 0
    table = table.assign(prediction=flips.ravel().astype(int), **{COLUMN: drifts.ravel()})
    assert len(table) == 102_400
    controls = pd.DataFrame({"sample_id": ["s0", "s1"], COLUMN: [0.1, 0.1]})
    found = metrics.drift_table(table, None, controls).set_index(["family", "answer"])
    part = np.array(families) == "rotation"
    values, kept = drifts[:, part], ~flips[:, part]
    assert found.loc[("rotation", "all"), "instances"] == n * 6
    assert found.loc[("rotation", "all"), "drift"] == pytest.approx(values.mean())
    assert found.loc[("rotation", "all"), "drift_sd"] == pytest.approx(values.mean(axis=1).std(ddof=1))
    some = kept.any(axis=1)
    means = (values * kept)[some].sum(axis=1) / kept[some].sum(axis=1)
    assert found.loc[("rotation", "kept"), "drift"] == pytest.approx(means.mean())
    assert found.loc[("rotation", "all"), "hidden"] == pytest.approx(((values > 0.1) & kept).mean())
    # images are many and independent: the interval is the mean's ordinary one
    width = found.loc[("rotation", "all"), "drift_high"] - found.loc[("rotation", "all"), "drift_low"]
    assert width == pytest.approx(2 * 1.96 * values.mean(axis=1).std() / n**0.5, rel=0.15)


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision", "transformers"):
            raise ImportError(f"{name} is not to be had here")
sys.meta_path.insert(0, Block())
import matplotlib
matplotlib.use("Agg")
import pandas as pd
from vfkit import figures, metrics, paper
records, vectors, controls = (pd.read_parquet(f"{sys.argv[1]}/{name}.parquet") for name in "rvc")
table = paper.beside(metrics.drift_table(records, vectors, controls), "qwen3vl_2b")
figures.plot_drift(table)
figures.plot_drift_histograms(metrics.sample_drift(records, vectors, controls))
figures.plot_dirichlet(metrics.dirichlet_table(records))
figures.plot_spectrum(metrics.spectrum_table(records))
print(len(table), len(metrics.inside_correlations(records)) > 0, metrics.band_edges()[-1])
"""


def test_metrics_run_where_torch_cannot_be_imported(records, vectors, controls, tmp_path):
    measures = [f"{name}_{band}" for name in ("power", "coherence", "phase") for band in ("low", "mid", "high")]
    more = dict.fromkeys([*measures, "dirichlet", "dirichlet_sum", "margin", "base_margin"], 1.0) | {"grid": "7x7"}
    for name, part in (("r", records.assign(**more)), ("v", vectors), ("c", controls)):
        part.to_parquet(tmp_path / f"{name}.parquet")
    run = subprocess.run([sys.executable, "-c", BLOCKED, str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["12", "True", "1.0"]


def _lines(ax, colour):
    return [line for line in ax.lines if line.get_color() == colour and len(line.get_xdata())]


def test_drift_figure(records, vectors, controls):
    ours = metrics.drift_table(records, vectors, controls).assign(tap="pre_norm")  # where HI's values stand
    table = paper.beside(ours, "qwen3vl_2b")
    axes = figures.plot_drift(table).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["all answers", "answer kept", "answer flipped"]
    ticks = [label.get_text() for label in axes[0].get_yticklabels()]
    assert ticks[1] == "translation\nn = 5: 4 kept,\n1 flipped"
    shown = _lines(axes[1], "#0072B2")[0].get_xdata()
    np.testing.assert_allclose(shown, [NAN, 100 / 3, NAN, table["percent_other_sample"].iloc[10]])
    low = _lines(axes[0], "#0072B2")[1].get_xdata()  # the noise floor is below the axis, and says so
    assert low[0] == axes[0].get_xlim()[0] and np.isnan(low[1:]).all()
    legend = [" ".join(text.get_text().split()) for text in axes[0].figure.legends[0].get_texts()]
    assert "noise floor (identity): 1e-06 %" in legend
    assert "published: HI sec 4.4 probes, Qwen3-VL-2B-Instruct, SEEDBench_IMG" in legend
    same = figures.plot_drift(table, "same_question").axes[0]
    np.testing.assert_allclose(_lines(same, "#0072B2")[0].get_xdata()[1], 40 / 0.6)
    assert not any("published" in text.get_text() for text in same.figure.legends[0].get_texts())
    figures.plot_drift(paper.beside(table, model="Gemma-3-4B-IT"))
    both = pd.concat([table, table.assign(distance="l2")])
    with pytest.raises(ValueError, match="one distance"):
        figures.plot_drift(both)
    figures.plot_drift(metrics.drift_table(records[:0]))


def test_histogram_figure(records, vectors, controls):
    samples = metrics.sample_drift(records, vectors, controls)
    axes = figures.plot_drift_histograms(samples, threshold=0.33).axes
    assert [ax.get_ylabel().split("\n")[0] for ax in axes][:3] == ["identity", "translation", "rotation"]
    assert axes[1].get_ylabel() == "translation\nn = 3 kept,\n1 flipped"
    assert [text.get_text() for text in axes[0].texts] == ["at most 1e-08"] and not axes[1].texts
    kept = next(part for part in axes[1].collections if part.get_label() == "drift, answer kept")
    x, y = kept.get_paths()[0].vertices.T
    corners = sorted(set(np.round(x[y > 0], 9)))  # three bins of one sample each
    assert len(corners) == 6 and all(
        low <= v <= high for low, high, v in zip(corners[::2], corners[1::2], [0.1, 0.3, 0.6], strict=True)
    )
    legend = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert {"control: same question", "control: other sample", "drift, answer kept"} <= set(legend)
    fig = axes[0].figure
    fig.canvas.draw()
    boxes = [ax.yaxis.label.get_window_extent() for ax in axes] + [axes[-1].xaxis.label.get_window_extent()]
    boxes.append(fig.legends[0].get_window_extent())
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    figures.plot_drift_histograms(metrics.sample_drift(records[:0]))
