"""Where a run is kept: a folder named by everything that its records depend on."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vfkit
from vfkit.datasets.base import digest
from vfkit.sample import Sample
from vfkit.study.config import StudyConfig

# Source that decides what a record says. A change in any of it starts a new folder.
RECORD_CODE = (
    *("sample.py", "images.py", "prompts.py", "datasets", "perturb", "models", "readout", "measure"),
    *("attack.py", "chat.py", "judge/answers.py"),
    *("study/plan.py", "study/work.py", "study/schema.py"),
)

TOGETHER = 24  # questions on one image that are read together whatever the chunk's size; POPE's three splits ask 18

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
    """Other samples for each, of as many other images: those that follow its image in the data set's seeded order, and
    so are random. A few more than the `k` that are needed, since some may not open. Questions on one image get the same
    ones, which are encoded once for them all. The same data set gives the same ones however a run is cut up.
    """
    alike: dict[int, list[list[Sample]]] = {}
    for group in by_image(samples):
        alike.setdefault(len(group[0].images), []).append(group)
    chosen = {}
    for groups in alike.values():
        n = min(len(groups) - 1, 4 * k)
        around = [group[0] for group in groups + groups[:n]]
        for place, group in enumerate(groups, start=1):
            chosen |= dict.fromkeys([sample.id for sample in group], around[place : place + n])
    return chosen


def by_image(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples in groups that are about the same images, in order of appearance.

    Images are told apart by the name that their data set gives them (`meta["image"]`), else by their sources.
    """
    groups: dict[Any, list[Sample]] = {}
    for sample in samples:
        named = sample.meta.get("image")
        sources = tuple(str(source) if callable(source) else digest(source, str) for source in sample.images)
        name = str(named) if named else sources or sample.id
        groups.setdefault((len(sample.images), name), []).append(sample)
    return list(groups.values())


def chunks(samples: Sequence[Sample], size: int) -> Iterator[list[Sample]]:
    """Pieces of at most `size` samples, in which the questions on one image stay together: what is read together
    shares its encodes. Of an image with more than `size` questions up to `TOGETHER` make a piece of their own."""
    chunk: list[Sample] = []
    for group in by_image(samples):
        for start in range(0, len(group), max(size, TOGETHER)):
            piece = group[start : start + max(size, TOGETHER)]
            if chunk and len(chunk) + len(piece) > size:
                yield chunk
                chunk = []
            chunk = chunk + piece
    if chunk:
        yield chunk
