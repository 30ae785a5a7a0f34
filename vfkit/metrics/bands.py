"""Low-frequency dominance (H1) or cross-frequency sensitivity (H2)? Three tests, and one finding that weighs them.

HI (section 6) argues for H2 from its attacks. Low and high frequencies are held against each other on the same samples
under noise of equal RMS, under attacks of equal eps, and where one or the other band is taken away (METHODS 11).
"""

import numpy as np
import pandas as pd

from vfkit.metrics import rules
from vfkit.metrics.frames import need
from vfkit.metrics.frequency import attack_rows, spectral_rows

BOUND = 0.25  # share of the mean of both rates within which low and high count as alike
CUTOFF = 0.25  # where the suite parts low from high frequencies
LOW, HIGH, ALIKE = "H1: low flips more", "high flips more", "H2: alike"
TESTS = {
    "noise": "noise of equal RMS",
    "attack": "attacks of equal eps",
    "ablation": "taking a band away",
}
_NAMES = {"first": "low_rate", "second": "high_rate"}


def band_test(
    records: pd.DataFrame,
    attacked: pd.DataFrame | None = None,
    scaling: str = "rms",
    bound: float = BOUND,
    rule: str = "paper",
) -> pd.DataFrame:
    """Rates of low and high frequencies against each other, paired by sample (HI 6, F).

    Args:
        records: of noise and ablation; attacked: of attacks, where there are any.
        scaling: of the noise; `rms` compares bands at equal strength.
        bound: share of the mean of both rates within which they count as alike.
        rule: the study's scoring rule, by which an attack succeeds.

    Returns:
        Rows (`test`, `eps` or `cutoff`): first the three that the finding weighs: `noise` over all sizes at which any
        answer flips, `attack` at the largest eps (success), `ablation` at the cutoff nearest to `CUTOFF` (answers lost
        with the low frequencies against those lost with the high ones), Holm-adjusted together; then noise size by
        size, adjusted among themselves. `samples`, `images`, `eventful` (images with any flip), `low_rate`,
        `high_rate`, `difference` with its interval, `alike`, `p`, `p_holm`, `verdict`, `headline`.
    """
    noise = spectral_rows(records, ("noise_low", "noise_high"), "scaling", "eps")
    noise = noise[noise.scaling == scaling]
    noise = noise.assign(low=noise.family == "noise_low", event=noise.flip)
    moved = noise.groupby("eps").flip.any()
    parts: list[tuple[str, dict[str, float], pd.DataFrame]] = [
        ("noise", {}, noise[noise.eps.isin(moved.index[moved])] if moved.any() else noise)
    ]
    if attacked is not None:
        rows = attack_rows(attacked, rule)
        rows = rows[~rows.noise & rows.family.isin(["pgd_low", "pgd_high"])]
        largest = rows.eps.max()
        rows = rows[rows.eps == largest].assign(low=rows.family == "pgd_low", event=rows.success)
        parts.append(("attack", {"eps": largest}, rows))
    kept = spectral_rows(records, ("low_pass", "high_pass"), "cutoff")
    if len(kept):
        nearest = min(kept.cutoff.unique(), key=lambda cutoff: abs(cutoff - CUTOFF))
        kept = kept[kept.cutoff == nearest]
        parts.append(("ablation", {"cutoff": nearest}, kept.assign(low=kept.family == "high_pass", event=kept.flip)))
    sizes = [("noise", {"eps": eps}, noise[noise.eps == eps]) for eps in sorted(noise.eps.unique())]
    blocks = []
    for headline, block in ((True, parts), (False, sizes)):
        found = [{"test": name} | where | _contrast(rows, bound) for name, where, rows in block]
        if found:
            blocks.append(rules.decide(pd.DataFrame(found), (LOW, HIGH, ALIKE)).assign(headline=headline))
    table = pd.concat(blocks, ignore_index=True).rename(columns=_NAMES).assign(bound=bound)
    first = ["headline", "test", "eps", "cutoff"]
    table = table.reindex(columns=[*first, *(name for name in table if name not in first)])
    return table.astype({"eps": float, "cutoff": float})


def louder(records: pd.DataFrame, most: float, fewest: int = rules.EVENTFUL) -> list[float]:
    """Sizes of noise to read next, in grey levels: twice the largest so far, while too few answers flip to tell.

    Args:
        records: with noise of all sizes read so far. most: the largest size allowed.
        fewest: images (all of them where there are fewer) on which low or high noise is to flip any answer.

    Returns:
        One size; none where enough answers flip, no noise was read, or `most` is reached.
    """
    noise = spectral_rows(records, ("noise_low", "noise_high"), "eps")
    if noise.empty:
        return []
    size, flipped = 2 * float(noise.eps.max()), noise.image[noise.flip].nunique()
    return [size] if flipped < min(fewest, noise.image.nunique()) and size <= most else []


def band_finding(table: pd.DataFrame) -> str:
    """What the three tests of `band_test` say together, in Markdown: one line each, then the weight of all."""
    need(table, "tests", "headline", "test", "eps", "cutoff", "verdict")
    found = table[table["headline"]]
    lines = []
    for _, row in found.iterrows():
        what = TESTS[row["test"]]
        at = f" at {row['eps']:g}/255" if row["eps"] == row["eps"] else ""
        at += f" at cutoff {row['cutoff']:.2f}" if row["cutoff"] == row["cutoff"] else ""
        low, high = (_percent(row[name]) for name in ("low_rate", "high_rate"))
        gap = rules.shown(row, "difference", unit=" points", signed=True)
        lines.append(
            f"- {what[0].upper()}{what[1:]}{at}: low {low}, high {high}, difference {gap} on {row['images']} "
            f"images: {row['verdict']}{_silent(table) if row['test'] == 'noise' else ''}."
        )
    return "\n".join([*lines, f"- {_weighed(found)}"])


def _silent(table: pd.DataFrame) -> str:
    """Up to which size noise flips nothing."""
    sizes = table[~table["headline"] & (table["test"] == "noise")].sort_values("eps")
    silent = sizes["eps"][sizes["eventful"].eq(0).cummin()]
    return f"; up to {silent.max():g}/255 nothing flips" if len(silent) else ""


def _weighed(found: pd.DataFrame) -> str:
    said = set(found["verdict"])
    tests = f"{len(found)} test{'s' * (len(found) > 1)}"
    if LOW in said and HIGH in said:
        return f"The {tests} contradict each other, so neither low-frequency dominance (H1) nor H2 holds in general."
    if said == {ALIKE}:
        return f"Low and high frequencies are alike in all {tests}: cross-frequency sensitivity (H2)."
    for verdict, what in ((LOW, "low frequencies: low-frequency dominance (H1)"), (HIGH, "high frequencies: not H1")):
        where = [TESTS[name] for name in found.loc[found["verdict"] == verdict, "test"]]
        if where:
            rest = len(found) - len(where)
            other = f"; {rest} of {tests} do{'es' * (rest == 1)} not say so" if rest else ""
            return f"More answers are lost to {what}, by {' and '.join(where)}{other}."
    return (
        f"Undecided between H1 and H2: of {tests}, "
        + ", ".join(f"{count} {verdict}" for verdict, count in found["verdict"].value_counts().items())
        + "."
    )


def _contrast(rows: pd.DataFrame, bound: float) -> dict:
    return rules.contrast(rows[rows.low], rows[~rows.low], "event", bound=bound)


def _percent(value: float) -> str:
    return "not available" if np.isnan(value) else f"{100 * value:.1f} %"
