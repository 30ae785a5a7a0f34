"""One study for several models and data sets."""

import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import vfkit
from vfkit.datasets import SampleList
from vfkit.datasets.base import unknown
from vfkit.models import ModelUnavailable
from vfkit.study.config import StudyConfig
from vfkit.study.execute import UNAVAILABLE, do, finished_run, run_study, stand_in
from vfkit.study.hosted import answers_only, refuse
from vfkit.study.lineup import about, every, names, ordered, several
from vfkit.study.run import Run
from vfkit.study.runs import Sweep, about_run, gather


def run_sweep(
    models: Sequence[str] | str,
    datasets: Sequence[str] | str,
    dataset_paths: Sequence[str | None] | str | None = None,
    progress: bool = True,
    n: Mapping[str, int | None] | Sequence[int | None] | int | None = 100,
    subset: Mapping[str, int] | Sequence[int] | int = 0,
    **fields: Any,
) -> Sweep:
    """Run one study for every model on every data set, one model in memory at a time; finished runs are reused.

    Args:
        models: names, hub ids, folders; one or several.
        datasets: names known to `load_dataset`; `dataset_paths`: where each lies, None for those that need no place.
        n, subset: of `StudyConfig`: one for all data sets, one for each in their order, or by name (data sets that are
            not named take 100, and 0).
        fields: the other fields of `StudyConfig`, the same for all; hosted models, which give answers only, are read
            without probes.

    All names are looked up, all data read and, where a run is left to do, models, devices and memory checked before the
    first run begins. If weights, data or torch are not available, finished runs of the same config are used.

    Raises:
        ModelUnavailable: some models are neither available nor have finished runs; the message names all of them.
        ValueError: a name or field that does not exist, or paths that are not as many as data sets.
        RuntimeError: a model read no sample of a data set.
    """
    models = names(models)
    made = sweep_configs(models, datasets, dataset_paths, n, subset, **fields)
    suite = made[0].suite()
    configs = {(config.dataset, config.model): config for config in made}  # a table is called by its file
    rows: dict[str, dict[str, Any]] = {}
    samples: dict[str, SampleList] = {}
    runs: dict[tuple[str, str], Run | None] = {}
    gone: dict[str, ModelUnavailable] = {}
    for (dataset, model), config in configs.items():
        try:
            rows[model] = rows.get(model) or about(model, config.protocol.thinking)
            samples[dataset] = samples.get(dataset) or config.load_samples()
            runs[dataset, model] = finished_run(config, suite, samples[dataset])
            if runs[dataset, model] is None and not vfkit.models.is_hosted(model):
                import torch  # noqa: F401  without it nothing can be read
        except UNAVAILABLE as reason:
            try:
                runs[dataset, model] = run = stand_in(config, suite, reason)
                rows[model] = rows.get(model) or about_run(run)
            except ModelUnavailable as error:
                gone[model] = error
    if gone:
        raise several(list(gone.values()), len(models))
    table = ordered([rows[model] for model in models])
    todo = dict.fromkeys(model for (_, model), run in runs.items() if run is None and not vfkit.models.is_hosted(model))
    if todo:
        from vfkit.models.load import check  # needs torch, which looking at finished runs does not

        every(list(todo), lambda model: check(model, config.device, config.dtype))
    named = dict(zip(table.source, table.model, strict=True))
    done: dict[tuple[str, str], Run] = {}
    for (dataset, model), config in configs.items():
        print(f"{named[model]} on {dataset}:", end=" ", flush=True)
        finished = runs[dataset, model]
        if finished is None or dataset in samples:
            run = do(config, suite, samples[dataset], progress)
            _release()
        else:
            run = finished
        read = run.manifest["samples"]
        if read["done"] == read["failed"]:
            where = run.folder / "errors"
            raise RuntimeError(f"{named[model]} read no sample of {dataset}; the reasons are in {where}")
        done[dataset, named[model]] = run
    return gather(table, done, config.out)


def sweep_configs(
    models: Sequence[str] | str,
    datasets: Sequence[str] | str,
    dataset_paths: Sequence[str | None] | str | None = None,
    n: Mapping[str, int | None] | Sequence[int | None] | int | None = 100,
    subset: Mapping[str, int] | Sequence[int] | int = 0,
    **fields: Any,
) -> list[StudyConfig]:
    """Make the configs of a sweep's runs, data set by data set; arguments and errors are those of `run_sweep`."""
    models, datasets = names(models), [datasets] if isinstance(datasets, str) else list(datasets)
    paths = [dataset_paths] if isinstance(dataset_paths, str) else list(dataset_paths or [None] * len(datasets))
    if not datasets or len(paths) != len(datasets):
        raise ValueError(f"a sweep needs data sets, and a path (or None) for each: {len(datasets)} and {len(paths)}")
    sizes, subsets = _each("n", n, datasets, 100), _each("subset", subset, datasets, 0)
    chosen = dict(zip(datasets, zip(paths, sizes, subsets, strict=True), strict=True))
    made = [
        StudyConfig(model=model, dataset=dataset, dataset_path=path, n=size, subset=which, **_given(model, fields))
        for dataset, (path, size, which) in chosen.items()
        for model in models
    ]
    for config in made:
        refuse(config, config.suite())
    return made


def run_subsets(config: StudyConfig, subsets: int | Iterable[int] = 4, progress: bool = True) -> list[Run]:
    """Run one study on several choices of n samples that share none (HI takes four); finished runs are reused.

    `vfkit.metrics.across_runs([run.table("flips") for run in runs])` gives the mean and SD of their tables.

    Args:
        subsets: how many, or which.

    Raises:
        ValueError: there are too few samples for so many subsets. Else as `run_study`.
    """
    chosen = range(subsets) if isinstance(subsets, int) else list(subsets)
    configs = [StudyConfig(**config.model_dump() | {"subset": which}) for which in chosen]
    return [run_study(one, progress) for one in configs]


def _given(model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a model can serve: a hosted one gives no states."""
    return {**fields, "probes": False} if answers_only(model) else dict(fields)


def _each(name: str, values: Any, datasets: Sequence[str], default: Any) -> list[Any]:
    """One value for each data set."""
    if isinstance(values, Mapping):
        for dataset in values:
            if dataset not in datasets:
                raise unknown(f"data set of {name}", dataset, datasets)
        return [values.get(dataset, default) for dataset in datasets]
    if isinstance(values, Sequence) and not isinstance(values, str):
        if len(values) != len(datasets):
            raise ValueError(f"{name} needs one value for each data set: {len(datasets)} and {len(values)}")
        return list(values)
    return [values] * len(datasets)


def _release() -> None:
    """Free the memory of the last model."""
    gc.collect()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
