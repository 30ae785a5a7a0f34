"""Readouts: what a model says and holds of a sample, by the engine or, slowly and obviously, by the oracle."""

from collections.abc import Sequence
from typing import Any

from vfkit.readout.reader import Reader
from vfkit.readout.readout import Readout
from vfkit.sample import Sample

__all__ = ["Reader", "Readout", "read", "read_oracle"]


def read(vlm: Reader, sample: Sample, images: Sequence[Any] | None = None, probes: bool = True) -> Readout:
    """One readout by the engine.

    Args:
        vlm: a model from `vfkit.load_model`.
        images: what to read in place of the sample's own images: perturbed images, or anything `vfkit.load_image`
            opens. PIL images are read at the size they have.
        probes: also read hidden states, vision tokens and generated answers (HI 3.3); a hosted model gives only its
            answer.

    Raises:
        ImageError: an image cannot be opened.
        ValueError: the processor or its chat template refuses the sample, or the prompt is longer than the context.
    """
    from vfkit.images import open_images

    (result,) = vlm.read_many([(sample, open_images(sample, images))], probes)
    if isinstance(result, Exception):
        result.add_note(f"(while reading sample {sample.id!r})")
        raise result
    return result


def __getattr__(name: str):
    if name == "read_oracle":  # imports torch
        from vfkit.readout.oracle import read_oracle

        return read_oracle
    raise AttributeError(f"module 'vfkit.readout' has no attribute {name!r}")
