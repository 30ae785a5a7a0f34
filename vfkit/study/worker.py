"""Who works on chunks: one model and what it has read so far. The same in this process and on a cluster."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from vfkit.sample import Sample
from vfkit.study import provenance
from vfkit.study.config import StudyConfig
from vfkit.study.plan import Partners, chunks
from vfkit.study.work import Done, model, work


class Worker:
    """Loads its model for the first chunk, and holds the first samples that it reads against the oracle."""

    def __init__(self, config: StudyConfig, suite):
        self.config, self.suite = config, suite
        self.vlm, self.unverified = None, config.verify

    def work(self, chunk: Sequence[Sample], folder: Path, partners: Partners) -> tuple[Done, dict]:
        """Read a chunk and write it as one part in `folder`; returns what became of it, and who read it."""
        if self.vlm is None:
            self.vlm = model(self.config)
        done = work(self.config, chunk, self.vlm, self.suite, folder, self.unverified, partners)
        self.unverified -= done.verified
        return done, provenance.reader(self.vlm)


def local(
    config: StudyConfig, todo: Sequence[Sample], suite, folder: Path, partners: Partners
) -> Iterator[tuple[Done, dict]]:
    """Chunk after chunk in this process."""
    worker = Worker(config, suite)
    for chunk in chunks(todo, config.chunk):
        yield worker.work(chunk, folder, partners)
