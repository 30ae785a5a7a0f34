"""Load a model with its processor and its architecture's adapter."""

import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    PretrainedConfig,
    PreTrainedModel,
    ProcessorMixin,
)
from transformers.utils import logging

from vfkit.hub import quoted, revision_of
from vfkit.models import checkpoint
from vfkit.models.adapters import ADAPTERS, Adapter
from vfkit.models.api import HostedModel, load_hosted
from vfkit.models.estimate import n_params
from vfkit.models.processor import load_processor
from vfkit.models.registry import (
    BYTES,
    MODES,
    REASONING_TOKENS,
    ModelUnavailable,
    dtype_of,
    files,
    find,
    fingerprint,
)
from vfkit.prompts import WORDING, Wording
from vfkit.readout.conversation import thinks
from vfkit.readout.greedy import MAX_NEW_TOKENS
from vfkit.readout.reader import BATCH_TOKENS, Request
from vfkit.readout.readout import Readout

_SMALL = 1e8  # parameters
_ATTENTION = "sdpa"  # takes a boolean mask as it is; eager attention would add it to the scores


@dataclass
class VLM:
    """A loaded vision-language model.

    A `vfkit.readout.Reader`. `counters` counts what was done with it: `encodes` (images through the vision encoder),
    `prefills` (image prefixes through the language model) and `forwards` (passes, those that decode included).
    `max_new_tokens` limits generated answers, `wording` is that of its prompts. A model that reasons has
    `reasoning_tokens`, the most that its reasoning may take; while `thinking` is off it answers after an empty one.
    `revision` is the hub's commit that its
    files come from, `quantization` the `quantization_config` of its checkpoint, or None.
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
    wording: Wording = WORDING
    thinking: bool = False
    reasoning_tokens: int = 0
    revision: str | None = None
    quantization: dict[str, Any] | None = None
    in_use: Any = field(default_factory=threading.RLock, repr=False, compare=False)

    def twin(self) -> "VLM":
        """Make a view of the same weights for another thread, with a processor and counters of its own; processors
        are not safe to share, and only one thread at a time uses the weights (`in_use`)."""
        return replace(self, processor=deepcopy(self.processor), counters=Counter())

    def read_many(
        self, requests: Sequence[Request], probes: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Readout | Exception]:
        """Readouts in the order of the requests; see `vfkit.readout.engine.read_many`."""
        from vfkit.readout import engine

        return engine.read_many(self, requests, probes, batch_tokens)

    @property
    def mode(self) -> str:
        """One of `vfkit.models.registry.MODES`."""
        return MODES[0] if not self.reasoning_tokens else MODES[2] if self.thinking else MODES[1]

    def set_thinking(self, on: bool, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        """Let a model that reasons do so before it generates an answer, or not; others are left as they are.

        Args:
            max_new_tokens: of the answer; those of the reasoning are added.
        """
        self.thinking = on and bool(self.reasoning_tokens)
        self.max_new_tokens = max_new_tokens + (self.reasoning_tokens if self.thinking else 0)

    def describe(self) -> dict[str, Any]:
        """Mode, device, dtype, attention, image processor with its back end, revision and quantisation, for a run's
        manifest."""
        images = self.processor.image_processor
        cuda = self.device.type == "cuda"
        return {
            "mode": self.mode,
            "device": torch.cuda.get_device_name(self.device) if cuda else str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "attention": self.model.config._attn_implementation,
            "processor": type(images).__name__,
            "processor_backend": getattr(images, "backend", None),
            "revision": self.revision,
            "quantization": self.quantization,
        }


def load_model(name: str | Path, device: str | None = None, dtype: str | None = None) -> VLM | HostedModel:
    """Load a model by a name in params/models.yaml, a folder or a hub id; the three give the same model.

    Args:
        device: a torch device, or `auto` to spread the weights over all GPUs; None takes the registry's, else the
            first GPU, else the CPU.
        dtype: `float32`, `bfloat16` or `float16`; None takes the registry's, else the checkpoint's own.

    Only safetensors weights are read, all of them and no others, and no code of a checkpoint's is run. A hosted model
    is not loaded but asked.

    Raises:
        ModelUnavailable: the model is not available or does not fit into memory (within seconds), or its weights are
            not those of its architecture.
        ValueError: another dtype, or no such kind of device.
    """
    name = os.fspath(name)
    if find(name).api is not None:
        return load_hosted(name)
    folder, config, device, type_ = check(name, device, dtype)
    spec = find(name)
    quantization = getattr(config, "quantization_config", None)
    try:
        processor = load_processor(folder, spec)
        with _quiet(checkpoint.weight_bytes(folder) < _SMALL):
            loading: Any = AutoModelForImageTextToText.from_pretrained(
                folder, config=config, dtype=type_, use_safetensors=True, attn_implementation=_ATTENTION,
                device_map="auto" if device == "auto" else None, output_loading_info=True, trust_remote_code=False,
                ignore_mismatched_sizes=True,  # `_check_weights` refuses them by name
            )  # fmt: skip
    except ModelUnavailable:
        raise
    except Exception as error:  # a damaged checkpoint can fail anywhere in the library
        raise _unloadable(name, folder, error, quantization) from error
    model, loaded = loading
    _check_weights(name, loaded)
    _check_attention(name, model)
    if quantization:
        method = dict(quantization).get("quant_method", "unknown method")
        warnings.warn(f"model {name!r} is quantised ({method}): its scores are those of these weights", stacklevel=2)
    if device != "auto":
        model.to(device)
    model.eval()
    return VLM(
        spec.name,
        model,
        processor,
        adapter_of(name, config),
        fingerprint(name, dtype),
        model.device,
        type_,
        revision=revision_of(folder),
        reasoning_tokens=(spec.thinking or REASONING_TOKENS) if thinks(processor, str(processor.chat_template)) else 0,
        quantization=dict(quantization) if quantization else None,
    )


def check(
    name: str, device: str | None = None, dtype: str | None = None
) -> tuple[Path, PretrainedConfig, str, torch.dtype]:
    """Check what `load_model` would load, and onto which device; raises its errors before weights are read.

    Returns:
        The checkpoint's folder and config, the device, and the type of the weights.
    """
    if dtype is not None and dtype not in BYTES:
        raise ValueError(f"unknown dtype {dtype!r}; the types are {', '.join(BYTES)}")
    if device and device != "auto":
        try:
            torch.device(device)
        except RuntimeError:
            raise ValueError(f"unknown device {device!r}; devices are cpu, cuda, cuda:1, mps ... and auto") from None
    folder = files(find(name), weights=False)
    checkpoint.check_architecture(name, folder, ADAPTERS)
    spec = find(name)  # a hub model's config is here only now
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        params = n_params(config)
    except Exception as error:
        raise _unloadable(name, folder, error) from error
    if device and device.startswith("cuda") and not torch.cuda.is_available():
        raise ModelUnavailable(f"device {device!r} is not available here: use device='cpu', or leave it out")
    device = device or ((spec.device or "cuda") if torch.cuda.is_available() else "cpu")
    type_ = getattr(torch, dtype or dtype_of(spec, folder))
    if not hasattr(config, "quantization_config"):
        check_memory(spec.name, params * type_.itemsize, device)
    folder = files(spec)
    checkpoint.check_files(name, folder)
    if hasattr(config, "quantization_config"):
        check_memory(spec.name, checkpoint.weight_bytes(folder), device)
    return folder, config, device, type_


def adapter_of(name: str, config: PretrainedConfig) -> Adapter:
    """Return the adapter of a config's architecture. Raises ModelUnavailable if there is none."""
    if config.model_type not in ADAPTERS:
        raise ModelUnavailable(
            f"model {name!r} is of type {config.model_type!r}, for which there is no adapter; there are: "
            f"{', '.join(ADAPTERS)}"
        )
    return ADAPTERS[config.model_type]()


def check_memory(name: str, weights: int, device: str) -> None:
    """Refuse a model that does not fit into memory, before it is fetched and read.

    Args:
        weights: size of the weights as loaded, in bytes.
    """
    needed = weights * 1.1
    if device == "auto" and torch.cuda.is_available():
        there = sum(torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count()))
    elif device.startswith("cuda"):
        there = torch.cuda.mem_get_info(device)[0]
    else:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ModelUnavailable(
            f"model {name!r} needs about {needed / 1e9:.0f} GB on {device}, which has {there / 1e9:.0f} GB. "
            "Choose a smaller model or dtype, or device='auto' to spread it over several GPUs."
        )


def _check_weights(name: str, loaded: dict[str, Any]) -> None:
    """Refuse a checkpoint whose weights are not exactly the architecture's: the library would draw what is missing at
    random. Tied heads and buffers that are known not to be kept are no longer among what it reports."""
    wrong = []
    for kind in ("missing", "unexpected", "mismatched"):
        keys = sorted(key if isinstance(key, str) else key[0] for key in loaded[f"{kind}_keys"])
        if keys:
            wrong.append(f"{len(keys)} {kind} ({quoted(keys)})")
    if wrong or loaded.get("error_msgs"):
        reasons = "; ".join([*wrong, *loaded.get("error_msgs", [])])
        raise ModelUnavailable(
            f"model {name!r}: the checkpoint's weights are not those of its architecture: {reasons}. The checkpoint is "
            "damaged or of another kind, or this version of transformers does not know its names."
        )


def _check_attention(name: str, model: PreTrainedModel) -> None:
    """Refuse attention that does not take the engine's boolean masks as they are."""
    used = {getattr(module.config, "_attn_implementation", _ATTENTION) for module in _with_config(model)}
    if used != {_ATTENTION}:
        raise ModelUnavailable(
            f"model {name!r}: attention runs as {', '.join(sorted(map(str, used)))}, and {_ATTENTION} is needed. This "
            "version of the model is not known."
        )


def _with_config(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    return (module for module in model.modules() if isinstance(module, PreTrainedModel))


def _unloadable(name: str, folder: Path, error: Exception, quantization: Any = None) -> ModelUnavailable:
    reason = str(error).strip().split("\n")[0]
    if quantization:
        method = dict(quantization).get("quant_method", "unknown method")
        reason = f"it is quantised ({method}), and {reason} Or take its unquantised form"
    elif "trust_remote_code" in str(error):
        reason = "its processor or tokenizer brings its own code, and vfkit never runs a checkpoint's code"
    return ModelUnavailable(f"model {name!r} cannot be loaded from {folder}: {reason}")


@contextmanager
def _quiet(small: bool) -> Iterator[None]:
    """Nothing printed by the library, whose report of wrong weights is a table; a progress bar only for what takes
    time."""
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    if small:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if small:
            logging.enable_progress_bar()
