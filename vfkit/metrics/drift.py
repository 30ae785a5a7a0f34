"""Drift: how far states move, and whether the answer moves with them (HI 4.3, 4.4, A.9; METHODS 7, 8).

What counts, the order of families and the intervals are as in `vfkit.metrics.frames`. In every table here

- each family has three rows: `all` counted instances, those whose answer was `kept`, those `flipped`. The answer is
  that to the probe's own prompt: the generated text for probes of the open prompt, the scored option for the others;
- an instance without a finite distance (a state that is zero or was not read) is left out;
- drift is one number per sample: the mean distance of the row's instances of this sample to its base state.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.metrics.controls import (
    CONTROLS,
    DISTANCES,
    base_controls,
    control_pairs,
    control_samples,
    distance_column,
    stacked,
    states_of,
)
from vfkit.metrics.effects import EFFECTS, effects
from vfkit.metrics.frames import (
    ANSWERS,
    counted_rows,
    family_order,
    numbers,
    require,
    rows_of,
    same_answers,
    split_answers,
    with_union,
)
from vfkit.metrics.hidden import beyond_rates
from vfkit.metrics.tabulate import ENDS, count, distinct, family_index, mean, spread, tabulate, total
from vfkit.readout.readout import PROBES, TAPS

_KEYS = ["family", "answer"]
_HIDDEN = [("beyond", "one", "one"), ("hidden", "kept", "could_hide"), ("hidden_strict", "strict", "could_hide_strict")]


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
    """Drift by family against its controls, and the hidden-instability rate (HI 4.3, 4.4, Table 4; METHODS 8).

    Args:
        vectors: a run's base vectors, for `other_sample` and `same_category`; controls: its same-question pairs.
            Without them the columns that need them are empty.
        probe, tap, distance: which of `PROBES`, `TAPS`, `DISTANCES`.
        k, seed: pairs of a sample in every control (fewer where there are fewer), and the seed of their choice.

    Returns:
        Rows (`family`, `answer`), each naming its `probe`, `tap`, `distance` and by what an answer is kept (`kept_by`:
        `open text` or `option`).
        `samples`, `images`, `instances`; `drift` (mean over samples) with its interval, and `drift_sd` over samples.
        For each control (`same_question`, `same_category`, `other_sample`), over all samples of the run: its mean,
        `_sd` and `_n` samples; `k_<control>`, the mean number of pairs of a sample; `d_<control>` (`cohens_d`) and
        `percent_<control>` = 100 drift / control with their intervals, and `percent_sd_<control>` = 100 drift_sd /
        control, as HI prints it. Compare controls of one k only: d grows with it.
        `threshold`: the 5th percentile of the same-question distances in the sample's category, the mean over the
        row's instances (single pairs, as drift is compared with it instance by instance), and `threshold_pairs`, how
        many pairs it rests on at least; `beyond`: share of the row's instances that moved further; `hidden`: share
        that did so with the answer kept, of all instances in `all`, of the kept ones in `kept`, empty in `flipped`;
        `hidden_strict`: the same where scored option, generated mcq text and generated open text are all kept. Their
        intervals take the threshold as the estimate that it is.

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
    """Drift of several probes, taps and distances: the rows of a `drift_table` each (HI Tables 4 and 7, Appendix B)."""
    columns = [distance_column(*setting) for setting in ((d, p, t) for p in probes for t in taps for d in distances)]
    counted, about = moved_rows(records, columns), about_samples(records)
    if len(counted) and counted[columns].isna().all(axis=None):
        raise ValueError("these records hold no distances: the run was made without probes (StudyConfig(probes=True))")
    tables = []
    for probe in probes:
        rows = of_probe(counted, probe)
        split = split_answers(rows)
        for tap in taps:
            others = base_controls(vectors, probe, tap, about, k, seed)
            for distance in distances:
                column = distance_column(distance, probe, tap)
                pairs = control_pairs(controls, column, about)
                samples = control_samples(pairs, others, distance, about, k)
                table = drift_rows(split.assign(drift=split[column]), ANSWERS, pairs, samples)
                kept_by = rows.attrs["kept_by"]
                tables.append(drift_columns(table, probe=probe, tap=tap, distance=distance, kept_by=kept_by))
    return pd.concat(tables, ignore_index=True)


def drift_rows(
    rows: pd.DataFrame, answers: Sequence[str], pairs: pd.DataFrame, samples: dict[str, pd.DataFrame]
) -> pd.DataFrame:
    """The columns of a drift table, by family and answer.

    Args:
        rows: instances, once for each answer they stand under: `family`, `answer`, `sample`, `image`, `category`,
            `drift`, and whether the answer was kept: `flip`, `strict`.
        answers: the table's, in order; `flipped` is the one in which nothing can be hidden.
        pairs, samples: of `controls.control_pairs` and `control_samples`.
    """
    rows = rows[np.isfinite(rows["drift"])]
    kept = ~rows["flip"]
    whole = rows["answer"].eq("all")
    hides = rows["answer"].ne("flipped")
    rows = rows.assign(one=True, kept=kept, could_hide=hides & (whole | kept))
    rows["strict"] = rows["strict"] & kept
    rows["could_hide_strict"] = hides & (whole | rows["strict"])
    index = family_index(rows, answer=answers)
    grouped = rows.groupby([*_KEYS, "sample"], sort=False)
    per = grouped.agg(drift=("drift", "mean"), instances=("drift", "size"), image=("image", "first")).reset_index()
    columns = {"samples": count(), "images": distinct("image"), "instances": total("instances")}
    table = tabulate(per, index, columns | {"drift": mean("drift"), "drift_sd": spread("drift")})
    for name in CONTROLS:
        table = table.join(_against(table, per, name, samples[name]))
    return table.join(beyond_rates(rows, index, pairs, _HIDDEN))


def drift_columns(table: pd.DataFrame, **about: str) -> pd.DataFrame:
    """The columns of `drift_rows` after those that say what they are about: probe, tap, distance, kept_by."""
    table = table.reset_index().assign(**about)
    first = ["probe", "tap", "distance", "family", "answer", "kept_by"]
    return table[[*first, *table.columns.difference(first, sort=False)]]


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
    """Drift of each sample, of which `drift_table` gives the means and HI's Figure 1 the distribution.

    Returns:
        `family`, `answer`, `sample_id`, `image_id`, `instances`, `drift`. The controls given follow as families
        `same_question`, `same_category`, `other_sample` with the answer `control`; `instances` are then pairs.
    """
    column = distance_column(distance, probe, tap)
    rows, about = of_probe(moved_rows(records, [column]), probe), about_samples(records)
    split = split_answers(rows)
    split = split[np.isfinite(split[column])]
    grouped = split.groupby([*_KEYS, "sample"], sort=False)
    per = grouped.agg(drift=(column, "mean"), instances=(column, "size"), image=("image", "first")).reset_index()
    order = pd.MultiIndex.from_product([family_order(rows), ANSWERS])
    rank = order.get_indexer(pd.MultiIndex.from_frame(per[_KEYS]))
    per = per.iloc[np.lexsort([per["sample"].rank(), rank])]
    pairs = control_pairs(controls, column, about)
    samples = control_samples(pairs, base_controls(vectors, probe, tap, about, k, seed), distance, about, k)
    parts = [samples[name].assign(family=name, answer="control") for name in CONTROLS if len(samples[name])]
    table = pd.concat([per, *parts], ignore_index=True).rename(columns={"sample": "sample_id", "image": "image_id"})
    return table[["family", "answer", "sample_id", "image_id", "instances", "drift"]]


def embedding_table(
    records: pd.DataFrame,
    vectors: pd.DataFrame,
    probe: str = "ctx_open",
    tap: str = "post_norm",
    samples: int = 50,
    seed: int = 0,
) -> pd.DataFrame:
    """Project base and perturbed states on their first two principal components.

    Args:
        vectors: with those of perturbed instances (a study with `keep_vectors`).
        samples: at most so many, drawn with the seed: more make neither picture nor decomposition better.

    Returns:
        `sample_id`, `family`, `instance`, `answer` (`base`; by the probe's own prompt `kept`, `flipped`), `x`, `y` (in
        the units of the states), `x_share`, `y_share` (of the variance around the mean state; the same in every row).

    Raises:
        ValueError: no vectors of perturbed instances.
    """
    rows = rows_of(records).assign(instance=np.where(records["family"] == "base", "base", records["instance"]))
    rows = of_probe(rows.join(same_answers(records)), probe)
    rows["answer"] = np.select([rows.is_base, rows.flip], ["base", "flipped"], "kept")
    rows = rows[rows.prediction.notna() & rows.base.notna()].rename(columns={"sample": "sample_id"})
    columns, keys = ["sample_id", "family", "instance", "answer"], ["sample_id", "instance"]
    rank = rows["family"].map({family: i for i, family in enumerate(family_order(rows))}).fillna(-1)
    rows = rows.assign(rank=rank).sort_values(["sample_id", "rank", "instance"])
    table = rows[columns].merge(states_of(vectors, probe, tap), on=keys, validate="1:1")
    moved = np.sort(table.loc[table["answer"] != "base", "sample_id"].unique().astype(object))
    if not len(moved):
        raise ValueError("there are no vectors of perturbed instances: a study keeps them with keep_vectors=True")
    table = table[table["sample_id"].isin(np.random.default_rng(seed).permutation(moved)[:samples])]
    states = stacked(table["vector"])
    states = states[there := np.isfinite(states).all(axis=1)].astype(np.float64)
    u, size, axes = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
    turn = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # a component's sign is arbitrary: fix it
    points = np.zeros((len(states), 2))
    points[:, : min(2, len(size))] = (u * size * turn)[:, :2]
    shares = np.append(stats.divide(size**2, (size**2).sum()), [0.0, 0.0])
    table = table.loc[there, columns].reset_index(drop=True)
    return table.assign(x=points[:, 0], y=points[:, 1], x_share=shares[0], y_share=shares[1])


def about_samples(records: pd.DataFrame) -> pd.DataFrame:
    """Image (by which intervals resample) and category (by which thresholds are taken) of each sample, by its id."""
    rows = rows_of(records)
    rows["category"] = _category(records)
    return rows.drop_duplicates("sample").set_index("sample")[["image", "category"]]


def _category(records: pd.DataFrame) -> np.ndarray:
    """The categories of the records, the empty one where they have none."""
    if "category" not in records:
        return np.full(len(records), "", dtype=object)
    return records["category"].fillna("").astype(str).to_numpy(dtype=object)


def moved_rows(records: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The counted rows with their unions, these columns of the records as floats, and which answers were kept
    (`same_answers`)."""
    require(records, *columns)
    rows = rows_of(records).assign(category=_category(records), **{name: numbers(records[name]) for name in columns})
    return counted_rows(with_union(rows.join(same_answers(records))))


def of_probe(counted: pd.DataFrame, probe: str) -> pd.DataFrame:
    """Rows of `moved_rows` with `flip` by the answer to the probe's own prompt (by the scored option where no text was
    kept) and `strict`: all answers kept."""
    by_text = probe.endswith("_open") and counted["kept_open"].notna().any()
    flip = ~counted["kept_open"].eq(True) if by_text else counted["flip"]
    rows = counted.assign(flip=flip, strict=counted["kept_strict"])
    rows.attrs["kept_by"] = "open text" if by_text else "option"
    return rows


def _against(table: pd.DataFrame, per: pd.DataFrame, name: str, control: pd.DataFrame) -> pd.DataFrame:
    """A control's mean, SD, n and k; Cohen's d and per cent of it, with their intervals by image."""
    values = control["drift"]
    about = {name: values.mean(), f"{name}_sd": values.std(), f"{name}_n": len(values)}
    about |= {f"k_{name}": control["instances"].astype(float).mean()}
    place = table.index.get_indexer(pd.MultiIndex.from_frame(per[_KEYS]))
    parts = [per[place == i] for i in range(len(table))]
    names = {f"{of}{end}": f"{of}_{name}{end}" for of in EFFECTS for end in ENDS}
    rows = [effects(part["drift"], part["image"], values, control["image"]) for part in parts]
    against = pd.DataFrame(rows, index=table.index, columns=list(names), dtype=float).rename(columns=names)
    against[f"percent_sd_{name}"] = stats.divide(100 * table["drift_sd"], np.full(len(table), about[name]))
    return pd.DataFrame(about, index=table.index).join(against)
