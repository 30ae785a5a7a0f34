"""Running a study: finished parts are kept, the rest is read."""

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image

import vfkit
from vfkit.datasets import DatasetUnavailable, SampleList
from vfkit.models import ModelUnavailable
from vfkit.perturb import Suite
from vfkit.sample import Sample
from vfkit.study import hosted, provenance, store
from vfkit.study.config import StudyConfig
from vfkit.study.job import Job, control_samples
from vfkit.study.key import code, identity, n_layers, run_folder, run_key, surroundings
from vfkit.study.lineup import about
from vfkit.study.progress import Progress
from vfkit.study.reuse import find_kept
from vfkit.study.run import Run
from vfkit.study.runs import differences, find_runs, identity_of, same_study, serving
from vfkit.study.workers import ENGINES

UNAVAILABLE = (ModelUnavailable, DatasetUnavailable, FileNotFoundError, NotADirectoryError, ModuleNotFoundError)
"""Weights, data or libraries that are not here: a finished run of the same study may stand in."""


def run_study(config: StudyConfig, progress: bool = True) -> Run:
    """Run a study, or the missing part of it; a finished study loads no model and reads nothing.

    Args:
        config: the study. `out/<study>/<model>/<dataset>/<key>` is its folder, unless a run of equal meaning lies
            elsewhere under `out`.
        progress: show a bar with rate and time left on a terminal, a line every ten seconds elsewhere.

    Rows, samples and instances that fail become error rows, and the last line printed says how many. A stopped run
    resumes from its finished parts when called again. To retry failed samples, delete the run's `errors` folder. A
    finished run in a folder that cannot be written is read as it is.

    Samples that another run under `out` has read with equal settings, words and images are not read again; of families
    that it lacks, only those are, and the base. If weights, data or torch are not available, a finished run of the same
    config is returned, with a message.

    Raises:
        ValueError: a name that does not exist (dataset, option, family ...); a study that needs more
            of a hosted model than answers.
        PermissionError: the folder cannot be written, and holds no finished run.
        OSError: the disk is full; what was finished before is kept.
        VerifyError: the engine disagrees with the oracle on one of the first `verify` samples that were read.
        RuntimeError: another process is running the same study.
        ModelUnavailable, DatasetUnavailable: the model or the data are not available, nor is a finished run.
    """
    suite = config.suite()
    hosted.refuse(config, suite)
    try:
        vfkit.models.fingerprint(config.model, dtype=config.dtype)
        samples = config.load_samples()
    except UNAVAILABLE as reason:
        return stand_in(config, suite, reason)
    return do(config, suite, samples, progress)


def do(config: StudyConfig, suite: Suite, samples: SampleList, progress: bool = True) -> Run:
    """Run a study on loaded samples; see `run_study`."""
    who = identity(config, suite, samples.fingerprint)
    if config.protocol.changes():
        print(config.protocol.say())
    run = finished_run(config, suite, samples)
    if run is None:
        if hosted.answers_only(config.model):
            print(hosted.estimate(config, samples))
        else:
            try:
                import torch  # noqa: F401  without it nothing can be read
            except ImportError as reason:
                return stand_in(config, suite, reason)
        run = Run(find_folder(config, run_key(who)))
    try:
        with store.lock(run.folder):
            manifest = _under_lock(config, suite, samples, who, run.folder, progress)
    except store.ReadOnly:
        if not run.finished:
            raise
        manifest = run.manifest
    print(_summary(run.folder, manifest))
    return run


def finished_run(config: StudyConfig, suite: Suite, samples: SampleList) -> Run | None:
    """Find a finished run that holds all that a study asks for, under any study name; None if there is none."""
    for one in serving(config):
        run = Run(find_folder(config, run_key(identity(one, suite, samples.fingerprint))))
        if run.finished:
            return run
    return None


def find_folder(config: StudyConfig, key: str) -> Path:
    """Return the folder of the run with this key under `out`, or the one to make."""
    own = run_folder(config, key)
    if (own / "run.json").exists():
        return own
    elsewhere = sorted(path.parent for path in Path(config.out).glob(f"*/*/*/{key}/run.json"))
    return elsewhere[0] if elsewhere else own


def stand_in(config: StudyConfig, suite: Suite, reason: Exception) -> Run:
    """Return the latest finished run of the same config, for one that is not possible here; prints how they differ.
    Weights and data that are available must be the run's.

    Raises:
        Exception: the reason, if there is no such run.
    """
    who = surroundings(hosted.answers_only(config.model))
    with contextlib.suppress(*UNAVAILABLE):
        who |= identity(config, suite, "")
    who.pop("data", None)
    with contextlib.suppress(*UNAVAILABLE):
        who["data"] = config.load_samples().fingerprint
    for run in same_study(config):
        theirs = identity_of(run.manifest)
        if run.finished and all(theirs.get(part) == who[part] for part in ("model", "data") if part in who):
            line = f"Not available here: {str(reason).splitlines()[0]}\n"
            line += f"The finished run of this study in {run.folder} is used as it is"
            other = differences(run, who, code(config, suite) if "code" in who else {})
            print(f"{line} (it differs in {', '.join(other)})" if other else line)
            return run
    raise reason


# --- one run ----------------------------------------------------------------------------------------------------------


def _under_lock(
    config: StudyConfig, suite: Suite, samples: SampleList, who: dict[str, Any], folder: Path, progress: bool
) -> dict[str, Any]:
    """Read what is left to read; returns the new content of `run.json`."""
    finished = store.recover(folder)
    store.write_dataset_errors(folder, [_row_error(*error) for error in samples.errors])
    todo = [sample for sample in samples if sample.id not in finished.samples]
    manifest: dict[str, Any] = {"started": _now(), "finished": None, "seconds": 0.0, "counters": {}}
    manifest |= {"readers": [], "reused": 0}
    if (folder / "run.json").exists():
        try:
            manifest |= Run(folder).manifest
        except ValueError as error:
            warnings.warn(f"{error}; this is done now", stacklevel=3)
    elif todo:
        _say_why(config, suite, who)
    if todo or manifest["finished"] is None:
        manifest |= {
            "finished": None,
            "config": config.model_dump(mode="json"),
            "key": folder.name,
            "about": about(config.model, config.protocol.thinking),
            "seeds": {"samples": config.seed},  # all else is seeded by the sample's id
            "identity": who,
            "fingerprints": {"model": who["model"], "dataset": who["data"], "code": who["code"]},
            "versions": provenance.versions(),
            "commit": provenance.commit(),
            "machine": provenance.machine(),
            "samples": {"asked": len(samples), "done": len(finished.samples), "failed": len(finished.failed)},
            "error_rows": finished.errors + len(samples.errors),
            "notes": samples.notes,
            "definitions": code(config, suite),  # by which code that differs is named
        }
        controls = control_samples(samples, config.controls) if config.probes or config.inside else {}
        sisters = [] if config.inside else _sisters(config, suite, who, folder)  # their rows have nothing by layer
        job = Job(config, suite, todo, folder, controls, find_kept(sisters, todo))
        if config.inside and todo:
            print(_inside_cost(config, suite, todo))
        _read_all(job, who, manifest, progress)
    return manifest


def _read_all(job: Job, who: dict[str, Any], manifest: dict[str, Any], progress: bool) -> None:
    """Read what is left, keeping `run.json` up to date."""
    path, n = job.folder / "run.json", manifest["samples"]
    start, spent, counters = time.monotonic(), manifest["seconds"], Counter(manifest["counters"])
    store.write_json(path, manifest)
    try:
        with Progress(n["asked"], n["done"], progress) as shown:
            working = contextlib.closing(ENGINES[job.config.engine](job, who, shown.say))  # else GPUs may stay held
            with working as results:
                for done in results:
                    n["done"] += done.samples
                    n["failed"] += done.failed
                    counters.update(done.counters)
                    manifest["error_rows"] += done.errors
                    manifest["reused"] += done.reused
                    if done.reader and done.reader not in manifest["readers"]:
                        manifest["readers"].append(done.reader)
                    manifest |= {"seconds": round(spent + time.monotonic() - start, 2), "counters": counters}
                    store.write_json(path, manifest)
                    shown.tick(done.samples, done.overhead)
    except BaseException:
        if n["done"]:
            kept = f"{n['done']} of {n['asked']} samples, which are kept in {job.folder}"
            print(f"Stopped after {kept}; run again to go on")
        raise
    manifest["finished"] = _now()
    store.write_json(path, manifest)


def _sisters(config: StudyConfig, suite: Suite, who: dict[str, Any], folder: Path) -> list[tuple[Path, frozenset[str]]]:
    """List the folders of runs that differ from this one only in their samples and families, each with the families
    that are the same there: those with most of them first, then the latest."""
    sisters = []
    for run in reversed(list(find_runs(config.out))):
        theirs = identity_of(run.manifest)
        if run.folder == folder or theirs.get("model") != who["model"]:
            continue
        try:
            their_suite = run.config.suite()
        except ValueError:  # from before a field or family was renamed
            continue
        wanted = identity(config, their_suite, "")
        wanted.pop("tables", None)  # no row depends on these
        same = {name for name, params in suite.families.items() if their_suite.families.get(name) == params}
        if (same or not suite.families) and wanted.items() <= (theirs | {"data": ""}).items():
            sisters.append((run.folder, frozenset(same)))
    return sorted(sisters, key=lambda sister: -len(sister[1]))


def _say_why(config: StudyConfig, suite: Suite, who: dict[str, Any]) -> None:
    """Print one line if the same study was done before with other code, libraries, weights or data."""
    for run in same_study(config):
        state = "finished" if run.finished else "partial"
        other = ", ".join(differences(run, who, code(config, suite))) or "how it was made"
        print(
            f"Starting anew: the {state} run of this study in {run.folder} differs in {other}. "
            f"To use it as it is: vfkit.open_run({str(run.folder)!r})"
        )
        return


def _inside_cost(config: StudyConfig, suite: Suite, samples: Sequence[Sample]) -> str:
    """One line: how much is read, at most, for what is measured inside."""
    from vfkit.inside.attribute import Asked, forward_rows_asked

    asked = Asked(config.rule, config.inside, config.inside_layers, config.inside_window)
    trial = replace(samples[0], answer=None)
    instances = suite.instances(trial, 0, [Image.new("RGB", (64, 64))] * len(trial.images))
    rows = forward_rows_asked(asked, n_layers(config.model), len(instances), config.controls)
    parts = ", ".join(f"{name} {n:,}" for name, n in rows.items())
    return (
        f"Inside: up to {sum(rows.values()):,} rows read for each of {len(samples):,} samples, each at the cost of one "
        f"readout without probes ({parts}); only instances whose margin fell are patched"
    )


def _row_error(sample_id: str, reason: str) -> dict[str, str]:
    named = (text.encode(errors="backslashreplace").decode() for text in (sample_id, reason))  # broken UTF-8 too
    sample_id, message = named
    return {"sample_id": sample_id, "instance": "", "stage": "dataset", "error": "RowError", "message": message}


def _summary(folder: Path, manifest: dict[str, Any]) -> str:
    n, errors, reused = manifest["samples"], manifest["error_rows"], manifest.get("reused", 0)
    text = f"{n['done'] - n['failed']} of {n['asked']} samples read, {n['failed']} failed; run folder: {folder}"
    if reused:
        text += f"; rows of {reused} of them taken from other runs of equal settings"
    if errors:
        text += f"; {errors} error rows: run.errors(), or {folder / 'errors'} (delete it to have them tried again)"
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
