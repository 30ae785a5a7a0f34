"""The pixel budget of a model whose images keep their shape: set on its processor, and checked by counting tokens."""

import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from tokenizers import Tokenizer, models
from transformers import AutoProcessor, PreTrainedTokenizerFast, ProcessorMixin

from vfkit.models.registry import ModelUnavailable, Spec


def set_budget(processor: ProcessorMixin, spec: Spec) -> None:
    """Make the processor bring images into `spec.min_pixels` to `spec.max_pixels`; nothing where both are None.

    Raises:
        ModelUnavailable: the processor has no such budget, or accepts one and does not keep to it.
    """
    if spec.min_pixels is None and spec.max_pixels is None:
        return
    images = processor.image_processor
    size = dict(images.size)
    if not {"shortest_edge", "longest_edge"} <= {name for name, value in size.items() if value}:
        raise ModelUnavailable(
            f"model {spec.name!r}: {type(images).__name__} gives images of one size, so min_pixels and max_pixels "
            "do not apply; remove them from its entry in params/models.yaml"
        )
    frames = _counted_frames(images)
    least = spec.min_pixels or size["shortest_edge"] // frames
    most = spec.max_pixels or size["longest_edge"] // frames
    if least > most:
        raise ModelUnavailable(f"model {spec.name!r}: min_pixels {least} are more than max_pixels {most}")
    images.size = {"shortest_edge": least * frames, "longest_edge": most * frames}
    cell = (images.patch_size * images.merge_size) ** 2  # pixels of a token
    small, large = (_pixels(images, pixels) for pixels in (least // 2, most * 2))
    if not (least - cell <= small <= most + cell and small < large <= most and large >= most / 2):
        raise ModelUnavailable(
            f"model {spec.name!r}: its processor ignores the pixel budget {least} to {most}: an image of half the "
            f"least takes {small}, one of twice the most {large} pixels. This version of transformers is not known."
        )


def _counted_frames(images) -> int:
    """GLM-4V counts the pixels of both frames that an image becomes, the others those of the image."""
    return images.temporal_patch_size if type(images).__name__.startswith("Glm") else 1


def _pixels(images, pixels: int) -> int:
    """Pixels of a blank square image after the processor has brought it to its size."""
    side = math.isqrt(pixels)
    _, height, width = images(Image.new("RGB", (side, side)), return_tensors="pt")["image_grid_thw"][0].tolist()
    return height * width * images.patch_size**2


def without_tokenizer(folder: Path) -> ProcessorMixin:
    """The model's processor; where its tokenizer is missing, with a stand-in, since images need none."""
    if (folder / "tokenizer_config.json").exists():
        return AutoProcessor.from_pretrained(folder)
    if not any((folder / name).exists() for name in ("processor_config.json", "preprocessor_config.json")):
        raise FileNotFoundError("there is neither processor_config.json nor preprocessor_config.json")
    with TemporaryDirectory() as stand_in:
        for file in folder.glob("*.json"):
            shutil.copy(file, stand_in)
        _tokenizer().save_pretrained(stand_in)
        return AutoProcessor.from_pretrained(stand_in)


def _tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that knows nothing but the names under which processors look for special tokens."""
    names = ("image", "video", "boi", "eoi", "start_image", "end_image", "context_image")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0}, unk_token="<pad>")), pad_token="<pad>",
        extra_special_tokens={f"{name}_token": f"<{name}>" for name in names},
    )  # fmt: skip
