"""Qwen3-VL, Qwen2.5-VL and GLM-4V: images keep their shape, and positions have three axes (time, height, width)."""

import numpy as np
from jaxtyping import Int
from torch import Tensor

from vfkit.models.common import backbone, final_norm, image_token_id, masks, placeholder  # noqa: F401


def n_image_tokens(processor, sizes: list[tuple[int, int]]) -> list[int]:
    """Tokens of each image of one prompt, by (width, height). Raises ValueError where the processor refuses a size."""
    image_processor = processor.image_processor
    return [
        image_processor.get_number_of_image_patches(height, width) // image_processor.merge_size**2
        for width, height in sizes
    ]


def positions(model, inputs: dict) -> tuple[Int[Tensor, "3 row token"], Int[Tensor, " row"]]:
    """Position ids of right-padded prompts, and per prompt by how much positions then run ahead of the token count.

    Time, height and width positions of image tokens come from the model's own rule. An image of 8 x 8 tokens takes
    64 tokens but moves positions on by 8 only, so the shift is negative.
    """
    keys = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
    ids, shift = model.model.get_rope_index(**{key: inputs[key] for key in keys if key in inputs})
    return ids, shift[:, 0]


def vision_grids(outputs, inputs: dict, processor) -> list[Tensor]:
    """Vision tokens of every image as handed to the language model, before DeepStack: each [height, width, channel]."""
    merge = processor.image_processor.merge_size
    tokens = outputs.image_outputs.pooler_output
    shapes = [(height // merge, width // merge) for _, height, width in inputs["image_grid_thw"].tolist()]
    if [len(each) for each in tokens] != [int(np.prod(shape)) for shape in shapes]:
        raise RuntimeError(
            "the merged vision tokens do not fill the image grids; this version of the model is not known"
        )
    return [each.reshape(*shape, -1) for each, shape in zip(tokens, shapes, strict=True)]
