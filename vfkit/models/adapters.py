"""Adapters: what an architecture must provide. `Adapter` states it; the classes below it are the known architectures.

An adapter holds only what differs between architectures: where the image tokens and their grid are, how positions and
masks are made, where the final norm sits. To add an architecture, write a class with `n_image_tokens` and
`vision_grids`, override the methods whose default does not fit, and name it in `ADAPTERS`.
"""

from abc import abstractmethod
from itertools import accumulate, groupby
from math import prod
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.image_processing_utils import select_best_resolution
from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

Masks = Bool[Tensor, "row 1 query key"] | dict[str, Bool[Tensor, "row 1 query key"]]
"""Attention masks: one for all layers, or one for each type of layer."""


@runtime_checkable
class Adapter(Protocol):
    """One architecture, as the readout engine needs it. Methods have the usual answer as their default.

    `model` is always the transformers model with its output projection, `processor` its processor, `inputs` the
    processor's tensors for right-padded prompts.
    """

    @abstractmethod
    def n_image_tokens(self, processor, sizes: list[tuple[int, int]]) -> list[int]:
        """Tokens of each image of one prompt, by its (width, height) in pixels, without reading the image.

        Raises:
            ValueError: the processor refuses a size.
        """

    @abstractmethod
    def vision_grids(self, outputs, inputs: dict, processor) -> list[Tensor]:
        """Vision tokens of every image as handed to the language model: each [height, width, channel].

        Where an image is cut into tiles this is the view of the whole image only.

        Args:
            outputs: what `backbone(model)` returned.
        """

    def token_boxes(self, processor, size: tuple[int, int], grid: tuple[int, int], n: int) -> Float[Tensor, "token 4"]:
        """The part of the image that each of its tokens shows: left, top, right, bottom, in [0, 1]; NaN for a token
        that shows none, such as a row's end.

        Args:
            size: width and height of the image in pixels.
            grid: height and width of its grid of vision tokens.
            n: its tokens, which may be more than those of the grid.
        """
        return _boxes(*grid)

    def image_token_id(self, processor) -> int:
        """Id of the token that stands, repeated, for an image in the model's input."""
        return processor.image_token_id

    def placeholder(self, processor) -> str:
        """Text that the chat template writes for one image, before the processor widens it."""
        return processor.image_token

    def positions(self, model, inputs: dict) -> tuple[Int[Tensor, "*axes row token"], Int[Tensor, " row"]]:
        """Position ids of the prompts, and by how much positions run ahead of the token count after each prompt."""
        ids = inputs["input_ids"]
        return torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1), ids.new_zeros(len(ids))

    def masks(
        self,
        model,
        seen: Bool[Tensor, "row query key"],
        queries: Int[Tensor, "row query"],
        keys: Int[Tensor, "row key"],
        ids: Int[Tensor, "row key"] | None = None,
    ) -> Masks:
        """The attention mask in the form the model takes.

        Args:
            seen: which token sees which on the paths that tokens lie on.
            queries, keys: index of each token on its own path, from the first token on.
            ids: the tokens, when queries and keys are the same; None while answers are decoded.
        """
        return seen[:, None]

    def backbone(self, model) -> nn.Module:
        """The model without its output projection."""
        return model.model

    def final_norm(self, model) -> nn.Module:
        """The norm between the last layer and the output projection."""
        return model.model.language_model.norm


class MRope(Adapter):
    """Qwen3-VL (dense and MoE), Qwen2.5-VL, GLM-4V: images keep their shape, positions have three axes (time, height,
    width)."""

    def n_image_tokens(self, processor, sizes: list[tuple[int, int]]) -> list[int]:
        images = processor.image_processor
        return [
            images.get_number_of_image_patches(height, width) // images.merge_size**2 for width, height in sizes
        ]  # fmt: skip

    def positions(self, model, inputs: dict) -> tuple[Int[Tensor, "3 row token"], Int[Tensor, " row"]]:
        """Positions of image tokens come from the model's own rule. An image of 8 x 8 tokens takes 64 tokens but moves
        positions on by 8 only, so the shift is negative."""
        keys = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
        ids, shift = model.model.get_rope_index(**{key: inputs[key] for key in keys if key in inputs})
        return ids, shift[:, 0]

    def vision_grids(self, outputs, inputs: dict, processor) -> list[Tensor]:
        """Merged tokens, before any DeepStack addition."""
        merge = processor.image_processor.merge_size
        tokens = outputs.image_outputs.pooler_output
        shapes = [(height // merge, width // merge) for _, height, width in inputs["image_grid_thw"].tolist()]
        if [len(each) for each in tokens] != [prod(shape) for shape in shapes]:
            raise RuntimeError(
                "the merged vision tokens do not fill the image grids; this version of the model is not known"
            )
        return [each.reshape(*shape, -1) for each, shape in zip(tokens, shapes, strict=True)]


class Gemma3(Adapter):
    """Gemma-3: images of one fixed size whose tokens see each other both ways; most layers look back a window only."""

    def image_token_id(self, processor) -> int:
        """The template's placeholder is another token, the image's beginning."""
        return processor.tokenizer.image_token_id

    def n_image_tokens(self, processor, sizes: list[tuple[int, int]]) -> list[int]:
        return [processor.image_seq_length] * len(sizes)

    def masks(
        self,
        model,
        seen: Bool[Tensor, "row query key"],
        queries: Int[Tensor, "row query"],
        keys: Int[Tensor, "row key"],
        ids: Int[Tensor, "row key"] | None = None,
    ) -> dict[str, Bool[Tensor, "row 1 query key"]]:
        """One mask per type of layer. The window is measured along a token's own path."""
        if ids is not None:
            image = ids == model.config.image_token_id
            begins = image & ~nn.functional.pad(image, (1, -1))
            block = begins.cumsum(dim=1) * image  # number of the image a token belongs to, 0 for text
            seen = seen | ((block[:, :, None] == block[:, None, :]) & (block[:, :, None] > 0))
        window = model.config.get_text_config().sliding_window
        near = keys[:, None, :] > queries[:, :, None] - window
        return {"full_attention": seen[:, None], "sliding_attention": (seen & near)[:, None]}

    def vision_grids(self, outputs, inputs: dict, processor) -> list[Tensor]:
        return [_square(each) for each in outputs.image_outputs.pooler_output]


class LlavaOneVision(Adapter):
    """LLaVA-OneVision: a base view of the whole image and, where it is the prompt's only one, tiles in its shape."""

    def n_image_tokens(self, processor, sizes: list[tuple[int, int]]) -> list[int]:
        """Base view, tiles without their padding, row ends; of several images base views only, each with a row end."""
        if len(sizes) > 1:
            return [processor.num_image_tokens + 1] * len(sizes)
        tile = processor.image_processor.size
        return [
            processor._get_number_of_features(height, width, tile["height"], tile["width"]) for width, height in sizes
        ]

    def token_boxes(self, processor, size: tuple[int, int], grid: tuple[int, int], n: int) -> Float[Tensor, "token 4"]:
        """The base view; then the tiles as one grid over the whole image, each of its rows with an end."""
        view, rest = _boxes(*grid), n - grid[0] * grid[1]
        if rest == 1:  # one of several images
            return nn.functional.pad(view, (0, 0, 0, 1), value=torch.nan)
        tile = processor.image_processor.size
        best = select_best_resolution(size[::-1], processor.image_processor.image_grid_pinpoints)
        scales = best[0] // tile["height"], best[1] // tile["width"]
        _, rows = processor._get_unpadded_features(*size[::-1], *grid, *scales)
        tiles = _boxes(rows, rest // rows - 1).reshape(rows, -1, 4)
        return torch.cat([view, nn.functional.pad(tiles, (0, 0, 0, 1), value=torch.nan).reshape(-1, 4)])

    def vision_grids(self, outputs, inputs: dict, processor) -> list[Tensor]:
        """The base view."""
        return [_square(each[: processor.num_image_tokens]) for each in outputs.image_outputs.pooler_output]


class InternVL(Adapter):
    """InternVL3 (`-hf` form): square tiles and, where there are several, a thumbnail of the whole image after them."""

    def n_image_tokens(self, processor, sizes: list[tuple[int, int]]) -> list[int]:
        """The same for every tile."""
        tiles = processor.image_processor.get_number_of_image_patches
        return [processor.image_seq_length * tiles(height, width, {"crop_to_patches": True}) for width, height in sizes]

    def token_boxes(self, processor, size: tuple[int, int], grid: tuple[int, int], n: int) -> Float[Tensor, "token 4"]:
        """Tiles in reading order, then the thumbnail."""
        view, images = _boxes(*grid), processor.image_processor
        if n == len(view):
            return view
        tile = images.size["height"], images.size["width"]
        columns, rows = get_optimal_tiled_canvas(size[::-1], tile, images.min_patches, images.max_patches)
        shift = torch.stack([_boxes(rows, columns)[:, i] for i in (0, 1, 0, 1)], dim=1)
        within = view / view.new_tensor([columns, rows, columns, rows])
        return torch.cat([(shift[:, None] + within).reshape(-1, 4), view])

    def vision_grids(self, outputs, inputs: dict, processor) -> list[Tensor]:
        """An image's last tile: its thumbnail, or the only tile there is."""
        tiles = outputs.image_outputs.pooler_output  # [tile, token, channel] of all images, in order
        image = (inputs["input_ids"] == processor.image_token_id).tolist()
        lengths = [len(list(run)) for row in image for inside, run in groupby(row) if inside]
        ends = list(accumulate(length // processor.image_seq_length for length in lengths))
        if not ends or ends[-1] != len(tiles):
            raise RuntimeError("the tiles are not those of the image tokens; this version of the model is not known")
        return [_square(tiles[end - 1]) for end in ends]


ADAPTERS: dict[str, type[Adapter]] = {
    "qwen3_vl": MRope,
    "qwen3_vl_moe": MRope,
    "qwen2_5_vl": MRope,
    "glm4v": MRope,
    "glm4v_moe": MRope,
    "glm46v": MRope,
    "gemma3": Gemma3,
    "llava_onevision": LlavaOneVision,
    "internvl": InternVL,
}
"""The `model_type` of a checkpoint's config -> its adapter."""


def _square(tokens: Tensor) -> Tensor:
    """Tokens of one square view in reading order [token, channel] as a grid [side, side, channel]."""
    side = round(len(tokens) ** 0.5)
    if side**2 != len(tokens):
        raise RuntimeError(f"{len(tokens)} vision tokens do not fill a square; this version of the model is not known")
    return tokens.reshape(side, side, -1)


def _boxes(height: int, width: int) -> Float[Tensor, "cell 4"]:
    """Cells of a grid over the whole image, in reading order: left, top, right, bottom."""
    top, left = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    return torch.stack([left, top, left + 1 / width, top + 1 / height], dim=-1).reshape(-1, 4)
