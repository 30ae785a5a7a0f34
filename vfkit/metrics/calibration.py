"""Calibration under perturbation: does confidence fall where answers become wrong? (METHODS 17)

The *confidence* of an answer is its probability among the sample's options, softmax(scores / temperature) by a scoring
rule. What counts, the order of families, their union and the intervals are as in `vfkit.metrics.frames`; samples with a
single option are left out, and so are those without a known answer wherever right and wrong matter.
"""

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import rankdata

from vfkit.metrics import rules, stats
from vfkit.metrics.frames import base_value, counted_rows, family_order, need, pooled_family, rows_of, with_union
from vfkit.metrics.intervals import FEWEST, interval
from vfkit.metrics.scores import option_scores, rescore
from vfkit.metrics.tabulate import (
    ENDS,
    average,
    count,
    difference,
    distinct,
    family_index,
    mean,
    product_index,
    rate,
    share,
    tabulate,
    total,
)

BINS = 10
WITHIN = 0.05  # a gap whose 90 % interval lies within this much of zero is called none
SURE = 0.9
COVERAGES = tuple(round(0.05 * i, 2) for i in range(1, 21))
COLDEST, HOTTEST = 0.05, 20.0  # temperatures within which one is fitted
GAPS = ("overconfident", "underconfident", f"calibrated within {100 * WITHIN:.0f} points")
CHANGES = ("towards overconfidence", "towards underconfidence", f"no change beyond {100 * WITHIN:.0f} points")
_DRAWS = 400


def calibration_table(records: pd.DataFrame, rule: str = "paper", bins: int = BINS, seed: int = 0) -> pd.DataFrame:
    """Confidence against accuracy on base images and under each family (METHODS 17).

    Args:
        rule: the study's scoring rule. bins: equally wide bins of the confidence, for ECE. seed: of the draws below.

    Returns:
        One row per family, `base` first: `samples`, `images`, `instances`; with their intervals `accuracy`, mean
        `confidence`, `gap` = confidence - accuracy, `ECE`, `Brier` (squared error summed over options, 0 to 2), `AURC`
        (area under risk against coverage: the error rate if answers came in order of confidence would be 1 - accuracy
        at full coverage); `ECE_chance`, the mean ECE of a calibrated model with these confidences, and `ECE_p`, how
        often such a model reaches this ECE.
        `p`, `p_holm`, `verdict` of the gap (`GAPS`); `gap_change`, the gap minus that of the base answers to the same
        instances, with `gap_change_p`, `gap_change_p_holm`, `gap_change_verdict` (`CHANGES`).
        `temperature`, fitted on base images only, and with it `gap_scaled`, `ECE_scaled`, `Brier_scaled`, whose
        intervals take it as known; empty where there is none (`temperature_table`).
        `no_answer`: instances left out because their sample has no known answer.
    """
    temperature = temperature_table(records, rule)["temperature"].iloc[0]
    fitted = bool(np.isfinite(temperature))
    own, scaled = (
        _with_base(_answered(confidence_rows(records, rule, t))) for t in (1.0, temperature if fitted else 1.0)
    )
    rows, unknown = own[own.answer.notna()].copy(), own[own.answer.isna()]
    scaled = scaled[scaled.answer.notna() & fitted].copy()
    for frame in (rows, scaled):
        frame["gap"] = frame.confidence - frame.right
        binned = np.clip(np.ceil(frame.confidence * bins) - 1, 0, bins - 1)
        for i in range(bins):
            frame[f"bin_{i}"] = frame.gap.where(binned == i, 0.0)
    base = rows[rows.family == "base"].set_index("sample")["gap"]
    rows["base_gap"] = rows["sample"].map(base).astype(float).where(rows.family != "base")
    rows["gap_change"] = rows.gap - rows.base_gap
    index = pd.Index(_families(own), name="family", dtype=object)
    ece = share(lambda *sums: stats.divide(np.abs(sums[:-1]).sum(axis=0), sums[-1]), *_bins(bins), "one")
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    columns |= {"accuracy": rate("right"), "confidence": mean("confidence", 0, 1), "gap": mean("gap", -1, 1)}
    columns |= {"ECE": ece, "Brier": mean("brier", 0, 2), "AURC": _aurc}
    columns |= {"gap_change": difference("gap", "one", "base_gap", "one")}
    table = tabulate(rows, index, columns)
    after = tabulate(
        scaled, index, {"gap_scaled": mean("gap", -1, 1), "ECE_scaled": ece, "Brier_scaled": mean("brier", 0, 2)}
    )
    table = table.join(after)
    chance = [_if_calibrated(rows[rows.family == family], bins, seed) for family in index]
    table = table.join(pd.DataFrame(chance, index=index, columns=["ECE_chance", "ECE_p", "p", "gap_change_p"]))
    _widen(table, "ECE", table["ECE_chance"])
    again = [_if_calibrated(scaled[scaled.family == family], bins, seed)["ECE_chance"] for family in index]
    _widen(table, "ECE_scaled", np.array(again, dtype=float))
    table = _decided(_decided(table, rows, "gap", "", GAPS), rows, "gap_change", "gap_change_", CHANGES)
    table["temperature"] = temperature
    return table.join(tabulate(unknown, index, {"no_answer": count()})).reset_index()


def temperature_table(records: pd.DataFrame, rule: str = "paper") -> pd.DataFrame:
    """The temperature that makes the true options of the base images likeliest.

    Returns:
        One row: `samples`, `images` (base images with a known answer and two options or more), `temperature` with its
        interval; above 1 the model is too sure on average. NaN where none between `COLDEST` and `HOTTEST` is the best,
        as where every answer is right, and without samples.
    """
    values, options = option_scores(records, rule)
    rows = rows_of(records, "answer")
    used = np.flatnonzero(rows.is_base & rows.answer.notna() & (options > 1))
    z, answer, image = values[used], rows.answer.iloc[used].astype(int), rows["image"].iloc[used]
    row = {"samples": len(used), "images": image.nunique()}
    row |= {f"temperature{end}": np.nan for end in ENDS}
    if not len(used):
        return pd.DataFrame([row])
    own, finite = z[np.arange(len(z)), answer], np.where(np.isfinite(z), z, 0.0)
    if not np.isfinite(own).all():  # a true option that is impossible stays so at any temperature
        return pd.DataFrame([row])

    def parts(log_cold: float) -> tuple[np.ndarray, np.ndarray]:
        """Slope of each sample's log-likelihood along the inverse temperature, and its curvature, at exp(log_cold)."""
        p = softmax(np.exp(log_cold) * z, axis=1)
        expected = (p * finite).sum(axis=1)
        return own - expected, (p * finite**2).sum(axis=1) - expected**2

    ends = -np.log(HOTTEST), -np.log(COLDEST)
    if parts(ends[0])[0].sum() <= 0 or parts(ends[1])[0].sum() >= 0:  # the likelihood rises to an end of the range
        return pd.DataFrame([row])
    best = brentq(lambda log_cold: parts(log_cold)[0].sum(), *ends)
    code, sums = pd.factorize(image, sort=True)[0], np.stack(parts(best))
    slope, curvature = (np.bincount(code, part) for part in sums)
    # one Newton step without each image, on the scale of the logarithm
    without = best - slope / (np.exp(best) * (curvature.sum() - curvature))
    low, high = interval(best, without, "mean")
    fitted = {"temperature": np.exp(-best), "temperature_low": np.exp(-high), "temperature_high": np.exp(-low)}
    return pd.DataFrame([row | fitted])


def reliability_table(
    records: pd.DataFrame, rule: str = "paper", bins: int = BINS, temperature: float = 1.0
) -> pd.DataFrame:
    """Accuracy by confidence: rows (`family`, `bin`), `base` and every family, bins of equal width that hold answers.

    Returns:
        `low`, `high` (the bin's edges, low < confidence <= high); `instances`, `samples`, `images`; mean `confidence`,
        and `accuracy` with its interval.
    """
    rows = _with_base(_answered(confidence_rows(records, rule, temperature)))
    rows = rows[rows.answer.notna()]
    rows = rows.assign(bin=np.clip(np.ceil(rows.confidence * bins) - 1, 0, bins - 1).astype(int))
    index = product_index(family=_families(rows), bin=range(bins))
    columns = {"instances": count(), "samples": distinct("sample"), "images": distinct("image")}
    table = tabulate(rows, index, columns | {"confidence": average("confidence"), "accuracy": rate("right")})
    table = table[table.instances > 0].reset_index()
    table.insert(2, "low", table["bin"] / bins)
    table.insert(3, "high", (table["bin"] + 1) / bins)
    return table


def risk_table(records: pd.DataFrame, rule: str = "paper") -> pd.DataFrame:
    """Risk against coverage: the error rate of the surest answers (METHODS 17).

    Returns:
        Rows (`family`, `coverage`), `base` and every family: `instances` answered, `images`, and their `risk` with its
        interval, which takes the choice of instances as given.
    """
    rows = _with_base(_answered(confidence_rows(records, rule)))
    rows = rows[rows.answer.notna()]
    parts = []
    for _, own in rows.groupby("family", sort=False):
        ordered = _surest_first(own)
        for coverage in COVERAGES:
            kept = int(np.ceil(round(coverage * len(own), 6)))
            parts.append(ordered[:kept].assign(coverage=coverage))
    chosen = pd.concat(parts, ignore_index=True) if parts else rows.assign(coverage=0.0, error=0.0)
    index = product_index(family=_families(rows), coverage=COVERAGES)
    columns = {"instances": count(), "images": distinct("image"), "risk": rate("error")}
    return tabulate(chosen, index, columns).reset_index()


def flip_confidence_table(records: pd.DataFrame, rule: str = "paper", sure: float = SURE) -> pd.DataFrame:
    """How sure a model is of answers that flip, and whether its base confidence foretells the flip.

    Samples without a known answer count here.

    Returns:
        One row per family: `samples`, `images`, `instances`, `flips`; mean confidences with their intervals:
        `confidence_kept` and `confidence_flipped` on the perturbed image, `base_confidence_kept` and
        `base_confidence_flipped` on the base image of these instances;
        `sure_rate`, the share of flipped answers given with a confidence of at least `sure`; `AUROC`: the probability
        that a flipped instance had the lower base confidence of two, one kept and one flipped.
    """
    rows = with_union(_answered(confidence_rows(records, rule)))
    rows = counted_rows(rows)
    for name, chosen in (("kept", ~rows.flip), ("flipped", rows.flip)):
        for sure_of in ("confidence", "base_confidence"):
            rows[f"{sure_of}_{name}"] = rows[sure_of].where(chosen)
    rows["sure"] = rows.flip & (rows.confidence >= sure)
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    columns |= {"flips": total("flip")}
    both = [f"{sure_of}_{name}" for sure_of in ("confidence", "base_confidence") for name in ("kept", "flipped")]
    columns |= {name: mean(name, 0, 1) for name in both}
    columns |= {"sure_rate": rate("sure", "flip"), "AUROC": _auroc}
    return tabulate(rows, family_index(rows), columns).reset_index()


def calibration_finding(table: pd.DataFrame, flips: pd.DataFrame) -> str:
    """Is the model as sure as it is right, and does confidence follow accuracy under perturbation? Markdown bullets.

    Args:
        table: of `calibration_table`. flips: of `flip_confidence_table`.
    """
    need(table, "table", "family", "instances", "gap", "verdict", "gap_change_verdict", "temperature")
    need(flips, "table", "family", "flips", "confidence_flipped", "sure_rate", "AUROC")
    lines, table = [], table[table.instances > 0]
    pooled = pooled_family(table.family) or pooled_family(flips.family)
    if not (table.family == "base").any():
        lines.append("No base image has several options and a known answer, so that right and wrong cannot be told.")
    for row in table[table.family == "base"].to_dict("records"):
        text = f"On base images a mean confidence of {rules.shown(row, 'confidence')} stands against an accuracy of "
        text += f"{rules.shown(row, 'accuracy')}, a gap of {rules.shown(row, 'gap', unit=' points', signed=True)}: "
        text += f"{row['verdict']}. The ECE is {rules.shown(row, 'ECE')}"
        if row["ECE_chance"] == row["ECE_chance"]:
            text += f", where a calibrated model of these confidences shows {100 * row['ECE_chance']:.1f} %"
        lines.append(f"{text}.")
    for row in table[table.family.isin(pooled)].to_dict("records"):
        text = f"Under perturbation, {row['family']}, the gap changes by "
        text += f"{rules.shown(row, 'gap_change', unit=' points', signed=True)}: {row['gap_change_verdict']}."
        if row["temperature"] == row["temperature"]:
            text += f" With a temperature of {row['temperature']:.2f}, fitted on base images, the gap is then "
            text += f"{rules.shown(row, 'gap_scaled', unit=' points', signed=True)}."
        lines.append(text)
    for row in flips[flips.family.isin(pooled) & (flips.flips > 0)].to_dict("records"):
        text = f"Answers that flip are given with a mean confidence of {rules.shown(row, 'confidence_flipped')}, "
        text += f"{rules.shown(row, 'sure_rate')} of them with {100 * SURE:.0f} % or more. A low base confidence tells "
        lines.append(f"{text}them from answers that stay with an AUROC of {rules.shown(row, 'AUROC', 1, 2, '')}.")
    return "\n".join(f"- {line}" for line in lines)


def confidence_rows(records: pd.DataFrame, rule: str = "paper", temperature: float = 1.0) -> pd.DataFrame:
    """The frame the tables here are made of: `rows_of` with predictions by the rule and each answer's confidence.

    Returns:
        One row per record; beside the columns of `rows_of`: `options`, `confidence` of the row's answer,
        `base_confidence` of its base's, `right` (1.0 or 0.0, by the sample's answer), and `brier`.
    """
    values, options = option_scores(records, rule)
    rows = rows_of(rescore(records, rule), "answer").assign(options=options)
    there = np.flatnonzero(options > 0)
    p = softmax(values[there] / temperature, axis=1) if len(there) else np.zeros((0, 1))
    confidence, brier = np.full((2, len(rows)), np.nan)
    confidence[there] = np.round(p.max(axis=1), 12)  # sums in another order make no other answer the surest
    answer = rows.answer.iloc[there]
    known = np.flatnonzero(answer.notna())
    truth = p[known, answer.iloc[known].astype(int)] if len(known) else np.zeros(0)
    brier[there[known]] = np.square(p[known]).sum(axis=1) - 2 * truth + 1
    rows["confidence"], rows["brier"] = confidence, brier
    rows["base_confidence"] = base_value(rows, "confidence")
    rows["right"] = (rows.prediction == rows.answer) * 1.0
    return rows


# --- parts ------------------------------------------------------------------------------------------------------------


def _answered(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with an answer among several options, of samples with a base."""
    return rows[rows.prediction.notna() & rows.base.notna() & (rows.options > 1)]


def _with_base(rows: pd.DataFrame) -> pd.DataFrame:
    """The base rows under the family `base`, then the perturbed ones with their union."""
    return pd.concat([rows[rows.is_base], with_union(rows)], ignore_index=True)


def _families(rows: pd.DataFrame) -> list[str]:
    return ["base"] * bool((rows.family == "base").any()) + family_order(rows)


def _bins(bins: int) -> list[str]:
    return [f"bin_{i}" for i in range(bins)]


def _if_calibrated(rows: pd.DataFrame, bins: int, seed: int) -> dict[str, float]:
    """The ECE of a calibrated model with these confidences, and p of ECE, gap and change.

    All answers on one image are drawn right or wrong by one number, which is the strongest dependence there can be:
    p is too large rather than too small. The change's p is that of `rules.sign_flips`.
    """
    if rows["image"].nunique() < FEWEST:
        return dict.fromkeys(("ECE_chance", "ECE_p", "p", "gap_change_p"), np.nan)
    confidence = rows.confidence.to_numpy()
    image = pd.factorize(rows["image"], sort=True)[0]
    binned = np.clip(np.ceil(confidence * bins) - 1, 0, bins - 1).astype(int)

    def sizes(gap: np.ndarray) -> tuple[float, float]:
        sums = np.bincount(binned, gap, bins)
        return np.abs(sums).sum() / len(gap), abs(sums.sum()) / len(gap)

    rng = np.random.default_rng(seed)
    drawn = [sizes(confidence - (rng.random(image.max() + 1)[image] < confidence)) for _ in range(_DRAWS)]
    ours = sizes(rows["gap"].to_numpy())
    p = [(1 + sum(one[i] >= ours[i] - 1e-12 for one in drawn)) / (_DRAWS + 1) for i in (0, 1)]
    row = {"ECE_chance": float(np.mean([one[0] for one in drawn])), "ECE_p": p[0], "p": p[1], "gap_change_p": np.nan}
    if "gap_change" in rows and rows["gap_change"].notna().any():
        row["gap_change_p"] = rules.sign_flips(rows.groupby("image")["gap_change"].sum(), seed)
    return row


def _widen(table: pd.DataFrame, name: str, chance) -> None:
    """Lower the lower end of an ECE's interval by the ECE that chance gives, by which the ECE itself is too large."""
    table[f"{name}_low"] = (table[f"{name}_low"] - chance).clip(lower=0)


def _decided(table: pd.DataFrame, rows: pd.DataFrame, name: str, prefix: str, words) -> pd.DataFrame:
    """The table with the Holm-adjusted p and the verdict of one of its differences."""
    alike = []
    for family in table.index:
        own = rows[(rows.family == family) & rows[name].notna()]
        if name == "gap_change":
            ends = stats.difference(own.gap, own.one, own.base_gap, own.one, own["image"], level=0.9)
        else:
            ends = stats.mean(own[name], own["image"], level=0.9)
        alike.append(bool(len(ends) and ends.low.iloc[0] > -WITHIN and ends.high.iloc[0] < WITHIN))
    row = {f"difference{end}": table[f"{name}{end}"] for end in ENDS}
    row |= {"images": table["images"], "p": table[f"{prefix}p"], "alike": alike}
    decided = rules.decide(pd.DataFrame(row, index=table.index), words)
    told = table[f"{prefix}p"].notna() | (table["images"] < FEWEST)
    table[f"{prefix}p_holm"], table[f"{prefix}verdict"] = decided["p_holm"], decided["verdict"].where(told, "")
    return table


def _surest_first(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by falling confidence, with `error`: 1 - right, averaged over equal confidences, whose order is none."""
    rows = rows.assign(rank=-rows.confidence, error=1 - rows.right)
    rows["error"] = rows.groupby("rank")["error"].transform("mean")
    return rows.sort_values(["rank", "sample"], kind="stable")


def _aurc(rows: pd.DataFrame, place: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Area under risk against coverage, the mean over k of the error rate of the k surest answers: a `tabulate` column.

    Its values without each image are those of the linear approximation (the infinitesimal jackknife).
    """

    def area(own: pd.DataFrame) -> tuple[float, np.ndarray]:
        own = _surest_first(own)
        error, k = own["error"].to_numpy(), np.arange(1, len(own) + 1)
        risk = error.cumsum() / k
        after, risk_after = (part[::-1].cumsum()[::-1] for part in (1 / k, risk / k))  # over all that come no earlier
        pull = risk - risk.mean() + error * after - risk_after
        return risk.mean(), pd.Series(pull / len(own)).groupby(own["image"].to_numpy()).sum().to_numpy()

    return _by_place(rows, place, n, area)


def _auroc(rows: pd.DataFrame, place: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """How well a low base confidence tells flipped from kept answers: a `tabulate` column (DeLong's parts by image)."""

    def area(own: pd.DataFrame) -> tuple[float, np.ndarray]:
        flip, unsure = own.flip.to_numpy(bool), -own.base_confidence.to_numpy()
        flips, kept = flip.sum(), (~flip).sum()
        if not flips or not kept:
            return np.nan, np.zeros(0)
        ranks = rankdata(unsure)
        part = np.empty(len(own))  # of the other side, the share on the right side of this row
        part[flip] = (ranks[flip] - rankdata(unsure[flip])) / kept
        part[~flip] = 1 - (ranks[~flip] - rankdata(unsure[~flip])) / flips
        value = part[flip].mean()
        pull = (part - value) / np.where(flip, flips, kept)
        return value, pd.Series(pull).groupby(own["image"].to_numpy()).sum().to_numpy()

    return _by_place(rows, place, n, area)


def _by_place(rows: pd.DataFrame, place: np.ndarray, n: int, area) -> dict[str, np.ndarray]:
    """A number in [0, 1] and its interval for every group, from a function to the number and each image's pull."""
    ends = np.full((3, n), np.nan)
    for i in np.unique(place):
        own = rows[place == i]
        value, pull = area(own)
        ends[0, i] = value
        if len(pull) >= FEWEST:
            ends[1:, i] = interval(value, value - pull, "rate", trials=own.groupby("image").size())
    return dict(zip(ENDS, ends, strict=True))
