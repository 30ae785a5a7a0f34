"""The one look of all figures, and how they are saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by colour-blind readers too
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, INK = "#8C8C8C", "#222222"

_RC = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PINK, SKY]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#E2E2E2",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@contextmanager
def styled() -> Iterator[None]:
    """The kit's look, as a context (`with styled():`) or a decorator; the caller's own settings stay as they were."""
    with plt.rc_context(_RC):
        yield
        interactive = plt.isinteractive()
    # a notebook's backend starts with its first figure and turns this on: taken back, it would show no second one
    matplotlib.interactive(interactive)


def heat_map(ax: Axes, values: np.ndarray, texts: list[list[str]], colours: str, norm: Normalize) -> None:
    """Values [row, column] as coloured cells, each with its text, dark on light and light on dark."""
    ax.imshow(values, cmap=colours, norm=norm, aspect="auto")
    for (y, x), value in np.ndenumerate(values):
        shade = plt.get_cmap(colours)(norm(value))[:3] if np.isfinite(value) else (1, 1, 1)
        dark = np.dot(shade, (0.3, 0.59, 0.11)) < 0.5
        ax.text(x, y, texts[y][x], ha="center", va="center", fontsize=8, color="white" if dark else INK)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def save(fig: Figure, folder: str | Path, name: str, data: pd.DataFrame) -> dict[str, Path]:
    """Write `name`.png (150 dpi), `name`.pdf, and `name`.csv with the numbers drawn; the folder is made if need be.

    Returns:
        The three paths, by suffix: `png`, `pdf`, `csv`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "csv")}
    fig = fig.get_figure(root=True)  # a gallery's axes sit in sub-figures
    with plt.rc_context({"pdf.fonttype": 42}):  # text in the PDF stays text
        fig.savefig(paths["png"], dpi=150, bbox_inches="tight")
        fig.savefig(paths["pdf"], bbox_inches="tight", metadata={"CreationDate": None})  # same figure, same file
    data.to_csv(paths["csv"], index=False)
    return paths
