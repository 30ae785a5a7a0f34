"""The finding of a V-FAT study in a few sentences, computed from its tables."""

import pandas as pd

from vfkit.metrics.frames import need
from vfkit.metrics.vfat import ALL, ANSWER, vfat_scores
from vfkit.metrics.vfat_compare import vfat_differences, vfat_pressure, vfat_transitions


def vfat_finding(answers: pd.DataFrame, drift: pd.DataFrame | None = None, reading: str = "generation") -> str:
    """How well each model sees, what a misleading sentence costs it, which is trapped more, and what moves inside.

    Args:
        answers: of `vfat_answers`, of one or more models (column `model`); the first two are held against each other.
        drift: of `vfat_drift`, of one or more models (column `model`), probe `ctx_open`.
        reading: which answers to speak of; where there are none, those by log-likelihood.
    """
    need(answers, "answers", *ANSWER)
    own = answers.assign(model=answers["model"] if "model" in answers else "the model")
    reading = reading if (own["reading"] == reading).any() else "likelihood"
    own = own[own["reading"] == reading]
    own = own[own["rule"] == own["rule"].iloc[0]] if len(own) else own
    if own.empty:
        return "No answer was read: see the errors."
    sentences = [_overall(row) for _, row in vfat_scores(own, ()).iterrows()]
    models = list(own["model"].unique())
    pressure, moves = (_widest(make(own)) for make in (vfat_pressure, vfat_transitions))
    for model in models:
        sentences += _told(model, pressure, moves)
    if len(models) > 1:
        sentences += _against(*(own[own["model"] == model] for model in models[:2]))
    if drift is not None:
        drift = drift if "model" in drift else drift.assign(model=models[0])
        for model in models:
            sentences += _inside(model, drift[(drift["model"] == model) & (drift["probe"] == "ctx_open")])
    return " ".join(sentences)


def _overall(row: pd.Series) -> str:
    return (
        f"{row.model} names what the image shows in {_percent(row, 'mAcc')} of {row.n:,} answers, and what it was "
        f"baited with in {_percent(row, 'mTDS')}: VRS {_number(row, 'VRS')}."
    )


def _told(model: str, pressure: pd.DataFrame, moves: pd.DataFrame) -> list[str]:
    """What the asserted sentence does on the same image: L1 against L3."""
    table = pressure[pressure["model"] == model].set_index("measure")
    if table.empty or not table.loc["mAcc", "n"]:
        return []
    row = table.loc["mAcc"]
    value, low, high = (100 * row[name] for name in ("delta", "delta_low", "delta_high"))
    if row["apart"]:
        low, high = sorted((abs(low), abs(high)))
        what = (
            f"{'costs' if value < 0 else 'gives'} {model} {abs(value):.1f} points [{low:.1f}, {high:.1f}] of accuracy"
        )
    else:
        interval = f" [{low:.1f}, {high:.1f}]" if low == low else ""
        what = f"makes no measurable difference to the accuracy of {model}: {value:+.1f} points{interval}"
    sentences = [f"On the same image, a misleading sentence {what} (n = {row['n']:,} pairs)"]
    here = moves[(moves["model"] == model) & (moves["first"] == "L1") & (moves["second"] == "L3")]
    here = here[(here["start"] == "vision") & (here["end"] == "bias") & (here["starts"] > 0)]
    if here.empty:
        return [sentences[0] + "."]
    move = here.iloc[0]
    return [f"{sentences[0]}; of its {move['starts']:,} answers that saw, {_percent(move, 'rate')} turn to the trap."]


def _against(first: pd.DataFrame, second: pd.DataFrame) -> list[str]:
    """Which of two models is better off, level by level, where the interval of the difference excludes 0."""
    names = [side["model"].iloc[0] for side in (first, second)]
    table = _widest(vfat_differences(first, second, measures=("VRS",)))
    if table.empty:
        return [f"{names[0]} and {names[1]} share no question."]
    apart = []
    for _, row in table[table["level"] != ALL].iterrows():
        if row["apart"]:
            bounds = f"{row['delta']:+.2f} [{row['delta_low']:.2f}, {row['delta_high']:.2f}]"
            apart.append(f"{row['level']} {bounds}")
    if not apart:
        return [f"On the questions both answered, the VRS of {names[0]} and {names[1]} differs at no level measurably."]
    return [f"On the questions both answered, the VRS of {names[0]} less that of {names[1]} is {', '.join(apart)}."]


def _inside(model: str, drift: pd.DataFrame) -> list[str]:
    """Of the state before an open answer: how far the sentence moves it where the answer holds."""
    sentences = []
    for family, part in drift.groupby("family", sort=False):
        kept = part.set_index("answer").loc["kept"]
        if kept["samples"] and kept["percent_same_question"] == kept["percent_same_question"]:
            sentences.append(
                f"Inside {model} ({family}, {kept['samples']:,} items whose answer held) the sentence moves the state "
                f"before an open answer {kept['percent_same_question']:.0f} % as far as another image moves it."
            )
    return sentences


def _widest(table: pd.DataFrame) -> pd.DataFrame:
    """Formats pooled, where there is more than one."""
    return table[table["format"] == ALL] if (table["format"] == ALL).any() else table


def _percent(row: pd.Series, name: str) -> str:
    value, low, high = (100 * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.1f} %" + (f" [{low:.1f}, {high:.1f}]" if low == low else "")


def _number(row: pd.Series, name: str) -> str:
    value, low, high = (row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low == low else "")
