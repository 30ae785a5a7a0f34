"""Dirichlet energy and correlations inside (vfkit.metrics.energy) against numbers worked out by hand."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from vfkit import figures, metrics, paper
from vfkit.measure import BANDS

matplotlib.use("Agg")
NAN = float("nan")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_energy_of_a_grid_by_hand():
    grid = np.array([[[0, 0], [1, 0], [1, 2]], [[3, 0], [1, 1], [1, 2]]], dtype=np.float32)  # [2, 3, 2]
    across = 1 + 4 + (4 + 1) + 1
    down = 9 + 1 + 0
    assert metrics.dirichlet_energy(grid) == (across + down, 2 * 2 + 3 * 1)
    assert metrics.dirichlet_energy(np.moveaxis(grid, 0, 1)) == (across + down, 7)


def test_energy_knows_nothing_but_differences():
    rng = np.random.default_rng(0)
    grid = rng.normal(size=(4, 5, 3)).astype(np.float32)
    energy, edges = metrics.dirichlet_energy(grid)
    assert metrics.dirichlet_energy(np.roll(grid[::-1], 1, axis=2)) == (pytest.approx(energy), edges) and edges == 31
    assert metrics.dirichlet_energy(2 * grid)[0] == pytest.approx(4 * energy)
    # float32 would not tell these neighbours apart
    near = np.arange(6).reshape(2, 3, 1) / 8 + 1e7
    assert metrics.dirichlet_energy(near) == ((2 * 2 * 1 + 3 * 9) / 64, 7)
    assert metrics.dirichlet_energy(np.ones((3, 3, 8))) == (0, 12)
    assert metrics.dirichlet_energy(np.ones((1, 1, 8))) == (0, 0)
    assert metrics.dirichlet_energy([[[1.0], [3.0]]]) == (4, 1)
    with pytest.raises(ValueError, match=r"\(4, 5\)"):
        metrics.dirichlet_energy(grid[..., 0])


def row(sample, image, family, instance, prediction, energy, grid="7x7"):
    edges = {"7x7": 84, "8x8": 112}[grid]
    record = {"sample_id": sample, "image_id": image, "family": family, "instance": instance}
    record |= {"applicable": prediction is not None, "prediction": prediction, "grid": grid}
    return record | {"dirichlet": energy, "dirichlet_sum": edges * energy, "dirichlet_edges": edges}


@pytest.fixture
def records():
    rows = [row("s1", "A", "base", "base", 0, 10.0), row("s2", "B", "base", "base", 0, 20.0)]
    rows += [row("s1", "A", "identity", "identity", 0, 10.0), row("s2", "B", "identity", "identity", 0, 20.0)]
    rows += [row("s1", "A", "rotation", "r1", 0, 7.0, "8x8"), row("s1", "A", "rotation", "r2", 1, 4.0, "8x8")]
    rows += [row("s2", "B", "rotation", "r1", 0, 21.0), row("s2", "B", "rotation", "r2", None, NAN)]
    rows += [row("s3", "B", "rotation", "r1", 0, 50.0)]  # its base failed
    return pd.DataFrame(rows).astype({"prediction": "Int64"})


def test_dirichlet_table_by_hand(records):
    table = metrics.dirichlet_table(records).set_index(["family", "answer"])
    every = table.loc[("rotation", "all")]  # changes -3, -6, +1
    assert every[["samples", "instances", "grid_changed"]].to_list() == [2, 3, 2]
    assert every["delta"] == pytest.approx(-8 / 3) and every["delta_sd"] == pytest.approx(np.std([-3, -6, 1], ddof=1))
    assert every["base"] == pytest.approx(40 / 3)
    sums = [7 * 112 - 840, 4 * 112 - 840, 84]  # the larger grid has more edges to sum
    assert every["delta_sum"] == pytest.approx(np.mean(sums))
    assert every["delta_sum_sd"] == pytest.approx(np.std(sums, ddof=1))
    assert np.isnan(every["delta_low"]) and np.isnan(every["delta_high"])  # two images
    kept, flipped = table.loc[("rotation", "kept")], table.loc[("rotation", "flipped")]
    assert (kept["delta"], flipped["delta"]) == (-1, -6)
    assert kept["instances"] + flipped["instances"] == every["instances"]
    total = (kept["delta"] * kept["instances"] + flipped["delta"] * flipped["instances"]) / every["instances"]
    assert total == pytest.approx(every["delta"])
    identity = table.loc["identity"]
    assert (identity.loc["all", ["delta", "delta_sum", "grid_changed"]] == 0).all()
    assert np.isnan(identity.loc["flipped", "delta"])


def test_dirichlet_table_takes_what_users_have(records, tmp_path):
    table = metrics.dirichlet_table(records)
    pd.testing.assert_frame_equal(metrics.dirichlet_table(records.sample(frac=1, random_state=1)), table)
    records.to_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(metrics.dirichlet_table(pd.read_parquet(tmp_path / "r.parquet")), table)
    assert metrics.dirichlet_table(records[:0]).empty
    with pytest.raises(ValueError, match="grid"):
        metrics.dirichlet_table(records.drop(columns="grid"))


def test_dirichlet_figure(records):
    table = metrics.dirichlet_table(records)
    ax = figures.plot_dirichlet(table).axes[0]
    shown = {line.get_label(): line.get_xdata() for line in ax.lines}
    np.testing.assert_allclose(shown["answer flipped"], [NAN, -6])
    np.testing.assert_allclose(shown["all answers"], [0, -8 / 3])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        "identity\nn = 2, 0 flipped",
        "rotation\nn = 3, 1 flipped",
    ]
    ax = figures.plot_dirichlet(paper.beside(table, "qwen3vl_2b")).axes[0]
    published = [line for line in ax.lines if line.get_label().startswith("published (all answers): HI sec 4.5")]
    np.testing.assert_allclose(published[0].get_xdata(), [-72.73])
    figures.plot_dirichlet(metrics.dirichlet_table(records[:0]))


def _correlated(n=400, images=None, seed=0):
    """One scale and one identity instance per sample; log power low = the change of energy, cubed."""
    rng = np.random.default_rng(seed)
    ids = [f"s{i}" for i in range(n)]
    delta, drift = rng.normal(size=n), rng.gamma(2, size=n)
    base = {"sample_id": ids, "image_id": images or ids, "applicable": True, "prediction": 0, "instance": "i"}
    base |= {f"{kind}_{band}": 1.0 for kind in ("power", "coherence") for band in BANDS}
    rows = [
        base | {"family": "base", "dirichlet": 5.0, "margin": 2.0, "base_margin": 2.0, "cos_ctx_open_post_norm": 0.0}
    ]
    moved = rows[0] | {"family": "scale", "dirichlet": 5 + delta, "power_low": np.exp(delta**3)}
    moved |= {"cos_ctx_open_post_norm": drift, "base_margin": 2 - 0.5 * drift, "coherence_mid": 1 / (1 + drift)}
    moved |= {"power_mid": np.where(np.arange(n) % 2, 0.0, np.exp(delta))}  # silent: no ratio
    rows += [moved, rows[0] | {"family": "identity"}]
    return pd.concat([pd.DataFrame(part) for part in rows], ignore_index=True), delta, drift


def test_correlations_by_hand():
    records, delta, drift = _correlated()
    table = metrics.inside_correlations(records)
    assert list(table["family"].unique()) == ["identity", "scale"] and len(table) == 2 * 21
    table = table.set_index(["family", "first", "second"])
    assert table.loc["identity", ["spearman", "pearson", "pearson_low"]].isna().all(axis=None)  # nothing varies
    scale = table.loc["scale"]
    low = scale.loc[("dirichlet", "power_low")]
    assert low["spearman"] == pytest.approx(1) and low["pearson"] == pytest.approx(np.corrcoef(delta, delta**3)[0, 1])
    assert scale.loc[("drift", "margin"), ["spearman", "pearson"]].to_list() == pytest.approx([-1, -1])
    assert scale.loc[("drift", "coherence_mid"), "spearman"] == pytest.approx(-1)
    half = scale.loc[("dirichlet", "power_mid")]
    assert half["instances"] == half["samples"] == 200 and half["pearson"] == pytest.approx(1)
    free = scale.loc[("dirichlet", "drift")]
    assert free["spearman"] == pytest.approx(spearmanr(delta, drift).statistic)
    assert free["pearson"] == pytest.approx(np.corrcoef(delta, drift)[0, 1])
    # Fisher's interval for independent samples
    half_width = 1.96 / (400 - 3) ** 0.5
    assert free["spearman_high"] - free["spearman_low"] == pytest.approx(2 * half_width, rel=0.2)
    assert free["spearman_low"] < free["spearman"] < free["spearman_high"]


def test_correlations_resample_images():
    """Ten questions with one image's numbers are one piece of evidence."""
    records, *_ = _correlated(40)
    once = metrics.inside_correlations(records)
    copies = [records.assign(sample_id=records["sample_id"] + f"_{i}", image_id=records["image_id"]) for i in range(10)]
    ten = metrics.inside_correlations(pd.concat(copies, ignore_index=True))
    measured = ["spearman", "spearman_low", "spearman_high", "pearson", "pearson_low", "pearson_high"]
    pd.testing.assert_frame_equal(once[measured], ten[measured])
    assert (ten["samples"] == 10 * once["samples"]).all()
    lone, *_ = _correlated(40, images=["one"] * 40)
    assert metrics.inside_correlations(lone)[["spearman_low", "pearson_high"]].isna().all(axis=None)


def test_correlations_take_what_users_have():
    records, *_ = _correlated(30)
    table = metrics.inside_correlations(records)
    pd.testing.assert_frame_equal(metrics.inside_correlations(records.sample(frac=1, random_state=1)), table)
    none = metrics.inside_correlations(records[:0])
    assert none.empty and list(none) == list(table)
    dead = metrics.inside_correlations(records.assign(power_low=0.0, dirichlet=NAN))
    assert dead.loc[dead["first"] == "dirichlet", "instances"].eq(0).all()
    with pytest.raises(ValueError, match="coherence_low"):
        metrics.inside_correlations(records.drop(columns="coherence_low"))
    with pytest.raises(ValueError, match="l2_ctx_open"):
        metrics.inside_correlations(records, distance="l2")
