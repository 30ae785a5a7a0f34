"""Figures of the reliance on the image: accuracy with and without it, flips of plain and of corrected answers."""

import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import BLUE, GREY, INK, ORANGE, RED, Series, family_axes, forest, legend, styled


@styled()
def plot_reliance(table: pd.DataFrame) -> Figure:
    """Accuracy on the image, on a blank and by corrected scores, and what the image adds in nats, by category.

    Args:
        table: of `metrics.reliance_table`.
    """
    shown = table.rename(columns={"category": "family"})
    n = [f"n = {row.samples:,} samples" for row in shown.itertuples()]
    fig, (right, nats) = family_axes(shown, 2, n)
    marks = {"accuracy": (BLUE, "o", "on the image"), "blank_accuracy": (GREY, "s", "on a blank")}
    marks |= {"corrected_accuracy": (ORANGE, "D", "image less blank: corrected scores")}
    forest(right, [Series(shown, name, colour, label, mark) for name, (colour, mark, label) in marks.items()])
    if len(shown):
        right.plot(
            100 * shown["chance"], range(len(shown)), "|", color=INK, markersize=11, label="chance", linestyle=""
        )
    series = [Series(shown, "evidence", BLUE, "added to the score of the answer")]
    forest(nats, [*series, Series(shown, "information", RED, "information on all options", "D")], scale=1, zero=True)
    right.set(xlabel="Accuracy (%)", xlim=(-2, 102))
    nats.set_xlabel("What the image adds (nats)")
    legend(fig)
    return fig


@styled()
def plot_corrected_flips(table: pd.DataFrame) -> Figure:
    """Flip rates of plain and corrected answers, and of answers that a blank gives too and that need the image.

    Args:
        table: of `metrics.corrected_flip_table`.
    """
    n = [f"n = {row.instances:,} in {row.samples:,} samples" for row in table.itertuples()]
    fig, (scores, answers) = family_axes(table, 2, n)
    plain = Series(table, "IFR", BLUE, "by scores on the image")
    forest(scores, [plain, Series(table, "corrected_IFR", ORANGE, "by scores less those of the blank", "D")])
    same = Series(table, "same_IFR", GREY, "the blank gives the same answer", "s")
    forest(answers, [same, Series(table, "other_IFR", RED, "the blank gives another answer", "D")])
    for ax in (scores, answers):
        ax.set_xlim(left=min(0, ax.get_xlim()[0]))
        ax.set_xlabel("Instance flip rate, IFR\n(% of instances)")
    legend(fig)
    return fig
