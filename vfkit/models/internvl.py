"""InternVL3 (the `-hf` form): square tiles and, where there are several, a thumbnail of the whole image after them."""

from itertools import accumulate, groupby

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
    """Tokens of each image of one prompt, by (width, height): the same for every tile."""
    tiles = processor.image_processor.get_number_of_image_patches
    return [processor.image_seq_length * tiles(height, width, {"crop_to_patches": True}) for width, height in sizes]


def vision_grids(outputs, inputs: dict, processor) -> list[Tensor]:
    """Vision tokens of every image's view of the whole as handed to the language model: [height, width, channel].

    That view is an image's last: its thumbnail, or the only tile there is.
    """
    tiles = outputs.image_outputs.pooler_output  # [tile, token, channel] of all images, in order
    image = (inputs["input_ids"] == processor.image_token_id).tolist()
    lengths = [len(list(run)) for row in image for inside, run in groupby(row) if inside]
    ends = list(accumulate(length // processor.image_seq_length for length in lengths))
    if not ends or ends[-1] != len(tiles):
        raise RuntimeError("the tiles are not those of the image tokens; this version of the model is not known")
    return [square(tiles[end - 1]) for end in ends]
