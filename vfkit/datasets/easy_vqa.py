"""easy-VQA: real third-party questions about drawn shapes, installed with the package `easy-vqa` (no download).

Every image is 64 px and shows one of 3 shapes in one of 8 colours; the 13 answers are those and yes and no.
Questions and answers are kept word for word.
"""

import json
import re
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

from vfkit.datasets.base import RowError, Rows, rank
from vfkit.datasets.files import ImageFolders
from vfkit.images import load_image, to_png
from vfkit.sample import Sample

SPLITS = ("test", "train")
SHAPES = ("circle", "rectangle", "triangle")
COLORS = ("black", "blue", "brown", "gray", "green", "red", "teal", "yellow")
N_OPTIONS = 4


def load(path: str | Path | None = None, split: str = "test", enlarge: int = 4) -> Rows:
    """Rows of easy-VQA's own test or training split.

    Questions for a shape or a colour are multiple choice over answers of the same kind: the 3 shapes, or the true
    colour and 3 others, in an order seeded by the row. The rest are yes/no questions.
    Categories: `shape`, `color`, `existence` (is there ...?), `negation` (is there no ...?).

    Args:
        path: a folder in the package's layout (`test/questions.json`, `test/images/0.png`); None takes the package's.
        split: `test` (9,673 questions on 1,000 images) or `train` (38,575 on 4,000).
        enlarge: factor on each side, bicubic, so that a shift of 16 px is not a quarter of the picture; 1 leaves
            the images as they are.

    Raises:
        ValueError: unknown split, or a factor outside 1 to 16.
        FileNotFoundError: `path` does not hold the split.
        ModuleNotFoundError: the package is not installed and no `path` is given.
    """
    if split not in SPLITS:
        raise ValueError(f"easy_vqa has no split {split!r}; there are {' and '.join(SPLITS)}")
    if enlarge not in range(1, 17):
        raise ValueError(f"enlarge={enlarge!r} is no whole factor from 1 to 16")
    folder = (Path(path).expanduser() if path is not None else _package_data()) / split
    if not (folder / "questions.json").is_file():
        raise FileNotFoundError(f"no easy-VQA data in {folder.parent}: {folder / 'questions.json'} does not exist")

    images, samples, errors = ImageFolders(folder / "images"), [], []
    for number, row in enumerate(json.loads((folder / "questions.json").read_text())):
        row_id = f"easy_vqa/{split}/{number}"
        try:
            samples.append(_sample(row_id, row, images))
        except (TypeError, ValueError) as error:
            errors.append(RowError(row_id, f"{error}; the row: {row!r}"))
    if enlarge == 1:
        return Rows(samples, errors)

    @cache  # about ten questions share an image
    def enlarged(image: str) -> bytes:
        small = load_image(image, name=image)
        large = small.resize((small.width * enlarge, small.height * enlarge), Image.Resampling.BICUBIC)
        return to_png(large)

    return Rows(samples, errors, lambda sample: replace(sample, images=tuple(map(enlarged, sample.images))))


def _package_data() -> Path:
    package = find_spec("easy_vqa")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("easy-VQA is not installed: pip install easy-vqa, or give path= to a folder of it")
    return Path(package.origin).parent / "data"


def _sample(row_id: str, row: list, images: ImageFolders) -> Sample:
    question, answer, image = row
    asks = dict(images=(images.find(f"{image}.png"),), question=question, meta={"image": str(image)})
    if answer in ("yes", "no"):
        category = "negation" if re.search(r"\b(no|not)\b", question) else "existence"
        right = int(answer == "no")
        return Sample(row_id, options=("Yes", "No"), answer=right, category=category, prompt="yes_no", **asks)
    if answer not in SHAPES + COLORS:
        raise ValueError(f"{answer!r} is no answer of easy-VQA")
    category, pool = ("shape", SHAPES) if answer in SHAPES else ("color", COLORS)
    wrong = sorted((other for other in pool if other != answer), key=lambda other: rank(row_id, "wrong", other))
    options = sorted([answer, *wrong[: N_OPTIONS - 1]], key=lambda option: rank(row_id, "place", option))
    return Sample(row_id, options=tuple(options), answer=options.index(answer), category=category, **asks)
