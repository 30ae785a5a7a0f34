"""Where a run is kept: a folder named by everything that its records depend on."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import vfkit
from vfkit.sample import Sample
from vfkit.study.config import StudyConfig

# Source that decides what a record says. A change in any of it starts a new folder.
RECORD_CODE = (
    *("sample.py", "images.py", "prompts.py", "datasets", "perturb", "models", "readout"),
    *("study/plan.py", "study/work.py", "study/measures.py", "study/schema.py"),
    *("metrics/drift.py", "metrics/dirichlet.py", "metrics/spectrum.py"),
)

# Libraries whose versions a record may depend on.
LIBRARIES = ("torch", "torchvision", "transformers", "pillow")

Partners = Mapping[str, Sequence[Sample]]


def run_key(config: StudyConfig, model: str, dataset: str) -> str:
    """Short digest of the config's determining fields, the model's and dataset's fingerprints, and what reads them."""
    what = {"config": config.key_fields(), "model": model, "dataset": dataset} | surroundings()
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:12]


def surroundings() -> dict[str, Any]:
    """The code and the libraries that a record depends on: alike wherever one run is worked on."""
    return {"code": code_version(), "libraries": {name: version(name) for name in LIBRARIES}}


def run_folder(config: StudyConfig, key: str) -> Path:
    """`out/<study>/<model>/<dataset>/<key>`; the names are for people, the key alone tells runs apart."""
    names = [safe_name(name) for name in (config.study, config.model, config.dataset)]
    return Path(config.out, *names, key)


def safe_name(name: str) -> str:
    """A name any file system takes as one folder: `Qwen/Qwen3-VL` -> `Qwen_Qwen3-VL`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-80:].strip("._") or "_"


def code_version(root: Path | None = None) -> str:
    """Digest of the source files in `RECORD_CODE` under `root` (the package's folder)."""
    root = root or Path(vfkit.__file__).parent
    digest = hashlib.sha256()
    for name in RECORD_CODE:
        files = [root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py"))
        for file in files:
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def partners(samples: Sequence[Sample], k: int) -> dict[str, list[Sample]]:
    """Other samples for each, drawn by a seed of its own among those with as many images: a few more than the `k`
    that are needed, since some may show the same image. The same data set gives the same ones however a run is cut up.
    """
    alike: dict[int, list[Sample]] = {}
    for sample in samples:
        alike.setdefault(len(sample.images), []).append(sample)
    chosen = {}
    for sample in samples:
        pool, rng = alike[len(sample.images)], Random(f"partners/{sample.id}")
        chosen[sample.id] = [other for other in rng.sample(pool, min(len(pool), 4 * k + 1)) if other.id != sample.id]
    return chosen


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Consecutive pieces of `size`; the last may be smaller."""
    return (items[start : start + size] for start in range(0, len(items), size))
