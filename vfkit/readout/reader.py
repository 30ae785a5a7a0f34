"""What a study needs of a model, whether it is loaded here or asked over the network."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from PIL.Image import Image

from vfkit.readout.readout import Readout
from vfkit.sample import Sample

BATCH_TOKENS = 8192
"""Tokens of one batch by default, padding included."""

Request = tuple[Sample, tuple[Image, ...]]
"""A sample, and the open RGB images that are read in place of its own."""


@runtime_checkable
class Reader(Protocol):
    """A model that gives readouts: `vfkit.models.load.VLM` by the engine, `vfkit.models.api.HostedModel` by asking.

    Attributes:
        name: of the model, as it was asked for.
        fingerprint: digest of everything that its readouts depend on.
        counters: what was done with it so far: `encodes`, `prefills` and `forwards`, or `calls` and `stored` replies.
    """

    name: str
    fingerprint: str

    @property
    def counters(self) -> Counter: ...

    def read_many(
        self, requests: Sequence[Request], probes: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Readout | Exception]:
        """Readouts in the order of the requests; where one fails, its exception stands in the readout's place.

        Args:
            probes: also hidden states, vision tokens and generated answers; a hosted model has no states to give.
            batch_tokens: largest batch, in tokens with padding; a hosted model has no batches.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What reads, for a run's manifest: device, dtype, attention, processor, processor_backend; None where a hosted
        model has none."""
        ...
