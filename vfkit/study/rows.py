"""Rows of a run's parts, made of readouts; their columns are in `schema.py`."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL.Image import Image

from vfkit.images import lasting_hash
from vfkit.measure import change
from vfkit.readout import rules
from vfkit.sample import Instance, Sample


class Base(NamedTuple):
    """A sample whose own images were read: now, or by another run (`readout` is then a `vfkit.study.reuse.Kept`)."""

    sample: Sample
    images: tuple[Image, ...]
    readout: Any
    prediction: int | None  # None where a hosted model's answer names no option
    image_id: str


def record(rule: str, base: Base, instance: Instance, readout: Any) -> dict[str, Any]:
    """Make one record. The readout's columns stay empty if the instance does not apply.

    Args:
        rule: scoring rule of the study.
        base: the sample's own reading.
        readout: of the instance; None if it does not apply.

    Raises:
        Exception: the reason of a failed readout; ValueError if scores are not finite.
    """
    sample = base.sample
    row: dict[str, Any] = {
        "sample_id": sample.id,
        "category": sample.category,
        "family": instance.family,
        "instance": instance.name,
        "params": json.dumps(instance.params, sort_keys=True),
        "applicable": instance.applicable,
        "reason": instance.reason,
        "answer": sample.answer,
        "n_options": len(sample.options),
        "base_prediction": base.prediction,
        "image_id": base.image_id,
    }
    if not instance.applicable:
        return row
    row["prediction"], row["tied"] = prediction(rule, readout)
    if readout.scored:
        row["margin"], row["base_margin"] = rules.margins(scores(rule, readout), base.prediction or 0)
        row["off_mass"] = float(readout.off_mass)
        options = readout.options
        row |= {part: options[part].tolist() for part in ("logp_text", "logp_end", "logp_letter", "n_tokens")}
    else:
        row |= change.answers(readout)
    if row["prediction"] is not None:
        row["prediction_text"] = sample.options[row["prediction"]]
        row["flip"] = None if base.prediction is None else row["prediction"] != base.prediction
    elif not readout.scored:
        row["prediction_text"] = readout.texts.get("mcq")
    if instance.images:  # a blank may be none at all
        row["image_hash"] = image_hash(instance.images)
        row["width"], row["height"] = instance.images[0].size
    return row


def prediction(rule: str, readout: Any) -> tuple[int | None, bool | None]:
    """(index of the predicted option, whether it is tied); a hosted model's answer has no ties.

    Raises:
        Exception: the reason of a failed readout; ValueError if scores are not finite.
    """
    if not isinstance(readout, Exception) and not readout.scored:
        return readout.named, None
    return rules.predict(scores(rule, readout))


def scores(rule: str, readout: Any) -> np.ndarray:
    """Scores of a readout, float64 [option]; raises the exception that stands for a failed one."""
    if isinstance(readout, Exception):
        raise readout
    values = readout.scores(rule)
    if np.isnan(values).any():
        raise ValueError(f"the model's scores are not numbers: {values.tolist()}")
    return values


def sample_row(sample: Sample) -> dict[str, Any]:
    """Make a sample's row: its question and what its data set knows of it, so that tables need only the run."""
    fields = ("category", "question", "hint", "options", "answer", "prompt")
    row = {"sample_id": sample.id} | {name: getattr(sample, name) for name in fields}
    return row | {"n_images": len(sample.images), "meta": json.dumps(sample.meta, sort_keys=True, default=str)}


def control_row(base: Base, control: Instance, readout: Any) -> dict[str, Any]:
    """Distances from the base of the same question on a control image, that of the sample `control.name`.

    Raises:
        Exception: the one that stands in a failed readout's place.
    """
    if isinstance(readout, Exception):
        raise readout
    who = {"sample_id": base.sample.id, "partner_id": control.name, "image_id": base.image_id}
    return who | {"partner_image_id": image_hash(control.images)} | change.from_base(readout, base.readout)


def error_row(sample_id: str, instance: str, stage: str, error: Exception) -> dict[str, str]:
    """One failure: of a row of the data (`instance` is ""), of a sample (`base`) or of one of its instances."""
    what = {"sample_id": sample_id, "instance": instance, "stage": stage}
    return what | {"error": type(error).__name__, "message": str(error)}


def image_hash(images: Sequence[Image]) -> str:
    """Content hashes of the images, joined by "+"."""
    return "+".join(map(lasting_hash, images))
