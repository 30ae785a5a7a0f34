"""How often verdicts are false, and how often a true one is found: `python -m vfkit.workshop.verdict_rates [--write]`.

Data sets of known truth (`workshop/worlds.py`) are drawn again and again, and each verdict of the kit is read off them.
*False* is a claim that the world does not bear (at most 5 % may be); *power* is how often the true claim is made, and
the smallest effect of a ladder that is found in 80 % of draws is named. What was measured is kept in a file (`--keep`),
so that a run that was stopped goes on. `--write` puts the tables into METHODS.
"""

import argparse
import json
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from vfkit import metrics
from vfkit.metrics import rules, stats
from vfkit.metrics.bands import ALIKE, BOUND, HIGH, LOW
from vfkit.metrics.calibration import CHANGES, GAPS
from vfkit.metrics.effects import effects
from vfkit.metrics.severity import LEADS
from vfkit.metrics.verdict import verdict_words
from vfkit.perturb import HI_FAMILIES
from vfkit.workshop import worlds
from vfkit.workshop.coverage import markdown, put

MARKS = ("<!-- verdicts: start -->", "<!-- verdicts: end -->")
SUPPRESSED, SHIFTED = "suppression of fragile visual evidence", "a shift towards No of all answers"
ENOUGH = 0.8


# --- what is read off a draw: functions of a generator to the words of a verdict --------------------------------------


def _tests(rng, low: float, high: float, *tests: str, n: int = 60) -> pd.DataFrame:
    """The rows of `band_test` that the finding weighs, from counts of flips by image."""
    found = []
    for test in tests:
        trials, one = (5 if test == "noise" else 1), np.ones(n)
        first, second = worlds.flip_counts(rng, n, low, high, trials=trials)
        sums = rules.of_images(first, trials * one, second, trials * one, bound=BOUND)
        found.append({"headline": True, "test": test, "eps": np.nan, "cutoff": np.nan} | sums)
    return rules.decide(pd.DataFrame(found), (LOW, HIGH, ALIKE))


def _bands(low: float, high: float):
    return lambda rng: _tests(rng, low, high, "noise").verdict[0]


def _weighed(low: float, high: float):
    """The finding that weighs noise and ablation: its claim of H1, H2 or the opposite."""

    def make(rng) -> str:
        table = _tests(rng, low, high, "noise", "ablation").rename(columns={"first": "low_rate", "second": "high_rate"})
        said = metrics.band_finding(table).rsplit("- ", 1)[1]
        claims = {"(H1)": LOW, "not H1": HIGH, "contradict": "contradiction", "(H2)": ALIKE}
        return next((word for sign, word in claims.items() if sign in said), rules.UNDECIDED)

    return make


def _pope(kind: str, strength: float = 1.0):
    def make(rng) -> str:
        table = metrics.verdict_table(worlds.pope_records(rng, kind, strength=strength)).set_index("name")
        return verdict_words(table).split(". ")[0]

    return make


def _balance(kind: str):
    """Hallucinations that a perturbation makes more or fewer."""
    return lambda rng: metrics.pope_balance_table(worlds.pope_records(rng, kind)).hallucinations[0]


def _scale(small: float, large: float):
    """Three pairs of sizes, of which the finding may claim any."""

    def make(rng) -> str:
        one, pairs = np.ones(100), []
        for _ in range(3):
            flips = [rng.random(100) < lean for lean in worlds.leanings(rng, 100, large, small, icc=0.6)]
            pairs.append(rules.of_images(flips[0], one, flips[1], one))
        said = set(rules.decide(pd.DataFrame(pairs), ("worse", "better", "")).verdict)
        return next((word for word in ("worse", "better") if word in said), rules.UNDECIDED)

    return make


def _vfat(first: dict, second: dict):
    def make(rng) -> str:
        table = metrics.vfat_differences(
            *(worlds.vfat_answers(rng, 60, *side) for side in ((first, "a"), (second, "b")))
        )
        apart = table[table.apart]
        return rules.UNDECIDED if apart.empty else "first" if (apart.delta > 0).any() else "second"

    return make


def _together(sees: dict):
    return lambda rng: metrics.vfat_interaction(worlds.vfat_answers(rng, 150, sees, "a")).verdict[0]


def _ranks(shared: float):
    models = pd.DataFrame({"model": ["a", "b"], "series": ["x", "y"], "params": 1.0})

    def make(rng) -> str:
        return "shared" if metrics.rank_agreement(worlds.rank_records(rng, shared), models).p[0] < rules.ALPHA else ""

    return make


def _correlated(rho: float, images: int = 50, instances: int = 6):
    """A rank correlation of instances whose interval leaves 0 out."""

    def make(rng) -> str:
        x, own = rng.normal(size=(2, images, 1)) + rng.normal(size=(2, images, instances))
        y = rho * x + np.sqrt(1 - rho**2) * own
        row = stats.correlation(x.ravel(), y.ravel(), np.repeat(np.arange(images), instances)).iloc[0]
        return "with" if row.low > 0 else "against" if row.high < 0 else ""

    return make


def _control(share: float):
    """Drift against its control: Cohen's d whose interval leaves 0 out."""

    def make(rng) -> str:
        drift, control = worlds.drifts(rng, 50, share)
        images = pd.Series(np.arange(50))
        row = effects(pd.Series(drift), images, pd.Series(control), images)
        return "above" if row["d_low"] > 0 else "below" if row["d_high"] < 0 else ""

    return make


def _complied(obeys: float):
    """Answers that follow the card more than flips at random do."""

    def make(rng) -> str:
        row = metrics.compliance_table(worlds.overlay_records(rng, 60, 0.3, obeys)).iloc[0]
        ends = row.complied_share_low > row.chance_share, row.complied_share_high < row.chance_share
        return "follows" if ends[0] else "avoids" if ends[1] else ""

    return make


def _attacked(attack: float, noise: float):
    def make(rng) -> str:
        row = metrics.attack_table(worlds.attack_records(rng, 40, 2, attack, noise)).iloc[0]
        return {1: "beyond noise", -1: "below noise", 0: ""}[rules.side(row)]

    return make


def _worst(shares: dict[str, float]):
    """Which family flips most, as the finding of notebook 01 says."""

    def make(rng) -> str:
        records = worlds.family_records(rng, 60, 2, shares).assign(category="c", n_options=4)
        said = [line for line in metrics.finding(records, "m", "d").splitlines() if "which flips most." in line]
        return next((family for family in shares for line in said if family.replace("_", " ") in line), "")

    return make


def _sure(base: float, perturbed: float, column: str = "verdict"):
    """The gap between confidence and accuracy of the base, or its change under perturbation."""
    family = "base" if column == "verdict" else "scale"

    def make(rng) -> str:
        table = metrics.calibration_table(worlds.confidence_records(rng, 100, base, perturbed))
        return table.set_index("family")[column][family]

    return make


def _first(state: tuple[float, float], answer: tuple[float, float]):
    """What comes first as a perturbation grows."""
    return lambda rng: metrics.onset_table(*worlds.severity_records(rng, 40, state, answer)).verdict[0]


_SEES = {"L1": 0.5, "L2": 0.4, "L3": 0.4}


def _more(gap: float) -> dict[str, float]:
    return {level: share + gap for level, share in _SEES.items()}


def _beside(gap: float) -> dict[str, float]:
    return {"L0": 0.9, "L1": 0.85, "L2": 0.85, "L3": 0.8 - gap}


_EVEN = dict.fromkeys(HI_FAMILIES, 0.2)
_OPEN = {rules.UNDECIDED, rules.FEW_EVENTS, rules.FEW_IMAGES, ""}
Reader = Callable[[np.random.Generator], str]

# what is read off a draw of the world, and the verdicts that are true of it beside none
WORLDS: dict[str, tuple[Reader, set[str]]] = {
    "low and high noise flip 5 %": (_bands(0.05, 0.05), {ALIKE}),
    "low and high noise flip 0.3 %": (_bands(0.003, 0.003), set()),
    "low noise flips 26 %, high 20 %: more apart than H2 allows": (_bands(0.26, 0.2), {LOW}),
    "noise and ablation together: both flip 15 %": (_weighed(0.15, 0.15), {ALIKE}),
    "POPE: exchangeable noise": (_pope("selection"), {"selection"}),
    "POPE: a shift to No": (_pope("shift"), {SHIFTED}),
    "POPE: all evidence fades alike, and noise with it": (_pope("fading"), {SHIFTED, SUPPRESSED}),
    "POPE: false evidence is fragile": (_pope("fragile"), {SUPPRESSED}),
    "POPE: language bias": (_pope("bias"), {"language bias", "selection"}),
    "POPE: the image is ignored": (_pope("ignored"), {"the image is ignored"}),
    "POPE: hallucinations more or fewer under exchangeable noise": (_balance("selection"), {"alike"}),
    "scale: IV 30 % in all sizes": (_scale(0.3, 0.3), set()),
    "V-FAT: two models alike": (_vfat(_SEES, _SEES), set()),
    "V-FAT: biases add up": (_together({"L0": 0.9, "L1": 0.7, "L2": 0.7, "L3": 0.5}), set()),
    "ranks of families: no order shared": (_ranks(0), set()),
    "rank correlation of instances: none": (_correlated(0), set()),
    "drift as large as its control": (_control(1), set()),
    "overlay: flips follow no label": (_complied(1 / 3), set()),
    "attack: flips as its noise does": (_attacked(0.3, 0.3), set()),
    "what flips most: all families 20 %": (_worst(_EVEN), set()),
    "calibration: confidence is accuracy": (_sure(1, 1), {GAPS[2]}),
    "calibration: too sure, and no surer under perturbation": (_sure(3, 3, "gap_change_verdict"), {CHANGES[2]}),
    "severity: states pass their control and answers flip at angles drawn alike": (
        _first((4, 70), (4, 70)),
        {LEADS[2]},
    ),
}


def _ladder(form: str, make: Callable[[float], Reader], *effects: float) -> dict[str, Reader]:
    """Readers by the effect that their world has; `form` says it, from a number that may be shown in per cent."""
    return {form.format(effect): make(effect) for effect in effects}


# true alternatives: the verdict, and the effects tried in turn until it is found
LADDERS: dict[str, tuple[str, dict[str, Reader]]] = {
    "H1 by noise, high flips 10 %": (
        LOW,
        _ladder("low {:.0%}", lambda p: _bands(p, 0.1), 0.14, 0.17, 0.2, 0.25, 0.3),
    ),
    "high flips more by noise, low flips 10 %": (
        HIGH,
        _ladder("high {:.0%}", lambda p: _bands(0.1, p), 0.14, 0.17, 0.2, 0.25, 0.3),
    ),
    "H2 by noise, 60 images": (ALIKE, _ladder("both {:.0%}", lambda p: _bands(p, p), 0.1, 0.2, 0.3, 0.4, 0.5)),
    "H1 by noise and ablation, high flips 10 %": (
        LOW,
        _ladder("low {:.0%}", lambda p: _weighed(p, 0.1), 0.17, 0.2, 0.25, 0.3),
    ),
    "POPE: selection": ("selection", {"exchangeable noise of 1 nat": _pope("selection")}),
    "POPE: a shift to No": (
        SHIFTED,
        _ladder("{:.1f} nats", lambda nats: _pope("shift", nats / 1.5), 0.3, 0.6, 0.9, 1.2, 1.5),
    ),
    "POPE: suppression of fragile evidence": (
        SUPPRESSED,
        _ladder("{:.0%} of it lost", lambda lost: _pope("fragile", 1.5 * lost), 0.1, 0.2, 0.35, 0.5, 0.67),
    ),
    "POPE: language bias": ("language bias", {"the answer to the blank": _pope("bias")}),
    "POPE: the image is ignored": ("the image is ignored", {"the margins of the blank": _pope("ignored")}),
    "POPE: fewer hallucinations": ("fewer", {"a shift of 1.5 nats": _balance("shift")}),
    "scale: steadier, small model flips 50 %": (
        "better",
        _ladder("large {:.0%}", lambda p: _scale(0.5, p), 0.4, 0.35, 0.3, 0.25),
    ),
    "scale: less steady, small model flips 25 %": (
        "worse",
        _ladder("large {:.0%}", lambda p: _scale(0.25, p), 0.35, 0.4, 0.45, 0.5),
    ),
    "V-FAT: models apart, 60 items": (
        "first",
        _ladder("{:.0%} apart", lambda gap: _vfat(_more(gap), _SEES), 0.1, 0.15, 0.2, 0.3),
    ),
    "V-FAT: worse together, 150 items": (
        "worse together",
        _ladder("{:.0%} more", lambda gap: _together(_beside(gap)), 0.1, 0.15, 0.2, 0.3),
    ),
    "ranks of families, 80 samples": ("shared", _ladder("{:.0%} of the order", _ranks, 0.5, 0.7, 0.85, 1)),
    "rank correlation, 50 images": ("with", _ladder("rho {}", _correlated, 0.1, 0.2, 0.3, 0.4)),
    "drift below its control, 50 images": ("below", _ladder("{:.0%} of it", _control, 0.9, 0.8, 0.7, 0.6)),
    "overlay: answers follow the label, 60 images": (
        "follows",
        _ladder("{:.0%} of flips", _complied, 0.45, 0.55, 0.7, 0.9),
    ),
    "attack beyond its noise of 20 %, 40 images": (
        "beyond noise",
        _ladder("attack {:.0%}", lambda p: _attacked(p, 0.2), 0.35, 0.45, 0.55, 0.65),
    ),
    "what flips most, others 20 %, 60 images": (
        "rotation",
        _ladder("rotation {:.0%}", lambda p: _worst(_EVEN | {"rotation": p}), 0.35, 0.4, 0.5, 0.6),
    ),
    "calibration: overconfident": (GAPS[0], _ladder("scores times {:g}", lambda by: _sure(by, by), 1.5, 2, 3, 4)),
    "calibration: surer under perturbation": (
        CHANGES[0],
        _ladder("scores times {:g}", lambda by: _sure(1, by, "gap_change_verdict"), 1.5, 2, 3, 4),
    ),
    "severity: hidden instability precedes flips": (
        LEADS[0],
        _ladder("flips {:g} degrees later", lambda by: _first((4, 50), (4 + by, 50 + by)), 5, 10, 20, 30),
    ),
}


def said(make: Reader, draws: int, seed: list[int]) -> list[str]:
    """The verdicts of so many draws of a world."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [make(rng) for _ in range(draws)]


def false_rate(name: str, draws: int, seed: int = 0) -> float:
    """The share of draws of one of `WORLDS` in which something is claimed that is not so."""
    make, true = WORLDS[name]
    verdicts = said(make, draws, [seed, zlib.crc32(name.encode())])
    return float(np.mean([word not in _OPEN | true for word in verdicts]))


def power(name: str, draws: int, seed: int = 0, last: bool = False) -> tuple[str, float]:
    """The smallest effect of one of `LADDERS` that is found in 80 % of the draws, or the largest; and its power."""
    true, ladder = LADDERS[name]
    steps = list(ladder)[-1:] if last else list(ladder)
    for effect in steps:
        verdicts = said(ladder[effect], draws, [seed, zlib.crc32(f"{name} {effect}".encode())])
        share = float(np.mean([word == true for word in verdicts]))
        if share >= ENOUGH:
            break
    return effect, share


def measure(draws: int, keep: Path | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table of false rates and the table of powers, in per cent; powers rest on a fifth of the draws."""
    kept: dict = json.loads(keep.read_text()) if keep and keep.exists() else {}

    def of(kind: str, name: str, make: Callable):
        key = f"{kind}: {name}: {draws}"
        if key not in kept:
            kept[key] = make()
            if keep:
                keep.write_text(json.dumps(kept, indent=1))
        return kept[key]

    false = [(name, draws, of("false", name, lambda name=name: false_rate(name, draws))) for name in WORLDS]
    most = max(draws // 5, 1)
    found = [(name, *of("power", name, lambda name=name: power(name, most))) for name in LADDERS]
    tables = (pd.DataFrame(false, columns=["where this is so", "draws", "false claims, %"]),
              pd.DataFrame(found, columns=["true alternative", "found at", "power, %"]))  # fmt: skip
    return tuple(table.assign(**{table.columns[-1]: [f"{100 * v:.1f}" for v in table.iloc[:, -1]]}) for table in tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="JSON file of what was measured already")
    parser.add_argument("--write", action="store_true", help="put the tables into METHODS")
    args = parser.parse_args()
    text = "\n\n".join(markdown(table) for table in measure(args.draws, args.keep))
    print(text)
    if args.write:
        put(text, MARKS)
