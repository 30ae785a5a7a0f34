"""Figures of the spectral suite: noise, ablation, attacks, and what an adversarial image looks like."""

from textwrap import fill, shorten

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PAGE,
    RED,
    SMALL,
    Series,
    curves,
    family_axes,
    forest,
    legend,
    letters,
    noise_floor,
    panels,
    spaced,
    styled,
)

_BANDS = {"low": (BLUE, "o"), "high": (ORANGE, "s"), "all": (GREY, "D"), "pixel": (GREY, "D")}
_SCALINGS = {"max": "largest value = eps", "rms": "RMS = eps"}


@styled()
def plot_noise(table: pd.DataFrame, floor: float | None = None) -> Figure:
    """Flip rate against eps, by band, one panel for each scaling (HI F.1).

    Args:
        table: of `metrics.noise_table`. floor: flip rate of `identity`, drawn as a line.
    """
    scalings = [scaling for scaling in _SCALINGS if (table["scaling"] == scaling).any()]
    fig, axes = panels(1, max(len(scalings), 1), 2.4, sharey=True)
    for ax, scaling in zip(axes[0], scalings, strict=False):
        series = []
        for family, own in table[table["scaling"] == scaling].groupby("family", sort=False):
            band = family.removeprefix("noise_")
            n = f"n = {own['instances'].min():,} in {own['samples'].min():,} samples"
            series.append(Series(own, "IFR", _BANDS[band][0], f"{band} frequencies, {n}", _BANDS[band][1]))
        curves(ax, series, "eps", 100, log=True)
        if floor is not None:
            noise_floor(ax, 100 * floor, axis="y")
        ax.set(title=_SCALINGS[scaling], xlabel="eps (grey levels of 255)")
        ax.set_xticks(levels := sorted(table["eps"].unique()), [f"{level:g}" for level in levels])
        ax.minorticks_off()
    axes[0, 0].set_ylabel("Instance flip rate (%)")
    legend(fig)
    return fig


@styled()
def plot_ablation(table: pd.DataFrame, thresholds: pd.DataFrame) -> Figure:
    """Flip rate and base-label margin against the cutoff, with the mean thresholds as lines (HI F.2).

    Args:
        table: of `metrics.ablation_table`. thresholds: of `metrics.threshold_table`.
    """
    fig, ((left, right),) = panels(1, 2, 2.6)
    flips, margins = [], []
    for family, kept in (("low_pass", "low"), ("high_pass", "high")):
        own, (colour, mark) = table[table["family"] == family], _BANDS[kept]
        if own.empty:
            continue
        label = f"{kept} frequencies kept, n = {own['samples'].min():,}"
        flips.append(Series(own, "IFR", colour, label, mark))
        margins.append(Series(own, "margin", colour, label, mark))
        dots = ":" if kept == "low" else "-."
        for row in thresholds[(thresholds["family"] == family) & (thresholds["left"] > 0)].itertuples():
            label = f"{kept}: mean threshold, {row.left:,} of {row.samples:,} answers leave"
            left.axvline(row.threshold, color=colour, linestyle=dots, linewidth=1.4, label=label)
    curves(left, flips, "cutoff", 100)
    curves(right, margins, "cutoff")
    right.axhline(0, color=INK, linewidth=0.8, zorder=1)
    left.set(xlabel="Cutoff (1: highest frequency)", ylabel="Answers that left the clean one (%)")
    right.set(xlabel="Cutoff (1: highest frequency)", ylabel="Base-label margin (nats)")
    legend(fig)
    return fig


@styled()
def plot_smoothness(table: pd.DataFrame) -> Figure:
    """Size of the net change, largest step and largest step back of the ablation's curves (HI F.2).

    Args:
        table: of `metrics.smoothness_table`.
    """
    turned = table["net"] < 0
    net = table.assign(net=table["net"].abs())
    net["net_low"] = table["net_low"].where(~turned, -table["net_high"])
    net["net_high"] = table["net_high"].where(~turned, -table["net_low"])
    marks = {"net": (GREY, "D", "net change"), "largest_step": (BLUE, "o", "largest step"),
             "step_back": (RED, "s", "largest step back")}  # fmt: skip
    curves_ = list(dict.fromkeys(table["curve"])) or ["flip rate"]
    parts = [net[net["curve"] == curve].reset_index(drop=True) for curve in curves_]
    fig, axes = family_axes(parts[0], len(curves_), [f"n = {images} images" for images in parts[0]["images"]])
    for ax, curve, part in zip(axes, curves_, parts, strict=True):
        series = [Series(part, name, colour, label, mark) for name, (colour, mark, label) in marks.items()]
        rate = curve == "flip rate"
        forest(ax, series, scale=100 if rate else 1, zero=True)
        ax.set_title("Flip rate" if rate else "Margin")
        ax.set_xlabel("Change (percentage points)" if rate else "Change (nats)")
    legend(fig)
    return fig


@styled()
def plot_attacks(table: pd.DataFrame) -> Figure:
    """Attack success and the flip rate of noise of the same band and size; after `paper.beside`, HI's bound (HI F.3).

    Args:
        table: of `metrics.attack_table`.
    """
    shown = table.assign(family=[f"{spaced(row.family)}, eps {row.eps:g}" for row in table.itertuples()])
    fig, (ax,) = family_axes(shown, 1, [f"n = {row.samples:,} samples" for row in table.itertuples()])
    if "published_source" in shown:
        named = shown["published_source"].fillna("").ne("")
        shown["published_source"] = ("more than this, " + shown["published_source"]).where(named, "")
    success = Series(shown, "success_rate", RED, "attack: answer flipped and its score fell")
    noise = Series(shown, "control_rate", GREY, "noise of the same band and size: answer flipped", "D")
    forest(ax, [success, noise])
    ax.set(xlim=(-3, 103), xlabel="Share of samples (%)")
    legend(fig)
    return fig


@styled()
def plot_traces(table: pd.DataFrame) -> Figure:
    """The base-label margin step by step, one panel for each eps, one line for each attack.

    Args:
        table: of `metrics.trace_table`.
    """
    levels = sorted(table["eps"].unique())
    fig, axes = panels(1, max(len(levels), 1), 2.3, sharey=True)
    for ax, eps in zip(axes[0], levels, strict=False):
        series = []
        for family, own in table[table["eps"] == eps].groupby("family", sort=False):
            mode = family.removeprefix("pgd_")
            series.append(
                Series(own, "margin", _BANDS[mode][0], f"{mode}, n = {own['samples'].min():,}", _BANDS[mode][1])
            )
        curves(ax, series, "step")
        ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
        ax.set(title=f"eps {eps:g}", xlabel="Step of the attack")
    axes[0, 0].set_ylabel("Base-label margin (nats)")
    legend(fig)
    return fig


@styled()
def plot_adversarial(items: list[dict], cutoff: float = 0.25) -> Figure:
    """Clean image, perturbation (amplified around grey), adversarial image, and the perturbation's spectrum.

    Args:
        items: of `vfkit.study.gallery.adversarial`. cutoff: drawn as a circle in the spectrum.

    Raises:
        ValueError: no items.
    """
    if not items:
        raise ValueError("a panel needs at least one item")
    fig, axes = panels(len(items), 4, 2.45 * len(items))
    width = letters(PAGE / 4) - 3
    for row, item in zip(axes, items, strict=True):
        clean, image = (np.asarray(item[name], dtype=float) / 255 for name in ("base_image", "image"))
        delta = image - clean
        gain = 0.5 / max(np.abs(delta).max(), 1 / 255)
        power = np.abs(np.fft.fftshift(np.fft.fft2(delta, axes=(0, 1)), axes=(0, 1))) ** 2
        power = 10 * np.log10(np.maximum(power.mean(axis=2), 1e-12))
        row[0].imshow(clean)
        row[1].imshow(np.clip(0.5 + gain * delta, 0, 1))
        row[2].imshow(image)
        row[3].imshow(power, extent=(-0.5, 0.5, -0.5, 0.5), vmin=power.max() - 60, cmap="magma")
        row[3].add_patch(plt.Circle((0, 0), cutoff * np.sqrt(0.5), fill=False, color="white", linestyle="--"))
        question = fill(shorten(str(item["question"]), 66, placeholder=" ..."), width)
        row[0].set_title(question, fontsize=SMALL, parse_math=False)
        row[1].set_title(
            f"perturbation x {gain:.0f}\nat most {255 * np.abs(delta).max():.0f} grey levels", fontsize=SMALL
        )
        row[2].set_title(spaced(item["family"]), fontsize=SMALL)
        row[3].set_title("its spectrum, 60 dB", fontsize=SMALL)
        for ax, name, colour in ((row[0], "base_answer", BLUE), (row[2], "answer", RED)):
            text = shorten(f"answer: {item[name]}", 60, placeholder=" ...")
            ax.set_xlabel(fill(text, width), color=colour, weight="bold", fontsize=SMALL, parse_math=False)
        for ax in row:
            ax.set(xticks=[], yticks=[])
            ax.grid(visible=False)
        row[3].set_xlabel("cycles per pixel, -0.5 to 0.5;\ndashed: the cutoff", fontsize=SMALL)
    return fig
