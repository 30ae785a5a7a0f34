"""The finding in a few sentences, computed from the records."""

import pandas as pd

from vfkit.metrics.drift import drift_table
from vfkit.metrics.labels import accuracy_table, flip_table


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
    if not (records.family == "base").any():
        return f"No sample of {dataset} was read by {model}: see the errors."
    flips = flip_table(records).set_index("family")
    sentences = [*_accuracy(records, model, dataset), *_flips(flips)]
    if controls is not None and len(controls):
        sentences += _inside(drift_table(records, vectors, controls))
    if "identity" in flips.index:
        sentences.append(
            f"Reading the same pixels again flips {100 * flips.loc['identity'].IFR:.1f} %: the noise floor."
        )
    return " ".join(sentences)


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
            f"Of {int(row.instances):,} changes that keep the meaning, {_percent(row, 'IFR')} flip the answer, and "
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
        f"far as another image moves it; {_percent(every, 'hidden')} of all changes keep the answer and yet move that "
        "state further than the closest twentieth of other images does: hidden instability."
    ]


def _percent(row: pd.Series, name: str) -> str:
    value, low, high = (100 * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.1f} %" + (f" [{low:.1f}, {high:.1f}]" if low == low else "")
