"""What a model would take, from its configs alone: parameters, memory, tokens of an image. No weights are needed."""

from dataclasses import dataclass

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from vfkit.models.load import adapter_of
from vfkit.models.processor import set_budget, without_tokenizer
from vfkit.models.registry import BYTES, ModelUnavailable, files, find


@dataclass(frozen=True)
class DryRun:
    """What a model would take.

    Args:
        params: number of parameters.
        gigabytes: memory of its weights by dtype, in units of 1e9 bytes.
        size: (width, height) of the image asked about, in pixels.
        tokens: how many tokens such an image takes; None where `reason` says why that is not known.
    """

    name: str
    type: str
    params: int
    gigabytes: dict[str, float]
    size: tuple[int, int]
    tokens: int | None
    reason: str = ""

    def __str__(self) -> str:
        memory = ", ".join(f"{dtype} {gigabytes:.3g} GB" for dtype, gigabytes in self.gigabytes.items())
        tokens = f"{self.tokens}" if self.tokens is not None else f"not known: {self.reason}"
        return (
            f"{self.name}: {self.type}, {self.params / 1e9:.3g} billion parameters\n"
            f"memory of its weights: {memory}\n"
            f"tokens of an image of {self.size[0]} x {self.size[1]} pixels: {tokens}"
        )


def dry_run(name: str, size: tuple[int, int] = (1024, 768)) -> DryRun:
    """Build a model on the `meta` device from its config, and count.

    Args:
        name: as for `vfkit.load_model`; of a hub model the configs are downloaded, never the weights. A folder needs
            config.json, and the processor's configs for the tokens of an image; a tokenizer is not needed.
        size: (width, height) of an image in pixels.

    Raises:
        ModelUnavailable: no config can be had, it is damaged, or there is no adapter for its architecture.
    """
    spec = find(name)
    folder = files(spec, weights=False)
    try:
        config = AutoConfig.from_pretrained(folder)
        adapter = adapter_of(name, config)
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(config)
    except ModelUnavailable:
        raise
    except Exception as error:  # a damaged config can fail anywhere in the library
        raise ModelUnavailable(f"model {name!r} cannot be built from the config in {folder}: {error}") from error
    params = sum(parameter.numel() for parameter in model.parameters())
    memory = {dtype: params * n_bytes / 1e9 for dtype, n_bytes in BYTES.items()}
    counted = name, config.model_type, params, memory, size
    try:
        processor = without_tokenizer(folder)
        set_budget(processor, spec)
        (tokens,) = adapter.n_image_tokens(processor, [size])
    except Exception as error:
        return DryRun(*counted, None, f"{error}")
    return DryRun(*counted, tokens)
