"""Runs on disk, read without model, data set or torch."""

import inspect
import json
from pathlib import Path
from typing import Any

import pandas as pd

import vfkit
from vfkit.datasets.base import unknown
from vfkit.study import store
from vfkit.study.config import StudyConfig
from vfkit.study.schema import INSIDE


class Run:
    """A run's folder. An unfinished run can be read too: it holds the parts finished so far."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).expanduser()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def manifest(self) -> dict[str, Any]:
        """`run.json`: config, seeds, identity, versions, commit, machine; what was done by whom, when, at what cost.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.folder / "run.json"
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if not _is_whole(manifest):
                raise ValueError("it lacks what every run.json has")
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged ({error}); its records are not: running the same study again writes it anew"
            ) from error
        return manifest

    @property
    def finished(self) -> bool:
        """Whether all samples are done; also False if there is no run or its `run.json` is damaged."""
        try:
            return self.manifest["finished"] is not None
        except (ValueError, OSError):
            return False

    @property
    def config(self) -> StudyConfig:
        return StudyConfig(**self.manifest["config"])

    @property
    def scored(self) -> bool:
        """Whether its records hold scores; those of hosted models hold answers only."""
        return bool(self.records().margin.notna().any())

    @property
    def mode(self) -> str:
        """How the model answered: `instruct`, `reasoning closed`, `thinking` (METHODS 20)."""
        manifest = self.manifest
        told = [*manifest.get("readers", []), manifest.get("about", {})]
        return next((each["mode"] for each in told if each.get("mode")), "instruct")

    @property
    def tap(self) -> str:
        """Hook point at which the run's protocol reads states of its model, for tables that take one."""
        return self.config.protocol.tap_of(self.manifest.get("about", {}).get("type"))

    def records(self) -> pd.DataFrame:
        """One row per sample and instance, the base included; METHODS 1 names the columns."""
        frame = store.read(self.folder, "records")
        read = frame.prediction.notna() & frame.base_prediction.notna()
        if (read & frame.flip.isna()).any():  # a run from before these columns
            frame["flip"] = (frame.prediction != frame.base_prediction).where(read).astype("boolean")
            options = store.read(self.folder, "samples").set_index("sample_id").options.to_dict()
            texts = [
                options[sample_id][int(index)] if sample_id in options and pd.notna(index) else None
                for sample_id, index in zip(frame.sample_id, frame.prediction, strict=True)
            ]
            frame["prediction_text"] = pd.Series(texts, frame.index, dtype=object)
        return frame

    def samples(self) -> pd.DataFrame:
        """One row per sample with a base: category, question, hint, options, answer, prompt, n_images, and `meta`, a
        dict of all else that its data set knows."""
        frame = store.read(self.folder, "samples")
        return frame.assign(meta=frame.meta.map(json.loads))

    def errors(self) -> pd.DataFrame:
        """One row per row of data, sample or instance that failed: sample_id, instance, stage, error, message."""
        return store.read(self.folder, "errors")

    def vectors(self) -> pd.DataFrame:
        """With probes: one row per sample, instance, probe and hook point with its state, float32. Of the base only, or
        of all instances where the run keeps them."""
        return store.read(self.folder, "vectors")

    def controls(self) -> pd.DataFrame:
        """With probes: one row per sample and control image, with the distances of its question's states."""
        return store.read(self.folder, "controls")

    def inside(self, kind: str) -> pd.DataFrame:
        """With `inside`: rows of one kind, `layers` (drift of states), `lens` (margins by layer), `edits` (patches and
        knockouts), `attention`, `radius`; `vfkit.study.schema` names their columns.

        Raises:
            ValueError: unknown kind; the nearest valid one is named.
        """
        if kind not in INSIDE:
            raise unknown("kind of rows", kind, INSIDE)
        return store.read(self.folder, kind)

    def images(self) -> pd.DataFrame:
        """Adversarial images and their noise controls: sample_id, instance, number (place in the sample), png."""
        return store.read(self.folder, "images")

    def table(self, name: str, **options: Any) -> pd.DataFrame:
        """Make a table of `vfkit.metrics` from the run's frames: `flips` (or `flip`) is `flip_table`, and so on.
        Scoring rule, union and hook point are the run's own unless they are given.

        Raises:
            ValueError: unknown name; the nearest valid one is named.
        """
        names = [full.removesuffix("_table") for full in vfkit.metrics.__all__ if full.endswith("_table")]
        short = name if name in names else name.removesuffix("s")
        if short not in names:
            raise unknown("table", name, names)
        make = getattr(vfkit.metrics, f"{short}_table")
        takes = inspect.signature(make).parameters
        frames = [name for name in takes if name in ("records", "samples", "vectors", "controls")]
        choices = {"union": self.config.protocol.union_families, "tap": self.tap, "rule": self.config.rule}
        options = {name: value for name, value in choices.items() if name in takes} | options
        inside = {name: self.inside(name) for name in takes if name in INSIDE}
        return make(**{name: getattr(self, name)() for name in frames}, **inside, **options)

    def browse(self, path: str | Path | None = None, **options: Any) -> Any:
        """The run's samples as one HTML page (`vfkit.browse.write`), which a notebook shows below its cell.

        Args:
            path: of the file; `browse.html` in the run's folder by default.
            options: `megabytes` of thumbnails and number of `samples`, at most.
        """
        return vfkit.browse.write(self, self.folder / "browse.html" if path is None else path, **options)


def _is_whole(manifest: Any) -> bool:
    """Whether a file's content has what every run.json has, each of its type."""
    if not isinstance(manifest, dict) or not isinstance(manifest.get("finished", 0), str | None):
        return False
    config, samples = manifest.get("config"), manifest.get("samples")
    return (
        isinstance(config, dict)
        and isinstance(samples, dict)
        and all(isinstance(config.get(name), str) for name in ("study", "model", "dataset"))
        and all(isinstance(samples.get(name), int) for name in ("asked", "done", "failed"))
    )


def open_run(folder: str | Path) -> Run:
    """Open the run in a folder.

    Raises:
        FileNotFoundError: the folder holds no run.
    """
    run = Run(folder)
    if not (run.folder / "run.json").is_file():
        raise FileNotFoundError(f"{folder} holds no run: there is no run.json in it")
    return run
