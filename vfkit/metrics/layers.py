"""States, margins and attention by layer: where a perturbation moves the model, and from which layer an answer stands.

Tables of a run's `inside` rows (METHODS 16). A layer's state is the one before it; the last row is the state before the
final norm. In every table `answer` is `all`, `kept` or `flipped`, by the scored option.
"""

import numpy as np
import pandas as pd

from vfkit.metrics.controls import CONTROLS, control_pairs, control_samples
from vfkit.metrics.drift import about_samples, drift_rows
from vfkit.metrics.frames import ANSWERS, family_order, need, rows_of, split_answers
from vfkit.metrics.tabulate import correlation, count, distinct, mean, median, product_index, rate, tabulate

CONTROL = "same_question"
SHARES = ("on_image", "on_region", "on_region_base", "on_question", "on_first")
_KEYS = ["sample_id", "instance"]
_AT = ["layer", "point", "place"]
_DISTANCES = ("cos", "l2", "cos_tokens", "l2_tokens")


def layer_drift_table(layers: pd.DataFrame, records: pd.DataFrame, distance: str = "cos", k: int = 25) -> pd.DataFrame:
    """Drift by layer and place, beside its control: the same question on other samples' images.

    Args:
        layers, records: of the same run, with `states` among what it measures inside.
        distance: `cos` or `l2` of the mean states of a place; `cos_tokens` (mean over tokens) or `l2_tokens` (norm of
            all) where image tokens correspond one by one.
        k: control images of a sample that count, at most.

    Returns:
        For each `layer`, `point`, `place`, `family` and `answer` the columns of `drift_table`: `samples`, `images`,
        `instances`, `drift`, `d_same_question`, `percent_same_question`, `hidden` (kept although the state moved
        further than the closest twentieth of control images) and `threshold`. Regions, of which other images have none,
        have no control.
    """
    if distance not in _DISTANCES:
        raise ValueError(f"{distance!r} is none of {', '.join(_DISTANCES)}")
    need(layers, "rows by layer", "layer", "point", "place", distance)
    about = about_samples(records)
    moved = layers[layers["family"] != CONTROL].merge(_flips(records), on=_KEYS)
    moved["category"] = moved["sample_id"].map(about["category"])
    moved = moved.rename(columns={"sample_id": "sample", "image_id": "image", distance: "drift"})
    moved = split_answers(moved.assign(strict=~moved["flip"]))
    others = layers[layers["family"] == CONTROL].rename(columns={"instance": "partner_id"})
    tables = []
    for place in moved[_AT].drop_duplicates().sort_values(_AT).itertuples(index=False):
        rows = moved[(moved["layer"] == place[0]) & (moved["point"] == place[1]) & (moved["place"] == place[2])]
        own = others[(others["layer"] == place[0]) & (others["point"] == place[1]) & (others["place"] == place[2])]
        pairs = control_pairs(own, distance, about)
        samples = control_samples(pairs, {}, "cos", about, k)
        table = drift_rows(rows, ANSWERS, pairs, samples).reset_index()
        tables.append(table.assign(**place._asdict(), distance=distance))
    if not tables:
        return pd.DataFrame(columns=["layer", "point", "place", "family", "answer"])
    whole = pd.concat(tables, ignore_index=True)
    unused = [name for name in whole if name.startswith("hidden_strict") or any(name.endswith(c) for c in CONTROLS[1:])]
    first = ["layer", "point", "place", "family", "answer"]
    return whole[[*first, *(name for name in whole if name not in {*first, *unused})]]


def lens_table(lens: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Margin by layer: the study's rule applied to the state before each layer, through final norm and output
    projection.

    Returns:
        For each `family` (`base` first), `answer` and `layer`: `instances`, `images`, `margin` (mean base-label margin,
        nats), `final` (share of instances whose prediction at this layer is the final one).
    """
    rows = _both(_of_layers(lens, records, "base_margin", "prediction"))
    last = rows[(rows["layer"] == rows["layer"].max()) & rows["answer"].eq("all")]
    rows = rows.merge(last[["sample", "instance", "prediction"]], on=["sample", "instance"], suffixes=("", "_last"))
    rows["final"] = (rows["prediction"] == rows["prediction_last"]).astype(float)
    columns = {"instances": count(), "images": distinct("image"), "margin": mean("base_margin"), "final": rate("final")}
    return _tabulated(rows, columns)


def crossovers(lens: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """The crossover of every instance: the first layer from which its base-label margin keeps its final side.

    Returns:
        `sample`, `image`, `family`, `instance`, `flip`, `crossover`; the number of layers where only the last state has
        it.
    """
    rows = _of_layers(lens, records, "base_margin").sort_values("layer")
    grid = rows.pivot(index=["sample", "image", "family", "instance", "flip"], columns="layer", values="base_margin")
    if grid.empty:
        return grid.index.to_frame(index=False).assign(crossover=np.empty(0, dtype=int))
    sides = grid.to_numpy(float) > 0
    stays = np.logical_and.accumulate((sides == sides[:, -1:])[:, ::-1], axis=1)[:, ::-1]
    layers = grid.columns.to_numpy()
    return grid.index.to_frame(index=False).assign(crossover=layers[stays.argmax(axis=1)])


def crossover_table(lens: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Median crossover by `family` and `answer`, with `instances` and `images`."""
    rows = _both(crossovers(lens, records)).assign(layer=0)
    columns = {"instances": count(), "images": distinct("image"), "crossover": median("crossover")}
    return _tabulated(rows, columns).drop(columns="layer")


def attention_table(attention: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Attention of the answer position by layer: where it reads. A description: it names no cause.

    Returns:
        For each `family` (`base` first), `answer` and `layer`: `instances`, `images` and, as means over heads and
        instances, the shares `on_image`, `on_region` (what the perturbation changed) and, in the base, on the same
        tokens (`on_region_base`), `on_question` and `on_first` (the row's first token), and the `entropy` in nats.
    """
    rows = _both(_of_layers(attention, records, *SHARES, "entropy"))
    means = {name: mean(name, 0, 1) for name in SHARES} | {"entropy": mean("entropy", 0)}
    return _tabulated(rows, {"instances": count(), "images": distinct("image"), **means})


def attention_outcomes(attention: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Does attention to the image go with right answers? A negative control: published correlations are about 0.

    Returns:
        By `layer`: `samples`, `images`, and Spearman's correlation over base images of the share on the image with
        being right (`correct`) and with the base-label margin (`margin`); over perturbed ones with flips (`flip`).
    """
    own = rows_of(records, "answer", "base_margin").assign(instance=records["instance"].to_numpy())
    own["correct"] = (own["prediction"] == own["answer"]).where(own["answer"].notna()).astype(float)
    own = own.rename(columns={"sample": "sample_id", "base_label": "margin"})
    rows = attention.merge(own[[*_KEYS, "image", "correct", "margin", "flip"]], on=_KEYS)
    index = pd.Index(sorted(rows["layer"].unique()), name="layer")
    base, moved = rows[rows["family"] == "base"], rows[rows["family"] != "base"]
    columns = {"samples": count(), "images": distinct("image")}
    columns |= {name: correlation("on_image", name) for name in ("correct", "margin")}
    perturbed = {"instances": count(), "flip": correlation("on_image", "flip")}
    return tabulate(base, index, columns).join(tabulate(moved, index, perturbed)).reset_index()


# --- rows -------------------------------------------------------------------------------------------------------------


def _flips(records: pd.DataFrame) -> pd.DataFrame:
    """Whether each instance that was read flipped its answer."""
    rows = rows_of(records).assign(instance=records["instance"].to_numpy())
    read = rows["prediction"].notna() & rows["base"].notna()
    return rows.loc[read, ["sample", "instance", "flip"]].rename(columns={"sample": "sample_id"})


def _of_layers(frame: pd.DataFrame, records: pd.DataFrame, *needs: str) -> pd.DataFrame:
    """Rows by layer with `flip`; the columns of `needs` as float."""
    need(frame, "rows by layer", "layer", *needs)
    rows = frame.merge(_flips(records), on=_KEYS).rename(columns={"sample_id": "sample", "image_id": "image"})
    return rows.astype({name: float for name in needs})


def _both(rows: pd.DataFrame) -> pd.DataFrame:
    """Every perturbed row under `all` and under its answer; base rows under `all`."""
    base = rows["family"] == "base"
    return pd.concat([rows[base].assign(answer="all"), split_answers(rows[~base])], ignore_index=True)


def _tabulated(rows: pd.DataFrame, columns: dict) -> pd.DataFrame:
    """A table by family, answer and layer, without combinations that have no instances."""
    families = [*(["base"] if (rows["family"] == "base").any() else []), *family_order(rows)]
    index = product_index(family=families, answer=ANSWERS, layer=sorted(rows["layer"].unique()))
    table = tabulate(rows, index, columns).reset_index()
    return table[table["instances"] > 0].reset_index(drop=True)
