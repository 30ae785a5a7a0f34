"""Hosted models in studies: what they cannot give, how many requests a study makes, and at what cost."""

from dataclasses import dataclass

import vfkit
from vfkit.chat import price, written_at_most
from vfkit.datasets import SampleList
from vfkit.images import ImageError, open_images
from vfkit.models import ModelUnavailable
from vfkit.perturb import Suite
from vfkit.study.config import StudyConfig

LOOKED_AT = 5
"""Samples whose perturbed images are made to count the requests of all."""


def answers_only(model: str) -> bool:
    """Whether a model is hosted: it gives answers, but no scores, states or gradients. False for an unknown model."""
    try:
        return vfkit.models.is_hosted(model)
    except ModelUnavailable:  # is said where a stand-in is looked for
        return False


def refuse(config: StudyConfig, suite: Suite) -> None:
    """Refuse a study that needs more of a hosted model than answers, before anything is asked.

    Raises:
        ValueError: it asks for probes, layers or attacks; the message says which.
    """
    if not answers_only(config.model):
        return
    needs = {"states, which `probes` needs": config.probes, "layers, which `inside` needs": bool(config.inside)}
    needs["gradients, which attacks need"] = bool(suite.attacks)
    if missing := [what for what, needed in needs.items() if needed]:
        raise ValueError(f"model {config.model!r} is hosted: it gives answers but no {'; no '.join(missing)}")


@dataclass(frozen=True)
class Requests:
    """What a study asks of a hosted model. Answers that are kept already are counted too, though not paid again.

    Args:
        samples: of the study.
        requests: of their base and perturbed images, from those of the first samples; equal images are asked once.
        tokens_read, tokens_written: about as many are read, at most as many written.
        dollars: the price of all; NaN where the model's entry states no prices.
    """

    model: str
    samples: int
    requests: int
    tokens_read: int
    tokens_written: int
    dollars: float

    def __str__(self) -> str:
        if not self.requests:
            return f"{self.model}: nothing is paid for; the model is read here"
        cost = f"about ${self.dollars:.2f}" if self.dollars == self.dollars else "no prices in its entry"
        return (
            f"{self.model}: about {self.requests:,} requests for {self.samples:,} samples, about "
            f"{self.tokens_read:,} tokens read and at most {self.tokens_written:,} written, {cost}; answers that are "
            "kept are not paid for again"
        )


def estimate(config: StudyConfig, samples: SampleList | None = None) -> Requests:
    """Estimate the requests of a study and their cost; nothing is asked, and no key is needed.

    Raises:
        ValueError: the study needs more than answers, or has a name that does not exist.
        DatasetUnavailable: the data are not here.
    """
    suite = config.suite()
    refuse(config, suite)
    samples = config.load_samples() if samples is None else samples
    if not answers_only(config.model):
        return Requests(config.model, len(samples), 0, 0, 0, 0.0)
    from vfkit.models.api import endpoint, tokens

    counts: list[int] = []
    read: list[int] = []
    for sample in samples:
        if len(counts) == LOOKED_AT:
            break
        try:
            images = open_images(sample)
            made = suite.instances(sample, 0, images)
        except (ImageError, ValueError):  # an error row of the study
            continue
        asked = [one for one in made if one.applicable and one.family != "identity"]  # the stored answer
        counts.append(1 + len(asked))
        read.append(sum(tokens(sample, each) for each in (images, *(one.images for one in asked))))
    at = endpoint(config.model)
    share = len(samples) / max(1, len(counts))
    requests, tokens_read = round(sum(counts) * share), round(sum(read) * share)
    written = requests * written_at_most(at)
    return Requests(config.model, len(samples), requests, tokens_read, written, price(at, tokens_read, written))
