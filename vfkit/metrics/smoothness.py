"""How smooth the curves of an ablation are (HI 6, F.2 argues from their smoothness; METHODS 11).

A step is the change between neighbouring cutoffs, paired by sample. The intervals of all steps of a curve, and of its
net change, hold together (Bonferroni): so do the bounds of the largest step and of their sum that follow from them.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from vfkit.metrics import rules, stats
from vfkit.metrics.frames import need
from vfkit.metrics.frequency import ABLATIONS, spectral_rows
from vfkit.metrics.intervals import FEWEST, LEVEL

JUMP = 0.5  # share of the net change, above which a single step counts as a jump
Change = tuple[float, float, float]  # value, low, high
_NUMBERS = ("net", "largest_step", "step_back", "variation")
_COLUMNS = ["family", "curve", "samples", "images", "steps", "at"]
_COLUMNS += [f"{name}{end}" for name in _NUMBERS for end in ("", "_low", "_high")]


def smoothness_table(records: pd.DataFrame) -> pd.DataFrame:
    """Do flip rate and margin change evenly with the cutoff, or at one of them, and do they turn back?

    Returns:
        Rows (`family`, `curve`: flip rate, or base-label margin in nats), over the `samples` read at every cutoff:
        `images`, `steps`; with their intervals `net`, the change from the smallest to the largest cutoff;
        `largest_step`, the size of the largest, which ends `at` this cutoff; `step_back`, the size of the largest
        against the sign of `net`, 0 where the curve never turns; `variation`, the sum of all sizes / |net|, 1 where it
        never turns. Chance turns any curve of few samples, so that the lower ends tell.
    """
    rows = spectral_rows(records, ABLATIONS, "cutoff")
    found = []
    for family in ABLATIONS:
        own = rows[rows.family == family]
        for curve, name, change in _CURVES if len(own) else ():
            values = own.pivot(index=["sample", "image"], columns="cutoff", values=name).astype(float)
            found.append({"family": family, "curve": curve} | _smoothness(values.dropna(), change))
    return pd.DataFrame(found, columns=_COLUMNS)


def smoothness_finding(table: pd.DataFrame) -> str:
    """Whether one band of cutoffs decides, and whether a curve turns back, in Markdown: one line per curve.

    A jump is claimed where the lower end of the largest step lies above half of the upper end of the net change, an
    even curve where its upper end lies below half of the lower end of the net change, a turn where the lower end of
    the step back lies above 0. The intervals of a curve hold together, so no claim needs an adjustment.
    """
    need(table, "smoothness", "family", "curve", "net", "largest_step", "step_back", "at")
    lines = []
    for row in table.to_dict("records"):
        scale, unit = (100, " points") if row["curve"] == "flip rate" else (1, " nats")
        net, step = (rules.shown(row, name, scale, 1, unit, name == "net") for name in ("net", "largest_step"))
        line = f"{row['family'].replace('_', '-')}, {row['curve']}: over all cutoffs {net}, largest step {step}"
        line += f" at cutoff {row['at']:g}" if row["at"] == row["at"] else ""
        lines.append(f"- {line}: {_shape(row)}.")
    return "\n".join(lines)


def _shape(row: dict) -> str:
    if not row["images"] >= FEWEST or row["net"] != row["net"]:
        return rules.FEW_IMAGES
    net = sorted(abs(row[f"net{end}"]) for end in ("_low", "_high"))
    if not row["net_low"] * row["net_high"] > 0:
        said = rules.UNDECIDED + ", the curve may not change at all"
    elif row["largest_step_low"] > JUMP * net[1]:
        said = "one step carries more than half of the change"
    elif row["largest_step_high"] < JUMP * net[0]:
        said = "smooth, no step carries half of the change"
    else:
        said = rules.UNDECIDED + " whether one step carries half of the change"
    return said + ("; the curve turns back" if row["step_back_low"] > 0 else "")


def _smoothness(values: pd.DataFrame, change: Callable) -> dict:
    """The numbers of one curve, from its values [(sample, image), cutoff]."""
    cutoffs, images = values.columns, values.index.get_level_values("image")
    counts = {"samples": len(values), "images": images.nunique(), "steps": len(cutoffs) - 1}
    if not len(values) or len(cutoffs) < 2:
        return counts
    pairs = [*zip(cutoffs[:-1], cutoffs[1:], strict=True), (cutoffs[0], cutoffs[-1])]
    level = 1 - (1 - LEVEL) / len(pairs)
    changes = np.array([change(values[after] - values[before], images, level) for before, after in pairs])
    sign = np.sign(changes[-1, 0]) or 1.0
    along, back = _towards(changes, sign), _towards(changes, -sign)
    size, net, back = np.maximum(along, back)[:-1], along[-1], back[:-1]
    most = {"net": changes[-1], "largest_step": size.max(axis=0), "step_back": back.max(axis=0)}
    most["variation"] = 1 + 2 * stats.divide(back.sum(axis=0), net[[0, 2, 1]])
    if net[1] == 0:  # which way the curve goes is not known
        most["step_back"][1:], most["variation"][1:] = (0, size[:, 2].max()), (1, np.inf)
    ends = {f"{name}{end}": v for name, own in most.items() for end, v in zip(("", "_low", "_high"), own, strict=True)}
    return counts | ends | {"at": cutoffs[1:][size[:, 0].argmax()]}


def _of_flips(moves: pd.Series, images: pd.Index, level: float) -> Change:
    """Answers that leave minus answers that return, each a share with an interval of half the error."""
    left, back = (stats.rate(moves == sign, np.ones(len(moves)), images, level=(1 + level) / 2) for sign in (1, -1))
    (value, low, high), (other, least, most) = (one[["value", "low", "high"]].to_numpy()[0] for one in (left, back))
    return value - other, low - most, high - least


def _of_margins(moves: pd.Series, images: pd.Index, level: float) -> Change:
    return tuple(stats.mean(moves, images, level=level)[["value", "low", "high"]].to_numpy()[0])


_CURVES = (("flip rate", "flip", _of_flips), ("margin", "base_label", _of_margins))


def _towards(changes: np.ndarray, sign: float) -> np.ndarray:
    """How far changes [change, (value, low, high)] go towards a sign, 0 for those that go the other way."""
    return np.maximum(np.column_stack([sign * changes[:, 0], np.sort(sign * changes[:, 1:], axis=1)]), 0)
