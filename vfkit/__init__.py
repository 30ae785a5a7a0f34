"""vfkit: is a vision-language model's answer stable, is what happens inside it, and does it look at the image?"""

from importlib import import_module

__version__ = "0.1.0"

# Everything is imported on first use, so that metrics run where torch is not installed.
_PUBLIC = {
    "Sample": "vfkit.sample",
    "Instance": "vfkit.sample",
    "load_image": "vfkit.images",
    "ImageError": "vfkit.images",
    "load_dataset": "vfkit.datasets",
    "DatasetUnavailable": "vfkit.datasets",
    "natural_suite": "vfkit.perturb",
    "load_model": "vfkit.models",
    "ModelUnavailable": "vfkit.models",
    "Readout": "vfkit.readout",
    "read": "vfkit.readout",
    "read_oracle": "vfkit.readout",
    "StudyConfig": "vfkit.study",
    "run_study": "vfkit.study",
    "open_run": "vfkit.study",
    "open_runs": "vfkit.study",
    "run_sweep": "vfkit.study",
    "compare_runs": "vfkit.study",
}
_SUBPACKAGES = (
    "datasets", "figures", "images", "judge", "metrics", "mini", "models", "notebook", "paper", "perturb", "prompts",
    "readout", "study",
)  # fmt: skip
__all__ = sorted([*_PUBLIC, *_SUBPACKAGES])


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _SUBPACKAGES:
        return import_module(f"vfkit.{name}")
    raise AttributeError(f"module 'vfkit' has no attribute {name!r}")


def __dir__():
    return __all__
