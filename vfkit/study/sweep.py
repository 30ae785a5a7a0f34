"""One study for several models and data sets: who takes part, the runs, and their frames side by side."""

import gc
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors import safe_open

import vfkit
from vfkit.models import ModelUnavailable, files, find, fingerprint
from vfkit.study.config import StudyConfig
from vfkit.study.plan import run_folder, run_key
from vfkit.study.run import Run, run_study


@dataclass(frozen=True)
class Sweep:
    """Finished runs of several models on several data sets.

    Args:
        models: of `lineup`.
        runs: by data set and model.
        folder: where what is made of all runs together is kept; it is named by their keys.
    """

    models: pd.DataFrame
    runs: dict[tuple[str, str], Run]
    folder: Path

    def frame(self, kind: str, **equal: str) -> pd.DataFrame:
        """A frame of all runs, one below the other, each row with its `dataset` and `model`.

        Args:
            kind: `records`, `vectors`, `controls`, `errors`.
            equal: keep rows whose column has this value, such as `probe="ctx_open"`; large frames want it.

        What is kept per option (the parts of the scores) and the models' own texts are left out: tables across models
        need neither.
        """
        frames = []
        for (dataset, model), run in self.runs.items():
            frame = getattr(run, kind)()
            for column, value in equal.items():
                frame = frame[frame[column] == value]
            frame = frame.drop(columns=[*_PER_OPTION, *_TEXTS], errors="ignore")
            frame.insert(0, "dataset", dataset)
            frame.insert(1, "model", model)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def table(self) -> pd.DataFrame:
        """One row per run: `dataset`, `model`, `series`, `params`, samples `asked`, `done`, `failed`, `seconds`, and
        its `folder`."""
        about, rows = self.models.set_index("model"), []
        for (dataset, model), run in self.runs.items():
            manifest, own = run.manifest, about.loc[model]
            row = dict(dataset=dataset, model=model, series=own.series, params=own.params) | manifest["samples"]
            rows.append(row | {"seconds": manifest["seconds"], "folder": run.folder.as_posix()})
        return pd.DataFrame(rows)


_PER_OPTION = ("logp_text", "logp_end", "logp_letter", "n_tokens")
_TEXTS = ("text_open", "text_mcq")


def lineup(models: Sequence[str]) -> pd.DataFrame:
    """The models of a sweep, by series and size; their files are fetched, no weights are loaded.

    Returns:
        `model` (its name; of a folder the last part); `series`: models of one architecture (the `model_type` of the
        checkpoint's config), whatever their training, embedded models apart from others; `params` in billions, those of
        params/models.yaml, else counted in the checkpoint; `hub`, the hub id or ""; `source`, what was asked for.
        Series keep the order asked.

    Raises:
        ModelUnavailable: names every model that cannot be had, with the reasons.
        ValueError: no model, two of one name, or a text in place of a list.
    """
    if isinstance(models, str):
        raise ValueError(f"models is a list of names, such as [{models!r}]")
    models = list(dict.fromkeys(models))
    if not models:
        raise ValueError("a sweep needs at least one model")
    rows = _every(models, _about)
    table = pd.DataFrame(rows)
    doubled = table[table["model"].duplicated(keep=False)]
    if len(doubled):
        raise ValueError(f"two models go by one name: {', '.join(doubled['source'])}")
    order = {series: i for i, series in enumerate(table["series"].unique())}
    table = table.assign(order=table["series"].map(order)).sort_values(["order", "params"], kind="stable")
    return table.drop(columns="order").reset_index(drop=True)


def _every(models: Sequence[str], look: Callable[[str], Any]) -> list[Any]:
    """What `look` says of each model; one error for all that cannot be had."""
    found, problems = [], []
    for model in models:
        try:
            found.append(look(model))
        except ModelUnavailable as error:
            problems.append(str(error))
    if problems:
        raise ModelUnavailable("\n".join([f"{len(problems)} of {len(models)} models cannot be had:", *problems]))
    return found


def _about(source: str) -> dict[str, Any]:
    spec = find(source)
    folder = files(spec)
    try:
        kind = json.loads((folder / "config.json").read_text())["model_type"]
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnavailable(f"model {source!r}: its config.json says no model_type: {error!r}") from error
    embedded = spec.path is not None and not os.path.isabs(spec.path)
    name = Path(source).name if spec.path is not None and not embedded else source
    params = spec.params if spec.params is not None else _count(folder, source)
    series = f"mini {kind}" if embedded else kind
    return dict(model=name, series=series, params=params, hub=spec.hub or "", source=source)


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


def run_sweep(
    models: Sequence[str],
    datasets: Sequence[str],
    dataset_paths: Sequence[str | None] | None = None,
    progress: bool = True,
    **fields: Any,
) -> Sweep:
    """Do one study for every model on every data set, one model in memory at a time; finished runs are not done again.

    Args:
        models: names, hub ids, folders.
        datasets: names known to `load_dataset`; `dataset_paths`: where each lies, None for those that need no place.
        fields: the other fields of `StudyConfig`, the same for all.

    All names are looked up, all data read and, where a run is left to do, models, devices and memory checked before the
    first run begins.

    Raises:
        ModelUnavailable: some models cannot be had; the message names all of them.
        ValueError: a name or field that does not exist, or paths that are not as many as data sets.
        RuntimeError: of a whole data set a model read no sample.
    """
    paths = list(dataset_paths) if dataset_paths else [None] * len(datasets)
    if isinstance(datasets, str):
        raise ValueError(f"datasets is a list of names, such as [{datasets!r}]")
    if not datasets or len(paths) != len(datasets):
        raise ValueError(f"a sweep needs data sets, and a path (or None) for each: {len(datasets)} and {len(paths)}")
    table = lineup(models)
    vfkit.natural_suite(fields.get("families"), fields.get("family_params"))
    configs, todo = {}, set()
    for dataset, path in dict(zip(datasets, paths, strict=True)).items():
        own = [StudyConfig(model=model, dataset=dataset, dataset_path=path, **fields) for model in table["source"]]
        samples = own[0].load_samples()
        configs |= {(dataset, model): config for model, config in zip(table["model"], own, strict=True)}
        todo |= {config.model for config in own if not _finished(config, samples.fingerprint)}
    if todo:
        from vfkit.models.load import check  # needs torch, which looking at finished runs does not

        device, dtype = own[0].device, own[0].dtype
        _every([model for model in table["source"] if model in todo], lambda model: check(model, device, dtype))
    runs = {}
    for (dataset, model), config in configs.items():
        print(f"{model} on {dataset}:", end=" ", flush=True)
        runs[dataset, model] = run = run_study(config, progress)
        _release()
        if run.manifest["samples"]["done"] == run.manifest["samples"]["failed"]:
            raise RuntimeError(f"{model} read no sample of {dataset}; the reasons are in {run.folder / 'errors'}")
    keys = ",".join(run.folder.name for run in runs.values())
    folder = Path(fields.get("out", "outputs"), "scaling", hashlib.sha256(keys.encode()).hexdigest()[:12])
    return Sweep(table, runs, folder)


def _finished(config: StudyConfig, dataset: str) -> bool:
    key = run_key(config, fingerprint(config.model, config.dtype), dataset)
    run = Run(run_folder(config, key))
    return (run.folder / "run.json").exists() and run.manifest["finished"] is not None


def _release() -> None:
    """Give back what the last model held, so that the next finds the room."""
    gc.collect()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
