"""How often verdicts are false, and how often a true one is found: `python -m vfkit.workshop.verdict_rates [--write]`.

Records of worlds whose truth is known are made again and again, and each verdict of the kit is read off them. *False*
is a claim that the world does not bear (at most 5 % may be); *power* is how often the true claim is made. `--write`
puts the table into METHODS.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
import pandas as pd

from vfkit import metrics
from vfkit.metrics import rules
from vfkit.metrics.bands import ALIKE, HIGH, LOW
from vfkit.metrics.verdict import verdict_words
from vfkit.perturb import HI_FAMILIES
from vfkit.readout.rules import margins, predict
from vfkit.workshop.coverage import markdown, put

MARKS = ("<!-- verdicts: start -->", "<!-- verdicts: end -->")


# --- H1 against H2 ----------------------------------------------------------------------------------------------------


def leanings(rng, n: int, *shares: float, icc: float = 0.3) -> list[np.ndarray]:
    """The flip rate of each of `n` images for each share; images that flip easily do so for all."""
    ranks, found = rng.random(n), []
    for share in shares:
        if share in (0, 1):
            found.append(np.full(n, share))
            continue
        pool = np.sort(rng.beta(share * (1 / icc - 1), (1 - share) * (1 / icc - 1), 2000))
        found.append(pool[(ranks * len(pool)).astype(int)])
    return found


def noise_records(rng, n: int, low: float, high: float, trials: int = 5) -> pd.DataFrame:
    """Records of `n` images under noise of equal RMS in two bands that flip these shares of answers."""
    rows = [_record(f"s{i}") for i in range(n)]
    for band, lean in zip(("low", "high"), leanings(rng, n, low, high), strict=True):
        for trial in range(trials):
            params = {"eps": 8 / 255, "scaling": "rms", "trial": trial, "rms": 2 / 255, "max_abs": 8 / 255}
            rows += [_record(f"s{i}", f"noise_{band}", flip, params) for i, flip in enumerate(rng.random(n) < lean)]
    return pd.DataFrame(rows)


def ablation_records(rng, n: int, low: float, high: float) -> pd.DataFrame:
    """Records of the same images, of which taking low or high frequencies away flips these shares."""
    rows = []
    for family, lean in zip(("high_pass", "low_pass"), leanings(rng, n, low, high), strict=True):
        flips = rng.random(n) < lean
        rows += [_record(f"s{i}", family, flip, {"cutoff": 0.25}) for i, flip in enumerate(flips)]
    return pd.DataFrame(rows)


def _record(sample: str, family: str = "base", flip: bool = False, params: dict | None = None) -> dict:
    params = params or {}
    return dict(sample_id=sample, image_id=sample, family=family, instance=family + json.dumps(params),
                params=json.dumps(params), applicable=True, base_prediction=0, prediction=int(flip), margin=1.0,
                base_margin=-1.0 if flip else 1.0, tied=False)  # fmt: skip


def _bands(low: float, high: float):
    return lambda rng: metrics.band_test(noise_records(rng, 60, low, high)).verdict[0]


# --- POPE -------------------------------------------------------------------------------------------------------------


def yes_no(question: str, image: str, truth: bool, base: float, blank: float, perturbed) -> list[dict]:
    """The records of one question from its yes-no margins."""
    readings = [("base", "base", base), ("blank", "blank_white", blank)]
    readings += [("rotation", f"rotation_{i}", margin) for i, margin in enumerate(perturbed)]
    rows = []
    for family, instance, margin in readings:
        scores = np.array([margin / 2, -margin / 2])
        own, against = margins(scores, int(base < 0))
        row: dict[str, Any] = dict(
            sample_id=question, image_id=image, category="adversarial", family=family, instance=instance
        )
        row |= dict(params="{}", applicable=True, answer=int(not truth), n_options=2, tied=False, margin=own)
        best = int(base < 0)
        rows.append(row | dict(base_margin=against, base_prediction=best, prediction=predict(scores)[0]))
    return rows


def pope_records(rng, kind: str, images: int = 120, questions: int = 4, instances: int = 4) -> pd.DataFrame:
    """A world of yes/no questions, half of them true.

    `selection`: base and perturbed margins are draws of one distribution. `shift`: perturbed margins lean 1.5 nats to
    No. `fading`: all of them go half of the way to the blank's. `fragile`: where the truth is No, two thirds of what
    the image says is lost, elsewhere nothing. `bias`: what the model says is the blank's, but for the truths.
    `ignored`: with and without image the same.
    """
    rows = []
    for i in range(images * questions):
        truth, blank, noise = i % 2 == 1, rng.normal(-3, 0.5), rng.normal(size=instances + 1)
        if kind == "fragile":
            seen = abs(rng.normal(5.5, 2)) if truth else rng.exponential(2.5)
            base, perturbed = -3 + seen + 0.3 * noise[0], -3 + (seen if truth else seen / 3) + 0.3 * noise[1:]
        elif kind == "bias":
            blank = rng.normal(-1, 2)
            base = blank + (3 if truth else 0)
            perturbed = base + 0.2 * noise[1:]
        elif kind == "ignored":
            base, perturbed = blank + 1e-3, blank + 1e-3 * noise[1:]
        else:
            own = rng.normal(2.5 if truth else -1.5, 1.5)
            base, perturbed = own, own + noise[1:] - 1.5 * (kind == "shift")
            if kind == "fading":
                perturbed = (perturbed + blank) / 2
        if kind in ("selection", "shift", "fading"):
            base += noise[0]
        rows += yes_no(f"q{i}", f"i{i // questions}", truth, base, blank, perturbed)
    return pd.DataFrame(rows)


def _pope(kind: str):
    def make(rng) -> str:
        table = metrics.verdict_table(pope_records(rng, kind)).set_index("name")
        return verdict_words(table).split(". ")[0]

    return make


# --- scale, V-FAT, ranks ----------------------------------------------------------------------------------------------


def _scale(small: float, large: float):
    def make(rng) -> str:
        pairs = []
        for _ in range(3):  # three pairs of sizes, of which the finding may claim any
            flips = [(rng.random(100) < lean).astype(float) for lean in leanings(rng, 100, large, small, icc=0.6)]
            pairs.append(rules.of_images(flips[0], np.ones(100), flips[1], np.ones(100)))
        said = set(rules.decide(pd.DataFrame(pairs), ("worse", "better", "")).verdict)
        return next((word for word in ("worse", "better") if word in said), rules.UNDECIDED)

    return make


def vfat_answers(rng, items: int, sees: dict[str, float], model: str) -> pd.DataFrame:
    """Generated answers to multiple choice, seen with these chances by level; an item is easy or hard at all levels."""
    rows = []
    ranks = rng.random(items)
    for level, share in sees.items():
        pool = np.sort(rng.beta(2 * share, 2 * (1 - share), 2000))
        for i, see in enumerate(rng.random(items) < pool[(ranks * len(pool)).astype(int)]):
            outcome = "vision" if see else ("bias" if rng.random() < 0.7 else "other")
            about: dict[str, Any] = dict(
                sample_id=f"{i}-{level}", item=str(i), image_id=f"{i}-{level}", category="Physical", level=level
            )
            about |= dict(
                format="mcq", reading="generation", rule="", outcome=outcome, tied=False, one=1.0, reasoning=0
            )
            rows.append(about | {name: float(outcome == name) for name in ("vision", "bias", "other")})
    return pd.DataFrame(rows).assign(model=model)


def _vfat(first: dict, second: dict):
    def make(rng) -> str:
        sides = (vfat_answers(rng, 60, sees, model) for model, sees in (("a", first), ("b", second)))
        table = metrics.vfat_differences(*sides)
        apart = table[table.apart]
        return rules.UNDECIDED if apart.empty else "first" if (apart.delta > 0).any() else "second"

    return make


def _together(sees: dict):
    def make(rng) -> str:
        answers = vfat_answers(rng, 150, sees, "a")
        return metrics.vfat_interaction(answers).verdict[0]

    return make


def _ranks(shared: bool):
    def make(rng) -> str:
        runs = []
        for model in ("a", "b"):
            own = np.linspace(0.05, 0.4, 6) if shared else rng.permutation(np.linspace(0.05, 0.4, 6))
            rows = [_record(f"s{i}") for i in range(80)]
            for family, share in zip(HI_FAMILIES, own, strict=True):
                rows += [_record(f"s{i}", family, flip) for i, flip in enumerate(rng.random(80) < share)]
            runs.append(pd.DataFrame(rows).assign(model=model, dataset="d"))
        models = pd.DataFrame({"model": ["a", "b"], "series": ["x", "y"], "params": 1.0})
        return "shared" if metrics.rank_agreement(pd.concat(runs, ignore_index=True), models).p[0] < rules.ALPHA else ""

    return make


_SEES = {"L1": 0.6, "L2": 0.5, "L3": 0.5}
_MORE = {level: share + 0.3 for level, share in _SEES.items()}
_OPEN = {rules.UNDECIDED, rules.FEW_EVENTS, rules.FEW_IMAGES, ""}
# what is read off a draw of the world, the verdicts that are true of it beside none, and the one that power counts
WORLDS = {
    "low and high noise flip 5 %": (_bands(0.05, 0.05), {ALIKE}, None),
    "low and high noise flip 0.3 %": (_bands(0.003, 0.003), set(), None),
    "low and high noise flip 40 %": (_bands(0.4, 0.4), {ALIKE}, ALIKE),
    "low flips 30 %, high 10 %": (_bands(0.3, 0.1), {LOW}, LOW),
    "low flips 10 %, high 30 %": (_bands(0.1, 0.3), {HIGH}, HIGH),
    "POPE: exchangeable noise": (_pope("selection"), {"selection"}, "selection"),
    "POPE: a shift to No": (_pope("shift"), {"a shift towards No of all answers"}, "a shift towards No of all answers"),
    "POPE: all evidence fades alike, and noise with it": (_pope("fading"), {"a shift towards No of all answers",
                                        "suppression of fragile visual evidence"}, None),
    "POPE: false evidence is fragile": (_pope("fragile"), {"suppression of fragile visual evidence"},
                                        "suppression of fragile visual evidence"),
    "POPE: language bias": (_pope("bias"), {"language bias", "selection"}, "language bias"),
    "POPE: the image is ignored": (_pope("ignored"), {"the image is ignored"}, "the image is ignored"),
    "scale: IV 30 % in all sizes": (_scale(0.3, 0.3), set(), None),
    "scale: IV 50 % to 25 %": (_scale(0.5, 0.25), {"better"}, "better"),
    "scale: IV 25 % to 50 %": (_scale(0.25, 0.5), {"worse"}, "worse"),
    "V-FAT: two models alike": (_vfat(_SEES, _SEES), set(), None),
    "V-FAT: 30 points apart": (_vfat(_MORE, _SEES), {"first"}, "first"),
    "V-FAT: biases add up": (_together({"L0": 0.9, "L1": 0.7, "L2": 0.7, "L3": 0.5}), set(), None),
    "V-FAT: biases worse together": (_together({"L0": 0.9, "L1": 0.85, "L2": 0.85, "L3": 0.4}), {"worse together"},
                                     "worse together"),
    "ranks: no order shared": (_ranks(False), set(), None),
    "ranks: one order": (_ranks(True), {"shared"}, "shared"),
}  # fmt: skip


def rates(name: str, draws: int, seed: int = 0) -> dict:
    """`world`, `draws`, the share of `false` verdicts, and the `power` for the true one (NaN where none is counted)."""
    make, true, counted = WORLDS[name]
    rng = np.random.default_rng([seed, list(WORLDS).index(name)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = [make(rng) for _ in range(draws)]
    false = np.mean([word not in _OPEN | true for word in said])
    power = np.mean([word == counted for word in said]) if counted else np.nan
    return {"world": name, "draws": draws, "false": float(false), "power": float(power)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="put the table into METHODS")
    args = parser.parse_args()
    table = pd.DataFrame([rates(name, args.draws) for name in WORLDS])
    shown = table.assign(
        **{name: table[name].map(lambda v: "" if v != v else f"{100 * v:.1f}") for name in ("false", "power")}
    )
    text = markdown(shown.set_axis(["world", "draws", "false, %", "power, %"], axis=1))
    print(text)
    if args.write:
        put(text, MARKS)
