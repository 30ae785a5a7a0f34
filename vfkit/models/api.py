"""Hosted models behind an OpenAI-compatible endpoint: they give answers, but no scores and no states."""

import base64
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from vfkit import prompts
from vfkit.chat import Chat, Endpoint, Messages, Reply, tokens_of
from vfkit.images import to_png
from vfkit.judge import parse_choice, strip_reasoning
from vfkit.models.registry import ModelUnavailable, endpoint_url, find, fingerprint, mode_of
from vfkit.readout.reader import BATCH_TOKENS, Request
from vfkit.readout.readout import Readout
from vfkit.sample import Sample

ANSWERS = "outputs/answers"
"""Where answers are kept, unless a study says otherwise."""

_OURS = ("base_url", "base_url_env", "model", "key_env", "request")  # of a registry entry; the rest is the endpoint's


class HostedModel:
    """A model that is asked over the network: a `vfkit.readout.Reader` without scores and states.

    Its answers are stored in `<answers>/<name>.jsonl` and requested once for all studies.
    """

    def __init__(self, name: str, chat: Chat, fingerprint: str):
        self.name, self.chat, self.fingerprint = name, chat, fingerprint
        self.mode = mode_of(name)
        self.wording = prompts.WORDING

    @property
    def counters(self) -> Counter:
        return self.chat.counters

    def read_many(
        self, requests: Sequence[Request], probes: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Readout | Exception]:
        """Readouts in the order of the requests: `texts["mcq"]` is the answer to the sample's own prompt, `named` the
        option that it names. A failed request gives its exception.

        Args:
            probes, batch_tokens: without effect: there are no states and no batches.

        Raises:
            ModelUnavailable: the endpoint refuses the key or the model, or does not answer at all.
        """
        replies = self.chat.ask_many([conversation(*request, self.wording) for request in requests])
        return [
            reply if isinstance(reply, Exception) else _readout(sample, reply)
            for (sample, _), reply in zip(requests, replies, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """The mode, and None for all else: where and on what the model runs is not known."""
        unknown = ("device", "dtype", "attention", "processor", "processor_backend")
        return {"mode": self.mode, **dict.fromkeys(unknown)}


def load_hosted(name: str, answers: str | Path = ANSWERS) -> HostedModel:
    """Load a hosted model by its name in params/models.yaml; its key is read from the environment.

    Args:
        answers: folder in which its answers are stored.

    Raises:
        ModelUnavailable: no key, no client, or not a hosted model.
        ValueError: a field of its entry that does not exist or is missing.
    """
    return HostedModel(name, Chat(endpoint(name), Path(answers, f"{name}.jsonl")), fingerprint(name))


def endpoint(name: str) -> Endpoint:
    """Return the endpoint of a hosted model in params/models.yaml; raises like `load_hosted`."""
    spec = find(name)
    if spec.api is None:
        raise ModelUnavailable(f"model {name!r} is not hosted: its entry in params/models.yaml has no `api` fields")
    api: dict[str, Any] = dict(spec.api)
    others = {name: value for name, value in api.items() if name not in _OURS}
    try:
        return Endpoint(api["model"], endpoint_url(spec), api["key_env"], api["request"], **others)
    except (KeyError, TypeError) as error:
        raise ValueError(f"model {name!r} in params/models.yaml: api: {error}") from error


def conversation(sample: Sample, images: tuple[Image, ...], wording: prompts.Wording = prompts.WORDING) -> Messages:
    """Make the sample's prompt as every model gets it, with its images as lossless data URLs at their places."""
    left = iter(images)
    body, lead = prompts.text(sample, sample.prompt, wording), wording.lead(sample.prompt)
    turns = prompts.user_turn(body, len(images), sample.question, lead)
    return [
        turn | {"content": [image_part(next(left)) if part["type"] == "image" else part for part in turn["content"]]}
        for turn in turns
    ]


def tokens(sample: Sample, images: Sequence[Image]) -> int:
    """Estimate the tokens of a sample's prompt with these images; no image is encoded."""
    turns = prompts.user_turn(prompts.text(sample, sample.prompt), len(images), sample.question)
    return tokens_of(turns)


def image_part(image: Image) -> dict[str, Any]:
    """Encode an image as a part of a message."""
    url = f"data:image/png;base64,{base64.b64encode(to_png(image)).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _readout(sample: Sample, reply: Reply) -> Readout:
    """Reasoning that the provider returns apart stands before the answer, as a local thinking model writes it."""
    text = f"<think>{reply.reasoning}</think>{reply.text}" if reply.reasoning else reply.text
    nothing = np.full(len(sample.options), np.nan)
    return Readout(
        sample.labels,
        sample.options,
        logp_text=nothing,
        logp_end=nothing,
        n_tokens=np.zeros(len(sample.options), dtype=int),
        logp_letter=nothing,
        texts={"mcq": text} | ({"open": text} if sample.prompt == "open" else {}),
        scored=False,
        named=parse_choice(strip_reasoning(text)[0], sample.labels, sample.options),
    )
