"""Scoring rules: how the parts of an option's log-likelihood become its score (HI 3.1). Numpy only."""

from typing import Literal, get_args

import numpy as np

Rule = Literal["paper", "text", "text_mean", "letter"]
RULES: tuple[Rule, ...] = get_args(Rule)


def scores(rule: str, logp_text, logp_end, n_tokens, logp_letter) -> np.ndarray:
    """Score one sample's options by a rule, in natural-log units.

    Args:
        rule: `paper` sums text and end-of-turn log-probabilities (HI 3.1), `text` leaves the end-of-turn out,
            `text_mean` divides `text` by its number of tokens, `letter` takes the option's letter as the answer.
        logp_text, logp_end, n_tokens, logp_letter: one number per option.

    Returns:
        float64 array, one score per option.

    Raises:
        ValueError: unknown rule, or `letter` if the prompt lists no letters.
    """
    text, end, count, letter = (
        np.asarray(part, dtype=np.float64) for part in (logp_text, logp_end, n_tokens, logp_letter)
    )
    if rule == "letter" and np.isnan(letter).any():
        raise ValueError("the letter rule needs a prompt that lists its options by letter")
    return combine(rule, text, end, np.maximum(count, 1), letter)


def combine(rule: str, text, end, count, letter):
    """Apply a rule to arrays or, in an attack, tensors with gradients."""
    if rule == "paper":
        return text + end
    if rule == "text":
        return text
    if rule == "text_mean":
        return text / count
    if rule == "letter":
        return letter
    raise ValueError(f"unknown scoring rule {rule!r}; the rules are {', '.join(RULES)}")


def predict(values: np.ndarray) -> tuple[int, bool]:
    """Index of the best score (the first of equals) and whether the top is tied."""
    best = int(np.argmax(values))
    return best, bool((values == values[best]).sum() > 1)


def margins(values: np.ndarray, base: int) -> tuple[float, float]:
    """(margin, base-label margin): the predicted, and the base prediction's, score minus the best other (HI eq. 2).

    The first is never negative; the second is negative exactly when the answer left `base`.
    Both are NaN for a single option.
    """
    if len(values) < 2:
        return float("nan"), float("nan")
    first, second = np.sort(values)[::-1][:2]
    return float(first - second), float(values[base] - np.delete(values, base).max())
