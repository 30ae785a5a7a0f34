"""Processors: loaded without running a checkpoint's code, with a pixel budget that is checked by counting tokens."""

import math
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from tokenizers import Tokenizer, models
from transformers import AutoProcessor, PreTrainedTokenizerFast, ProcessorMixin

from vfkit.models.registry import ModelUnavailable, Spec

_RENAMED = [(r'"Qwen2_5_VLImageProcessor(Fast)?"', '"Qwen2VLImageProcessor"')]
"""Classes that checkpoints name and the library has under another name only."""


def load_processor(folder: Path, spec: Spec) -> ProcessorMixin:
    """Load the processor of a checkpoint, with its chat template and within the model's pixel budget.

    Raises:
        ModelUnavailable: no chat template, one that fails, or a budget that does not apply.
        Exception: any error of the library about a damaged checkpoint.
    """
    processor = _load(folder)
    if not processor.chat_template:  # older checkpoints keep it with the tokenizer
        processor.chat_template = processor.tokenizer.chat_template
    if not processor.chat_template:
        raise ModelUnavailable(
            f"model {spec.name!r} has no chat template in {folder}, and vfkit reads chat models only: take the "
            "instruction-tuned form, or copy the template of the model it was made from (chat_template.jinja)."
        )
    try:
        turn: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
        processor.apply_chat_template(turn, tokenize=False)
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise ModelUnavailable(f"model {spec.name!r}: its chat template in {folder} fails: {reason}") from error
    set_budget(processor, spec)
    return processor


def load_without_tokenizer(folder: Path, spec: Spec) -> ProcessorMixin:
    """Load the processor for images only: a missing tokenizer is replaced by a placeholder."""
    if not any((folder / name).exists() for name in ("processor_config.json", "preprocessor_config.json")):
        raise FileNotFoundError("there is neither processor_config.json nor preprocessor_config.json")
    if (folder / "tokenizer_config.json").exists():
        processor = _load(folder)
    else:
        with _copied(folder) as stand_in:
            _tokenizer().save_pretrained(stand_in)
            processor = _load(stand_in)
    set_budget(processor, spec)
    return processor


def set_budget(processor: ProcessorMixin, spec: Spec) -> None:
    """Limit the processor's images to `spec.min_pixels` to `spec.max_pixels`; no limit if both are None.

    Raises:
        ModelUnavailable: the processor has no such budget, or ignores it.
    """
    if spec.min_pixels is None and spec.max_pixels is None:
        return
    images = processor.image_processor
    size = dict(images.size)
    if not {"shortest_edge", "longest_edge"} <= {name for name, value in size.items() if value}:
        raise ModelUnavailable(
            f"model {spec.name!r}: {type(images).__name__} gives images of one size, so min_pixels and max_pixels "
            "do not apply; remove them from its entry in params/models.yaml"
        )
    frames = _counted_frames(images)
    least = spec.min_pixels or size["shortest_edge"] // frames
    most = spec.max_pixels or size["longest_edge"] // frames
    if least > most:
        raise ModelUnavailable(f"model {spec.name!r}: min_pixels {least} are more than max_pixels {most}")
    images.size = {"shortest_edge": least * frames, "longest_edge": most * frames}
    cell = (images.patch_size * images.merge_size) ** 2  # pixels of a token
    small, large = (_pixels(images, pixels) for pixels in (least // 2, most * 2))
    if not (least - cell <= small <= most + cell and small < large <= most and large >= most / 2):
        raise ModelUnavailable(
            f"model {spec.name!r}: its processor ignores the pixel budget {least} to {most}: an image of half the "
            f"least takes {small}, one of twice the most {large} pixels. This version of transformers is not known."
        )


def _counted_frames(images) -> int:
    """GLM-4V counts the pixels of both frames that an image becomes, the others those of the image."""
    return images.temporal_patch_size if type(images).__name__.startswith("Glm") else 1


def _pixels(images, pixels: int) -> int:
    """Pixels of a blank square image after the processor has brought it to its size."""
    side = math.isqrt(pixels)
    _, height, width = images(Image.new("RGB", (side, side)), return_tensors="pt")["image_grid_thw"][0].tolist()
    return height * width * images.patch_size**2


def _load(folder: Path) -> ProcessorMixin:
    files = [folder / name for name in ("preprocessor_config.json", "processor_config.json")]
    texts = {file.name: file.read_text() for file in files if file.exists()}
    renamed = {
        name: reduce(lambda text, pair: re.sub(pair[0], pair[1], text), _RENAMED, text) for name, text in texts.items()
    }
    if renamed == texts:
        return AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    with _copied(folder) as copy:
        for name, text in renamed.items():
            (copy / name).write_text(text)
        return AutoProcessor.from_pretrained(copy, trust_remote_code=False)


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """A copy of all files but the weights, for as long as it takes to load a processor from it."""
    with TemporaryDirectory() as copy:
        for file in folder.iterdir():
            if file.is_file() and file.suffix in (".json", ".jinja", ".txt", ".model"):
                shutil.copy(file, copy)
        yield Path(copy)


def _tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that knows only the names under which processors look for special tokens."""
    names = ("image", "video", "boi", "eoi", "start_image", "end_image", "context_image")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0}, unk_token="<pad>")), pad_token="<pad>",
        extra_special_tokens={f"{name}_token": f"<{name}>" for name in names},
    )  # fmt: skip
