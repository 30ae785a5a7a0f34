"""Tables of the spectral suite: noise, ablation, thresholds, attacks and their measured sizes (HI 6, F; METHODS 11).

What counts, what a flip is, and the intervals are as in `vfkit.metrics.flips`. Parameters of an instance come from its
record's `params`. eps, maxima and RMS are given in grey levels: 8 is 8/255 of the range of pixel values.
"""

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import rules, stats
from vfkit.metrics.frames import counted_rows, need, numbers, require, rows_of
from vfkit.metrics.tabulate import average, count, distinct, largest, mean, rate, spread, tabulate, total
from vfkit.perturb import ATTACKS
from vfkit.readout.rules import predict, scores

NOISE = ("noise_low", "noise_high", "noise_all")
ABLATIONS = ("low_pass", "high_pass")
_TESTS = ["difference", "difference_low", "difference_high", "p"]
_QUARTILES = {"lower": 0.25, "median": 0.5, "upper": 0.75}


_RATES = {"samples": distinct("sample"), "images": distinct("image"), "instances": count(), "IFR": rate("flip")}
_RATES |= {"margin": mean("base_label"), "margin_sd": spread("base_label")}


def noise_table(records: pd.DataFrame) -> pd.DataFrame:
    """Flip rate and margins by band, scaling and eps (HI F.1).

    Returns:
        Rows (`family`, `scaling`, `eps`): `samples`, `instances`, `IFR` and the base-label `margin` with their
        intervals, `margin_sd` over instances, and the mean `rms` and `max_abs` of the noise in the 8-bit image.
    """
    rows = spectral_rows(records, NOISE, "scaling", "eps", "rms", "max_abs")
    index = _index(rows, NOISE, "scaling", "eps")
    return tabulate(rows, index, _RATES | {"rms": average("rms"), "max_abs": average("max_abs")}).reset_index()


def ablation_table(records: pd.DataFrame) -> pd.DataFrame:
    """Flip rate and margins by what is kept, low or high frequencies, and the cutoff (HI F.2).

    Returns:
        Rows (`family`, `cutoff`), else as `noise_table`.
    """
    rows = spectral_rows(records, ABLATIONS, "cutoff")
    return tabulate(rows, _index(rows, ABLATIONS, "cutoff"), _RATES).reset_index()


def thresholds(records: pd.DataFrame) -> pd.DataFrame:
    """Cutoff at which each sample's answer leaves the clean one and stays away (HI F.2).

    Low-pass: the largest cutoff at and below which every answer differs from the clean one. High-pass: the smallest at
    and above which every one does.

    Returns:
        `family`, `sample_id`, `image_id`, `cutoffs` read, `threshold`; NaN where the answer never stays away.
    """
    rows = spectral_rows(records, ABLATIONS, "cutoff").sort_values(["sample", "family"])
    left = []
    for (family, sample), part in rows.groupby(["family", "sample"], sort=False):
        part = part.sort_values("cutoff", ascending=family == "low_pass")
        away = part.flip.cumprod().to_numpy(bool)  # from the end where least is left, as long as it stays away
        threshold = part.cutoff.to_numpy()[away][-1] if away.any() else np.nan
        left.append((family, sample, part.image.iloc[0], len(part), threshold))
    return pd.DataFrame(left, columns=["family", "sample_id", "image_id", "cutoffs", "threshold"])


def threshold_table(records: pd.DataFrame) -> pd.DataFrame:
    """Thresholds by family.

    Returns:
        `samples`; `left`, how many answers leave, and `left_share` of the samples; of those that do, the mean
        `threshold` with its interval, and `lower`, `median`, `upper` quartile.
    """
    samples = thresholds(records).astype({"threshold": float}).rename(columns={"image_id": "image"})
    samples["left"] = samples.threshold.notna()
    columns = {"samples": count(), "images": distinct("image"), "left": total("left"), "left_share": rate("left")}
    table = tabulate(samples, _index(samples, ABLATIONS), columns | {"threshold": mean("threshold")})
    quantiles = {name: samples.groupby("family")["threshold"].quantile(q) for name, q in _QUARTILES.items()}
    return table.assign(**quantiles).reset_index()


def attack_table(records: pd.DataFrame, rule: str = "paper") -> pd.DataFrame:
    """Attack success beside noise of the same band and size (HI F.3).

    Success: the answer flipped **and** the score of the base answer fell; with a target, the answer is the target. Of
    attacks on the label's copy only, the attacked label's score on the changed image is held against the other options'
    on the clean one, as HI's program does; so is that of their noise.

    Args:
        rule: the study's scoring rule.

    Returns:
        Rows (`family`, `eps`, `target`): `samples` attacked, `success_rate` and `flip_rate` (answers changed); `right`,
        those whose clean answer is the true one, and their own `success_rate_right`; `control_rate`, the flip rate of
        the noise, and the paired `difference` success - control, all with intervals; `p` of the sign-flip test over
        images (`rules.contrast`) and `p_holm`; and `not_applicable`.
    """
    need(records, "records", "answer")
    rows = attack_rows(records, rule)
    keys = ["family", "eps", "target"]
    rows["right"] = rows.base == numbers(records["answer"])[rows["at"]]  # without a known answer: not
    rows["success_right"] = rows.success.astype(bool) & rows.right
    own, noise = rows[~rows.noise], rows[rows.noise]
    columns = {"samples": distinct("sample"), "images": distinct("image")}
    columns |= {"success_rate": rate("success"), "flip_rate": rate("flip"), "right": total("right")}
    columns |= {"success_rate_right": rate("success_right", "right")}
    table = tabulate(own, _index(own, ATTACKS, "eps", "target"), columns)
    table = table.join(tabulate(noise, _index(own, ATTACKS, "eps", "target"), {"control_rate": rate("flip")}))
    own, noise = own.assign(hit=own.success.astype(float)), noise.assign(hit=noise.flip.astype(float))
    pairs = [[part[(part[keys] == list(key)).all(axis=1)] for part in (own, noise)] for key in table.index]
    tests = [rules.contrast(*pair, events="hit") for pair in pairs]
    table = table.join(pd.DataFrame(tests, index=table.index, columns=_TESTS))
    table["not_applicable"] = _not_applicable(records).reindex(table.index, fill_value=0)
    if len(table):
        table["p_holm"] = stats.holm(table["p"])
    return table.reset_index()


def trace_table(records: pd.DataFrame) -> pd.DataFrame:
    """The margin that an attack lowers, step by step, each step read as an 8-bit image: rows (`family`, `eps`, `step`)
    with `samples` and the mean `margin` with its interval. Step 0 is the clean image."""
    rows = spectral_rows(records, ATTACKS, "eps", "trace", "target")
    rows = rows[rows.target == ""]
    rows = rows.assign(step=rows.trace.map(lambda trace: list(range(len(trace))))).explode(["trace", "step"])
    rows["margin"] = rows.trace.astype(float)
    columns = {"samples": distinct("sample"), "images": distinct("image"), "margin": mean("margin")}
    return tabulate(rows, _index(rows, ATTACKS, "eps", "step"), columns).reset_index()


def audit_table(records: pd.DataFrame) -> pd.DataFrame:
    """Measure perturbations in the 8-bit image, against their band and bounds.

    Returns:
        Rows (`family`, `scaling`, `eps`): `instances`; `max_abs` (the largest of all), mean `rms`, both after rounding
        to 8 bits; mean and largest `leakage`, the share of energy outside the band, before rounding (attacks) and
        after it (`leakage_8bit`); `within_share` of instances whose largest value is at most eps + half a grey level
        (noise scaled by RMS has no such bound).
    """
    families = (*NOISE, *(f"{family}{end}" for family in ATTACKS for end in ("", "_noise")))
    rows = spectral_rows(records, families, "scaling", "eps", "rms", "max_abs", "leakage", "leakage_8bit")
    rows["scaling"] = rows.scaling.fillna("max")
    rows["within"] = (rows.max_abs <= rows.eps + 0.5 + 1e-4).astype(float).where(rows.scaling == "max")
    index = _index(rows, families, "scaling", "eps")
    columns = {"instances": count(), "max_abs": largest("max_abs"), "rms": average("rms")}
    for name in ("leakage", "leakage_8bit"):
        columns |= {name: average(name), f"{name}_max": largest(name)}
    return tabulate(rows, index, columns | {"within_share": average("within")}).reset_index()


# --- rows -------------------------------------------------------------------------------------------------------------


def spectral_rows(records: pd.DataFrame, families: Sequence[str], *names: str) -> pd.DataFrame:
    """The counted rows of the families, with these of their parameters (NaN where one has none), levels in greys."""
    require(records, "margin", "base_margin", "params")
    rows = rows_of(records, "margin", "base_margin").assign(at=np.arange(len(records)))
    rows = counted_rows(rows[rows.family.isin(families) | rows.is_base])
    texts = records["params"].to_numpy()[rows["at"]]
    known = {text: json.loads(text) for text in set(texts)}
    params = [known[text] for text in texts]
    for name in names:
        values = [each.get(name) for each in params]
        grey = name in ("eps", "rms", "max_abs")
        rows[name] = [round(255 * float(v), 4) for v in values] if grey else pd.Series(values, rows.index, dtype=object)
        if name in ("cutoff", "leakage", "leakage_8bit"):
            rows[name] = numbers(rows[name])
    return rows


def attack_rows(records: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Attacks and their controls, `family` naming the attack: `noise`, `flip`, `success`."""
    families = [f"{family}{end}" for family in ATTACKS for end in ("", "_noise")]
    rows = spectral_rows(records, families, "eps", "target", "label", "copies")
    rows["noise"] = rows.family.str.endswith("_noise")
    rows["family"] = rows.family.str.removesuffix("_noise")
    base = records[records["family"] == "base"]
    clean = {row.sample_id: _scores(row, rule) for row in base.itertuples()}
    now = [_scores(row, rule) for row in records.iloc[rows["at"]].itertuples()]
    label = pd.to_numeric(rows.label).to_numpy(float)
    for place, row in enumerate(rows.itertuples()):
        if row.copies == "label_only":
            one = int(label[place])
            now[place] = np.where(np.arange(len(now[place])) == one, now[place], clean[row.sample])
            rows.loc[row.Index, "prediction"] = predict(now[place])[0]
    rows["flip"] = rows.prediction != rows.base
    before = [clean[row.sample][int(row.base)] for row in rows.itertuples()]
    fell = np.array([one[int(base)] for one, base in zip(now, rows.base, strict=True)]) < np.array(before)
    reached = rows.prediction.to_numpy() == label
    rows["success"] = np.where(rows.target == "", rows.flip & fell, reached)
    return rows


def _not_applicable(records: pd.DataFrame) -> pd.Series:
    """Attacks that could not be (one option; the answer is the target), by family, eps and target."""
    left = records[records["family"].isin(ATTACKS) & ~records["applicable"]]
    params = [json.loads(text) for text in left["params"]]
    keys = {"eps": [round(255 * each["eps"], 4) for each in params], "target": [each["target"] for each in params]}
    return pd.DataFrame({"family": left["family"]} | keys).groupby(["family", *keys]).size()


def _scores(row, rule: str) -> np.ndarray:
    parts = {name: getattr(row, name) for name in ("logp_text", "logp_end", "n_tokens", "logp_letter")}
    return scores(rule, **parts)


def _index(rows: pd.DataFrame, families: Sequence[str], *names: str) -> pd.Index:
    """The groups that occur: families in their order, then by the other columns."""
    if not names:
        return pd.Index([family for family in families if (rows.family == family).any()], name="family", dtype=object)
    order = {family: i for i, family in enumerate(families)}
    groups = rows[["family", *names]].drop_duplicates()
    groups = groups.sort_values(list(groups), key=lambda c: c.map(order) if c.name == "family" else c)
    return pd.MultiIndex.from_frame(groups)
