"""LLaVA-OneVision: a base view of the whole image and, where it is the prompt's only one, tiles in its own shape."""

from torch import Tensor

from vfkit.models.common import (  # noqa: F401
    backbone,
    final_norm,
    image_token_id,
    masks,
    placeholder,
    positions,
    square,
)


def n_image_tokens(processor, sizes: list[tuple[int, int]]) -> list[int]:
    """Tokens of each image of one prompt, by (width, height): base view, tiles without their padding, row ends."""
    if len(sizes) > 1:  # base views only, each with one row end
        return [processor.num_image_tokens + 1] * len(sizes)
    tile = processor.image_processor.size
    return [processor._get_number_of_features(height, width, tile["height"], tile["width"]) for width, height in sizes]


def vision_grids(outputs, inputs: dict, processor) -> list[Tensor]:
    """Vision tokens of every image's base view as handed to the language model: each [height, width, channel]."""
    return [square(each[: processor.num_image_tokens]) for each in outputs.image_outputs.pooler_output]
