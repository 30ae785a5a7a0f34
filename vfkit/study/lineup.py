"""The models of a study: name, series and size, from their configs; no weights are loaded."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors import safe_open

import vfkit
from vfkit.models import ModelUnavailable
from vfkit.models.registry import Spec
from vfkit.study.key import model_type
from vfkit.study.runs import by_size

UNKNOWN = "unknown"


def lineup(models: Sequence[str] | str) -> pd.DataFrame:
    """Tabulate the models of a sweep by series and size; their files are fetched, no weights are loaded.

    Returns:
        `model` (its name; of a folder the last part); `training` (see `training_of`); `series`: models of one
        architecture (the `model_type` of the checkpoint's config) and one training, embedded models apart from others,
        each model of unknown training a series of its own; `params` in billions, those of params/models.yaml, else
        counted in the checkpoint; `hub`, the hub id or ""; `source`, what was asked for; `type`, the
        architecture; `mode`, how it answers (`vfkit.models.registry.MODES`). Series keep the order asked.

    Raises:
        ModelUnavailable: names every model that is not available, with the reasons.
        ValueError: no model, or two of one name.
    """
    return ordered(every(names(models), about))


def names(models: Sequence[str] | str) -> list[str]:
    """List one name or several, each once."""
    models = [models] if isinstance(models, str | os.PathLike) else models
    return list(dict.fromkeys(os.fspath(model) for model in models))


def ordered(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Make a lineup from rows of `about`."""
    if not rows:
        raise ValueError("a sweep needs at least one model")
    table = pd.DataFrame(rows)
    doubled = table[table["model"].duplicated(keep=False)]
    if len(doubled):
        raise ValueError(f"two models go by one name: {', '.join(doubled['source'])}")
    return by_size(table)


def every(models: Sequence[str], look: Callable[[str], Any]) -> list[Any]:
    """Call `look` for each model; raises one error for all that are not available."""
    looked, problems = [], []
    for model in models:
        try:
            looked.append(look(model))
        except ModelUnavailable as error:
            problems.append(error)
    if problems:
        raise several(problems, len(models))
    return looked


def several(problems: Sequence[ModelUnavailable], n: int) -> ModelUnavailable:
    """Make one error for all of `n` models that are not available."""
    return ModelUnavailable("\n".join([f"{len(problems)} of {n} models cannot be had:", *map(str, problems)]))


def about(source: str, thinking: bool = False) -> dict[str, Any]:
    """Make a model's row of `lineup`; `thinking`: of a study that lets models reason."""
    mode = vfkit.models.mode_of(source, thinking)
    if vfkit.models.is_hosted(source):
        row = dict(model=source, training=UNKNOWN, series="hosted", params=float("nan"), hub="", source=source, type="")
        return row | {"mode": mode}
    spec = vfkit.models.find(source)
    embedded = spec.path is not None and not os.path.isabs(spec.path)
    name = Path(source).name if spec.path is not None and spec.name == source else spec.name
    kind = model_type(source)
    params = spec.params if spec.params is not None else _count(vfkit.models.files(spec), source)
    training = training_of(spec)
    trained = f"{UNKNOWN} ({name})" if training == UNKNOWN else training
    series = " ".join(filter(None, ["mini" if embedded else "", kind, trained]))
    row = dict(model=name, training=training, series=series, params=params, hub=spec.hub or "", source=source)
    return row | {"type": kind, "mode": mode}


def training_of(spec: Spec) -> str:
    """How a model was trained: as its entry in params/models.yaml says; of a folder trained by `vfkit.workshop.zoo`,
    `planted` or `clean` by its recipe; else `unknown`."""
    recipe = Path(spec.path or "") / "training.json"
    if spec.training or spec.path is None or not recipe.is_file():
        return spec.training or UNKNOWN
    doses = [value for name, value in json.loads(recipe.read_text())["recipe"].items() if name.endswith("_dose")]
    return "planted" if any(doses) else "clean"


def _count(folder: Path, source: str) -> float:
    """Billions of numbers in a checkpoint's tensors."""
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
        total += sum(int(pd.Series(shape, dtype=object).prod()) for shape in shapes)
    if not total:
        raise ModelUnavailable(f"model {source!r}: {folder} holds no weights (no *.safetensors)")
    return total / 1e9
