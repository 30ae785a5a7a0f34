"""Several models on the same samples: what changes with size, and what models agree on (HI 5, Appendix C).

Every function takes the records of several runs in one frame, with the columns `dataset` and `model` before those of a
run's records, and `models`, one row per model: `model`, `series` (one architecture and one kind
of training, several sizes),
`params` in billions. Models are compared on the samples that all of them answered (`shared_samples` makes that so).
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from vfkit.metrics import rules, stats
from vfkit.metrics.drift import drift_table
from vfkit.metrics.flips import accuracy_table, flip_table, transition_table
from vfkit.metrics.frames import counted_rows, family_order, need, rows_of, vulnerable_samples, with_union
from vfkit.perturb import HI_FAMILIES

KEYS = ["dataset", "model"]
_DIFFERENCES = ["dataset", "series", "smaller", "larger", "times", "measure", "family", "samples", "images", "eventful"]
_DIFFERENCES += ["share_smaller", "share_larger", "difference", "difference_low", "difference_high"]
_DIFFERENCES += ["only_smaller", "only_larger", "p", "p_holm"]
_RANKS = ["dataset", "model", "other", "series", "pairs", "families", "samples", "rho", "p"]
_DRAWS = 1999  # of orders at random


def size_name(params: float) -> str:
    """Billions of parameters for people: 0.0014 is `1.4 M`, 8.8 is `8.8 B`."""
    value, unit = (params, "B") if params >= 1 else (1e3 * params, "M")
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2g} {unit}"


def shared_samples(records: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The records of those samples that every model of their data set answered on the base image, and the counts.

    Returns:
        The records left, and one row per data set and model: `read` samples with a base answer, `shared` by all.

    Raises:
        ValueError: a data set of which the models share no sample (with what each read), or a sample that had other
            images in one run than in another.
    """
    need(records, "records of several runs", *KEYS, "family", "sample_id", "image_id", "prediction")
    base = records[(records["family"] == "base") & records["prediction"].notna()]
    images = base.groupby(["dataset", "sample_id"])["image_id"].nunique()
    if (images > 1).any():
        dataset, sample = images.index[images > 1][0]
        raise ValueError(f"sample {sample!r} of {dataset}: its images are not the same in all runs")
    asked = records.groupby("dataset")["model"].nunique()
    answered = base.groupby(["dataset", "sample_id"])["model"].nunique()
    shared = answered[answered == asked.reindex(answered.index.get_level_values("dataset")).to_numpy()].index
    counts = records[KEYS].drop_duplicates().set_index(KEYS)
    counts["read"] = base.groupby(KEYS).size()
    counts = counts.reset_index().fillna({"read": 0}).astype({"read": int})
    counts["shared"] = counts["dataset"].map(shared.droplevel("sample_id").value_counts()).fillna(0).astype(int)
    for dataset, part in counts[counts["shared"] == 0].groupby("dataset"):
        read = ", ".join(f"{row.model} {row.read}" for row in part.itertuples())
        raise ValueError(f"the models share no sample of {dataset}; samples that each read: {read}")
    kept = pd.MultiIndex.from_frame(records[["dataset", "sample_id"]]).isin(shared)
    return records[kept].reset_index(drop=True), counts


def by_model(
    make: Callable[..., pd.DataFrame], records: pd.DataFrame, models: pd.DataFrame, **frames: pd.DataFrame | None
) -> pd.DataFrame:
    """A table of `vfkit.metrics` for each data set and model, one below the other, smaller models of a series first.

    Args:
        make: `flip_table`, `drift_table` and the like.
        frames: what else it takes (`vectors`, `controls`), with the columns `dataset` and `model`; of each, the rows of
            the samples in `records` are used.
    """
    _check(records, models)
    tables = []
    for dataset, row, part in _each(records, models):
        own = {}
        for name, frame in frames.items():
            if frame is not None and len(frame):
                here = (frame["dataset"] == dataset) & (frame["model"] == row.model)
                own[name] = frame[here & frame["sample_id"].isin(part["sample_id"])]
        about = dict(dataset=dataset, model=row.model, series=row.series, params=row.params)
        table = make(part.drop(columns=KEYS), **own)
        tables.append(pd.concat([pd.DataFrame([about] * len(table), index=table.index), table], axis=1))
    return pd.concat(tables, ignore_index=True)


def scale_summary(
    records: pd.DataFrame,
    models: pd.DataFrame,
    vectors: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row per data set and model: HI's Table 5, and what else may change with scale (HI 5.1, C.4).

    Returns:
        `dataset`, `model`, `series`, `params`, `samples`; `accuracy` on base images and `chance`; `overlay_IFR` (text
        overlay); of the `union` named, `per_sample` (instances per sample), `union_IFR`, `union_IV`, `R->W_rate`,
        `W->R_rate` and the instances they are of, `base_right` and `base_wrong`; and `identity_IFR`, the noise floor.
        With probes, of the union and the default probe: `drift` (cosine, all answers); in per cent of the same-question
        control the drift of kept and of flipped answers, `percent_kept` and `percent_flipped` (their intervals are the
        drift's alone); and `hidden`, the hidden-instability rate. Each with its interval.
    """
    about = ["series", "params", "samples", "chance"]
    table = _pick(by_model(accuracy_table, records, models), about, ["accuracy"], family="base", category="all")
    flips = by_model(flip_table, records, models)
    for name, family in (("overlay", "text_overlay"), ("identity", "identity")):
        table = table.join(_pick(flips, [], ["IFR"], family=family).add_prefix(f"{name}_"))
    union = _pooled(flips).rename(columns={"family": "union"})
    table = table.join(_pick(union, ["union", "per_sample"], []))
    table = table.join(_pick(union, [], ["IFR", "IV"]).add_prefix("union_"))
    moves = _pooled(by_model(transition_table, records, models))
    moves["base_right"], moves["base_wrong"] = moves["R->W"] + moves["R->R"], moves["W->R"] + moves["W->W"]
    table = table.join(_pick(moves, ["base_right", "base_wrong"], ["R->W_rate", "W->R_rate"]))
    if controls is not None and len(controls):
        inside = [each[each["model"].isin(controls["model"])] for each in (records, models)]  # hosted ones have none
        drift = _pooled(by_model(drift_table, *inside, vectors=vectors, controls=controls))
        for end in ("", "_low", "_high"):
            drift[f"percent{end}"] = 100 * drift[f"drift{end}"] / drift["same_question"]
        table = table.join(_pick(drift, [], ["drift", "hidden"], answer="all"))
        for answer in ("kept", "flipped"):
            own = _pick(drift, [], ["percent"], answer=answer)
            table = table.join(own.rename(columns=lambda name, to=answer: name.replace("percent", f"percent_{to}")))
    return table.reset_index()


def scale_differences(records: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """Does a larger model of the same series do better, on the same samples?

    Returns:
        Rows for each data set, each pair of models of one series that differ in size (`smaller`, `larger`, `times`
        larger), and each `measure`: `accuracy` of the base; `IFR` and `IV` per `family`, the union included.
        `samples` that both counted, on so many `images`, of which `eventful` have an event in either model;
        `share_smaller`, `share_larger`, and `difference` = larger - smaller with its interval; `p` of the exact
        sign-flip test over images, and for IV `p_holm`, adjusted over the single families of the pair. For yes/no
        outcomes of samples (right; flipped at least once) `only_smaller`, `only_larger`: in one model alone. An overlay
        names an answer that the model did not give, so not always the same one for both.
    """
    _check(records, models)
    sizes, tables = models.set_index("model")["params"], []
    for dataset, pair in _pairs(records, models):
        (small, first), (large, second) = sorted(pair, key=lambda each: sizes[each[0].model])
        if small.series != large.series or small.params == large.params:
            continue
        rows = _paired_rows(rows_of(first, "answer"), rows_of(second, "answer"))
        about = dict(dataset=dataset, series=small.series, smaller=small.model, larger=large.model)
        tables.append(pd.DataFrame(rows).assign(**about, times=large.params / small.params))
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    return table.reindex(columns=_DIFFERENCES)


def _paired_rows(small: pd.DataFrame, large: pd.DataFrame) -> list[dict]:
    """The rows of one pair of models, from their slim frames."""
    bases = [rows[rows.is_base & rows.prediction.notna() & rows.answer.notna()] for rows in (small, large)]
    bases = [rows.assign(right=rows.prediction == rows.answer) for rows in bases]
    found = [_difference(*bases, "right", "accuracy", "base")]
    counted = [counted_rows(with_union(rows)) for rows in (small, large)]
    families = [family for family in family_order(counted[0]) if (counted[1].family == family).any()]
    instances, samples = [], []
    for family in families:
        own = [rows[rows.family == family] for rows in counted]
        instances.append(_difference(*own, "flip", "IFR", family))
        samples.append(
            _difference(*(vulnerable_samples(rows).assign(one=1) for rows in own), "vulnerable", "IV", family)
        )
    single = [row for row in samples if row["family"] != "identity" and not row["family"].startswith("union (")]
    for row, p in zip(single, stats.holm([row["p"] for row in single]), strict=True):
        row["p_holm"] = p
    return found + instances + samples


def _difference(small: pd.DataFrame, large: pd.DataFrame, outcome: str, measure: str, family: str) -> dict:
    found = rules.contrast(large, small, outcome)
    names = {"first": "share_larger", "second": "share_smaller"}
    row = dict(measure=measure, family=family) | {names.get(name, name): value for name, value in found.items()}
    if measure != "IFR":  # yes/no outcomes of samples
        pair = pd.concat([rows.set_index("sample")[outcome] for rows in (small, large)], axis=1, join="inner")
        test = stats.mcnemar(pair.iloc[:, 0], pair.iloc[:, 1])
        row |= {"only_smaller": test["only_first"], "only_larger": test["only_second"]}
    return row


def rank_agreement(records: pd.DataFrame, models: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Do models agree on which of HI's families flip most? Spearman's rank correlation of their IFRs (HI 5.2).

    Only families that every model of the data set has instances of are ranked. Flips are few and families near each
    other, so noise in the rates lowers rho, and no interval of the true rho holds it as often as it should; the test
    asks the question that can be answered: is the order shared beyond chance?

    Returns:
        One row per data set and pair of models (`model`, `other`; `series` same / other); then the means over the
        pairs of each kind, with `model` and `other` = `mean`. `pairs`, `families` ranked, `samples`, `rho`, and `p`
        that orders drawn at random, for each model anew, agree as well; NaN below three families.
    """
    _check(records, models)
    tables = []
    for dataset, part in records.groupby("dataset", sort=False):
        each = [(row, counted_rows(rows_of(own.drop(columns=KEYS)))) for _, row, own in _each(part, models)]
        if len(each) < 2:
            continue
        families = [f for f in HI_FAMILIES if all((rows["family"] == f).any() for _, rows in each)]
        rates = np.array([rows.groupby("family")["flip"].mean().reindex(families) for _, rows in each])
        pairs = list(itertools.combinations(range(len(each)), 2))
        kinds = np.array(["same" if each[a][0].series == each[b][0].series else "other" for a, b in pairs])
        means = [kind for kind in ("same", "other") if (kinds == kind).any()]
        rng = np.random.default_rng(seed)
        drawn = rng.permuted(np.broadcast_to(rates, (_DRAWS, *rates.shape)), axis=2)
        rho = _rank_correlations(np.concatenate([rates[None], drawn]), pairs)  # [1 + draw, pair]
        rho = np.column_stack([rho, *(rho[:, kinds == kind].mean(axis=1) for kind in means)])
        p = ((rho[1:] >= rho[0] - 1e-9).sum(axis=0) + 1) / (_DRAWS + 1)
        table = pd.DataFrame({"rho": rho[0], "p": np.where(np.isfinite(rho[0]), p, np.nan)}).assign(dataset=dataset)
        table["model"] = [each[a][0].model for a, _ in pairs] + ["mean"] * len(means)
        table["other"] = [each[b][0].model for _, b in pairs] + ["mean"] * len(means)
        table["series"] = [*kinds, *means]
        table["pairs"] = [1] * len(pairs) + [(kinds == kind).sum() for kind in means]
        tables.append(table.assign(families=len(families), samples=max(rows["sample"].nunique() for _, rows in each)))
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    return table.reindex(columns=_RANKS)


def _rank_correlations(rates: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Spearman's rho [draw, pair] of rates [draw, model, family]; NaN below three families or without an order."""
    if rates.shape[2] < 3:
        return np.full((len(rates), len(pairs)), np.nan)
    ranks = rankdata(rates, axis=2)
    ranks -= ranks.mean(axis=2, keepdims=True)
    one, other = (ranks[:, [pair[end] for pair in pairs]] for end in (0, 1))
    return stats.divide((one * other).sum(axis=2), np.sqrt((one**2).sum(axis=2) * (other**2).sum(axis=2)))


def _check(records: pd.DataFrame, models: pd.DataFrame) -> None:
    need(records, "records of several runs", *KEYS)
    need(models, "models", "model", "series", "params")
    missing = set(records["model"]) - set(models["model"])
    if missing:
        raise ValueError(f"nothing is said of the model {sorted(missing)[0]!r}: `models` needs a row for each")


def _each(records: pd.DataFrame, models: pd.DataFrame) -> Iterator[tuple[str, pd.Series, pd.DataFrame]]:
    """Data set, row of `models` and records of each run: data sets as they come, models by series and size."""
    order = {series: i for i, series in enumerate(models["series"].unique())}
    ordered = models.assign(order=models["series"].map(order)).sort_values(["order", "params"], kind="stable")
    for dataset, part in records.groupby("dataset", sort=False):
        for row in ordered.itertuples():
            if len(own := part[part["model"] == row.model]):
                yield dataset, row, own


def _pairs(records: pd.DataFrame, models: pd.DataFrame) -> Iterator[tuple[str, tuple]]:
    for dataset, part in records.groupby("dataset", sort=False):
        each = [(row, own.drop(columns=KEYS)) for _, row, own in _each(part, models)]
        yield from ((dataset, pair) for pair in itertools.combinations(each, 2))


def _pooled(table: pd.DataFrame) -> pd.DataFrame:
    """Of each run its rows of the union; where it has but one of HI's families, of that."""
    ours = table[table["family"].isin(HI_FAMILIES) | table["family"].str.startswith("union (")]
    last = ours.groupby(KEYS)["family"].transform("last")
    return ours[ours["family"] == last]


def _pick(table: pd.DataFrame, about: list[str], rates: list[str], **where: str) -> pd.DataFrame:
    """The rows that fit, by data set and model, with these columns, the rates with their intervals."""
    for column, value in where.items():
        table = table[table[column] == value]
    return table.set_index(KEYS)[[*about, *(f"{name}{end}" for name in rates for end in ("", "_low", "_high"))]]
