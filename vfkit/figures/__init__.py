"""Tables in, matplotlib axes out; `save` writes a figure as PNG and PDF with the numbers drawn beside it."""

from vfkit.figures.labels import plot_flips, plot_gallery, plot_margins, plot_transitions
from vfkit.figures.style import save, styled

__all__ = ["plot_flips", "plot_gallery", "plot_margins", "plot_transitions", "save", "styled"]
