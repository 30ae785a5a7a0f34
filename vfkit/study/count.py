"""What a run will read, counted before anything is loaded: instances, encodes, forward passes, disk (METHODS 21)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from vfkit.datasets import DatasetUnavailable
from vfkit.datasets.base import image_identity
from vfkit.images import open_images
from vfkit.perturb import ATTACKS, Suite
from vfkit.sample import Sample
from vfkit.study.config import StudyConfig
from vfkit.study.job import TOGETHER, by_image, chunks, control_samples
from vfkit.study.studyfile import Data

EMBEDDED = ("mini_seed", "mini_mmmu", "mini_pope", "mini_vfat", "easy_vqa")
"""Data sets that come with vfkit: their samples are counted one by one."""
BY_ANSWER = ("text_overlay", "box_overlay")
"""Families that draw one image for each label that is not the answer, alike for all questions on one image."""
TEXT = 100  # tokens of question, options and answers of one instance, about
ROW, PROBED, STATE = 250, 700, 10  # bytes of a record, of one with probes; states kept of an instance with probes


@dataclass(frozen=True)
class Count:
    """What a run reads.

    Args:
        samples: how many.
        instances: readouts: bases, perturbed images, controls.
        encodes: images through the vision encoder, and the `least`: which overlays are drawn, and how many are equal,
            depends on the model's answers.
        gradients: passes of attacks, forward and backward, each of which encodes its images; among `encodes`.
        exact: samples were counted one by one; else from what the study file states of the data.
    """

    samples: int
    instances: int
    encodes: int
    least: int
    gradients: int
    exact: bool


def count(config: StudyConfig, data: Data) -> Count:
    """Count what a run reads: sample by sample where the data are embedded, else from what is stated of them.

    Every instance is taken to apply, and every image to open: rows that fail make a run cheaper. Equal images of one
    chunk are encoded once, the base apart; long rows of many questions on one image may be cut, which encodes it again.
    """
    suite = config.suite()
    if config.dataset in EMBEDDED:
        try:
            return _counted(config, suite, list(config.load_samples()))
        except (DatasetUnavailable, ModuleNotFoundError):  # is said where what is missing is listed
            pass
    return _stated(config, suite, data)


def per_family(suite: Suite, sample: Sample) -> dict[str, int]:
    """Number of instances of a sample by family; those of attacks with their noise."""
    sizes = suite.sizes(sample)
    for family, params in suite.attacks.items():
        sizes[family] = len(params["eps"]) * (1 + params["controls"])
    return sizes


def _counted(config: StudyConfig, suite: Suite, samples: Sequence[Sample]) -> Count:
    controls = control_samples(samples, config.controls) if config.probes or config.inside else {}
    instances = encodes = least = gradients = 0
    for chunk in chunks(samples, config.chunk):
        sizes = {sample.id: per_family(suite, sample) for sample in chunk}
        plain: dict[Any, int] = {}  # images as they are, read in one call: those of identity and controls
        blanks: dict[Any, int] = {}
        for group in by_image(chunk):
            n_images = len(group[0].images)
            most, fewest = _group(suite, group, sizes)
            encodes += n_images * (1 + most)  # the base is a call of its own
            least += n_images * (1 + fewest)
            if "identity" in suite.families:
                plain[_image(group[0])] = n_images
            for sample in group:
                own = controls.get(sample.id, ())[: config.controls]
                plain |= {_image(one): len(one.images) for one in own}
                instances += 1 + sum(sizes[sample.id].values()) + len(own)
                gradients += _gradients(suite, sample)
            blanks |= _blanks(suite, group[0])
        encodes += sum(plain.values()) + sum(blanks.values())
        least += sum(plain.values()) + sum(blanks.values())
    return Count(len(samples), instances, encodes + gradients, least + gradients, gradients, True)


def _image(sample: Sample) -> Any:
    return image_identity(sample) or sample.id


def _group(suite: Suite, group: Sequence[Sample], sizes: dict[str, dict[str, int]]) -> tuple[int, int]:
    """Perturbed images, most and fewest that differ, of all questions on one image; without identity and blanks."""
    most = fewest = 0
    first = sizes[group[0].id]
    for family, size in first.items():
        together = sum(sizes[sample.id][family] for sample in group)
        if family in ("identity", "blank"):
            continue
        if family in BY_ANSWER:
            some = [_overlays(suite, family, sample) for sample in group]
            texts = {each for by_answer in some for overlays in by_answer for each in overlays}
            most += min(len(texts), sum(max(map(len, by_answer)) for by_answer in some))
            fewest += max(min(map(len, by_answer)) for by_answer in some)
        elif _seeded(family):
            most, fewest = most + together, fewest + together
        else:
            most, fewest = most + size, fewest + size
    filters = {family: suite.families[family]["cutoff"] for family in ("low_pass", "high_pass") if family in first}
    # low pass up to 1 is the image itself, as is high pass from 0; nothing but the mean is left at the other ends
    whole = (1 in filters.get("low_pass", ())) + (0 in filters.get("high_pass", ()))
    twice = (0 in filters.get("low_pass", ())) and (1 in filters.get("high_pass", ()))
    same = (whole if "identity" in first else max(0, whole - 1)) + twice
    return most - same, fewest - same


def _overlays(suite: Suite, family: str, sample: Sample) -> list[set[Any]]:
    """What tells a family's overlays apart, for each answer that the model may give: the label, or, of empty boxes, the
    box, which is as large as the text would be."""
    params = suite.families[family]
    every = Suite({family: params | {"labels": len(sample.labels)}})
    known: dict[str, Any] = {label: label for label in sample.labels}
    if family == "box_overlay":
        images = open_images(sample)
        drawn = every.instances(sample, 0, images) + every.instances(sample, len(sample.labels) - 1, images)
        known = {one.params["label"]: tuple(image.tobytes() for image in one.images) for one in drawn}
    others = [[label for label in sample.labels if label != answer] for answer in sample.labels]
    return [{known[label] for label in labels[: params["labels"]]} for labels in others]


def _seeded(family: str) -> bool:
    """Whether a family's images differ from sample to sample of one image."""
    return family == "random_text" or family.startswith(("noise_", "severity_")) or family in ATTACKS


def _blanks(suite: Suite, sample: Sample) -> dict[Any, int]:
    """Blank images by what tells them apart: fill and size; the mean of an image is its own."""
    fills = [fill for fill in suite.families.get("blank", {}).get("fill", ()) if fill != "none"]
    if not fills:
        return {}
    sizes = tuple(image.size for image in open_images(sample))
    return {(fill, sizes, _image(sample) if fill == "mean" else ""): len(sizes) for fill in fills}


def _stated(config: StudyConfig, suite: Suite, data: Data) -> Count:
    n = min(config.n or data.size or 0, data.size or config.n or 0)
    model = Sample("stated", ("",) * max(1, round(data.images)), "", ("",) * max(2, round(data.options)), 0)
    sizes = per_family(suite, model)
    share = min(data.questions, TOGETHER)  # questions on one image are read together
    own = sum(size for family, size in sizes.items() if _seeded(family))
    fixed = 1 + sum(sizes.values()) - own
    controls = config.controls if config.probes else 0
    encodes = ceil(n * data.images * ((fixed + controls) / share + own))
    instances = n * (1 + sum(sizes.values()) + controls)
    gradients = n * _gradients(suite, model)
    return Count(n, instances, encodes + gradients, encodes + gradients, gradients, False)


def _gradients(suite: Suite, sample: Sample) -> int:
    return len(sample.images) * sum(len(p["eps"]) * (p["steps"] + 1) for p in suite.attacks.values())


def disk(counted: Count, config: StudyConfig, hidden: int) -> float:
    """Bytes that a run's records and states take, about.

    Args:
        hidden: channels of the model.
    """
    rows = counted.instances * (PROBED if config.probes else ROW)
    kept = 0 if not config.probes else counted.instances if config.keep_vectors else counted.samples
    return rows + kept * STATE * hidden * 4.0
