"""Records of worlds whose truth is known, for the rates of false and of true verdicts (`workshop/verdict_rates.py`).

Every function draws one data set, of the columns that the tables need. Images lean: one that flips easily under one
change does so under others.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

from vfkit.perturb import HI_FAMILIES


def leanings(rng, n: int, *shares: float, icc: float = 0.3) -> list[np.ndarray]:
    """The flip rate of each of `n` images for each share; images that flip easily do so for all."""
    ranks, scale = rng.random(n), 1 / icc - 1
    return [
        np.full(n, share) if share in (0, 1) else beta.ppf(ranks, share * scale, (1 - share) * scale)
        for share in shares
    ]


def flip_records(images: np.ndarray, families: dict[str, np.ndarray], params: dict | None = None) -> pd.DataFrame:
    """Rows of one family each in which these samples (one per image) flip or not."""
    names = np.array([f"s{i}" for i in range(len(images))], dtype=object)
    text = json.dumps(params or {})
    parts = []
    for family, flips in families.items():
        flips = np.asarray(flips, dtype=bool)
        parts.append(pd.DataFrame({
            "sample_id": names, "image_id": images, "family": family, "instance": family + text, "params": text,
            "applicable": True, "base_prediction": 0, "prediction": flips.astype(int), "margin": 1.0,
            "base_margin": np.where(flips, -1.0, 1.0), "tied": False,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _singles(n: int) -> np.ndarray:
    return np.array([f"i{i}" for i in range(n)], dtype=object)


def flip_counts(rng, n: int, *shares: float, trials: int = 1) -> list[np.ndarray]:
    """Flips of each of `n` images under changes that flip these shares of answers, in so many trials each."""
    return [rng.binomial(trials, lean).astype(float) for lean in leanings(rng, n, *shares)]


def noise_records(rng, n: int, low: float, high: float, trials: int = 5) -> pd.DataFrame:
    """Records of `n` images under noise of equal RMS in two bands that flip these shares of answers."""
    images, parts = _singles(n), []
    parts.append(flip_records(images, {"base": np.zeros(n)}))
    for band, lean in zip(("low", "high"), leanings(rng, n, low, high), strict=True):
        for trial in range(trials):
            params = {"eps": 8 / 255, "scaling": "rms", "trial": trial, "rms": 2 / 255, "max_abs": 8 / 255}
            parts.append(flip_records(images, {f"noise_{band}": rng.random(n) < lean}, params))
    return pd.concat(parts, ignore_index=True)


def ablation_records(rng, n: int, low: float, high: float) -> pd.DataFrame:
    """Records of the same images, of which taking low or high frequencies away flips these shares."""
    lost = {
        name: rng.random(n) < lean
        for name, lean in zip(("high_pass", "low_pass"), leanings(rng, n, low, high), strict=True)
    }
    return flip_records(_singles(n), lost, {"cutoff": 0.25})


def family_records(rng, images: int, questions: int, shares: dict[str, float]) -> pd.DataFrame:
    """Records of families that flip these shares, several questions an image; the base is right."""
    n = images * questions
    own = np.repeat(_singles(images), questions)
    leans = zip(shares, leanings(rng, images, *shares.values()), strict=True)
    flips = {"base": np.zeros(n)} | {name: rng.random(n) < np.repeat(lean, questions) for name, lean in leans}
    return flip_records(own, flips).assign(answer=0)


def overlay_records(rng, images: int, flips: float, obeys: float, options: int = 4) -> pd.DataFrame:
    """Records of a text overlay that flips this share of answers; of the flips `obeys` go to the label on the card, the
    rest to any other option alike."""
    lean = leanings(rng, images, flips)[0]
    parts = [flip_records(_singles(images), {"base": np.zeros(images)})]
    for label in range(1, options):
        flip = rng.random(images) < lean
        others = np.array([i for i in range(1, options) if i != label])
        to = np.where(rng.random(images) < obeys, label, rng.choice(others, images))
        part = flip_records(_singles(images), {"text_overlay": flip})
        letter = "ABCDEFGH"[label]
        parts.append(part.assign(instance=f"text_overlay_{letter}", prediction=np.where(flip, to, 0)))
    return pd.concat(parts, ignore_index=True).assign(answer=0, n_options=options)


def attack_records(rng, images: int, questions: int, attack: float, noise: float) -> pd.DataFrame:
    """Records of one attack and its noise control, which flip these shares of answers."""
    n, own = images * questions, np.repeat(_singles(images), questions)
    leans = [np.repeat(lean, questions) for lean in leanings(rng, images, attack, noise)]
    flips = {name: rng.random(n) < lean for name, lean in zip(("pgd_pixel", "pgd_pixel_noise"), leans, strict=True)}
    rows = flip_records(own, {"base": np.zeros(n)} | flips, {"eps": 4 / 255, "target": ""})
    first = np.where(rows.prediction == 0, 0.0, -3.0)
    rows["logp_text"] = [np.array([one, -1.0]) for one in first]
    rows["logp_end"] = [np.zeros(2)] * len(rows)
    rows["n_tokens"] = [np.ones(2)] * len(rows)
    rows["logp_letter"] = [np.full(2, np.nan)] * len(rows)
    return rows.assign(answer=0, n_options=2)


def drifts(rng, images: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Drift of each image and its control, of which it is this share on average; skewed, and alike within an image."""
    common = rng.normal(size=images)
    noise = rng.normal(size=(2, images))
    both = np.exp(0.5 * (np.sqrt(0.4) * common + np.sqrt(0.6) * noise))
    return share * both[0], both[1]


# --- yes or no --------------------------------------------------------------------------------------------------------


def pope_records(
    rng, kind: str, images: int = 120, questions: int = 4, instances: int = 4, strength: float = 1.0
) -> pd.DataFrame:
    """A world of yes/no questions, half of them true.

    `selection`: base and perturbed margins are draws of one distribution. `shift`: perturbed margins lean 1.5 nats (of
    strength 1) to No. `fading`: all of them go half of the way to the blank's. `fragile`: where the truth is No, two
    thirds of what the image says is lost, elsewhere nothing. `bias`: what the model says is the blank's, but for the
    truths. `ignored`: with and without image the same.
    """
    n = images * questions
    true, blank, noise = np.arange(n) % 2 == 1, rng.normal(-3, 0.5, n), rng.normal(size=(n, instances + 1))
    if kind == "fragile":
        seen = np.where(true, np.abs(rng.normal(5.5, 2, n)), rng.exponential(2.5, n))
        left = np.where(true, seen, seen * (1 - strength * 2 / 3))
        base, perturbed = -3 + seen + 0.3 * noise[:, 0], -3 + left[:, None] + 0.3 * noise[:, 1:]
    elif kind == "bias":
        blank = rng.normal(-1, 2, n)
        base = blank + 3 * true + (1 - strength) * rng.normal(size=n) * 4
        perturbed = base[:, None] + 0.2 * noise[:, 1:]
    elif kind == "ignored":
        base, perturbed = blank + 1e-3, blank[:, None] + 1e-3 * noise[:, 1:]
    else:
        own = rng.normal(np.where(true, 2.5, -1.5), 1.5)
        perturbed = own[:, None] + noise[:, 1:] - 1.5 * strength * (kind == "shift")
        if kind == "fading":
            perturbed = (perturbed + blank[:, None]) / 2
        base = own + noise[:, 0]
    return yes_no(np.repeat(_singles(images), questions), true, base, blank, perturbed)


def yes_no(images: np.ndarray, true: np.ndarray, base: np.ndarray, blank: np.ndarray, perturbed) -> pd.DataFrame:
    """Records of yes/no questions from their yes-no margins [question], those of perturbed images [question, instance];
    option 0 is Yes."""
    perturbed = np.asarray(perturbed, dtype=float)
    readings = [("base", "base", base), ("blank", "blank_white", blank)]
    readings += [("rotation", f"rotation_{i}", margin) for i, margin in enumerate(perturbed.T)]
    best, parts = (base < 0).astype(int), []
    for family, instance, margin in readings:
        parts.append(pd.DataFrame({
            "sample_id": [f"q{i}" for i in range(len(base))], "image_id": images, "category": "adversarial",
            "family": family, "instance": instance, "params": "{}", "applicable": True,
            "answer": (~true).astype(int), "n_options": 2, "tied": False, "margin": np.abs(margin),
            "base_margin": np.where(best == 1, -margin, margin), "base_prediction": best,
            "prediction": (margin < 0).astype(int),
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


# --- V-FAT ------------------------------------------------------------------------------------------------------------


def vfat_answers(rng, items: int, sees: dict[str, float], model: str) -> pd.DataFrame:
    """Generated answers to multiple choice, seen with these chances by level; an item is easy or hard at all levels."""
    names, parts = np.arange(items).astype(str).astype(object), []
    for level, lean in zip(sees, leanings(rng, items, *sees.values(), icc=1 / 3), strict=True):
        outcome = np.where(rng.random(items) < lean, "vision", np.where(rng.random(items) < 0.7, "bias", "other"))
        about: dict[str, Any] = dict(category="Physical", level=level, format="mcq", reading="generation", rule="",
                                     tied=False, one=1.0, reasoning=0)  # fmt: skip
        ids = names + "-" + level
        part = pd.DataFrame({"sample_id": ids, "item": names, "image_id": ids, "outcome": outcome.astype(object)})
        parts.append(part.assign(**about, **{one: (outcome == one) * 1.0 for one in ("vision", "bias", "other")}))
    return pd.concat(parts, ignore_index=True).assign(model=model)


def rank_records(rng, shared: float, samples: int = 80) -> pd.DataFrame:
    """Records of two models under HI's families; their flip rates keep one order in this share of the draws' weight."""
    order = np.linspace(0.05, 0.4, len(HI_FAMILIES))
    runs = []
    for model in ("a", "b"):
        own = shared * order + (1 - shared) * rng.permutation(order)
        flips = {family: rng.random(samples) < share for family, share in zip(HI_FAMILIES, own, strict=True)}
        runs.append(flip_records(_singles(samples), {"base": np.zeros(samples)} | flips).assign(model=model))
    return pd.concat(runs, ignore_index=True).assign(dataset="d")


# --- confidence and severity ------------------------------------------------------------------------------------------


def confidence_records(rng, n: int, base: float = 1.0, perturbed: float = 1.0, instances: int = 3) -> pd.DataFrame:
    """Records of `n` images whose answers are right with the probabilities p of four options, and whose scores are
    log p times a sharpness: 1 is calibrated, more is too sure."""
    p = rng.dirichlet(np.full(4, 0.5), n)
    answer = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)
    parts = []
    for number in range(-1, instances):
        family = "base" if number < 0 else "scale"
        scores = np.log(np.maximum(p, 1e-9)) * (base if number < 0 else perturbed)
        rows = flip_records(_singles(n), {family: np.zeros(n)}, {"draw": number})
        lists = {
            "logp_text": scores,
            "logp_end": 0 * scores,
            "n_tokens": 0 * scores + 1,
            "logp_letter": np.nan * scores,
        }
        rows = rows.assign(**{name: list(values) for name, values in lists.items()})
        parts.append(rows.assign(prediction=p.argmax(axis=1), answer=answer, n_options=4))
    return pd.concat(parts, ignore_index=True)


def severity_records(rng, n: int, state: tuple[float, float], answer: tuple[float, float]) -> list[pd.DataFrame]:
    """Records and same-question controls of `n` images turned by growing angles: each state passes the control's 5th
    percentile at an angle drawn from one range, each answer flips at one drawn from the other."""
    column, images = "cos_ctx_mcq_post_norm", _singles(n)
    passes, flips, far = rng.uniform(*state, n), rng.uniform(*answer, n), 1 - np.log(0.95)
    parts = [flip_records(images, {"base": np.zeros(n)}).assign(**{column: 0.0})]
    for strength in (5.0, 15.0, 30.0, 60.0):
        rows = flip_records(images, {"severity_rotation": strength >= flips}, {"strength": strength})
        parts.append(rows.assign(**{column: far * strength / passes}))
    distance = 1 + rng.exponential(size=5 * n)  # of which `far` is the 5th percentile
    samples = np.repeat(parts[0]["sample_id"].to_numpy(), 5)
    return [pd.concat(parts, ignore_index=True), pd.DataFrame({"sample_id": samples, column: distance})]
