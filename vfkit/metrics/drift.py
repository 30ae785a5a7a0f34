"""How far the states move, and whether the answer moves with them (HI 4.3, 4.4, A.9; METHODS 7, 8).

`distances` makes the numbers that records hold; the tables reduce records, base vectors and controls. What counts,
the order of families and the intervals are as in `vfkit.metrics.flips`. In every table here

- each family has three rows: `all` counted instances, those whose answer was `kept`, those `flipped`;
- an instance without a finite distance (a state that is zero or was not read) is left out;
- drift is one number per sample: the mean distance of the row's instances of this sample to its base state.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.measure import distances as distances_between
from vfkit.metrics import stats
from vfkit.metrics.frames import (
    ANSWERS,
    by_family,
    counted_rows,
    family_order,
    intervals,
    need,
    numbers,
    require,
    rows_of,
    split_answers,
    with_counts,
    with_union,
)
from vfkit.readout.readout import PROBES, TAPS

DISTANCES = ("cos", "l2")
CONTROLS = ("same_question", "other_sample")
PERCENTILE = 5  # of the same-question control: what moves further has moved like another image
_BLOCK = 250_000  # numbers of one block of control pairs; larger blocks fall out of the processor's cache


def cohens_d(mean1, sd1, n1, mean2, sd2, n2):
    """(mean1 - mean2) / pooled SD, sample variances weighted by n - 1 (HI A.9). Numbers or arrays; NaN for no spread.

    HI's controls and drifts are one number per image, 600 images each.
    """
    mean1, sd1, n1, mean2, sd2, n2 = np.broadcast_arrays(mean1, sd1, n1, mean2, sd2, n2)
    pooled = stats.divide((n1 - 1) * sd1**2 + (n2 - 1) * sd2**2, n1 + n2 - 2)
    return stats.divide(mean1 - mean2, np.sqrt(pooled))


def control_distances(
    vectors: pd.DataFrame, probe: str = "ctx_open", tap: str = "post_norm", k: int = 25, seed: int = 0
) -> pd.DataFrame:
    """The `other_sample` control (HI A.9): each sample's mean distance to the base states of k others.

    Image, question and options all differ (two questions may still share an image, as in HI). The k others are drawn
    without replacement, seeded; all others where there are fewer. The order of rows does not matter.

    Returns:
        One row per sample, by id: `sample_id`, `cos`, `l2`, `pairs` (finite distances averaged; 0 gives NaN).
    """
    samples, states = _base_states(vectors, probe, tap)  # [sample, D]
    n = len(samples)
    k = max(min(k, n - 1), 0)
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(n - 1, k, replace=False) for _ in range(n if k else 0)]
    others = np.reshape(drawn, (n, k)).astype(int)
    others += others >= np.arange(n)[:, None]  # nobody is their own control
    means, pairs = np.full((2, n), np.nan), np.zeros(n, dtype=int)
    block = max(1, _BLOCK // max(k * states.shape[1], 1))
    for start in range(0, n, block):
        rows = slice(start, start + block)
        found = np.stack(distances_between(states[rows, None], states[others[rows]]))  # [distance, row, k]
        there = np.isfinite(found).all(axis=0)
        pairs[rows] = there.sum(axis=1)
        means[:, rows] = stats.divide(np.where(there, found, 0).sum(axis=2), np.stack([pairs[rows]] * 2))
    return pd.DataFrame({"sample_id": samples, "cos": means[0], "l2": means[1], "pairs": pairs})


def drift_table(
    records: pd.DataFrame,
    vectors: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
    probe: str = "ctx_open",
    tap: str = "post_norm",
    distance: str = "cos",
    k: int = 25,
    seed: int = 0,
) -> pd.DataFrame:
    """Drift by family against both controls, and the hidden-instability rate (HI 4.3, 4.4, Table 4; METHODS 8).

    Args:
        vectors: a run's base vectors, for `other_sample`; controls: its same-question pairs. Without them the columns
            that need them are empty.
        probe, tap, distance: which of `PROBES`, `TAPS`, `DISTANCES`.
        k, seed: of the other-sample control.

    Returns:
        Rows (`family`, `answer`), each naming its `probe`, `tap`, `distance`.
        `samples`, `instances`; `drift` (mean over samples) with its interval, and `drift_sd` over samples.
        For each control, over all samples of the run: its mean (`same_question`, `other_sample`), `_sd` and `_n`
        samples; `d_<control>` (`cohens_d`), `percent_<control>` = 100 drift / control and `percent_sd_<control>` =
        100 drift_sd / control, as HI prints them.
        `threshold` = 5th percentile of the same-question distances (single pairs, as drift is compared with it
        instance by instance); `beyond` = share of the row's instances that moved further than that; `hidden` = share
        that did so with the answer kept: of all instances in `all`, of the kept ones in `kept`, empty in `flipped`.

    Raises:
        ValueError: records without this probe and tap; an unknown name; two base vectors of one sample.
    """
    return drift_summary(records, vectors, controls, [probe], [tap], [distance], k, seed)


def drift_summary(
    records: pd.DataFrame,
    vectors: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
    probes: Sequence[str] = PROBES,
    taps: Sequence[str] = TAPS,
    distances: Sequence[str] = DISTANCES,
    k: int = 25,
    seed: int = 0,
) -> pd.DataFrame:
    """`drift_table` for several probes, taps and distances, one below the other (HI Tables 4 and 7, Appendix B)."""
    columns = [distance_column(*setting) for setting in ((d, p, t) for p in probes for t in taps for d in distances)]
    counted = _perturbed(records, columns)
    if len(counted) and counted[columns].isna().all(axis=None):
        raise ValueError("these records hold no distances: the run was made without probes (StudyConfig(probes=True))")
    rows = split_answers(counted)
    images = _images(records)
    tables = []
    for probe in probes:
        for tap in taps:
            others = None if vectors is None else control_distances(vectors, probe, tap, k, seed)
            for distance in distances:
                column = distance_column(distance, probe, tap)
                control = _controls(others, controls, column, images)
                threshold = _threshold(controls, column)
                table = _drift(rows, column, threshold)
                for name in CONTROLS:
                    table = _against(table, name, control[name])
                table = table.assign(probe=probe, tap=tap, distance=distance, threshold=threshold)
                tables.append(table[_columns(table)])
    return pd.concat(tables, ignore_index=True)


def sample_drift(
    records: pd.DataFrame,
    vectors: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
    probe: str = "ctx_open",
    tap: str = "post_norm",
    distance: str = "cos",
    k: int = 25,
    seed: int = 0,
) -> pd.DataFrame:
    """The numbers below `drift_table`, one per sample: what HI's Figure 1 shows the distribution of.

    Returns:
        `family`, `answer`, `sample_id`, `image_id`, `instances`, `drift`. The controls given follow as families
        `same_question`, `other_sample` with the answer `control`; `instances` are then pairs.
    """
    column = distance_column(distance, probe, tap)
    counted = _perturbed(records, [column])
    per = _per_sample(split_answers(counted), column)
    order = pd.MultiIndex.from_product([family_order(counted), ANSWERS])
    rank = order.get_indexer(pd.MultiIndex.from_frame(per[["family", "answer"]]))
    per = per.iloc[np.lexsort([per["sample"].rank(), rank])]
    others = None if vectors is None else control_distances(vectors, probe, tap, k, seed)
    found = _controls(others, controls, column, _images(records))
    found = [found[name].assign(family=name, answer="control") for name in CONTROLS if len(found[name])]
    table = pd.concat([per, *found], ignore_index=True).rename(columns={"sample": "sample_id", "image": "image_id"})
    return table[["family", "answer", "sample_id", "image_id", "instances", "drift"]]


def embedding_table(
    records: pd.DataFrame,
    vectors: pd.DataFrame,
    probe: str = "ctx_open",
    tap: str = "post_norm",
    samples: int = 50,
    seed: int = 0,
) -> pd.DataFrame:
    """Base and perturbed states on their first two principal components.

    Args:
        vectors: with those of perturbed instances (a study with `keep_vectors`).
        samples: at most so many, drawn with the seed: more make neither picture nor decomposition better.

    Returns:
        `sample_id`, `family`, `instance`, `answer` (`base`, `kept`, `flipped`), `x`, `y` (in the units of the states),
        `x_share`, `y_share` (of the variance around the mean state; the same in every row).

    Raises:
        ValueError: no vectors of perturbed instances.
    """
    rows = rows_of(records).assign(instance=np.where(records["family"] == "base", "base", records["instance"]))
    rows["answer"] = np.select([rows.is_base, rows.flip], ["base", "flipped"], "kept")
    rows = rows[rows.prediction.notna() & rows.base.notna()].rename(columns={"sample": "sample_id"})
    columns, keys = ["sample_id", "family", "instance", "answer"], ["sample_id", "instance"]
    table = rows[columns].merge(_chosen(vectors, probe, tap), on=keys, validate="1:1")
    moved = np.sort(table.loc[table["answer"] != "base", "sample_id"].unique().astype(object))
    if not len(moved):
        raise ValueError("there are no vectors of perturbed instances: a study keeps them with keep_vectors=True")
    table = table[table["sample_id"].isin(np.random.default_rng(seed).permutation(moved)[:samples])]
    states = _stack(table["vector"])
    states = states[there := np.isfinite(states).all(axis=1)].astype(np.float64)
    u, size, axes = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
    turn = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # a component's sign is arbitrary: fix it
    points = np.zeros((len(states), 2))
    points[:, : min(2, len(size))] = (u * size * turn)[:, :2]
    shares = np.append(stats.divide(size**2, (size**2).sum()), [0.0, 0.0])
    table = table.loc[there, columns].reset_index(drop=True)
    return table.assign(x=points[:, 0], y=points[:, 1], x_share=shares[0], y_share=shares[1])


def distance_column(distance: str, probe: str, tap: str) -> str:
    for name, known in ((distance, DISTANCES), (probe, PROBES), (tap, TAPS)):
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return f"{distance}_{probe}_{tap}"


def _chosen(vectors: pd.DataFrame, probe: str, tap: str) -> pd.DataFrame:
    need(vectors, "vectors", "sample_id", "instance", "probe", "tap", "vector")
    distance_column("cos", probe, tap)
    here = (vectors["probe"] == probe) & (vectors["tap"] == tap)
    return vectors.loc[here, ["sample_id", "instance", "vector"]]


def _base_states(vectors: pd.DataFrame, probe: str, tap: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids, sorted, and base states [sample, D] in float32."""
    base = _chosen(vectors, probe, tap)
    base = base[base["instance"] == "base"].sort_values("sample_id")
    doubled = base["sample_id"].duplicated()
    if doubled.any():
        raise ValueError(f"sample {base['sample_id'][doubled].iloc[0]!r} has two base vectors: a table takes one run")
    return base["sample_id"].to_numpy(dtype=object), _stack(base["vector"])


def _stack(vectors: pd.Series) -> np.ndarray:
    rows = [np.asarray(vector, dtype=np.float32) for vector in vectors]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("vectors of unequal length: a table takes the vectors of one model")
    return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)


def _images(records: pd.DataFrame) -> pd.Series:
    """Each sample's image, by sample: what the bootstrap resamples."""
    rows = rows_of(records)
    return rows.drop_duplicates("sample").set_index("sample")["image"]


def _perturbed(records: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The counted rows with their unions, and these columns as floats."""
    require(records, *columns)
    return counted_rows(with_union(rows_of(records).assign(**{name: numbers(records[name]) for name in columns})))


def _per_sample(rows: pd.DataFrame, column: str, threshold: float = np.nan) -> pd.DataFrame:
    """One row per family, answer and sample: image, instances, drift (mean), beyond, hidden (counts)."""
    rows = rows[np.isfinite(rows[column])]
    beyond = rows[column] > threshold
    rows = rows[["family", "answer", "sample", "image"]].assign(
        drift=rows[column], beyond=beyond, hidden=beyond & ~rows.flip, instances=1
    )
    keys = ["family", "answer", "sample"]
    sums = rows.groupby(keys, sort=False)[["drift", "beyond", "hidden", "instances"]].sum()
    sums["drift"] /= sums["instances"]
    return sums.assign(image=rows.groupby(keys, sort=False)["image"].first()).reset_index()


def _drift(rows: pd.DataFrame, column: str, threshold: float) -> pd.DataFrame:
    per = _per_sample(rows, column, threshold)
    grouped = per.groupby(["family", "answer"])
    table = by_family(rows, answer=ANSWERS)
    table["samples"], table["instances"] = grouped.size(), grouped["instances"].sum()
    table["drift_sd"] = grouped["drift"].std()
    n = per["instances"] if np.isfinite(threshold) else np.zeros(len(per))
    could_hide = np.where(per["answer"] == "flipped", 0, n)
    ratios = {"drift": (per["drift"], np.ones(len(per))), "beyond": (per["beyond"], n)}
    table = intervals(table, per, ratios | {"hidden": (per["hidden"], could_hide)})
    return with_counts(table, "samples", "instances")


def _threshold(controls: pd.DataFrame | None, column: str) -> float:
    values = np.zeros(0) if controls is None else numbers(controls[column])
    values = values[np.isfinite(values)]
    return float(np.percentile(values, PERCENTILE)) if len(values) else np.nan


def _controls(others: pd.DataFrame | None, controls: pd.DataFrame | None, column: str, images: pd.Series) -> dict:
    """Each control's frame of one row per sample: sample, image, instances (pairs), drift (mean distance)."""
    found = dict.fromkeys(CONTROLS, pd.DataFrame(columns=["sample", "image", "instances", "drift"]))
    if others is not None:
        distance = column.split("_")[0]
        found["other_sample"] = others.rename(columns={"sample_id": "sample", distance: "drift", "pairs": "instances"})
    if controls is not None:
        pairs = pd.DataFrame({"sample": controls["sample_id"], "drift": numbers(controls[column])}).dropna()
        grouped = pairs.groupby("sample")["drift"]
        found["same_question"] = pd.DataFrame({"instances": grouped.size(), "drift": grouped.mean()}).reset_index()
    for name, part in found.items():
        part = part.assign(image=part["sample"].map(images).fillna(part["sample"]))
        found[name] = part.loc[part["drift"].notna(), ["sample", "image", "instances", "drift"]]
    return found


def _against(table: pd.DataFrame, name: str, control: pd.DataFrame) -> pd.DataFrame:
    """The table with a control's mean, SD and n, Cohen's d and percent of control."""
    values = control["drift"].astype(float)
    mean, sd, n = values.mean(), values.std(), len(values)
    d = cohens_d(table["drift"], table["drift_sd"], table["samples"], mean, sd, n)
    percent = {f"percent_{name}": table["drift"], f"percent_sd_{name}": table["drift_sd"]}
    percent = {column: stats.divide(100 * value, np.full(len(table), mean)) for column, value in percent.items()}
    return table.assign(**{name: mean, f"{name}_sd": sd, f"{name}_n": n, f"d_{name}": d}, **percent)


def _columns(table: pd.DataFrame) -> list[str]:
    first = ["probe", "tap", "distance", "family", "answer", "samples", "instances"]
    first += ["drift", "drift_low", "drift_high", "drift_sd"]
    last = ["threshold", "beyond", "beyond_low", "beyond_high", "hidden", "hidden_low", "hidden_high"]
    return [*first, *(name for name in table if name not in {*first, *last}), *last]
