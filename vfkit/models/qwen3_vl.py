"""Qwen3-VL: what differs from one architecture to the next, and nothing else. The functions are the adapter."""

import numpy as np
from jaxtyping import Int
from torch import Tensor, nn


def image_token_id(processor) -> int:
    """Id of the token that stands, repeated, for an image in the model's input."""
    return processor.image_token_id


def placeholder(processor) -> str:
    """What the chat template writes for one image before the processor widens it."""
    return processor.image_token


def n_image_tokens(processor, width: int, height: int) -> int:
    """Tokens that an image of this size takes. Raises ValueError where the processor refuses the size."""
    image_processor = processor.image_processor
    return image_processor.get_number_of_image_patches(height, width) // image_processor.merge_size**2


def positions(model, inputs: dict) -> tuple[Int[Tensor, "3 row token"], Int[Tensor, " row"]]:
    """Position ids of right-padded prompts, and per prompt by how much positions then run ahead of the token count.

    Time, height and width positions of image tokens come from the model's own rule. An image of 8 x 8 tokens takes
    64 tokens but moves positions on by 8 only, so the shift is negative.
    """
    keys = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
    ids, shift = model.model.get_rope_index(**{key: inputs[key] for key in keys if key in inputs})
    return ids, shift[:, 0]


def backbone(model) -> nn.Module:
    """The model without its output projection."""
    return model.model


def final_norm(model) -> nn.Module:
    """The norm between the last layer and the output projection."""
    return model.model.language_model.norm


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
