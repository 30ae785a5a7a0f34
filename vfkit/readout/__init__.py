"""Readouts: what a model says and holds of a sample, by the engine or, slowly and obviously, by the oracle."""

from PIL.Image import Image

from vfkit.readout.readout import Readout
from vfkit.sample import Sample

__all__ = ["Readout", "read", "read_oracle"]


def read(vlm, sample: Sample, images: tuple[Image, ...] | None = None, probes: bool = True) -> Readout:
    """One readout by the engine.

    Args:
        vlm: a model from `vfkit.load_model`.
        images: perturbed images to read in place of the sample's own.
        probes: also read hidden states, vision tokens and the model's own answers (HI 3.3); hosted models give their
            answer alone.

    Raises:
        ImageError: an image of the sample cannot be opened.
        ValueError: the processor or its chat template refuses the sample.
    """
    from vfkit.images import load_image

    images = tuple(load_image(source, sample.id) for source in sample.images) if images is None else tuple(images)
    if hasattr(vlm, "ask_many"):
        (result,) = vlm.ask_many([(sample, images)])
    else:
        from vfkit.readout.engine import read_many

        (result,) = read_many(vlm, [(sample, images)], probes)
    if isinstance(result, Exception):
        result.add_note(f"(while reading sample {sample.id!r})")
        raise result
    return result


def __getattr__(name: str):
    if name == "read_oracle":  # imports torch
        from vfkit.readout.oracle import read_oracle

        return read_oracle
    raise AttributeError(f"module 'vfkit.readout' has no attribute {name!r}")
