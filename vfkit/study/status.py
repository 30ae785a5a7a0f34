"""State of a study: which of its runs are done, running, waiting or left out, and the time left (METHODS 21)."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from vfkit.study import store
from vfkit.study.launch import read_gap
from vfkit.study.plan import plan
from vfkit.study.run import Run
from vfkit.study.runs import matching
from vfkit.study.studyfile import Planned, Study

STATES = ("done", "running", "stopped", "left out", "waiting")


def status(study: Study, runs: Sequence[Planned], device: str = "h100") -> pd.DataFrame:
    """Tabulate how far the runs of a study are; neither weights nor data are looked at.

    Args:
        device: for the time left of runs that have not begun (`vfkit.study.plan.plan`).

    Returns:
        One row per run: `run`, `part`, `model`, `dataset`, `subset`, `state` (one of `STATES`: `running` while a
        process holds its lock), samples `asked`, `done`, `failed`, `error_rows`, `hours_left` (of begun runs by their
        own rate, else as planned), `reason` of one that is left out, `folder`.
    """
    planned = plan(study, runs, device).set_index("run")
    rows = []
    for run, there in zip(runs, matching([run.config for run in runs]), strict=True):
        config, expected = run.config, planned.loc[run.number]
        row: dict[str, Any] = dict(run=run.number, part=run.part, model=config.model, dataset=config.dataset)
        row |= dict(subset=config.subset, state="waiting", asked=expected.n, done=0, failed=0, error_rows=0)
        row |= dict(hours_left=expected.hours, reason=read_gap(study, run), folder="")
        best = max(there, key=lambda one: (one.finished, one.manifest["samples"]["done"]), default=None)
        if best is not None:
            row |= _progress(best)
        if row["state"] == "done":
            row["reason"] = ""
        elif row["reason"] and row["state"] != "running":
            row["state"] = "left out"
        rows.append(row)
    return pd.DataFrame(rows)


def total(table: pd.DataFrame) -> str:
    """Sum a status up in one line."""
    counts = table.state.value_counts()
    words = [f"{counts[state]} {state}" for state in STATES if state in counts]
    left = table[table.state != "done"]
    failed = f"; {table.failed.sum()} samples failed" if table.failed.sum() else ""
    hours = f"; about {left.hours_left.sum():.3g} hours of one device left" if len(left) else ""
    return f"{len(table)} runs: {', '.join(words)}{failed}{hours}"


def _progress(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    n = manifest["samples"]
    row = {name: n[name] for name in ("asked", "done", "failed")} | {"error_rows": manifest.get("error_rows", 0)}
    row |= {"folder": run.folder.as_posix(), "state": "done" if run.finished else "stopped"}
    if run.finished:
        return row | {"hours_left": 0.0}
    if n["done"] and manifest.get("seconds"):
        row["hours_left"] = manifest["seconds"] / n["done"] * (n["asked"] - n["done"]) / 3600
    return row | ({"state": "running"} if store.is_locked(run.folder) else {})
