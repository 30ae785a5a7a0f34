"""Plan of a study: what each run reads, needs and lacks, before anything is loaded (METHODS 21)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from vfkit.models import ModelUnavailable, find, is_hosted
from vfkit.models.registry import BYTES, REASONING_TOKENS, Spec, files, released
from vfkit.study.config import StudyConfig
from vfkit.study.count import EMBEDDED, TEXT, Count, count, disk
from vfkit.study.runs import find_runs, matching
from vfkit.study.studyfile import Data, Planned, Study

USED = 0.3  # of a device's peak that reading many short rows reaches, stated, not measured


@dataclass(frozen=True)
class Device:
    """What a plan takes a device to do.

    Args:
        tflops: multiply-adds and additions a second in bfloat16, peak, 1e12.
        bandwidth: of its memory, TB/s.
        memory: GB.
    """

    tflops: float
    bandwidth: float
    memory: float


DEVICES = {
    "h200": Device(990, 4.8, 141),
    "h100": Device(990, 3.35, 80),
    "a100": Device(312, 2.0, 80),
    "l40s": Device(362, 0.86, 48),
    "rtx4090": Device(165, 1.0, 24),
    "cpu": Device(0.1, 0.02, 16),
}
"""Devices by name, from their makers' data sheets (dense bfloat16); `cpu` is one core, about."""
GET = {"pope": "hub", "mmmu": "hub"}  # data sets fetched from the hub where no path is given


@dataclass(frozen=True)
class Shape:
    """Sizes of a language model: channels, layers, and channels of its keys and values together."""

    hidden: int
    layers: int
    cached: int


def plan(study: Study, runs: Sequence[Planned], device: str = "h100") -> pd.DataFrame:
    """Tabulate the runs of a study; nothing is loaded, and the hub is not asked.

    Args:
        device: whose speed estimates take where no finished run of the model says its own: a key of `DEVICES`.
            Embedded models are taken to run on a core of the CPU.

    Returns:
        One row per run: `run` (number), `part`, `model`, `dataset`, `subset`, `n` samples, `instances`, `encodes`,
        `forwards` (at most: batches and one pass for each token that a batch generates), `disk_gb`, `weights_gb`,
        `activations_gb`, `masks_gb` (of a batch, at the image size), `hours` on one device and where they are `from`
        (`measured`, or the device), `state` (`done`, or `to do`), `missing` (weights, licence, data, key, package; ""
        where nothing is), `notes` (a revision that is not pinned).
    """
    rates = measured(study)
    finished = matching([run.config for run in runs])
    rows = []
    for run, there in zip(runs, finished, strict=True):
        config, data = run.config, study.of(run.config.dataset)
        spec, counted = _spec(config.model), _count(run.config.model_dump_json(), data)
        done = any(one.finished for one in there)
        row: dict[str, Any] = dict(run=run.number, part=run.part, model=config.model, dataset=config.dataset)
        row |= dict(subset=config.subset, n=counted.samples, instances=counted.instances)
        if spec is None or spec.api is not None:  # unknown, or hosted: no weights here
            row |= dict(encodes=0, forwards=0, disk_gb=disk(counted, config, 0) / 1e9, hours=float("nan"))
            row |= {"from": "asks of the endpoint" if spec else ""}
        else:
            row |= _costs(config, spec, data, counted, device, rates)
        row |= dict(state="done" if done else "to do", missing="" if done else "; ".join(missing(config, data)))
        rows.append(row | {"notes": _notes(spec)})
    columns = "run part model dataset subset n instances encodes forwards disk_gb weights_gb activations_gb masks_gb "
    return pd.DataFrame(rows).reindex(columns=[*columns.split(), "hours", "from", "state", "missing", "notes"])


def total(table: pd.DataFrame) -> str:
    """Sum a plan up in a few lines: runs done and to do, and of those to do: samples, encodes, disk, the largest model,
    hours on one device, and what is missing."""
    todo = table[table.state != "done"]
    lines = [f"{len(table)} runs: {len(table) - len(todo)} done, {len(todo)} to do"]
    if len(todo):
        memory = todo[["weights_gb", "activations_gb", "masks_gb"]].sum(axis=1)
        lines += [
            f"to do: {todo.n.sum():,} samples, {todo.encodes.sum():,} encodes, at most {todo.forwards.sum():,} forward "
            f"passes, {todo.disk_gb.sum():.3g} GB on disk",
            f"memory of the largest: {memory.max():.3g} GB ({todo.model[memory.idxmax()]})" if memory.max() else "",
            f"hours on one device: {todo.hours.sum():.3g} ({', '.join(sorted(set(todo['from']) - {''}))})",
        ]
    lacks: dict[str, list[int]] = {}
    for row in todo.itertuples():
        for each in filter(None, row.missing.split("; ")):
            lacks.setdefault(each, []).append(row.run)
    lines += [f"missing: {what} (runs {', '.join(map(str, numbers))})" for what, numbers in lacks.items()]
    unpinned = sorted(set(table.model[table.notes.str.contains("not pinned")]))
    lines += [f"revision not pinned: {', '.join(unpinned)}"] if unpinned else []
    return "\n".join(filter(None, lines))


# --- time and memory --------------------------------------------------------------------------------------------------


def _costs(
    config: StudyConfig, spec: Spec, data: Data, counted: Count, device: str, rates: Mapping[tuple[str, str], float]
) -> dict[str, Any]:
    """Forward passes, memory, disk and hours of a run; METHODS 21 states the formulas."""
    size, shape = BYTES[config.dtype or spec.dtype or "bfloat16"], shape_of(spec)
    params = (spec.params or 0) * 1e9
    image = image_tokens(spec, data.width, data.height) if spec.path is None else 64
    row = image * max(1, data.images) + TEXT * (2 if config.probes else 1)
    per_batch = max(1, config.batch_tokens // int(row))
    batches = -(-counted.instances // per_batch)
    steps = batches * 2 * _longest(config, spec) if config.probes else 0
    forwards = batches + steps + counted.gradients
    at = DEVICES["cpu" if spec.path is not None else device]
    read = 2 * params * counted.instances * row + 6 * params * counted.gradients * row
    seconds = read / (USED * at.tflops * 1e12)
    if config.probes:  # each step of a batch reads all weights
        seconds += steps * params * size / (at.bandwidth * 1e12)
    source = "cpu" if spec.path is not None else device
    if (rate := rates.get((config.model, config.study))) is not None:
        seconds, source = rate * counted.instances, "measured"
    channels = 4 * shape.hidden + shape.layers * shape.cached
    return {
        "encodes": counted.encodes,
        "forwards": forwards,
        "disk_gb": disk(counted, config, shape.hidden) / 1e9,
        "weights_gb": params * size / 1e9,
        "activations_gb": config.batch_tokens * channels * size / 1e9,
        "masks_gb": per_batch * row**2 * size / 1e9,
        "hours": seconds / 3600,
        "from": source,
    }


def _longest(config: StudyConfig, spec: Spec) -> int:
    """Tokens of a generated answer, at most, its reasoning included."""
    reasons = config.protocol.thinking and spec.thinking
    reasoning = 0 if not reasons else REASONING_TOKENS if spec.thinking is True else int(spec.thinking or 0)
    return config.max_new_tokens + reasoning


def measured(study: Study) -> dict[tuple[str, str], float]:
    """Seconds for one readout by (model, kind of run), of the latest finished runs under the study's `out`."""
    rates: dict[tuple[str, str], float] = {}
    for run in find_runs(study.settings.get("out", "outputs")):
        manifest = run.manifest
        rows, config = manifest["samples"]["done"], manifest["config"]
        if manifest["finished"] and manifest.get("seconds") and not manifest.get("reused") and rows:
            try:
                counted = count(run.config, study.of(config["dataset"]))
            except ValueError:  # of an earlier version
                continue
            rates[config["model"], config["study"]] = manifest["seconds"] / max(1, counted.instances)
    return rates


def shape_of(spec: Spec) -> Shape:
    """Sizes of a model's language part: of its released config where vfkit has a copy, else those that models of its
    number of parameters have, about."""
    config = released().get(spec.name, {}).get("config", {})
    text = config | (config.get("text_config") or {})
    try:
        head = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
        cached = 2 * head * text["num_key_value_heads"]
        return Shape(text["hidden_size"], text["num_hidden_layers"], cached)
    except KeyError:
        billions = spec.params or 1
        return Shape(max(32, int(2000 * billions ** (1 / 3))), max(2, int(18 * billions ** (1 / 3))), 2048)


def image_tokens(spec: Spec, width: int, height: int) -> int:
    """Tokens of an image, about, by architecture; the longer side is at most 1,024 pixels (METHODS 2)."""
    shrink = min(1.0, 1024 / max(width, height))
    pixels = width * height * shrink**2
    if spec.min_pixels and spec.max_pixels:
        pixels = min(max(pixels, spec.min_pixels), spec.max_pixels)
    side = {"qwen3_vl": 32, "qwen3_vl_moe": 32}.get(spec.type or "", 28)
    if spec.type == "gemma3":
        return 256
    if spec.type == "internvl":  # up to 12 tiles of 448 pixels and a thumbnail
        return 256 * (1 + min(12, max(1, round(pixels / 448**2))))
    if spec.type == "llava_onevision":  # a base view, and tiles of 384 pixels
        return 729 * (1 + min(9, max(1, -(-int(pixels) // 384**2))))
    return max(1, int(pixels / side**2))


# --- what is missing --------------------------------------------------------------------------------------------------


def missing(config: StudyConfig, data: Data) -> list[str]:
    """What a run lacks here: weights in the cache, data, a key, a package; the hub is not asked."""
    lacks = [] if find_spec("torch") or _hosted(config.model) else ["package torch"]
    lacks += _missing_model(config.model) + _missing_data(config, data)
    if config.engine == "ray" and not find_spec("ray"):
        lacks.append("package ray: pip install 'vfkit[ray]'")
    return lacks


@cache
def _missing_model(model: str) -> list[str]:
    spec = _spec(model)
    if spec is None:
        return [f"model {model}: no name in params/models.yaml, no hub id, no folder"]
    if spec.api is not None:
        key, lacks = spec.api.get("key_env", ""), [] if find_spec("openai") else ["package openai: vfkit[api]"]
        return lacks + ([f"key of {model}: ${key} is not set"] if key and not os.environ.get(key) else [])
    try:
        files(spec, download=False)
    except ModelUnavailable:
        licence = ", whose licence is to be accepted there" if "licence" in spec.notes else ""
        return [f"weights of {model}: hub {spec.hub or spec.path}{licence}"]
    return []


def _missing_data(config: StudyConfig, data: Data) -> list[str]:
    place, name = config.dataset_path, config.dataset
    if place is not None:
        return [] if Path(place).exists() else [f"data {name}: there is no {place}"]
    if name in EMBEDDED:
        return [] if name != "easy_vqa" or find_spec("easy_vqa") else ["package easy-vqa"]
    source = f" ({data.get})" if data.get else ""
    if name in GET:
        return [] if _cached_data(name) else [f"data {name}: not in the hub's cache{source}"]
    return [f"data {name}: --data {name}=PLACE{source}"]


@cache
def _cached_data(name: str) -> bool:
    from huggingface_hub import constants

    repository = {"pope": "datasets--lmms-lab--POPE", "mmmu": "datasets--MMMU--MMMU"}[name]
    return any(Path(constants.HF_HUB_CACHE, repository, "snapshots").glob("*/**/*.parquet"))


def _notes(spec: Spec | None) -> str:
    if spec is None or spec.api is not None or spec.path is not None:
        return ""
    return "" if spec.revision else "revision not pinned"


@cache
def _spec(model: str) -> Spec | None:
    try:
        return find(model)
    except ModelUnavailable:
        return None


def _hosted(model: str) -> bool:
    return _spec(model) is not None and is_hosted(model)


@cache
def _count(config: str, data: Data) -> Count:
    """Count a run; runs that differ in their model only are counted once."""
    return count(StudyConfig.model_validate_json(config), data)
