"""vfkit: is a vision-language model's answer stable, is what happens inside it, and does it look at the image?"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Before torch is imported: threads that wait for each other by spinning make a busy machine many times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:  # for editors and type checkers; a test holds it equal to the table below
    from vfkit import attack as attack
    from vfkit import browse as browse
    from vfkit import chat as chat
    from vfkit import datasets as datasets
    from vfkit import figures as figures
    from vfkit import images as images
    from vfkit import judge as judge
    from vfkit import metrics as metrics
    from vfkit import mini as mini
    from vfkit import models as models
    from vfkit import notebook as notebook
    from vfkit import paper as paper
    from vfkit import perturb as perturb
    from vfkit import prompts as prompts
    from vfkit import readout as readout
    from vfkit import sample as sample
    from vfkit import study as study
    from vfkit.datasets import DatasetUnavailable as DatasetUnavailable
    from vfkit.datasets import load_dataset as load_dataset
    from vfkit.images import ImageError as ImageError
    from vfkit.images import load_image as load_image
    from vfkit.models import ModelUnavailable as ModelUnavailable
    from vfkit.models import load_model as load_model
    from vfkit.perturb import natural_suite as natural_suite
    from vfkit.readout import Readout as Readout
    from vfkit.readout import read as read
    from vfkit.readout import read_oracle as read_oracle
    from vfkit.sample import Instance as Instance
    from vfkit.sample import Sample as Sample
    from vfkit.study import StudyConfig as StudyConfig
    from vfkit.study import compare_runs as compare_runs
    from vfkit.study import open_run as open_run
    from vfkit.study import open_runs as open_runs
    from vfkit.study import run_study as run_study
    from vfkit.study import run_sweep as run_sweep

# Names are imported on first use, so that metrics work where torch is not installed. An empty list: the module itself.
_PUBLIC = {
    "datasets": ["DatasetUnavailable", "load_dataset"],
    "images": ["ImageError", "load_image"],
    "models": ["ModelUnavailable", "load_model"],
    "perturb": ["natural_suite"],
    "readout": ["Readout", "read", "read_oracle"],
    "sample": ["Instance", "Sample"],
    "study": ["StudyConfig", "compare_runs", "open_run", "open_runs", "run_study", "run_sweep"],
    **dict.fromkeys(
        ["attack", "browse", "chat", "figures", "judge", "metrics", "mini", "notebook", "paper", "prompts"], []
    ),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted([*_HOME, *_PUBLIC])


def _load(name: str):
    if name in _HOME:
        return getattr(import_module(f"vfkit.{_HOME[name]}"), name)
    if name in _PUBLIC:
        return import_module(f"vfkit.{name}")
    raise AttributeError(f"module 'vfkit' has no attribute {name!r}")


if not TYPE_CHECKING:  # to whom every name would then seem to exist
    __getattr__ = _load


def __dir__():
    return __all__
