"""What is left to read of a run, and how it is cut into chunks; which images are each sample's control images."""

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
    """All that whoever reads samples for a run needs.

    Args:
        config: the study.
        suite: its perturbations, of `vfkit.natural_suite`.
        samples: those to read; their images are not open yet.
        folder: where parts are written: the run's folder, or the place where a worker stages them.
        controls: with probes, by sample id: the samples whose images are its control images (METHODS 8).
        kept: by sample id: runs, each a folder and a chunk, that hold rows of this sample, read under equal settings.
    """

    config: StudyConfig
    suite: Suite
    samples: Sequence[Sample]
    folder: Path
    controls: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    kept: Mapping[str, Sequence[tuple[Path, str]]] = field(default_factory=dict)

    def chunks(self) -> Iterator["Job"]:
        """Jobs of at most `config.chunk` samples, all questions on one image among them where they fit."""
        for samples in chunks(self.samples, self.config.chunk):
            own: list[Any] = [{s.id: of[s.id] for s in samples if s.id in of} for of in (self.controls, self.kept)]
            yield replace(self, samples=samples, controls=own[0], kept=own[1])


def control_samples(samples: Sequence[Sample], k: int) -> dict[str, list[Sample]]:
    """Samples on other images for each sample: those that follow its image in the data set's seeded order, and so are
    random. Up to 4 `k`, since some may not open. Questions on one image get the same ones, which are encoded once.
    The same samples give the same ones however a run is cut into chunks.
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
    """The samples in groups that are about the same images (`image_identity`), in order of appearance."""
    groups: dict[Any, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(image_identity(sample) or sample.id, []).append(sample)
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
