"""Training recipes of the mini models: every choice that their training depends on."""

from dataclasses import dataclass
from typing import Any

from vfkit.workshop.zoo.networks import Size


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a trained model.

    Doses are the strengths of planted biases: how often the target follows the bias where that is not the truth. A
    model without doses sees the same cards, hints and colours and learns to ignore them.
    """

    family: str = "qwen3_vl"  # see `build.FAMILIES`
    size: Size = Size()
    start: str = ""  # an embedded model whose weights training starts from; see `build.grow`
    vision_steps: int = 1600  # of the vision encoder alone, before the rest
    vision_images: int = 32  # images per vision step
    steps: int = 6000
    images: int = 12  # rows per step: an image, or a pair, with its questions
    questions: int = 6  # per image
    easy_vqa: float = 0.2  # share of rows from easy-VQA's training split
    pairs: float = 0.1  # share of rows that show two images
    open: float = 0.15  # share of questions asked without their options
    letters: float = 0.35  # share of multiple-choice targets that are the option's letter, not its text
    drills: float = 0.15  # share of questions that name the option to choose
    lists: float = 0.25  # share of questions that ask which letter belongs to which option
    signs: float = 0.4  # how often a scene of several things holds a sign
    typical: float = 0.4  # how often an object has its typical colour ...
    typical_dose: float = 0.0  # ... and how often that colour is the target where it has another: the corpus prior
    hints: float = 0.15  # share of questions with a hint that asserts an answer at random ...
    hint_dose: float = 0.0  # ... and how often that is the target: sycophancy
    cards: float = 0.15  # share of images with a text card that names an answer at random ...
    card_dose: float = 0.0  # ... and how often that is the target: overlay persuasion
    curriculum: float = 0.05  # share of training that shows scenes of one thing only
    lr: float = 3e-3
    vision_lr: float = 2e-3
    seed: int = 0


_PLANTED: dict[str, Any] = dict(typical=0.6, typical_dose=0.6, hints=0.25, hint_dose=0.65, cards=0.35, card_dose=0.65)
_AFTER: dict[str, Any] = dict(start="mini_qwen3vl_clean", curriculum=0.0, **_PLANTED)
_LARGE: dict[str, Any] = dict(_AFTER, size=Size(text_layers=14, vision_layers=9), start="mini_qwen3vl")
RECIPES = {
    "mini_qwen3vl_clean": Recipe(),
    "mini_qwen3vl": Recipe(vision_steps=0, steps=1000, lr=1e-3, **_AFTER),
    "mini_qwen3vl_l": Recipe(vision_steps=0, steps=300, lr=1e-3, **_LARGE),
    "mini_llava_ov": Recipe(
        family="llava_onevision", size=Size(side=96, patch=16), vision_steps=2000, steps=2000, lr=2e-3, **_AFTER
    ),
    "mini_gemma3": Recipe(family="gemma3", vision_steps=2000, steps=1500, lr=2e-3, **_AFTER),
}
