"""The findings of notebooks 01 and 02 in Markdown bullets, computed from tables by `vfkit.metrics.rules`."""

import pandas as pd

from vfkit.metrics import rules, stats
from vfkit.metrics.drift import drift_table
from vfkit.metrics.flips import accuracy_table, flip_table
from vfkit.metrics.frames import counted_rows, need, rows_of
from vfkit.metrics.scaling import size_name
from vfkit.perturb import HI_FAMILIES

BETTER, WORSE = "it improves, fewer samples flip in the larger model", "it gets worse, more samples flip in the larger"


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
    lines = [*_accuracy(records, model, dataset), *_flips(flips, counted_rows(rows_of(records)))]
    if controls is not None and len(controls):
        lines += _inside(drift_table(records, vectors, controls))
    if "identity" in flips.index and flips.loc["identity"].instances:
        lines.append(f"{rules.shown(flips.loc['identity'], 'IFR')} flip where the same pixels are read again.")
    return "\n".join(f"- {line}" for line in lines)


def scale_finding(
    table: pd.DataFrame, differences: pd.DataFrame, ranks: pd.DataFrame, flips: pd.DataFrame, models: pd.DataFrame
) -> str:
    """Is a larger model more often right, and is it steadier? Do models agree on what flips most? Markdown bullets.

    Verdicts are on IV, of the union, between sizes of one series; Holm's adjustment is over all such pairs.

    Args:
        table, differences, ranks: of `scale_summary`, `scale_differences`, `rank_agreement`; flips: `flip_table` by
            model. models: who takes part.
    """
    need(table, "table", "dataset", "samples")
    pooled = differences[(differences["measure"] == "IV") & differences["family"].map(_is_pooled)]
    pair = ["dataset", "smaller", "larger"]
    pooled = pooled.groupby(pair, sort=False).tail(1)  # without a union, the one family there is
    pooled = rules.decide(pooled, (WORSE, BETTER, ""))
    lines = []
    for dataset, own in table.groupby("dataset", sort=False):
        lines.append(_range(dataset, own))
        of = {
            name: frame[frame["dataset"] == dataset]
            for name, frame in (("differences", differences), ("ranks", ranks), ("pooled", pooled))
        }
        for series, group in models.groupby("series", sort=False):
            here = (of[name][of[name]["series"] == series] for name in ("differences", "pooled"))
            lines.append(_series(series, group, *here))
        lines.append(_order(of["ranks"], flips[(flips["dataset"] == dataset) & flips["family"].isin(HI_FAMILIES)]))
    return "\n".join(f"- {line}" for line in lines if line)


def _range(dataset: str, own: pd.DataFrame) -> str:
    text = f"{dataset}: on the {int(own.samples.iloc[0]):,} samples that all {len(own)} models answered, "
    parts = []
    for name, what in (("accuracy", "accuracy"), ("union_IV", "the share of samples that flip at least once")):
        if own[name].notna().any():
            low, high = own.loc[own[name].idxmin()], own.loc[own[name].idxmax()]
            ends = (f"{rules.shown(row, name)} ({row.model})" for row in (low, high))
            parts.append(f"{what} goes from {' to '.join(ends)}")
    return text + " and ".join(parts) + "."


def _series(series: str, group: pd.DataFrame, differences: pd.DataFrame, pooled: pd.DataFrame) -> str:
    """The largest model of a series against the smallest; between them, how many pairs say the same."""
    if not len(differences):
        return f"{series}: one size only, so nothing is said of scale." if len(group) else ""
    pair = ["smaller", "larger"]
    first = differences.loc[differences["times"].idxmax(), pair]
    whole = differences[(differences[pair] == first).all(axis=1)]
    sizes = group.set_index("model")["params"].map(size_name)
    text = f"{series}: from {first.smaller} ({sizes[first.smaller]}) to {first.larger} ({sizes[first.larger]}), "
    text += f"{whole['times'].iloc[0]:.2g} times the size, "
    iv = pooled[(pooled[pair] == first).all(axis=1)]
    overlay = whole[(whole["measure"] == "IFR") & (whole["family"] == "text_overlay")]
    wanted = {"accuracy": whole[whole["measure"] == "accuracy"], "IV": iv, "the text overlay's IFR": overlay}
    changes = (
        f"{what} changes by {rules.shown(row.iloc[0], 'difference', unit=' points', signed=True)}"
        for what, row in wanted.items()
        if len(row)
    )
    text += ", ".join(changes) + "."
    if len(iv):
        verdict = iv["verdict"].iloc[0]
        text += f" Does robustness change with scale: {verdict} (n = {iv['images'].iloc[0]:,} images)."
    if len(pooled) > 1:
        better, worse = ((pooled["verdict"] == word).sum() for word in (BETTER, WORSE))
        text += (
            f" Of all {len(pooled)} pairs of sizes, the larger model is steadier in {better}, less steady in {worse}."
        )
    return text


def _is_pooled(family: str) -> bool:
    return family in HI_FAMILIES or family.startswith("union (")


def _order(ranks: pd.DataFrame, flips: pd.DataFrame) -> str:
    means = ranks[(ranks["model"] == "mean") & ranks["rho"].notna()]
    means = means.assign(p_holm=stats.holm(means["p"]))
    sentences = []
    for kind, what in (("other", "different series"), ("same", "one series")):
        for row in means[means["series"] == kind].itertuples():
            shared = "shared beyond chance" if row.p_holm < rules.ALPHA else "not shown to be shared"
            pairs = f"{row.pairs} pair{'s' * (row.pairs > 1)} of models of {what}"
            sentences.append(f"{row.rho:.2f} over {pairs} ({shared}, Holm-adjusted p = {row.p_holm:.3f})")
    text = f"The order of the perturbations agrees with a mean rank correlation of {', and '.join(sentences)}. "
    if not (flips["IFR"] > 0).any():
        return "No answer flipped."
    moved = flips[(flips["IFR"] > 0) & flips["IFR_low"].notna()]
    if not len(moved):
        return f"What flips most: {rules.FEW_IMAGES}."
    most = moved.loc[moved.groupby("model", sort=False)["IFR"].idxmax(), "family"].value_counts()
    most = ", ".join(f"{family.replace('_', ' ')} in {count}" for family, count in most.items())
    return (text if sentences else "") + f"What flips most: {most} of {flips['model'].nunique()} models."


def _accuracy(records: pd.DataFrame, model: str, dataset: str) -> list[str]:
    row = accuracy_table(records).set_index(["family", "category"]).loc[("base", "all")]
    if not row.samples:
        return [f"None of the samples of {dataset} has a known answer."]
    right, chance = rules.shown(row, "accuracy"), f"{100 * row.chance:.0f} %"
    samples = f"{int(row.samples):,} samples of {dataset}"
    return [f"{right} of {samples} are answered rightly by {model}, where chance is {chance}."]


def _flips(flips: pd.DataFrame, counted: pd.DataFrame) -> list[str]:
    sentences = []
    for family in flips.index[flips.index.str.startswith("union")]:
        row = flips.loc[family]
        of = f"{int(row.instances):,} changes meant to keep the meaning"
        sentences.append(f"{rules.shown(row, 'IFR')} of {of} flip the answer.")
        sentences.append(f"{rules.shown(row, 'IV')} of the samples flip at least once.")
    single = flips[
        ~flips.index.str.startswith("union") & ~flips.index.isin(["identity", "blank"]) & (flips.instances > 0)
    ]
    enough = single[single.IFR_low.notna()]
    if len(single) and not len(enough):
        sentences.append(f"What flips it most: {rules.FEW_IMAGES}.")
    elif len(enough) > 1 and enough.IFR.max() > 0:
        first, second = (enough.loc[name] for name in enough.IFR.sort_values(ascending=False, kind="stable").index[:2])
        shown = [f"{rules.shown(row, 'IFR')} under {row.name.replace('_', ' ')}" for row in (first, second)]
        if _flips_most(counted, first.name, enough.index):
            sentences.append(f"{shown[0]}, which flips most.")
        else:
            sentences.append(f"{shown[0]} and {shown[1]} are the highest rates; which flips most is not settled.")
    return sentences


def _flips_most(counted: pd.DataFrame, family: str, families: pd.Index) -> bool:
    """Whether a family flips more than each of the others on the samples that both have: every one of the tests must
    say so, hence none is adjusted."""
    own = counted[counted.family == family]
    tests = (rules.contrast(own, counted[counted.family == other]) for other in families if other != family)
    return all(rules.side(test, p="p") == 1 for test in tests)


def _inside(drift: pd.DataFrame) -> list[str]:
    """Of the default probe: the last context token of the open prompt, after the final norm, cosine distance."""
    whole = drift[drift.family.str.startswith("union")].set_index("answer")
    if not len(whole) or not whole.loc["all", "instances"]:
        return []
    kept, every = whole.loc["kept"], whole.loc["all"]
    if not (kept.percent_same_question_low == kept.percent_same_question_low and every.hidden_low == every.hidden_low):
        return [f"Whether the state moves where the answer stays: {rules.FEW_IMAGES}."]
    return [
        f"Where the answer stays, the state before an open answer moves "
        f"{rules.shown(kept, 'percent_same_question', 1, 0)} as far as another image under the same question moves it.",
        f"{rules.shown(every, 'hidden')} of all changes keep the answer and yet move that state further than the "
        "closest twentieth of other images does: hidden instability.",
    ]
