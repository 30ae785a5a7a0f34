"""Gemma-3: images of one fixed size whose tokens see each other both ways; most layers look back a window only."""

from jaxtyping import Bool, Int
from torch import Tensor, nn

from vfkit.models.common import backbone, final_norm, placeholder, positions, square  # noqa: F401


def image_token_id(processor) -> int:
    """Id of the token that stands, repeated, for an image; the template's placeholder is another, its beginning."""
    return processor.tokenizer.image_token_id


def n_image_tokens(processor, sizes: list[tuple[int, int]]) -> list[int]:
    """Tokens of each image of one prompt: as many for every size."""
    return [processor.image_seq_length] * len(sizes)


def masks(
    model,
    seen: Bool[Tensor, "row query key"],
    queries: Int[Tensor, "row query"],
    keys: Int[Tensor, "row key"],
    ids: Int[Tensor, "row key"] | None = None,
) -> dict[str, Bool[Tensor, "row 1 query key"]]:
    """One mask per type of layer; see `vfkit.models.common.masks`. The window is measured along a token's own path."""
    if ids is not None:
        block = _image_blocks(ids == model.config.image_token_id)
        seen = seen | ((block[:, :, None] == block[:, None, :]) & (block[:, :, None] > 0))
    window = model.config.get_text_config().sliding_window
    near = keys[:, None, :] > queries[:, :, None] - window
    return {"full_attention": seen[:, None], "sliding_attention": (seen & near)[:, None]}


def _image_blocks(image: Bool[Tensor, "row token"]) -> Int[Tensor, "row token"]:
    """Number of the image that a token belongs to, from 1 on; 0 for text."""
    before = nn.functional.pad(image, (1, -1))
    return (image & ~before).cumsum(dim=1) * image


def vision_grids(outputs, inputs: dict, processor) -> list[Tensor]:
    """Vision tokens of every image as handed to the language model: each [height, width, channel], a real square."""
    return [square(each) for each in outputs.image_outputs.pooler_output]
