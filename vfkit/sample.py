"""`Sample`, a question with its images, and `Instance`, one perturbed form of these images."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from PIL.Image import Image

Prompt = Literal["mcq", "yes_no", "open"]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Sample:
    """One question about one or more images.

    Args:
        id: unique within its dataset.
        images: sources that `vfkit.load_image` opens: paths, bytes, PIL images, arrays, or functions that return one
            of these.
        question: the question's text; see `vfkit.prompts.user_turn` for images placed within it.
        options: answer texts, in the order they are shown.
        answer: index of the right option, or None if it is not known.
        category: the stratum that selection and tables use.
        hint: optional text shown before the question.
        prompt: `mcq` lists the options in the prompt; `yes_no` asks for one word (POPE); `open` lists none.
        meta: anything else a dataset knows of the row; never read by the engine. `image` names the image where several
            samples share one: they are chosen, and read, together.

    Raises:
        ValueError: fewer than one option, more options than letters, an answer outside the options, the category `all`
            (reserved for rows over all of them), or a field of the wrong type.
    """

    id: str
    images: tuple[Any, ...] = field(repr=False)
    question: str
    options: tuple[str, ...]
    answer: int | None = None
    category: str = ""
    hint: str = ""
    prompt: Prompt = "mcq"
    meta: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self):
        for name in ("images", "options"):
            if not isinstance(getattr(self, name), list | tuple):
                kind = type(getattr(self, name)).__name__
                raise ValueError(f"sample {self.id!r}: {name} must be a list or tuple, not {kind}")
        for text in (self.id, self.question, self.category, self.hint, *self.options):
            if not isinstance(text, str) or not _is_whole(text):
                raise ValueError(
                    f"sample {self.id!r}: id, question, category, hint and options must be texts in whole characters, "
                    f"not {text!r}"
                )
        if self.category == "all":
            raise ValueError(f"sample {self.id!r}: no category may be called 'all', as tables call all of them")
        if not isinstance(self.meta, dict) or not all(isinstance(key, str) for key in self.meta):
            raise ValueError(f"sample {self.id!r}: meta must be a dict with texts as keys")
        if self.answer is not None and (not isinstance(self.answer, int) or isinstance(self.answer, bool)):
            raise ValueError(f"sample {self.id!r}: answer {self.answer!r} must be the index of an option, or None")
        object.__setattr__(self, "images", tuple(self.images))
        object.__setattr__(self, "options", tuple(self.options))
        if not 1 <= len(self.options) <= len(LETTERS):
            raise ValueError(f"sample {self.id!r}: {len(self.options)} options; 1 to {len(LETTERS)} are possible")
        if self.answer is not None and not 0 <= self.answer < len(self.options):
            raise ValueError(
                f"sample {self.id!r}: answer {self.answer} is not an index of its {len(self.options)} options"
            )
        if self.prompt not in get_args(Prompt):
            raise ValueError(f"sample {self.id!r}: unknown prompt {self.prompt!r}; use {' or '.join(get_args(Prompt))}")

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the options: letters if the prompt lists the options, else their texts."""
        return tuple(LETTERS[: len(self.options)]) if self.prompt == "mcq" else self.options


def _is_whole(text: str) -> bool:
    """Whether a text can be encoded: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class Instance:
    """One member of a perturbation family applied to one sample's images.

    If the instance does not apply to the sample, `reason` says why and `images` is empty.
    """

    family: str
    name: str
    params: dict[str, Any]
    images: tuple[Image, ...]
    reason: str = ""

    @property
    def applicable(self) -> bool:
        return not self.reason
