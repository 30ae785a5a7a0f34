"""Load a model with its processor and its architecture's adapter."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    PretrainedConfig,
    PreTrainedModel,
    ProcessorMixin,
)
from transformers.utils import logging

from vfkit.models.adapters import ADAPTERS, Adapter
from vfkit.models.api import HostedModel, load_hosted
from vfkit.models.processor import set_budget
from vfkit.models.registry import ModelUnavailable, Spec, files, find, fingerprint
from vfkit.readout.greedy import MAX_NEW_TOKENS
from vfkit.readout.reader import BATCH_TOKENS, Request
from vfkit.readout.readout import Readout

DTYPES = ("float32", "bfloat16", "float16")
_SMALL = 0.1  # billions of parameters


@dataclass
class VLM:
    """A loaded vision-language model.

    A `vfkit.readout.Reader`. `counters` counts what was done with it: `encodes` (images through the vision encoder),
    `prefills` (image prefixes through the language model) and `forwards` (passes, those that decode included).
    `max_new_tokens` is the length at which generated answers are cut off.
    """

    name: str
    model: PreTrainedModel
    processor: ProcessorMixin
    adapter: Adapter
    fingerprint: str
    device: torch.device
    dtype: torch.dtype
    counters: Counter = field(default_factory=Counter)
    max_new_tokens: int = MAX_NEW_TOKENS

    def read_many(
        self, requests: Sequence[Request], probes: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Readout | Exception]:
        """Readouts in the order of the requests; see `vfkit.readout.engine.read_many`."""
        from vfkit.readout import engine

        return engine.read_many(self, requests, probes, batch_tokens)

    def describe(self) -> dict[str, Any]:
        """Device, dtype, attention, and the image processor with its back end, for a run's manifest."""
        images = self.processor.image_processor
        cuda = self.device.type == "cuda"
        return {
            "device": torch.cuda.get_device_name(self.device) if cuda else str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "attention": self.model.config._attn_implementation,
            "processor": type(images).__name__,
            "processor_backend": getattr(images, "backend", None),
        }


def load_model(name: str, device: str | None = None, dtype: str | None = None) -> VLM | HostedModel:
    """Load a model by a name in params/models.yaml, a folder or a hub id.

    Args:
        device: a torch device, or `auto` to spread the weights over all GPUs; None takes the registry's, else the
            first GPU, else the CPU.
        dtype: `float32`, `bfloat16` or `float16`; None takes the registry's, else the checkpoint's own.

    Only safetensors weights are read and no code of a checkpoint's is run. A hosted model is not loaded but asked.

    Raises:
        ModelUnavailable: within seconds where the model cannot be had or does not fit into memory.
        ValueError: another dtype, or no such kind of device.
    """
    spec = find(name)
    if spec.api is not None:
        return load_hosted(name)
    folder, config, device, type_ = check(name, device, dtype)
    try:
        with _quiet(spec.params is not None and spec.params < _SMALL):
            model = AutoModelForImageTextToText.from_pretrained(
                folder, dtype=type_, use_safetensors=True, attn_implementation="sdpa",
                device_map="auto" if device == "auto" else None,
            )  # fmt: skip
        processor = AutoProcessor.from_pretrained(folder)
        set_budget(processor, spec)
    except ModelUnavailable:
        raise
    except Exception as error:  # a damaged checkpoint can fail anywhere in the library
        raise _unloadable(name, folder, error) from error
    if device != "auto":
        model.to(device)
    model.eval()
    return VLM(
        name,
        model,
        processor,
        adapter_of(name, config),
        fingerprint(name, dtype),
        model.device,
        type_,
    )


def check(
    name: str, device: str | None = None, dtype: str | None = None
) -> tuple[Path, PretrainedConfig, str, torch.dtype]:
    """What `load_model` would load, and onto what; raises what it would raise before it reads any weights.

    Returns:
        The checkpoint's folder and config, the device, and the type of the weights.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; the types are {', '.join(DTYPES)}")
    spec = find(name)
    folder = files(spec)
    try:
        config = AutoConfig.from_pretrained(folder)
    except Exception as error:
        raise _unloadable(name, folder, error) from error
    adapter_of(name, config)
    if device and device != "auto":
        try:
            torch.device(device)
        except RuntimeError:
            raise ValueError(f"unknown device {device!r}; devices are cpu, cuda, cuda:1, mps ... and auto") from None
    if device and device.startswith("cuda") and not torch.cuda.is_available():
        raise ModelUnavailable(f"device {device!r} is not available here: use device='cpu', or leave it out")
    device = device or ((spec.device or "cuda") if torch.cuda.is_available() else "cpu")
    type_ = getattr(torch, dtype or spec.dtype or "", None) or config.dtype or torch.float32
    _check_memory(spec, device, type_)
    return folder, config, device, type_


def _unloadable(name: str, folder: Path, error: Exception) -> ModelUnavailable:
    return ModelUnavailable(f"model {name!r} cannot be loaded from {folder}: {error}")


def adapter_of(name: str, config: PretrainedConfig) -> Adapter:
    """The adapter of a config's architecture. Raises ModelUnavailable where there is none."""
    if config.model_type not in ADAPTERS:
        raise ModelUnavailable(
            f"model {name!r} is of type {config.model_type!r}, for which there is no adapter; there are: "
            f"{', '.join(ADAPTERS)}"
        )
    return ADAPTERS[config.model_type]()


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """No progress bar for what loads at once."""
    if wanted:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if wanted:
            logging.enable_progress_bar()


def _check_memory(spec: Spec, device: str, dtype: torch.dtype) -> None:
    """Refuse what cannot fit before minutes are spent on reading it."""
    if spec.params is None:
        return
    needed = spec.params * 1e9 * dtype.itemsize * 1.1
    if device == "auto" and torch.cuda.is_available():
        there = sum(torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count()))
    elif device.startswith("cuda"):
        there = torch.cuda.mem_get_info(device)[0]
    else:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ModelUnavailable(
            f"model {spec.name!r} needs about {needed / 1e9:.0f} GB on {device}, which has {there / 1e9:.0f} GB. "
            "Choose a smaller model or dtype, or device='auto' to spread it over several GPUs."
        )
