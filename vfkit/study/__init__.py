"""Studies: a config in, a folder of records out; stopped at any moment, they go on where they were."""

from vfkit.study.compare import Comparison, compare_runs
from vfkit.study.config import StudyConfig
from vfkit.study.run import Run, open_run, run_study

__all__ = ["Comparison", "Run", "StudyConfig", "compare_runs", "open_run", "run_study"]
