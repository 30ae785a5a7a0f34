"""Finished runs, found by their `run.json`: without weights, data sets or torch."""

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import vfkit
from vfkit.datasets.base import unknown
from vfkit.models import ModelUnavailable
from vfkit.study.config import NOT_IN_KEY, StudyConfig
from vfkit.study.key import model_name, settings
from vfkit.study.run import Run

ASK = "ask"  # study of single questions, which are no part of a sweep
DEPTH = 5  # folders between the folder of all runs and a run.json, at most
VERSIONS = ("vfkit", "transformers", "torch")
PER_OPTION = ("logp_text", "logp_end", "logp_letter", "n_tokens")
TEXTS = ("text_open", "text_mcq", "prediction_text")


@dataclass(frozen=True)
class Sweep:
    """Runs of several models on several data sets.

    Args:
        models: one row per model, by series and size, as `vfkit.study.lineup` has them.
        runs: by data set and model.
        folder: where tables and figures of all runs together are kept; it is named by their keys.
    """

    models: pd.DataFrame
    runs: dict[tuple[str, str], Run]
    folder: Path

    def frame(self, kind: str, **equal: str) -> pd.DataFrame:
        """A frame of all runs, one below the other, each row with its `dataset`, `model` and `study`.

        Args:
            kind: `records`, `vectors`, `controls`, `errors`.
            equal: keep rows whose column has this value, such as `probe="ctx_open"`; large frames want it.

        Columns per option (the parts of the scores) and texts are left out: tables across models need neither.
        """
        frames = []
        for (dataset, model), run in self.runs.items():
            frame = getattr(run, kind)()
            for column, value in equal.items():
                frame = frame[frame[column] == value]
            frame = frame.drop(columns=[*PER_OPTION, *TEXTS], errors="ignore")
            frame.insert(0, "dataset", dataset)
            frame.insert(1, "model", model)
            frame.insert(2, "study", run.config.study)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def across(self, table: str, **options: Any) -> pd.DataFrame:
        """Mean and SD of a table over runs that differ in their samples only (`vfkit.metrics.across_runs`).

        Args:
            table: as for `Run.table`, with its options.

        Returns:
            Its rows by `dataset`, `model` and `n` samples asked for: of one run, its own numbers without an SD.
        """
        alike: dict[str, list[tuple[str, Run]]] = {}
        for (dataset, _), run in self.runs.items():
            what = run.config.model_dump(mode="json", exclude={"subset", "seed", *NOT_IN_KEY} - {"study"})
            alike.setdefault(json.dumps([dataset, what], sort_keys=True), []).append((dataset, run))
        tables = []
        for group in alike.values():
            runs, config = [run for _, run in group], group[0][1].config
            joined = vfkit.metrics.across_runs([run.table(table, **options) for run in runs])
            joined.insert(0, "dataset", group[0][0])
            joined.insert(1, "model", about_run(runs[0])["model"])
            joined.insert(2, "n", config.n or runs[0].manifest["samples"]["asked"])
            tables.append(joined)
        return pd.concat(tables, ignore_index=True)

    def table(self) -> pd.DataFrame:
        """One row per run: `study`, `dataset`, `model`, `series`, `params` (billions), samples `asked`, `done`,
        `failed`, whether it is `finished` and `when` (else when it began), `seconds`, the versions of `vfkit`,
        `transformers` and `torch`, and its `folder`."""
        about, rows = self.models.set_index("model"), []
        for (dataset, model), run in self.runs.items():
            manifest, own = run.manifest, about.loc[model]
            row = dict(study=manifest["config"]["study"], dataset=dataset, model=model)
            row |= dict(series=own.series, params=own.params) | manifest["samples"]
            row |= dict(finished=run.finished, when=manifest["finished"] or manifest.get("started"))
            row |= {"seconds": manifest.get("seconds")}
            row |= {name: manifest.get("versions", {}).get(name) for name in VERSIONS}
            rows.append(row | {"folder": run.folder.as_posix()})
        return pd.DataFrame(rows)


def open_runs(out: str | Path = "outputs", finished: bool | None = True, **equal: Any) -> Sweep:
    """Open the runs under a folder as a sweep, without weights, data sets or torch.

    Args:
        out: the folder of all runs, or one within it.
        finished: True takes finished runs, False the others, None all.
        equal: a value, or a list of them, for columns of `Sweep.table`: `study`, `model`, `dataset`, `asked` (or `n`),
            ... as in `open_runs("outputs", model=["mini_qwen3vl", "mini_gemma3"], dataset="mini_seed")`.

    Runs of single questions (`vfkit.ask`) are left out unless `study="ask"`, or `study=None` for all, takes them.

    A run of a version whose config this one does not know is named in a warning and left out.

    Several runs of one model on one data set get names that tell them apart: `mini_qwen3vl (pope)`, by their study, n,
    subset or key.

    Raises:
        FileNotFoundError: no run is found; the message says which there are.
        ValueError: an unknown column.
    """
    runs = [run for run in find_runs(out) if _has_config(run)]
    if not runs:
        raise FileNotFoundError(f"there is no run (no run.json) in {out}")
    rows = pd.DataFrame([{"run": run, **about_run(run), **_summary(run)} for run in runs])
    if "n" in equal:
        equal["asked"] = equal.pop("n")
    wanted = pd.Series(True, rows.index) if "study" in equal else rows.study != ASK
    if finished is not None:
        wanted &= rows.finished == finished
    equal = {name: value for name, value in equal.items() if (name, value) != ("study", None)}
    for name, value in equal.items():
        if name not in rows:
            raise unknown("column of runs", name, rows.columns.drop("run"))
        wanted &= rows[name].isin(list(value) if isinstance(value, list | tuple | set) else [value])
    if not wanted.any():
        which = "" if finished is None else "finished " if finished else "unfinished "
        there = ", ".join(sorted(f"{row.model} on {row.dataset}" for row in rows.itertuples()))
        raise FileNotFoundError(f"no {which}run in {out} is like {equal}; there are: {there}")
    rows = _told_apart(rows[wanted])
    return gather(rows, {(row.dataset, row.model): row.run for row in rows.itertuples()}, out)


def _has_config(run: Run) -> bool:
    """Whether this version can read a run's config; one that it cannot read is named in a warning."""
    try:
        run.config  # noqa: B018
    except ValueError as error:
        warnings.warn(f"{run.folder} is left out: {error}", stacklevel=3)
        return False
    return True


def gather(models: pd.DataFrame, runs: dict[tuple[str, str], Run], out: str | Path) -> Sweep:
    """Make a sweep of runs: models by series and size, series in their order."""
    columns = ["model", "series", "params", "hub", "source", "mode"]
    table = by_size(models.reindex(columns=columns).drop_duplicates("model"))
    datasets = list(dict.fromkeys(dataset for dataset, _ in runs))
    order = [(dataset, model) for dataset in datasets for model in table.model if (dataset, model) in runs]
    keys = ",".join(runs[pair].folder.name for pair in order)
    folder = Path(out, "scaling", hashlib.sha256(keys.encode()).hexdigest()[:12])
    return Sweep(table, {pair: runs[pair] for pair in order}, folder)


def by_size(models: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by series, in order of appearance, and by `params` within each."""
    order = {series: i for i, series in enumerate(models["series"].unique())}
    table = models.assign(order=models["series"].map(order)).sort_values(["order", "params"], kind="stable")
    return table.drop(columns="order").reset_index(drop=True)


def find_runs(out: str | Path) -> Iterator[Run]:
    """Every run under a folder, the latest last; a damaged `run.json` is named in a warning and left out."""
    out = Path(out).expanduser()
    runs = []
    for depth in range(DEPTH):
        for path in out.glob("/".join(["*"] * depth + ["run.json"])):
            run = Run(path.parent)
            try:
                manifest = run.manifest
            except ValueError as error:
                warnings.warn(str(error), stacklevel=2)
                continue
            runs.append((manifest["finished"] or manifest.get("started", ""), str(path), run))
    yield from (run for *_, run in sorted(runs, key=lambda each: each[:2]))


def _summary(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    row = {"study": manifest["config"]["study"], "dataset": manifest["config"]["dataset"], "finished": run.finished}
    row |= {"asked": manifest["samples"]["asked"], "key": run.folder.name}
    row |= {"subset": manifest["config"].get("subset", 0)}
    return row | {name: manifest.get("versions", {}).get(name) for name in VERSIONS}


def about_run(run: Run) -> dict[str, Any]:
    """Name, series, size of a run's model: as the run wrote them; of older runs, what the registry knows."""
    manifest = run.manifest
    if about := manifest.get("about"):
        return about | {"mode": run.mode}
    source = manifest["config"]["model"]
    try:
        spec = vfkit.models.find(source)
    except ModelUnavailable:
        return dict(model=Path(source).name, series="", params=float("nan"), hub="", source=source, mode=run.mode)
    series = f"{'mini ' if spec.hub is None else ''}{spec.type or ''}"
    params = float("nan") if spec.params is None else spec.params
    return dict(model=Path(source).name, series=series, params=params, hub=spec.hub or "", source=source, mode=run.mode)


def _told_apart(rows: pd.DataFrame) -> pd.DataFrame:
    """Models renamed where several runs are of one model on one data set."""
    pair, rows = ["dataset", "model"], rows.copy()
    for column in ("study", "asked", "subset", "key"):
        several = rows.duplicated(pair, keep=False)
        differs = rows.groupby(pair)[column].transform("nunique") > 1
        text = rows[column].astype(str).radd({"asked": "n=", "subset": "subset "}.get(column, ""))
        rows["model"] = rows.model.where(~(several & differs), rows.model + " (" + text + ")")
    return rows


# --- the same study under another key ---------------------------------------------------------------------------------


def serving(config: StudyConfig) -> list[StudyConfig]:
    """Configs whose runs hold all that this one asks for: itself, the same with all vectors kept, and with probes."""
    changes = [{}] if config.keep_vectors else [{}, {"keep_vectors": True}]
    if not config.probes:
        changes = [{}, {"probes": True}, {"probes": True, "keep_vectors": True}]
    return [config.model_copy(update=change) for change in changes]


def same_study(config: StudyConfig) -> Iterator[Run]:
    """Runs of the same config, whatever code, libraries, weights and data they were made with; the latest first."""
    asked = [_asked(one) for one in serving(config)]
    for run in reversed(list(find_runs(config.out))):
        try:
            if _asked(run.config) in asked and model_name(config.model) in _models(run):
                yield run
        except ValueError:  # a config from before a field was renamed or refused
            continue


def matching(configs: Sequence[StudyConfig]) -> list[list[Run]]:
    """For each config the runs of it, as `same_study` finds them but the latest first and in one pass over each `out`;
    neither weights nor data are looked at."""
    found: dict[str, list[tuple[dict[str, Any], set[str], Run]]] = {}
    for out in dict.fromkeys(config.out for config in configs):
        found[out] = []
        for run in reversed(list(find_runs(out))):
            with contextlib.suppress(ValueError):  # a config from before a field was renamed or refused
                found[out].append((_asked(run.config), _models(run), run))
    result = []
    for config in configs:
        asked, name = [_asked(one) for one in serving(config)], model_name(config.model)
        result.append([run for what, names, run in found[config.out] if what in asked and name in names])
    return result


def _asked(config: StudyConfig) -> dict[str, Any]:
    """Settings of a config in one form and data by name; the model is compared by `_models`."""
    fields = config.model_dump(mode="json", include={"dataset", "dataset_options", "n", "seed", "subset", "dtype"})
    what = {"settings": settings(config, config.suite()), "tables": config.protocol.of_tables()}
    return json.loads(json.dumps(fields | what))


def _models(run: Run) -> set[str]:
    """Names that a run's model goes by, without looking at its files: they may be gone."""
    about = run.manifest.get("about", {})
    return {run.config.model, model_name(run.config.model), about["model"] if about.get("hub") else run.config.model}


def differences(run: Run, who: dict[str, Any], code: dict[str, str]) -> list[str]:
    """Say how the identity of a run differs from another one.

    Args:
        who: the other's identity; parts that are not known are missing.
        code: the other's definitions, by which those that differ are named.
    """
    theirs, words = identity_of(run.manifest), []
    for part, name in {"model": "the model's files", "data": "the data"}.items():
        if part in who and theirs.get(part) != who[part]:
            words.append(name)
    if "code" in who and theirs.get("code") != who["code"]:
        before = run.manifest.get("definitions", {})
        names = sorted(name for name in {*before, *code} if before.get(name) != code.get(name)) if before else []
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        words.append(f"code ({', '.join(names[:3])}{more})" if names else "code")
    old, new = theirs.get("libraries", {}), who.get("libraries", {})
    words += [f"{name} {old.get(name)} -> {new[name]}" for name in new if old.get(name) != new[name]]
    if "processor" in theirs and "processor" in who and theirs["processor"] != who["processor"]:
        words.append(f"image processor {theirs['processor']} -> {who['processor']}")
    return words


def identity_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Identity of a run from its `run.json`; for older runs, the parts that are known."""
    if "identity" in manifest:
        return manifest["identity"]
    prints = manifest.get("fingerprints", {})
    known = {"model": prints.get("model"), "data": prints.get("dataset"), "code": prints.get("code")}
    return known | {"libraries": {k: v.split("+")[0] for k, v in manifest.get("versions", {}).items()}}
