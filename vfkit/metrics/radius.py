"""Local sensitivity by layer, and the linear radius beside the attack's smallest flipping eps (METHODS 16).

A radius is no certificate: it says where the tangent plane of the nearest rival crosses, not where the answer flips.
"""

import json

import numpy as np
import pandas as pd

from vfkit.metrics.frames import need
from vfkit.metrics.layers import CONTROL
from vfkit.metrics.tabulate import correlation, count, distinct, family_index, median, product_index, tabulate

ATTACK = "pgd_pixel"
BEYOND = np.inf  # the smallest flipping eps of an image whose answer no eps flipped


def sensitivity_table(layers: pd.DataFrame) -> pd.DataFrame:
    """Change of states over change of pixels (HI's local Lipschitz estimate), by family, layer and place.

    Returns:
        `family` (the same question on control images among them), `place`, `layer`, `instances`, `images`, `ratio`
        (median of ||h' - h|| / ||x' - x||, h the mean state of the place, x the pixels in [0, 1]), and `ratio_tokens`,
        with the states of all its tokens, where they correspond one by one.
    """
    need(layers, "rows by layer", "layer", "place", "l2", "l2_tokens", "pixels_l2")
    rows = layers[(layers["point"] == "state") & (layers["pixels_l2"] > 0)].rename(columns={"image_id": "image"})
    rows = rows.assign(ratio=rows["l2"] / rows["pixels_l2"], ratio_tokens=rows["l2_tokens"] / rows["pixels_l2"])
    families = [
        *(f for f in family_index(rows) if f != CONTROL),
        *([CONTROL] if rows["family"].eq(CONTROL).any() else []),
    ]
    places = [place for place in ("image", "region", "question", "answer") if rows["place"].eq(place).any()]
    index = product_index(family=families, place=places, layer=sorted(rows["layer"].unique()))
    columns = {"instances": count(), "images": distinct("image")}
    table = tabulate(rows, index, columns | {name: median(name) for name in ("ratio", "ratio_tokens")}).reset_index()
    return table[table["instances"] > 0].reset_index(drop=True)


def flipping_eps(records: pd.DataFrame, family: str = ATTACK) -> pd.DataFrame:
    """The smallest eps, in 1/255, at which an attack flipped a sample's answer: `sample_id`, `eps` (infinite where no
    eps of the attack did)."""
    need(records, "records", "sample_id", "family", "params", "applicable", "prediction", "base_prediction")
    own = records[(records["family"] == family) & records["applicable"].astype(bool) & records["prediction"].notna()]
    eps = pd.Series([255 * json.loads(params)["eps"] for params in own["params"]], own.index, dtype=float)
    flipped = (own["prediction"] != own["base_prediction"]).astype(bool)
    smallest = eps.where(flipped, BEYOND).groupby(own["sample_id"]).min()
    return smallest.rename("eps").reset_index()


def radius_rows(radius: pd.DataFrame, records: pd.DataFrame, family: str = ATTACK) -> pd.DataFrame:
    """One row per sample: `sample_id`, `image`, `margin` (nats), `radius` (1/255) and, where it was attacked, `eps`."""
    need(radius, "radius", "sample_id", "image_id", "margin", "radius")
    rows = radius.rename(columns={"image_id": "image"})[["sample_id", "image", "margin", "radius"]]
    return rows.merge(flipping_eps(records, family), on="sample_id", how="left")


def radius_table(radius: pd.DataFrame, records: pd.DataFrame, family: str = ATTACK) -> pd.DataFrame:
    """How well the linear radius, and the margin by itself, rank images as the attack does.

    Returns:
        For each `of` (`radius`, `margin`): `samples` that were attacked, `images`, `never` (no eps flipped them: ranked
        last, as equals), `rank_agreement` (Spearman's correlation with the smallest flipping eps) and `median` of the
        number itself, the latter over all samples.
    """
    rows = radius_rows(radius, records, family)
    largest = rows["eps"].where(np.isfinite(rows["eps"])).max()
    rows["rank"] = rows["eps"].where(np.isfinite(rows["eps"]) | rows["eps"].isna(), 2 * np.nan_to_num(largest, nan=1.0))
    both = [rows.assign(of=name, value=rows[name].astype(float)) for name in ("radius", "margin")]
    whole = pd.concat(both, ignore_index=True)
    index = pd.Index(["radius", "margin"], name="of")
    attacked = whole[whole["eps"].notna()].assign(never=np.isinf(whole["eps"]))
    columns = {"samples": count(), "images": distinct("image"), "rank_agreement": correlation("value", "rank")}
    table = tabulate(attacked, index, columns).join(tabulate(whole, index, {"median": median("value")})).reset_index()
    never = int(np.isinf(rows["eps"]).sum())
    return table.assign(never=never)[
        ["of", "samples", "images", "never", *(n for n in table if n not in ("of", "samples", "images"))]
    ]
