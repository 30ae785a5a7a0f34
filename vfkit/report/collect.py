"""Finished runs sorted by what they are about, and tables over all of them: no weights, no data sets, no torch."""

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property

import pandas as pd

from vfkit.paper import kind_of
from vfkit.study.run import Run
from vfkit.study.runs import Sweep, about_run, by_size, gather

KINDS = ("natural", "inside", "spectral", "attack", "pope", "vfat")


class Collected:
    """The runs of a report, one for each kind, data set and model: of several the one with most samples.

    Kinds: `natural` perturbations of multiple-choice questions, `inside` (the same with probes), `spectral` noise and
    ablations, `attack`, `pope`, `vfat`. Subsets beside the first are left to `paper.verdicts`. A run without rows
    (all its samples failed, or its records are not there) is named in a warning and left out.

    Args:
        runs: of `vfkit.open_runs`.
    """

    def __init__(self, runs: Sweep):
        self.sweep = runs
        self.folder = runs.folder
        found: dict[str, dict[tuple[str, str], Run]] = {kind: {} for kind in KINDS}
        about: list[dict] = []
        taken: set[tuple[str, str, str]] = set()
        for run in sorted(runs.runs.values(), key=lambda run: run.manifest["samples"]["done"]):
            config, model = run.config, about_run(run)
            kind = kind_of(config)
            if kind not in found or config.study == "ask" or not _has_rows(run):
                continue
            if config.subset and any((kind, config.dataset, model["model"]) == each for each in taken):
                continue
            taken.add((kind, config.dataset, model["model"]))
            found[kind][config.dataset, model["model"]] = run
            if kind == "natural" and config.probes:
                found["inside"][config.dataset, model["model"]] = run
            about.append(model)
        columns = ["model", "series", "params", "hub", "source"]
        if not about:
            raise FileNotFoundError("none of these runs is of a kind that a report is made of")
        self.models = by_size(pd.DataFrame(about)[columns].drop_duplicates("model"))
        order = {model: i for i, model in enumerate(self.models["model"])}
        self.runs = {
            kind: {pair: own[pair] for pair in sorted(own, key=lambda pair: (pair[0], order[pair[1]]))}
            for kind, own in found.items()
        }

    def each(self, kind: str, make: Callable[[Run], pd.DataFrame]) -> pd.DataFrame:
        """A table of every run of a kind, one below the other, after its `dataset` and `model`; empty without runs."""
        tables = []
        for (dataset, model), run in self.runs[kind].items():
            table = make(run)
            table.insert(0, "dataset", dataset)
            table.insert(1, "model", model) if "model" not in table else None
            tables.append(table)
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["dataset", "model"])

    def table(self, kind: str, name: str, **options) -> pd.DataFrame:
        """`Run.table` of every run of a kind."""
        return self.each(kind, lambda run: run.table(name, **options))

    def first(self, kind: str) -> tuple[str, Run] | None:
        """The run with most samples of a kind, and what it is called: its model on its data set."""
        own = self.runs[kind]
        if not own:
            return None
        pair = max(own, key=lambda pair: own[pair].manifest["samples"]["done"])
        return f"{pair[1]} on {pair[0]}", own[pair]

    def by_dataset(self, kind: str) -> Iterator[tuple[str, Sweep]]:
        """The runs of a kind as one sweep for each data set."""
        own = self.runs[kind]
        for dataset in dict.fromkeys(dataset for dataset, _ in own):
            runs = {pair: run for pair, run in own.items() if pair[0] == dataset}
            names = [model for _, model in runs]
            yield dataset, gather(self.models[self.models["model"].isin(names)], runs, self.folder)

    @cached_property
    def params(self) -> dict[str, float]:
        """Billions of parameters by model."""
        return self.models.set_index("model")["params"].to_dict()


def _has_rows(run: Run) -> bool:
    """Whether a run has anything to tabulate; one that has not is named in a warning."""
    samples = run.manifest["samples"]
    there = samples["done"] > samples["failed"] and any((run.folder / "records").glob("*.parquet"))
    if not there:
        warnings.warn(f"{run.folder} has no records and is left out of the report", stacklevel=3)
    return there
