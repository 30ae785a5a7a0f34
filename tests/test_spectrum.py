"""Spectra (vfkit.measure.spectrum) of images whose spectrum is known exactly."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from vfkit import figures, metrics
from vfkit.measure import BANDS, MEASURES

matplotlib.use("Agg")
NAN = float("nan")
FLOAT32 = 1e-5  # transforms are single precision


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def radius(h, w):
    """The full plane's radii in units of the corner, and the frequencies themselves in cycles per pixel."""
    fy, fx = np.meshgrid(np.fft.fftfreq(h), np.fft.fftfreq(w), indexing="ij")
    return np.hypot(fx, fy) / np.hypot(0.5, 0.5), fy, fx


def wave(h, w, ky, kx, size=0.25):
    y, x = np.mgrid[:h, :w]
    return np.repeat((0.5 + size * np.cos(2 * np.pi * (ky * y / h + kx * x / w)))[..., None], 3, axis=2)


def noise(h, w, seed=0):
    return np.random.default_rng(seed).random((h, w, 3))


@pytest.mark.parametrize("kind, shares", [("percentile", (1 / 3, 1 / 3, 1 / 3)), ("equal", (0.1745, 0.5236, 0.3019))])
def test_edges_divide_the_plane(kind, shares):
    edges = metrics.band_edges(kind)
    r, *_ = radius(1000, 1000)
    assert edges[0] == 0 and edges[-1] == 1
    for low, high, share in zip(edges, edges[1:], shares, strict=False):
        assert ((r > low) & (r <= high)).mean() == pytest.approx(share, abs=2e-3)


def test_log_edges_meet_the_spectral_suite():
    edges = metrics.band_edges()
    assert edges[2] == 0.25 and edges[2] / edges[1] == edges[3] / edges[2]
    r, *_ = radius(1000, 1000)
    assert (r <= edges[2]).mean() == pytest.approx(0.098, abs=1e-3)
    with pytest.raises(ValueError, match="'linear'.*log, equal, percentile"):
        metrics.band_edges("linear")


@pytest.mark.parametrize("h, w", [(32, 32), (31, 32), (32, 31), (17, 40)])
@pytest.mark.parametrize("kind", ["log", "equal", "percentile"])
def test_bands_equal_the_full_plane(h, w, kind):
    """Against the plain way: numpy's fft2, masks on the whole plane, one channel after the other."""
    one, other = noise(h, w), noise(h, w, 1)
    r, *_ = radius(h, w)
    planes = [np.fft.fft2(image, axes=(0, 1)) / (h * w) ** 0.5 for image in (one, other)]
    found = metrics.spectrum_of(other, one, kind)
    edges = metrics.band_edges(kind)
    for band, low, high in zip(BANDS, edges, edges[1:], strict=False):
        a, b = (plane[(r > low) & (r <= high + 1e-12)] for plane in planes)
        assert found[f"power_{band}"] == pytest.approx((np.abs(b) ** 2).mean(), rel=FLOAT32)
        coherence = abs((a * b.conj()).sum()) / ((np.abs(a) ** 2).sum() * (np.abs(b) ** 2).sum()) ** 0.5
        assert found[f"coherence_{band}"] == pytest.approx(coherence, abs=FLOAT32)
        assert found[f"phase_{band}"] == pytest.approx(abs(np.exp(1j * np.angle(a * b.conj())).mean()), abs=FLOAT32)


@pytest.mark.parametrize(
    "ky, kx, band", [(0, 1, "low"), (2, 2, "low"), (0, 3, "mid"), (8, 7, "mid"), (9, 9, "high"), (32, 32, "high")]
)
def test_a_band_limited_image_lies_in_its_band(ky, kx, band):
    """cos of amplitude 1/4: power N / 64 at each of its two frequencies, N / 16 where the two are one (the corner)."""
    n = 64
    r, *_ = radius(n, n)
    edges = dict(zip(BANDS, zip(metrics.band_edges(), metrics.band_edges()[1:], strict=False), strict=False))
    power = metrics.band_power(wave(n, n, ky, kx))
    low, high = edges[band]
    count = ((r > low) & (r <= high + 1e-12)).sum()
    total = n * n / 16 if (ky, kx) == (32, 32) else 2 * n * n / 64
    assert power[band] == pytest.approx(total / count, rel=FLOAT32)
    assert [power[other] for other in BANDS if other != band] == [0, 0]


def test_white_noise_has_its_variance_in_every_band():
    for h, w in ((256, 256), (100, 300)):
        power = metrics.band_power(noise(h, w))
        assert [power[band] for band in BANDS] == pytest.approx([1 / 12] * 3, rel=0.15)


@pytest.mark.parametrize("shift", [1, 5, -16])
@pytest.mark.parametrize("h, w", [(48, 64), (33, 45)])
def test_a_cyclic_shift_keeps_power_and_turns_phase(h, w, shift):
    """F_shifted = F exp(-2 pi i fx shift): coherence and phase follow from the frequencies alone."""
    image = noise(h, w)
    found = metrics.spectrum_of(np.roll(image, shift, axis=1), image)
    r, _, fx = radius(h, w)
    turn = np.exp(2j * np.pi * fx * shift)
    weight = (np.abs(np.fft.fft2(image, axes=(0, 1))) ** 2).sum(axis=2)
    edges = metrics.band_edges()
    for band, low, high in zip(BANDS, edges, edges[1:], strict=False):
        inside = (r > low) & (r <= high + 1e-12)
        assert found[f"power_{band}"] / metrics.band_power(image)[band] == pytest.approx(1, rel=FLOAT32)
        assert found[f"phase_{band}"] == pytest.approx(abs(turn[inside].mean()), abs=FLOAT32)
        expected = abs((weight * turn)[inside].sum()) / weight[inside].sum()
        assert found[f"coherence_{band}"] == pytest.approx(expected, abs=FLOAT32)
    # a single wave is turned as a whole
    coherence, phase = metrics.phase_coherence(wave(h, w, 0, 1), np.roll(wave(h, w, 0, 1), shift, axis=1))
    assert coherence["low"] == pytest.approx(abs(np.cos(2 * np.pi * shift / w)), abs=FLOAT32)
    assert phase["low"] == pytest.approx(coherence["low"], abs=FLOAT32) and np.isnan(coherence["high"])


def test_brightness_and_contrast():
    image = 0.5 * noise(40, 40)
    brighter, stronger = metrics.spectrum_of(image + 0.25, image), metrics.spectrum_of(2 * image, image)
    for band in BANDS:
        assert brighter[f"power_{band}"] == pytest.approx(metrics.band_power(image)[band])
        assert stronger[f"power_{band}"] == pytest.approx(4 * metrics.band_power(image)[band])
        for name in ("coherence", "phase"):
            assert brighter[f"{name}_{band}"] == pytest.approx(1) == stronger[f"{name}_{band}"]
    other = metrics.spectrum_of(noise(40, 40, 7), image)
    assert other["coherence_high"] < 0.1 and other["phase_high"] < 0.1


def test_degenerate_images_give_nan():
    flat = np.full((32, 32, 3), 1 / 3)
    found = metrics.spectrum_of(flat, noise(32, 32))
    assert [found[f"power_{band}"] for band in BANDS] == [0, 0, 0]
    assert all(np.isnan(found[f"{name}_{band}"]) for name in ("coherence", "phase") for band in BANDS)
    assert metrics.spectrum_of(noise(32, 32), flat)["power_high"] > 0
    point = metrics.spectrum_of(noise(1, 1), noise(1, 1))
    assert len(point) == 9 and np.isnan(list(point.values())).all()
    for h, w in ((1, 40), (40, 1)):
        line = metrics.spectrum_of(noise(5, 7, 1), noise(h, w))
        assert np.isfinite(line["coherence_high"]) and line["power_high"] > 0
    assert np.isnan(metrics.band_power(noise(2, 2))["low"])


def test_pil_images_and_arrays_agree():
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 256, (20, 30, 3), dtype=np.uint8) for _ in range(2)]
    pictures = [Image.fromarray(part) for part in pixels]
    expected = metrics.spectrum_of(*(part / 255 for part in pixels))
    assert metrics.spectrum_of(*pictures) == pytest.approx(expected)
    assert metrics.spectrum_of(pictures[0], pixels[1] / 255) == pytest.approx(expected)
    # another size is brought to the base's, bicubic, 8 bits or not
    small = pictures[0].resize((15, 10), Image.Resampling.BICUBIC)
    resized = metrics.spectrum_of(small, pictures[1])
    again = small.resize((30, 20), Image.Resampling.BICUBIC)
    assert resized == metrics.spectrum_of(again, pictures[1])
    assert metrics.spectrum_of(np.asarray(small) / 255, pictures[1]) == pytest.approx(resized, rel=0.05, abs=0.01)


def test_one_base_serves_many():
    base = noise(20, 24)
    against = metrics.spectrum_against(base)
    images = [noise(20, 24, seed) for seed in (1, 2)]
    assert [against(image) for image in images] == [metrics.spectrum_of(image, base) for image in images]
    assert against(images[0]) == against(images[0]) and images[0].max() <= 1  # nothing is changed in place
    assert list(against(base)) == [f"{name}_{band}" for name in MEASURES for band in BANDS]


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4)), np.zeros((4, 4, 4)), np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 1.5)]
)
def test_arrays_of_another_kind_are_refused(array):
    with pytest.raises(ValueError, match="array image"):
        metrics.band_power(array)


def row(sample, image, family, instance, prediction, low, coherence):
    record = {"sample_id": sample, "image_id": image, "family": family, "instance": instance}
    record |= {"applicable": prediction is not None, "prediction": prediction}
    record |= {f"{name}_{band}": 1.0 for name in MEASURES for band in BANDS}
    return record | {"power_low": low, "coherence_low": coherence}


@pytest.fixture
def records():
    rows = [row("s1", "A", "base", "base", 0, 2.0, 1.0), row("s2", "B", "base", "base", 0, 0.0, NAN)]
    rows += [row("s1", "A", "rotation", "r1", 0, 3.0, 0.5), row("s1", "A", "rotation", "r2", 1, 7.0, 0.1)]
    rows += [row("s2", "B", "rotation", "r1", 0, 1.0, NAN), row("s2", "B", "rotation", "r2", None, NAN, NAN)]
    return pd.DataFrame(rows).astype({"prediction": "Int64"})


def test_spectrum_table_by_hand(records):
    table = metrics.spectrum_table(records)
    assert table["band"].to_list() == np.repeat(BANDS, 3).tolist()
    table = table.set_index(["family", "band", "answer"]).loc["rotation"]
    every, kept, flipped = (table.loc[("low", answer)] for answer in ("all", "kept", "flipped"))
    assert every[["samples", "instances"]].to_list() == [2, 3]
    assert every["base"] == pytest.approx(4 / 3) and every["power"] == pytest.approx(11 / 3)
    assert every["delta"] == pytest.approx(7 / 3) and every["relative"] == pytest.approx(
        7 / 4
    )  # a blank base is no infinity
    assert every["coherence"] == pytest.approx(0.3)  # of the two that have one
    assert np.isnan(every["delta_low"])  # two images are too few for an interval
    assert kept["delta"] == 1 and kept["relative"] == 1 and kept["coherence"] == 0.5
    assert flipped["delta"] == 5 and flipped["relative"] == 2.5
    assert table.loc[("mid", "all"), "relative"] == 0
    assert (table["instances"].unstack()[["kept", "flipped"]].sum(axis=1) == table["instances"].unstack()["all"]).all()


def test_spectrum_table_takes_what_users_have(records, tmp_path):
    table = metrics.spectrum_table(records)
    pd.testing.assert_frame_equal(metrics.spectrum_table(records.sample(frac=1, random_state=1)), table)
    records.to_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(metrics.spectrum_table(pd.read_parquet(tmp_path / "r.parquet")), table)
    assert metrics.spectrum_table(records, ("mid",))["band"].unique() == ["mid"]
    assert metrics.spectrum_table(records[:0]).empty
    with pytest.raises(ValueError, match="phase_mid"):
        metrics.spectrum_table(records.drop(columns="phase_mid"))


def test_spectrum_figure(records):
    axes = figures.plot_spectrum(metrics.spectrum_table(records)).axes
    cells = [[text.get_text() for text in ax.texts] for ax in axes]
    assert cells[0] == ["+175.0", "+0.0", "+0.0"] and cells[1][0] == "0.30"
    assert [label.get_text() for label in axes[0].get_xticklabels()] == list(BANDS)
    assert axes[0].get_yticklabels()[0].get_text() == "rotation\nn = 3"
    flipped = figures.plot_spectrum(metrics.spectrum_table(records), "flipped").axes
    assert flipped[0].texts[0].get_text() == "+250.0" and "answer flipped" in flipped[1].get_xlabel()
    figures.plot_spectrum(metrics.spectrum_table(records[:0]))
