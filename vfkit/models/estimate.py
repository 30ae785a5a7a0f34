"""Estimates from a model's configs, without weights: parameters, memory, tokens of an image."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, PretrainedConfig

from vfkit.models.adapters import ADAPTERS
from vfkit.models.checkpoint import check_architecture
from vfkit.models.processor import load_without_tokenizer
from vfkit.models.registry import BYTES, ModelUnavailable, Spec, files, find, released


@dataclass(frozen=True)
class DryRun:
    """Result of `dry_run`.

    Args:
        params: number of parameters.
        gigabytes: memory of its weights by dtype, in units of 1e9 bytes.
        size: (width, height) of the image asked about, in pixels.
        tokens: tokens of such an image; None if not known, for the `reason` given.
        source: where the figures are from.
    """

    name: str
    type: str
    params: int
    gigabytes: dict[str, float]
    size: tuple[int, int]
    tokens: int | None
    reason: str = ""
    source: str = ""

    def __str__(self) -> str:
        memory = ", ".join(f"{dtype} {gigabytes:.3g} GB" for dtype, gigabytes in self.gigabytes.items())
        tokens = f"{self.tokens}" if self.tokens is not None else f"not known: {self.reason}"
        return (
            f"{self.name}: {self.type}, {self.params / 1e9:.3g} billion parameters\n"
            f"memory of its weights: {memory}\n"
            f"tokens of an image of {self.size[0]} x {self.size[1]} pixels: {tokens}\n"
            f"from {self.source}"
        )


def dry_run(name: str, size: tuple[int, int] = (1024, 768)) -> DryRun:
    """Build a model on the `meta` device from its config, and count. Without network and files the figures of the
    released model are taken, as far as vfkit has a copy of them (models/released.yaml).

    Args:
        name: as for `vfkit.load_model`; of a hub model the configs are downloaded, never the weights. A folder needs
            config.json, and the processor's configs for the tokens of an image; a tokenizer is not needed.
        size: (width, height) of an image in pixels.

    Raises:
        ModelUnavailable: no config is available, it is damaged, or there is no adapter for its architecture.
    """
    spec = find(name)
    try:
        with _configs(spec) as (folder, source):
            return _counted(str(name), folder, size, source)
    except ModelUnavailable:
        if spec.params is None or spec.path or spec.api:
            raise
        params, unknown = round(spec.params * 1e9), "vfkit has no copy of its config; ask again with network"
        return DryRun(spec.name, spec.type or "", params, _memory(params), size, None, unknown, "params/models.yaml")


def _counted(name: str, folder: Path, size: tuple[int, int], source: str) -> DryRun:
    check_architecture(name, folder, ADAPTERS)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        params = n_params(config)
    except Exception as error:  # a damaged config can fail anywhere in the library
        raise ModelUnavailable(f"model {name!r} cannot be built from the config in {folder}: {error}") from error
    counted = name, config.model_type, params, _memory(params), size
    try:
        processor = load_without_tokenizer(folder, find(name))
        (tokens,) = ADAPTERS[config.model_type]().n_image_tokens(processor, [size])
    except Exception as error:
        return DryRun(*counted, None, f"{error}", source)
    return DryRun(*counted, tokens, source=source)


def _memory(params: int) -> dict[str, float]:
    return {dtype: params * n_bytes / 1e9 for dtype, n_bytes in BYTES.items()}


def n_params(config: PretrainedConfig) -> int:
    """Number of parameters of the model that a config describes; nothing is allocated."""
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in model.parameters())


@contextmanager
def _configs(spec: Spec) -> Iterator[tuple[Path, str]]:
    """(folder with a model's configs, where they are from)"""
    try:
        folder = files(spec, weights=False)
    except ModelUnavailable:
        if spec.name not in released():
            raise
        figures = released()[spec.name]
        with TemporaryDirectory() as copy:
            Path(copy, "config.json").write_text(json.dumps(figures["config"]))
            if "processor" in figures:
                Path(copy, "preprocessor_config.json").write_text(json.dumps(figures["processor"]))
            yield Path(copy), f"the released config's figures: {figures['source']}"
        return
    yield folder, str(folder)
