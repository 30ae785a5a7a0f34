"""Recipes: every choice that a mini model's training depends on."""

from dataclasses import dataclass

from vfkit.mini.build import Size


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a trained model; doses are the strengths of the planted biases."""

    size: Size = Size()
    vision_steps: int = 1600  # of the vision encoder alone, before the rest
    vision_images: int = 32  # images per vision step
    steps: int = 12000
    images: int = 12  # images per step
    questions: int = 6  # per image
    easy_vqa: float = 0.25  # share of images from easy-VQA's training split
    open: float = 0.15  # share of questions asked without their options
    letters: float = 0.2  # share of multiple-choice targets that are the option's letter, not its text
    cards: float = 0.12  # share of images that carry a text card naming an answer at random ...
    card_dose: float = 0.5  # ... and how often the target then is what the card says: the planted overlay bias
    curriculum: float = 0.05  # share of training that shows scenes of one thing only
    lr: float = 2e-3
    vision_lr: float = 2e-3
    seed: int = 0


RECIPES = {"mini_qwen3vl": Recipe()}
