"""One question on one image: its row, the places in it, and the image tokens that a perturbation changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image

from vfkit.readout.batch import Group, Question, image_tokens, question
from vfkit.sample import Sample

CHANGED = 0.02  # share of a token's pixels that differ from which on it shows the change
LARGEST = 0.5  # share of the image's tokens up to which what changed is a region of it


@dataclass
class Scene:
    """A question on its images.

    Args:
        question: the prompt and its options, as the engine reads them.
        n_tokens: of its row.
    """

    question: Question
    images: tuple[Image.Image, ...]
    n_tokens: int

    def group(self) -> Group:
        """A new row of a batch."""
        return Group(self.images, [self.question])


def make_scene(vlm, sample: Sample, images: Sequence[Image.Image]) -> Scene:
    """A sample's question on images; raises as `vfkit.readout.batch.question` does.

    Raises:
        ValueError: there is no image.
    """
    if not images:
        raise ValueError("the sample has no image")
    asked = question(vlm, sample, images)
    n_tokens = asked.scored.n_head + image_tokens(vlm, images) + asked.n_tokens
    return Scene(asked, tuple(images), n_tokens)


def places(group: Group, image_token: int) -> dict[str, list[int]]:
    """Tokens of a grown row by place: `image`, `question` (the prompt's other tokens from the first image token on,
    without its last) and `answer` (the prompt's last)."""
    (asked,) = group.questions
    row = group.row
    answer = row.last(asked.context)
    image = [token for token in range(row.length[0]) if row.tokens[token] == image_token]
    prompt = np.flatnonzero(row.path(asked.context)).tolist()
    text = [token for token in prompt if token > image[0] and token not in set(image) and token != answer]
    return {"image": image, "question": text, "answer": [answer]}


def token_boxes(
    vlm, images: Sequence[Image.Image], grids: Sequence[tuple[int, int]]
) -> list[Float[torch.Tensor, "token 4"]]:
    """The part of its image that each image token shows (`Adapter.token_boxes`), image by image."""
    counts = vlm.adapter.n_image_tokens(vlm.processor, [image.size for image in images])
    each = zip(images, grids, counts, strict=True)
    return [vlm.adapter.token_boxes(vlm.processor, image.size, grid, n) for image, grid, n in each]


def changed_pixels(base: Image.Image, other: Image.Image) -> Float[np.ndarray, "height width"]:
    """Where two images of one size differ in any channel: 1.0, else 0.0."""
    one, two = (np.asarray(image, dtype=np.int16) for image in (base, other))
    return (one != two).any(axis=2).astype(float)


def region(
    base: Sequence[Image.Image], other: Sequence[Image.Image], boxes: Sequence[Float[torch.Tensor, "token 4"]]
) -> list[int]:
    """Image tokens that show what differs between two series of images: of whose pixels at least `CHANGED` differ.

    Returns:
        Their places among the image tokens. Empty if nothing differs or the sizes do, and if more than `LARGEST` of the
        tokens show a change, which is then not in one region of the image.
    """
    tokens, start = [], 0
    for one, two, box in zip(base, other, boxes, strict=True):
        if one.size != two.size:
            return []
        table = np.pad(changed_pixels(one, two), ((1, 0), (1, 0))).cumsum(0).cumsum(1)  # of sums from the corner
        shown = np.isfinite(box.numpy()).all(axis=1)
        edges = box.numpy()[shown] * np.array([one.width, one.height] * 2)
        left, top, right, bottom = np.rint(edges).astype(int).T
        right, bottom = np.maximum(right, left + 1), np.maximum(bottom, top + 1)
        right, bottom = np.minimum(right, one.width), np.minimum(bottom, one.height)
        within = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
        share = within / np.maximum((right - left) * (bottom - top), 1)
        tokens += (start + np.flatnonzero(shown)[share >= CHANGED]).tolist()
        start += len(box)
    return tokens if len(tokens) <= LARGEST * start else []


def random_tokens(tokens: Sequence[int], n: int, draw: np.random.Generator) -> list[int]:
    """`n` of the tokens, without replacement, in order; empty if there are fewer."""
    return sorted(draw.choice(list(tokens), n, replace=False).tolist()) if 0 < n <= len(tokens) else []
