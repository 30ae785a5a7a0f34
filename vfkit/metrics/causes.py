"""Patching and knockout: what undoes a perturbation, at which tokens and in which layers (METHODS 16).

Restoration of a patch is (m_patched - m_perturbed) / (m_base - m_perturbed), m the base-label margin: 0 where nothing
comes back, 1 where all does. Into the base run it is (m_base - m_patched) / (m_base - m_perturbed): how much of the
perturbation's effect its states carry over. Only instances whose margin fell by a stated size are patched.
"""

import numpy as np
import pandas as pd

from vfkit.metrics import rules, stats
from vfkit.metrics.frames import family_order, need
from vfkit.metrics.tabulate import count, distinct, median, product_index, rate, tabulate, total

PLACES = ("image", "region", "question", "answer")
DONORS = ("base", "random tokens", "other image", "perturbed")
HALF = 0.5  # restoration that counts as most of the way
RESTORES = ("restores more", "restores less", "restore alike")  # than the control
UNDOES = ("undoes more", "undoes less", "undo alike")
_WHO = ["sample_id", "image_id", "family", "instance"]


def edit_reasons(edits: pd.DataFrame) -> pd.DataFrame:
    """How many instances were patched and had tokens hidden, by `kind` and `family`, and why others were not: `reason`
    (empty: done), `instances`, `images`."""
    need(edits, "edits", *_WHO, "kind", "reason")
    own = edits.drop_duplicates([*_WHO, "kind"])
    grouped = own.groupby(["kind", "family", "reason"], sort=True)
    return grouped.agg(instances=("instance", "size"), images=("image_id", "nunique")).reset_index()


def patch_rows(edits: pd.DataFrame) -> pd.DataFrame:
    """One row per patch: `sample`, `image`, `family`, `into`, `place`, `donor`, `layer`, `restoration`, `gain` (the
    margin brought back, nats), `flipped` (of a patch into a perturbed run whose answer had flipped) and `returned`: the
    answer is the base's again."""
    need(edits, "edits", "kind", "reason", "margin_base", "margin_perturbed", "base_margin")
    rows = edits[(edits["kind"] == "patch") & (edits["reason"] == "")]
    rows = rows.rename(columns={"sample_id": "sample", "image_id": "image"}).reset_index(drop=True)
    names = ("margin_base", "margin_perturbed", "base_margin")
    base, perturbed, patched = (rows[name].to_numpy(float) for name in names)
    back = np.where(rows["into"] == "perturbed", patched - perturbed, base - patched)
    rows["gain"], rows["restoration"] = back, stats.divide(back, base - perturbed)
    rows["flipped"] = (rows["into"] == "perturbed") & (perturbed < 0)
    rows["returned"] = rows["flipped"] & (patched > 0)
    kept = ["sample", "image", "family", "instance", "into", "place", "donor", "layer", "n_tokens"]
    return rows[[*kept, "restoration", "gain", "flipped", "returned"]]


def patch_table(edits: pd.DataFrame) -> pd.DataFrame:
    """Restoration by family, run that is patched, place, donor and layer.

    Returns:
        `family`, `into` (`perturbed`; `base`, into which the perturbed states go), `place`, `donor`, `layer`,
        `instances`, `images`, `restoration` (median), `flipped` and `returned_rate` (share of flipped answers that are
        the base's again).
    """
    rows = patch_rows(edits)
    index = product_index(
        family=family_order(rows), into=("perturbed", "base"), place=PLACES, donor=DONORS, layer=_layers(rows)
    )
    columns = {"instances": count(), "images": distinct("image"), "restoration": median("restoration")}
    columns |= {"flipped": total("flipped"), "returned_rate": rate("returned", "flipped")}
    return _there(tabulate(rows, index, columns))


def patch_contrasts(edits: pd.DataFrame, control: str = "random tokens") -> pd.DataFrame:
    """Does a patch of base states at a place bring back more of the margin than its control?

    Args:
        control: `random tokens` (base states at as many other tokens) or `other image` (the states that the same
            question has on another image, at the same tokens).

    Returns:
        By `family`, `place` and `layer`: `instances`, `images`, `eventful` (images on which the two differ), `gain`
        and `gain_control` (mean margin brought back, nats), `gain_more` (their paired difference), `p` of the sign-flip
        test by image, `p_holm`, and the `verdict` under the rules of METHODS 15. What is asked first, the region before
        the first layer, is adjusted over the families only; all other rows among themselves.
    """
    rows = patch_rows(edits)
    keys = ["sample", "image", "family", "instance", "place", "layer"]
    into = rows[rows["into"] == "perturbed"]
    pair = into[into["donor"] == "base"].merge(into[into["donor"] == control], on=keys, suffixes=("", "_control"))
    found = []
    for (family, place, layer), own in pair.groupby(["family", "place", "layer"]):
        images = own.groupby("image")[["gain", "gain_control"]].mean()
        moved = images["gain"] - images["gain_control"]
        ends = stats.mean(moved, moved.index).iloc[0]
        counts = {"instances": len(own), "images": len(moved), "eventful": int((moved.abs() > 1e-6).sum())}
        row = {"family": family, "place": place, "layer": layer} | counts
        row |= {"first": images["gain"].mean(), "second": images["gain_control"].mean(), "difference": ends["value"]}
        ends = {"difference_low": ends["low"], "difference_high": ends["high"], "p": rules.sign_flips(moved)}
        found.append(row | ends)
    names = ["family", "place", "layer", "instances", "images", "eventful", "first", "second", "difference"]
    table = pd.DataFrame(found, columns=[*names, "difference_low", "difference_high", "p"])
    asked_first = (table["place"] == "region") & (table["layer"] == table["layer"].min())
    decided = _decided(table, asked_first, RESTORES)
    shown = {"first": "gain", "second": "gain_control"}
    return decided.rename(columns=lambda name: shown.get(name, name.replace("difference", "gain_more")))


def handover(table: pd.DataFrame, place: str = "image") -> tuple[float, float]:
    """Layers between which restoration at a place crosses one half.

    Args:
        table: of `patch_table`, of one family.

    Returns:
        The last layer whose interval lies above one half and the first after it whose interval lies below; for
        `question` and `answer`, where restoration rises, the last below and the first after it above. NaN where there
        is none, and both where it crosses one half more than once.
    """
    need(table, "patches", "into", "place", "donor", "layer", "restoration_low", "restoration_high")
    own = table[(table["into"] == "perturbed") & (table["place"] == place) & (table["donor"] == "base")]
    own = own.sort_values("layer")
    above, below = own["restoration_low"] > HALF, own["restoration_high"] < HALF
    first, then = (below, above) if place in ("question", "answer") else (above, below)
    start = own.loc[first, "layer"].max()
    ends = own.loc[then, "layer"]
    if (ends < start).any():
        return np.nan, np.nan
    return float(start), float(ends.min())


def knockout_rows(edits: pd.DataFrame) -> pd.DataFrame:
    """One row per run with hidden tokens: `sample`, `image`, `family`, `into`, `place`, `layer` and `last` of the
    window, `flipped` (the answer without it), `undone` (flipped, and the base's answer with it), `held` (not flipped)
    and `broken` (not flipped, and another answer with it)."""
    need(edits, "edits", "kind", "reason", "margin_perturbed", "base_margin")
    rows = edits[(edits["kind"] == "knockout") & (edits["reason"] == "")]
    rows = rows.rename(columns={"sample_id": "sample", "image_id": "image"}).reset_index(drop=True)
    perturbed, hidden = rows["margin_perturbed"].to_numpy(float), rows["base_margin"].to_numpy(float)
    rows["flipped"] = (rows["into"] == "perturbed") & (perturbed < 0)
    rows["held"] = ~rows["flipped"]
    rows["undone"], rows["broken"] = rows["flipped"] & (hidden > 0), rows["held"] & (hidden < 0)
    kept = ["sample", "image", "family", "instance", "into", "place", "layer", "last", "n_tokens"]
    return rows[[*kept, "flipped", "undone", "held", "broken"]]


def knockout_table(edits: pd.DataFrame) -> pd.DataFrame:
    """What hiding image tokens undoes, by family, tokens and window.

    Returns:
        `family`, `into` (the run), `place` (tokens hidden: `region`, as many `random tokens`, the whole `image`),
        `layer` and `last` of the window, `instances`, `images`, `flipped`, `undone_rate` (of flipped answers, the share
        that are the base's again), `held`, `broken_rate` (of answers that had not flipped, the share that change).
    """
    rows = knockout_rows(edits)
    windows = list(rows[["layer", "last"]].drop_duplicates().itertuples(index=False, name=None))
    rows["window"] = list(zip(rows["layer"], rows["last"], strict=True))
    order = sorted(windows, key=lambda window: (window[0] - window[1], window[0]))
    index = product_index(
        family=family_order(rows), into=("perturbed", "base"), place=("region", "random tokens", "image"),
        window=order,
    )  # fmt: skip
    columns = {"instances": count(), "images": distinct("image"), "flipped": total("flipped")}
    columns |= {"undone_rate": rate("undone", "flipped"), "held": total("held"), "broken_rate": rate("broken", "held")}
    table = _there(tabulate(rows, index, columns))
    ends = pd.DataFrame(table.pop("window").tolist(), columns=["layer", "last"])
    return pd.concat([table.iloc[:, :3], ends, table.iloc[:, 3:]], axis=1)


def knockout_contrasts(edits: pd.DataFrame) -> pd.DataFrame:
    """Does hiding what a perturbation changed undo more flips than hiding as many random image tokens?

    Returns:
        By `family` and window (`layer`, `last`) the columns of `rules.contrast` (`first`: the region, `second`: random
        tokens; shares of flipped answers undone), `p_holm`, and the `verdict`. What is asked first, all layers
        together, is adjusted over the families only; the windows among themselves.
    """
    rows = knockout_rows(edits)
    rows = rows[rows["flipped"]]
    found = []
    for (family, layer, last), own in rows.groupby(["family", "layer", "last"], sort=False):
        sides = [own[own["place"] == place] for place in ("region", "random tokens")]
        sides = [side[side["instance"].isin(sides[1]["instance"])] for side in sides]
        row = rules.contrast(*sides, events="undone", trials="flipped")
        found.append({"family": family, "layer": layer, "last": last, "flipped": len(sides[0])} | row)
    names = ["family", "layer", "last", "flipped", "samples", "images", "eventful", "first", "second", "difference"]
    table = pd.DataFrame(found, columns=[*names, "difference_low", "difference_high", "alike", "p"])
    width = table["last"] - table["layer"]
    return _decided(table, width == width.max(), UNDOES)


def _decided(table: pd.DataFrame, asked_first: pd.Series, words: tuple[str, ...]) -> pd.DataFrame:
    """`rules.decide` for the rows of the question that is asked first, and for all others."""
    parts = [rules.decide(part, words) for part in (table[asked_first], table[~asked_first]) if len(part)]
    return pd.concat(parts).sort_index() if parts else rules.decide(table, words)


def _layers(rows: pd.DataFrame) -> list[int]:
    return sorted(rows["layer"].dropna().astype(int).unique())


def _there(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table that have instances."""
    table = table.reset_index()
    return table[table["instances"] > 0].reset_index(drop=True)
