"""The finding of a V-FAT study in Markdown bullets, computed from its tables by `vfkit.metrics.rules`."""

import pandas as pd

from vfkit.metrics import rules, stats
from vfkit.metrics.frames import need
from vfkit.metrics.vfat import ALL, ANSWER, vfat_scores
from vfkit.metrics.vfat_compare import vfat_differences, vfat_interaction, vfat_pressure, vfat_transitions

BASELINE = "L0"  # the neutral prompt on the ordinary image; VF pools three levels, not this one
HELD = {"kept: vision": "truth stayed truth", "kept: bias": "trap stayed trap", "kept: other": "neither stayed"}
PROBES = {"mcq": "ctx_mcq", "oe": "ctx_open"}  # each format's state is that of its own prompt


def vfat_finding(answers: pd.DataFrame, drift: pd.DataFrame | None = None, reading: str = "generation") -> str:
    """How well each model sees, what a misleading sentence costs it, which is trapped more, and what moves inside.

    Args:
        answers: of `vfat_answers`, of one or more models (column `model`); the first two are held against each other.
        drift: of `vfat_drift`, of one or more models (column `model`).
        reading: which answers to speak of; without any, those by log-likelihood.

    Returns:
        Markdown bullets. Tests are Holm-adjusted over the models (the cost of the sentence) or levels (the comparison)
        that a bullet names.
    """
    need(answers, "answers", *ANSWER)
    every = answers.assign(model=answers["model"] if "model" in answers else "the model")
    reading = reading if (every["reading"] == reading).any() else "likelihood"
    own = every[every["reading"] == reading]
    own = own[own["rule"] == own["rule"].iloc[0]] if len(own) else own
    if own.empty:
        return "No answer was read: see the errors."
    levels = own[own["level"] != BASELINE]
    models = list(levels["model"].unique())
    lines = [_overall(row) for _, row in vfat_scores(levels, ()).iterrows()]
    lines += _readings(every[every["level"] != BASELINE])
    pressure, moves = (_widest(make(levels)) for make in (vfat_pressure, vfat_transitions))
    pressure = pressure[pressure["measure"] == "mAcc"]
    pressure = pressure.assign(p_holm=stats.holm(pressure["p"]))
    for model in models:
        lines += _told(model, pressure, moves)
    if len(models) > 1:
        lines += _against(*(levels[levels["model"] == model] for model in models[:2]))
    if set(own["level"]) > {BASELINE}:
        lines += [_together(row) for _, row in _widest(vfat_interaction(own)).iterrows()]
    if drift is not None:
        drift = drift if "model" in drift else drift.assign(model=own["model"].iloc[0])
        for model in models:
            lines += _inside(model, drift[drift["model"] == model])
    return "\n".join(f"- {line}" for line in lines)


def _overall(row: pd.Series) -> str:
    return (
        f"{row.model} names what the image shows in {rules.shown(row, 'mAcc')} of {row.n:,} answers to "
        f"{row['items']:,} items, and what it was baited with in {rules.shown(row, 'mTDS')}: "
        f"VRS {rules.shown(row, 'VRS', 1, 2, '')}."
    )


def _readings(answers: pd.DataFrame) -> list[str]:
    """Where the readings of one model's multiple-choice answers disagree, how far."""
    lines = []
    scores = vfat_scores(answers[answers["format"] == "mcq"], (), pool=False)
    for model, part in scores.groupby("model", sort=False):
        low, high = part.loc[part["mAcc"].idxmin()], part.loc[part["mAcc"].idxmax()]
        if low["mAcc_high"] < high["mAcc_low"]:
            names = [row["reading"] + (f" by rule {row['rule']}" if row["rule"] else "") for row in (low, high)]
            lines.append(
                f"How multiple-choice answers are read decides for {model}: {rules.shown(low, 'mAcc')} see by "
                f"{names[0]}, {rules.shown(high, 'mAcc')} by {names[1]}."
            )
    return lines


def _told(model: str, pressure: pd.DataFrame, moves: pd.DataFrame) -> list[str]:
    """What the asserted sentence does on the same image: L1 against L3."""
    table = pressure[(pressure["model"] == model) & (pressure["n"] > 0)]
    if table.empty:
        return []
    row = table.iloc[0]
    change = rules.shown(row, "delta", unit=" points", signed=True)
    what = {
        -1: f"costs {model} accuracy: {change}",
        1: f"helps {model}: {change} of accuracy",
        0: f"leaves it undecided whether {model} loses accuracy: {change}",
    }[rules.side(row, "delta")]
    line = f"On the same image, a misleading sentence {what} (n = {row['n']:,} pairs on {row['clusters']:,} items)"
    here = moves[(moves["model"] == model) & (moves["first"] == "L1") & (moves["second"] == "L3")]
    here = here[(here["start"] == "vision") & (here["end"] == "bias") & (here["starts"] > 0)]
    if here.empty:
        return [line + "."]
    move = here.iloc[0]
    return [f"{line}; of its {move['starts']:,} answers that saw, {rules.shown(move, 'rate')} turn to the trap."]


def _against(first: pd.DataFrame, second: pd.DataFrame) -> list[str]:
    """Which of two models is better off, level by level."""
    names = [side["model"].iloc[0] for side in (first, second)]
    table = vfat_differences(first, second, by=("level",), measures=("VRS",))
    table = table[table["level"] != ALL]
    if table.empty:
        return [f"{names[0]} and {names[1]} share no question."]
    table = table.assign(p_holm=stats.holm(table["p"]))
    apart = [row for _, row in table.iterrows() if rules.side(row, "delta")]
    if not apart:
        return [f"On the questions both answered, no level tells the VRS of {names[0]} and {names[1]} apart."]
    said = ", ".join(f"{row['level']} {rules.shown(row, 'delta', 1, 2, '', signed=True)}" for row in apart)
    rest = len(table) - len(apart)
    others = f"; undecided at {rest} other level{'s' * (rest > 1)}" if rest else ""
    return [f"On the questions both answered, the VRS of {names[0]} minus that of {names[1]} is {said}{others}."]


def _together(row: pd.Series) -> str:
    change = rules.shown(row, "interaction", unit=" points", signed=True)
    what = {
        "worse together": "do more harm together than one by one",
        "better together": "do less harm together than one by one",
    }.get(row["verdict"], "add up or not: undecided")
    return (
        f"For {row['model']}, the atypical image ({100 * row['image']:+.1f} points) and the misleading sentence "
        f"({100 * row['sentence']:+.1f}) {what}: interaction {change}, n = {row['n']:,}."
    )


def _inside(model: str, drift: pd.DataFrame) -> list[str]:
    """Of the state before an answer to the format's own prompt: how far the sentence moves it where the answer held."""
    lines = []
    for family, part in drift.groupby("family", sort=False):
        form = family.split()[0]
        part = part[part["probe"] == PROBES.get(form, "ctx_open")].set_index("answer")
        held = [name for name in HELD if name in part.index and part.loc[name, "samples"]]
        moved = [
            f"{rules.shown(part.loc[name], 'percent_same_question', 1, 0)} where {HELD[name]} "
            f"(n = {part.loc[name, 'samples']:,})"
            for name in held
            if part.loc[name, "percent_same_question"] == part.loc[name, "percent_same_question"]
        ]
        if moved:
            lines.append(
                f"Inside {model} ({family}), the sentence moves `{part['probe'].iloc[0]}`, in per cent of how "
                f"far another image moves it: {', '.join(moved)}."
            )
    return lines


def _widest(table: pd.DataFrame) -> pd.DataFrame:
    """Formats pooled, where there is more than one."""
    return table[table["format"] == ALL] if (table["format"] == ALL).any() else table
