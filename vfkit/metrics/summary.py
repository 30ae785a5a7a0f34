"""The finding in a few sentences, computed from the records."""

import pandas as pd

from vfkit.metrics.drift import drift_table
from vfkit.metrics.flips import accuracy_table, flip_table
from vfkit.metrics.frames import need
from vfkit.metrics.scaling import size_name
from vfkit.perturb import HI_FAMILIES


def finding(
    records: pd.DataFrame,
    model: str,
    dataset: str,
    vectors: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
) -> str:
    """How often the model is right, how often its answer flips and by what, and what moves where the answer stays.

    Args:
        model, dataset: what the sentences call them.
        vectors, controls: of a run with probes; without them nothing is said of the inside.
    """
    need(records, "records", "family")
    if not (records.family == "base").any():
        return f"No sample of {dataset} was read by {model}: see the errors."
    flips = flip_table(records).set_index("family")
    sentences = [*_accuracy(records, model, dataset), *_flips(flips)]
    if controls is not None and len(controls):
        sentences += _inside(drift_table(records, vectors, controls))
    if "identity" in flips.index and flips.loc["identity"].instances:
        sentences.append(
            f"Reading the same pixels again flips {100 * flips.loc['identity'].IFR:.1f} %: the noise floor."
        )
    return " ".join(sentences)


def scale_finding(
    table: pd.DataFrame, differences: pd.DataFrame, ranks: pd.DataFrame, flips: pd.DataFrame, models: pd.DataFrame
) -> str:
    """Is a larger model more often right, and is it steadier? Do models agree on what flips most? A line each.

    Args:
        table, differences, ranks: of `scale_summary`, `scale_differences`, `rank_agreement`; flips: `flip_table` by
            model. models: who takes part.
    """
    need(table, "table", "dataset", "samples")
    lines = []
    for dataset, own in table.groupby("dataset", sort=False):
        lines.append(_range(dataset, own))
        of = {name: frame[frame["dataset"] == dataset] for name, frame in (("d", differences), ("r", ranks))}
        for series, group in models.groupby("series", sort=False):
            lines.append(_series(series, group, of["d"][of["d"]["series"] == series]))
        lines.append(_order(of["r"], flips[(flips["dataset"] == dataset) & flips["family"].isin(HI_FAMILIES)]))
    return "\n".join(line for line in lines if line)


def _range(dataset: str, own: pd.DataFrame) -> str:
    text = f"{dataset}: on the {int(own.samples.iloc[0]):,} samples that all {len(own)} models answered, "
    parts = []
    for name, what in (("accuracy", "accuracy"), ("union_IV", "the share of samples that flip at least once")):
        if own[name].notna().any():
            low, high = own.loc[own[name].idxmin()], own.loc[own[name].idxmax()]
            parts.append(
                f"{what} goes from {_percent(low, name)} ({low.model}) to {_percent(high, name)} ({high.model})"
            )
    return text + " and ".join(parts) + "."


def _series(series: str, group: pd.DataFrame, differences: pd.DataFrame) -> str:
    """The largest model of a series against the smallest; between them, how many pairs say the same."""
    if not len(differences):
        return f"{series}: one size only, so nothing is said of scale." if len(group) else ""
    pair = ["smaller", "larger"]
    first = differences.loc[differences["times"].idxmax(), pair]
    whole = differences[(differences[pair] == first).all(axis=1)]
    sizes = group.set_index("model")["params"].map(size_name)
    text = f"{series}: from {first.smaller} ({sizes[first.smaller]}) to {first.larger} ({sizes[first.larger]}), "
    text += f"{whole['times'].iloc[0]:.2g} times the size, "
    pooled = differences[(differences["measure"] == "IV") & differences["family"].map(_is_pooled)]
    pooled = pooled.groupby(pair, sort=False).tail(1)  # where there is no union, the one family there is
    iv = pooled[(pooled[pair] == first).all(axis=1)]
    overlay = whole[(whole["measure"] == "IFR") & (whole["family"] == "text_overlay")]
    wanted = {"accuracy": whole[whole["measure"] == "accuracy"], "IV": iv, "the text overlay's IFR": overlay}
    text += ", ".join(f"{what} changes by {_points(row.iloc[0])}" for what, row in wanted.items() if len(row)) + "."
    if len(iv):
        text += f" {_verdict(iv.iloc[0])}"
    if len(pooled) > 1:
        falls, rises = (pooled["difference_high"] < 0).sum(), (pooled["difference_low"] > 0).sum()
        text += f" Of all {len(pooled)} pairs of sizes, IV's interval lies below zero in {falls}, above it in {rises}."
    return text


def _is_pooled(family: str) -> bool:
    return family in HI_FAMILIES or family.startswith("union (")


def _points(row: pd.Series) -> str:
    value, low, high = (100 * row[name] for name in ("difference", "difference_low", "difference_high"))
    return f"{value:+.1f} points" + (f" [{low:+.1f}, {high:+.1f}]" if low == low else "")


def _verdict(iv: pd.Series) -> str:
    if pd.isna(iv.difference_low):
        return "Too few images to say whether robustness improves."
    if iv.difference_high < 0:
        return "Fewer samples flip in the larger model: robustness improves with scale here."
    if iv.difference_low > 0:
        return "More samples flip in the larger model: robustness gets worse with scale here."
    return "The interval of IV's change includes zero: no improvement of robustness with scale is shown here."


def _order(ranks: pd.DataFrame, flips: pd.DataFrame) -> str:
    sentences = []
    for kind, what in (("other", "different series"), ("same", "one series")):
        for row in ranks[(ranks["model"] == "mean") & (ranks["series"] == kind)].itertuples():
            if row.rho == row.rho:
                bounds = f" [{row.rho_low:.2f}, {row.rho_high:.2f}]" if row.rho_low == row.rho_low else ""
                pairs = f"{row.pairs} pair{'s' * (row.pairs > 1)} of models of {what}"
                sentences.append(f"{row.rho:.2f}{bounds} over {pairs}")
    text = f"The order of the perturbations agrees with a mean rank correlation of {', and '.join(sentences)}. "
    moved = flips[flips["IFR"] > 0]
    if not len(moved):
        return "No answer flipped."
    most = moved.loc[moved.groupby("model", sort=False)["IFR"].idxmax(), "family"].value_counts()
    most = ", ".join(f"{family.replace('_', ' ')} in {count}" for family, count in most.items())
    return (text if sentences else "") + f"What flips most: {most} of {flips['model'].nunique()} models."


def _accuracy(records: pd.DataFrame, model: str, dataset: str) -> list[str]:
    row = accuracy_table(records).set_index(["family", "category"]).loc[("base", "all")]
    if not row.samples:
        return [f"None of the samples of {dataset} has a known answer."]
    right, chance = _percent(row, "accuracy"), f"{100 * row.chance:.0f} %"
    return [f"On {int(row.samples):,} samples of {dataset}, {model} answers {right} rightly, where chance is {chance}."]


def _flips(flips: pd.DataFrame) -> list[str]:
    sentences = []
    for family in flips.index[flips.index.str.startswith("union")]:
        row = flips.loc[family]
        sentences.append(
            f"Of {int(row.instances):,} changes meant to keep the meaning, {_percent(row, 'IFR')} flip the answer, and "
            f"{_percent(row, 'IV')} of the samples flip at least once."
        )
    single = flips[~flips.index.str.startswith("union") & (flips.index != "identity") & (flips.instances > 0)]
    if len(single) and single.IFR.max() > 0:
        worst = single.loc[single.IFR.idxmax()]
        sentences.append(f"What flips it most is {worst.name.replace('_', ' ')}: {_percent(worst, 'IFR')}.")
    return sentences


def _inside(drift: pd.DataFrame) -> list[str]:
    """Of the default probe: the last context token of the open prompt, after the final norm, cosine distance."""
    whole = drift[drift.family.str.startswith("union")].set_index("answer")
    if not len(whole) or not whole.loc["all", "instances"]:
        return []
    kept, every = whole.loc["kept"], whole.loc["all"]
    return [
        f"Where the answer stays, the state before an open answer still moves {kept.percent_same_question:.0f} % as "
        "far as another image under the same question moves it; "
        f"{_percent(every, 'hidden')} of all changes keep the answer and yet move that state further than the closest "
        "twentieth of other images does: hidden instability."
    ]


def _percent(row: pd.Series, name: str) -> str:
    value, low, high = (100 * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.1f} %" + (f" [{low:.1f}, {high:.1f}]" if low == low else "")
