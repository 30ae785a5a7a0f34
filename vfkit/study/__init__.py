"""Studies: a config in, a folder of records out; a stopped study resumes."""

from vfkit.study.compare import Comparison, compare_runs
from vfkit.study.config import StudyConfig
from vfkit.study.execute import run_study
from vfkit.study.hosted import answers_only, estimate
from vfkit.study.lineup import lineup
from vfkit.study.run import Run, open_run
from vfkit.study.runs import Sweep, open_runs
from vfkit.study.sweep import run_subsets, run_sweep, sweep_configs

__all__ = [
    "Comparison", "Run", "StudyConfig", "Sweep", "answers_only", "compare_runs", "estimate", "lineup", "open_run",
    "open_runs", "run_study", "run_subsets", "run_sweep", "sweep_configs",
]  # fmt: skip
