"""The mini world's data sets: drawn scenes that no embedded model has seen, with answers known by construction."""

from dataclasses import replace
from random import Random

from vfkit.datasets.base import Rows
from vfkit.images import to_png
from vfkit.mini import world
from vfkit.sample import Sample


def seed(path: None = None, size: int = 1000, world_seed: int = 0) -> Rows:
    """SEEDBench-like questions on held-out scenes: identity, attribute, location and counting as multiple choice,
    existence as yes/no; as many of each.

    Args:
        path: not used, the scenes are drawn.
        size: how many questions there are.
        world_seed: of scenes and questions; another seed gives other questions from the same held-out scenes.

    Raises:
        ValueError: a size below 1, or a path.
    """
    if path is not None:
        raise ValueError("mini_seed is drawn, not read: it takes no path")
    if size < 1:
        raise ValueError(f"size is {size}; at least one question must be made")
    scenes, samples = zip(*(world.held_out(index, world_seed) for index in range(size)), strict=True)
    scene_of = {sample.id: scene for sample, scene in zip(samples, scenes, strict=True)}

    def draw(sample: Sample) -> Sample:
        return replace(sample, images=(to_png(world.render(scene_of[sample.id], Random(sample.id))),))

    return Rows(list(samples), finish=draw)
