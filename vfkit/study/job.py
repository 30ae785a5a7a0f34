"""Jobs: the samples of a run that are left to read, their chunks and their control images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vfkit.datasets.base import image_identity
from vfkit.perturb import Suite
from vfkit.sample import Sample
from vfkit.study.config import StudyConfig

TOGETHER = 24  # questions on one image that are read together whatever the chunk's size; POPE's three splits ask 18


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to read samples of a run.

    Args:
        config: the study.
        suite: its perturbations, of `vfkit.natural_suite`.
        samples: those to read; their images are not open yet.
        folder: where parts are written: the run's folder, or the place where a worker stages them.
        controls: with probes, by sample id: the samples whose images are its control images (METHODS 8).
        kept: by sample id: where other runs hold rows of this sample, read under equal settings: a folder, a chunk, and
            the families that are the same there.
    """

    config: StudyConfig
    suite: Suite
    samples: Sequence[Sample]
    folder: Path
    controls: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    kept: Mapping[str, Sequence[tuple[Path, str, frozenset[str]]]] = field(default_factory=dict)

    def chunks(self) -> Iterator["Job"]:
        """Yield jobs of at most `config.chunk` samples, questions on one image together if they fit."""
        for samples in chunks(self.samples, self.config.chunk):
            own: list[Any] = [{s.id: of[s.id] for s in samples if s.id in of} for of in (self.controls, self.kept)]
            yield replace(self, samples=samples, controls=own[0], kept=own[1])


def control_samples(samples: Sequence[Sample], k: int) -> dict[str, list[Sample]]:
    """Choose control samples, on other images, for each sample: those that follow its image in the data set's seeded
    order, up to 4 `k`, since some may not open. Questions on one image share them, so they are encoded once. The
    choice does not depend on how a run is cut into chunks.
    """
    alike: dict[int, list[list[Sample]]] = {}
    for group in by_image(samples):
        alike.setdefault(len(group[0].images), []).append(group)
    chosen: dict[str, list[Sample]] = {}
    for groups in alike.values():
        n = min(len(groups) - 1, 4 * k)
        around = [group[0] for group in groups + groups[:n]]
        for place, group in enumerate(groups, start=1):
            chosen |= dict.fromkeys([sample.id for sample in group], around[place : place + n])
    return chosen


def by_image(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Group samples by their images (`image_identity`), in order of appearance."""
    groups: dict[Any, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(image_identity(sample) or sample.id, []).append(sample)
    return list(groups.values())


def chunks(samples: Sequence[Sample], size: int) -> Iterator[list[Sample]]:
    """Cut samples into chunks of at most `size` that keep the questions on one image together, so that they share its
    encodes. An image with more than `size` questions makes chunks of up to `TOGETHER` on its own."""
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
