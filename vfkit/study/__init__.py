"""Studies: a config in, a folder of records out; stopped at any moment, they go on where they were."""

from vfkit.study.compare import Comparison, compare_runs
from vfkit.study.config import StudyConfig
from vfkit.study.run import Run, open_run, run_study
from vfkit.study.sweep import Sweep, lineup, run_sweep

__all__ = [
    "Comparison", "Run", "StudyConfig", "Sweep", "compare_runs", "lineup", "open_run", "run_study", "run_sweep"
]  # fmt: skip
