"""What one model says and holds of one sample: the parts of every option's score, probes, vision tokens, texts."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from vfkit.readout import rules

PROBES = ("ctx_open", "ctx_mcq", "ans_open", "ans_mcq", "ans_mcq_free")  # HI 3.3
TAPS = ("pre_norm", "post_norm")  # before and after the norm that precedes the output projection


@dataclass(frozen=True)
class Readout:
    """A sample's readout; log-probabilities in natural-log units.

    Args:
        labels, option_texts: what names each option, and its text.
        logp_text, logp_end: float64 [option]; sums over the option's text tokens and the end-of-turn tokens after it.
        n_tokens: int64 [option]; text tokens.
        logp_letter: float64 [option]; the option's letter as the answer, NaN where the prompt lists no letters.
        probes: name -> tap (`pre_norm`, `post_norm`) -> float32 [channel] (HI 3.3).
        vision: per image, float32 [height, width, channel]; vision tokens as handed to the language model.
        texts: name -> the model's own greedy answer to that prompt.
        said: name -> the tokens of that answer, end-of-turn included.
        scored: False where the model gives answers alone (hosted ones): no log-probability is a number.
        named: of such a model, the option that its answer names; None where it names none, or several.
    """

    labels: tuple[str, ...]
    option_texts: tuple[str, ...]
    logp_text: np.ndarray
    logp_end: np.ndarray
    n_tokens: np.ndarray
    logp_letter: np.ndarray
    probes: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    vision: list[np.ndarray] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    said: dict[str, tuple[int, ...]] = field(default_factory=dict)
    scored: bool = True
    named: int | None = None

    @property
    def options(self) -> pd.DataFrame:
        """One row per option: label, text, logp_text, logp_end, n_tokens, logp_letter."""
        return pd.DataFrame({"label": self.labels, "text": self.option_texts, **self.parts()})

    def parts(self) -> dict[str, np.ndarray]:
        """The four parts that scoring rules pick from, by name."""
        return {name: getattr(self, name) for name in ("logp_text", "logp_end", "n_tokens", "logp_letter")}

    def scores(self, rule: str = "paper") -> np.ndarray:
        """float64 [option]; see `vfkit.readout.rules.scores`."""
        return rules.scores(rule, **self.parts())

    def prediction(self, rule: str = "paper") -> int | None:
        """Index of the best option, the first of equals; where nothing is scored, the option named."""
        if not self.scored:
            return self.named
        return rules.predict(self.scores(rule))[0]

    def tied(self, rule: str = "paper") -> bool:
        """Whether the best score is shared."""
        return rules.predict(self.scores(rule))[1]

    def margin(self, rule: str = "paper") -> float:
        """Predicted score minus best other, >= 0 (HI eq. 2); NaN for a single option."""
        return rules.margins(self.scores(rule), base=0)[0]

    @property
    def off_mass(self) -> float:
        """Probability that the first answer token is none of the listed letters; NaN without letters."""
        return float(1 - np.exp(self.logp_letter).sum())
