"""Doing a study, and looking at one that was done."""

import inspect
import json
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

import vfkit
from vfkit.datasets.base import unknown
from vfkit.perturb import natural_suite
from vfkit.sample import Sample
from vfkit.study import cluster, provenance, store, worker
from vfkit.study.config import StudyConfig
from vfkit.study.plan import Partners, code_version, partners, run_folder, run_key
from vfkit.study.progress import progress as show_progress

# Where chunks are worked on: each takes what is to do and yields what is done and by whom, its part being the run's.
ENGINES = {"local": worker.local, "ray": cluster.on_ray}


class Run:
    """A run's folder, read without any model. An unfinished run can be read too: it holds the parts finished so far."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def manifest(self) -> dict[str, Any]:
        """`run.json`: config, seeds, fingerprints, versions, commit, machine, what was done by whom, when, at what
        cost."""
        return json.loads((self.folder / "run.json").read_text())

    @property
    def config(self) -> StudyConfig:
        return StudyConfig(**self.manifest["config"])

    def records(self) -> pd.DataFrame:
        """One row per sample and instance, the base included."""
        return store.read(self.folder, "records")

    def samples(self) -> pd.DataFrame:
        """One row per sample with a base: category, question, hint, options, answer, prompt, n_images, and `meta`, what
        else its data set knows of it, as a dict."""
        frame = store.read(self.folder, "samples")
        return frame.assign(meta=frame.meta.map(json.loads))

    def errors(self) -> pd.DataFrame:
        """One row per row of data, sample or instance that failed: sample_id, instance, stage, error, message."""
        return store.read(self.folder, "errors")

    def vectors(self) -> pd.DataFrame:
        """With probes: one row per sample, instance, probe and tap with its state, float32. Of the base alone, or of
        all instances where the run keeps them."""
        return store.read(self.folder, "vectors")

    def controls(self) -> pd.DataFrame:
        """With probes: one row per sample and other image that its question was asked about, with its distances."""
        return store.read(self.folder, "controls")

    def images(self) -> pd.DataFrame:
        """Adversarial images and their noise controls: sample_id, instance, number (place in the sample), png."""
        return store.read(self.folder, "images")

    def table(self, name: str, **options: Any) -> pd.DataFrame:
        """A table of `vfkit.metrics` made of the run's frames: `flips` (or `flip`) is `flip_table`, and so on.

        Raises:
            ValueError: unknown name; the nearest valid one is named.
        """
        names = [full.removesuffix("_table") for full in vfkit.metrics.__all__ if full.endswith("_table")]
        short = name if name in names else name.removesuffix("s")
        if short not in names:
            raise unknown("table", name, names)
        make = getattr(vfkit.metrics, f"{short}_table")
        frames = [
            name for name in inspect.signature(make).parameters if name in ("records", "samples", "vectors", "controls")
        ]
        return make(**{name: getattr(self, name)() for name in frames}, **options)


def open_run(folder: str | Path) -> Run:
    """The run kept in a folder.

    Raises:
        FileNotFoundError: the folder holds no run.
    """
    if not (Path(folder) / "run.json").is_file():
        raise FileNotFoundError(f"{folder} holds no run: there is no run.json in it")
    return Run(folder)


def run_study(config: StudyConfig, progress: bool = True) -> Run:
    """Do a study, or what is missing of it; nothing of a finished one is read again, nor its model loaded.

    Args:
        config: the study. `out/<study>/<model>/<dataset>/<key>` is its folder.
        progress: show a bar with rate and time left on a terminal, a line every ten seconds elsewhere.

    Rows, samples and instances that fail become error rows, and the last line printed says how many. Stopped by
    whatever means, a run goes on from its finished parts when called again. To have failed samples tried again,
    delete the run's `errors` folder first. A finished run in a folder that cannot be written is read as it is.

    Raises:
        ValueError: a name that does not exist (dataset, option, family ...); probes of a hosted model.
        PermissionError: the folder cannot be written, and holds no finished run.
        OSError: the disk is full; what was finished before is kept.
        VerifyError: the engine disagrees with the oracle on one of the first `verify` samples that were read.
        RuntimeError: another process is running the same study.
        ModelUnavailable: the model cannot be had.
    """
    if config.probes and vfkit.models.is_hosted(config.model):
        raise ValueError(f"model {config.model!r} is hosted: it gives answers but no states, and probes need states")
    fingerprint = vfkit.models.fingerprint(config.model, dtype=config.dtype)
    suite = natural_suite(config.families, config.family_params)
    if suite.attacks and vfkit.models.is_hosted(config.model):
        raise ValueError(f"model {config.model!r} is hosted: attacks need its gradients, which it does not give")
    samples = config.load_samples()
    key = run_key(config, fingerprint, samples.fingerprint)
    folder = run_folder(config, key)
    try:
        with store.lock(folder):
            manifest = _under_lock(config, key, folder, fingerprint, suite, samples, progress)
    except store.ReadOnly:
        if not (folder / "run.json").exists() or (manifest := Run(folder).manifest)["finished"] is None:
            raise
    print(_summary(folder, manifest))
    return Run(folder)


def _under_lock(config: StudyConfig, key: str, folder: Path, fingerprint: str, suite, samples, progress) -> dict:
    """Find out what is left to do, and do it; returns what `run.json` then says."""
    found = store.recover(folder)
    store.write_dataset_errors(folder, [_row_error(*error) for error in samples.errors])
    todo = [sample for sample in samples if sample.id not in found.samples]
    manifest = {"started": _now(), "finished": None, "seconds": 0.0, "counters": {}, "readers": []}
    if (folder / "run.json").exists():
        manifest |= Run(folder).manifest
    if todo or manifest["finished"] is None:
        manifest |= {
            "finished": None,
            "config": config.model_dump(mode="json"),
            "key": key,
            "seeds": {"samples": config.seed},  # all else is seeded by the sample's id
            "fingerprints": {"model": fingerprint, "dataset": samples.fingerprint, "code": code_version()},
            "versions": provenance.versions(),
            "commit": provenance.commit(),
            "machine": provenance.machine(),
            "samples": {"asked": len(samples), "done": len(found.samples), "failed": len(found.failed)},
            "error_rows": found.errors + len(samples.errors),
        }
        others = partners(samples, config.controls) if config.probes else {}
        _finish(config, folder, suite, todo, others, manifest, progress)
    return manifest


def _finish(config: StudyConfig, folder: Path, suite, todo: list[Sample], others: Partners, manifest, progress) -> None:
    """Do what is left to do, keeping `run.json` up to date."""
    path, n = folder / "run.json", manifest["samples"]
    start, spent, counters = time.monotonic(), manifest["seconds"], Counter(manifest["counters"])
    store.write_json(path, manifest)
    try:
        working = closing(ENGINES[config.engine](config, todo, suite, folder, others))  # else GPUs may stay held
        with working as results, show_progress(n["asked"], n["done"], progress) as tick:
            for done, reader in results:
                n["done"] += done.samples
                n["failed"] += done.failed
                counters.update(done.counters)
                manifest["error_rows"] += done.errors
                manifest["readers"] += [reader] if reader not in manifest["readers"] else []
                manifest |= {"seconds": round(spent + time.monotonic() - start, 2), "counters": counters}
                store.write_json(path, manifest)
                tick(done.samples)
    except BaseException:
        print(f"Stopped after {n['done']} of {n['asked']} samples, which are kept in {folder}; run again to go on")
        raise
    manifest["finished"] = _now()
    store.write_json(path, manifest)


def _row_error(sample_id: str, reason: str) -> dict[str, str]:
    id, message = (text.encode(errors="backslashreplace").decode() for text in (sample_id, reason))  # broken UTF-8 too
    return {"sample_id": id, "instance": "", "stage": "dataset", "error": "RowError", "message": message}


def _summary(folder: Path, manifest: dict) -> str:
    n, errors = manifest["samples"], manifest["error_rows"]
    text = f"{n['done'] - n['failed']} of {n['asked']} samples read, {n['failed']} failed; run folder: {folder}"
    return text + (
        f"; {errors} error rows: run.errors(), or {folder / 'errors'} (delete it to have them tried again)"
        if errors
        else ""
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
