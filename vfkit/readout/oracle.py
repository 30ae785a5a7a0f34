"""The oracle: the slow, obvious way to a readout. One full forward pass per option and per prompt, no cache, no batch.

Every conversation goes through the processor whole, images included, so nothing the engine assumes about tokens,
positions, masks, caches or the end of an answer is assumed here. The engine must agree with it; see `verify.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vfkit import prompts
from vfkit.images import open_images
from vfkit.readout.conversation import Answer, Prompt, open_prompt, scored_prompt
from vfkit.readout.forward import TEXT_INPUTS, answer_text, log_probs, model_inputs, tap
from vfkit.readout.readout import TAPS, Readout
from vfkit.sample import Sample


@torch.inference_mode()
def read_oracle(
    vlm,
    sample: Sample,
    images: Sequence[Any] | None = None,
    probes: bool = True,
    like: Readout | None = None,
    slack: float = 0.0,
) -> Readout:
    """The same `Readout` as `vfkit.read`, by one plain forward pass for every number in it.

    Args:
        like: a readout to follow where rounding decides: its predicted option, and its own answers for as long as
            each of their tokens is within `slack` of the best token's log-probability.
    """
    images = open_images(sample, images)
    rendering = (sample, len(images), vlm.processor, vlm.adapter.placeholder(vlm.processor), vlm.wording)
    scored = scored_prompt(*rendering)
    asked = asked_inputs(vlm, scored, images)
    scores = [_score(vlm, scored, answer, images, asked) for answer in scored.answers]
    letters = [_score(vlm, scored, letter, images, asked)[0] for letter in scored.letters]
    readout = Readout(
        sample.labels,
        sample.options,
        logp_text=np.array([text for text, _, _ in scores]),
        logp_end=np.array([end for _, end, _ in scores]),
        n_tokens=np.array([len(answer.text) for answer in scored.answers]),
        logp_letter=np.array(letters or [np.nan] * len(scores)),
    )
    if not probes:
        return readout
    open_asked = open_prompt(*rendering)
    open_ = asked_inputs(vlm, open_asked, images)
    ends, questions = _ends(vlm, scored), {"open": open_asked, "mcq": scored}
    starts, opened = {"open": open_, "mcq": asked}, dict.fromkeys(questions, "")
    if vlm.thinking:  # answers go on from the prompts as they are, whose reasoning is open
        starts = {name: model_inputs(vlm, [(prompt.messages, images)]) for name, prompt in questions.items()}
        opened = {name: prompt.opened for name, prompt in questions.items()}
    said = {
        name: _own_answer(vlm, inputs, ends, like.said.get(name, ()) if like else (), slack)
        for name, inputs in starts.items()
    }
    return replace(
        readout,
        probes={
            "ctx_open": _mean(_states(vlm, open_), slice(-1, None)),
            "ctx_mcq": _mean(_states(vlm, asked), slice(-1, None)),
            "ans_open": _answer_states(vlm, starts["open"], said["open"]),
            "ans_mcq": scores[(like or readout).prediction() or 0][2],
            "ans_mcq_free": _answer_states(vlm, starts["mcq"], said["mcq"]),
        },
        vision=_vision(vlm, asked) if images else [],
        texts={name: answer_text(vlm, ids, opened[name]) for name, ids in said.items()},
        said=said,
    )


def asked_inputs(vlm, prompt: Prompt, images) -> dict[str, Tensor]:
    """The prompt as the processor makes it, and what the template writes before every answer."""
    inputs = model_inputs(vlm, [(prompt.messages, images)])
    if prompt.asked == prompt.tail:
        return inputs
    kept = inputs["input_ids"].shape[1] - len(prompt.asked)
    cut = {key: inputs[key][:, :kept] for key in TEXT_INPUTS if key in inputs}
    return extended(inputs | cut, list(prompt.tail))


def answered_inputs(vlm, prompt: Prompt, answer: Answer, images, asked: dict[str, Tensor]) -> dict[str, Tensor]:
    """The conversation with its answer as the processor makes it, whole.

    Raises:
        RuntimeError: its tokens are not those of the prompt `asked` and the answer.
    """
    if prompt.faithful:
        inputs = model_inputs(vlm, [(answer.messages, images)], answered=True)
    else:
        inputs = extended(asked, [*answer.text, *answer.end])
    if inputs["input_ids"][0].tolist() != [*asked["input_ids"][0].tolist(), *answer.text, *answer.end]:
        raise RuntimeError("the processor's tokens of the answered conversation are not those of its parts")
    return inputs


def _score(vlm, prompt: Prompt, answer, images, asked: dict[str, Tensor]) -> tuple[float, float, dict]:
    """(log-probability of the text, of the turn's end, mean states at the text) of one answer."""
    inputs = answered_inputs(vlm, prompt, answer, images, asked)
    start, ids = asked["input_ids"].shape[1], inputs["input_ids"][0]
    states = _states(vlm, inputs)
    logp = log_probs(vlm, states["post_norm"][start - 1 : -1])[range(len(ids) - start), ids[start:]].double()
    middle = start + len(answer.text)
    return (
        float(logp[: len(answer.text)].sum()),
        float(logp[len(answer.text) :].sum()),
        _mean(states, slice(start, middle)),
    )


def _own_answer(vlm, inputs: dict[str, Tensor], ends: set[int], like: tuple[int, ...], slack: float) -> tuple[int, ...]:
    """Tokens of the model's greedy answer: of `like`, read in one pass, those up to the first that ends the answer or
    is not within `slack` of the best; then every step from scratch."""
    said = _followed(vlm, inputs, like, slack) if like else []
    said = said[: next((i for i, token in enumerate(said, 1) if token in ends), None)]
    while len(said) < vlm.max_new_tokens and not (said and said[-1] in ends):
        (logp,) = log_probs(vlm, _states(vlm, extended(inputs, said))["post_norm"][-1:])
        best = int(logp.argmax())
        if list(like[: len(said)]) == said and len(like) > len(said) and logp[like[len(said)]] >= logp[best] - slack:
            best = like[len(said)]
        said.append(best)
    return tuple(said)


def _followed(vlm, inputs: dict[str, Tensor], like: tuple[int, ...], slack: float, step: int = 256) -> list[int]:
    """The tokens of `like` up to the first whose log-probability is not within `slack` of the best token's."""
    start = inputs["input_ids"].shape[1]
    states = _states(vlm, extended(inputs, list(like)))["post_norm"][start - 1 : -1]
    followed: list[int] = []
    for first in range(0, len(like), step):
        tokens = list(like[first : first + step])
        logp = log_probs(vlm, states[first : first + step])
        good = logp[range(len(tokens)), tokens] >= logp.max(dim=1).values - slack
        n_good = int(good.long().cumprod(dim=0).sum())
        followed += tokens[:n_good]
        if n_good < len(tokens):
            break
    return followed[: vlm.max_new_tokens]


def _ends(vlm, scored: Prompt) -> set[int]:
    """What ends an answer: the `eos_token_id` of any configuration and of the tokenizer, and the first special token
    among those that the processor writes after an answer whatever it is, when the conversation goes on."""
    processor, tokenizer = vlm.processor, vlm.processor.tokenizer
    config = vlm.model.config.to_dict()
    ends = {tokenizer.eos_token_id}
    for each in (vlm.model.generation_config.to_dict(), config, config.get("text_config") or {}):
        named = each.get("eos_token_id")
        ends |= set(named if isinstance(named, list) else [named])
    bare = isinstance(scored.answers[0].messages[-1]["content"], str)
    asked = prompts.user_turn("1", 0)
    one, other = (
        processor.apply_chat_template([*prompts.answered(asked, answer, bare), *asked], tokenize=True)[0]
        for answer in ("2", "3")
    )
    special = {*tokenizer.all_special_ids, *(i for i, token in tokenizer.added_tokens_decoder.items() if token.special)}
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(reversed(one), reversed(other), strict=False)))
    after = [token for token, _ in reversed(same) if token in special]
    return {*ends, *after[:1]} - {None}


def _answer_states(vlm, inputs: dict[str, Tensor], said: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Mean states at the tokens of an answer."""
    return _mean(_states(vlm, extended(inputs, list(said))), slice(inputs["input_ids"].shape[1], None))


def extended(inputs: dict[str, Tensor], said: list[int]) -> dict[str, Tensor]:
    """The prompt with text tokens after it."""
    ids = inputs["input_ids"]
    new = {key: ids.new_zeros(1, len(said)) for key in TEXT_INPUTS if key in inputs}
    new |= {"input_ids": ids.new_tensor([said]), "attention_mask": ids.new_ones(1, len(said))}
    return inputs | {key: torch.cat([inputs[key], value], dim=1) for key, value in new.items()}


def _states(vlm, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """States [token, channel] by tap. The model itself finds the positions: nothing may be left from the last call."""
    if hasattr(vlm.model.model, "rope_deltas"):
        vlm.model.model.rope_deltas = None
    with tap(vlm) as taken:
        vlm.model(**inputs, use_cache=False)
    return {name: taken[name][0] for name in TAPS}


def _vision(vlm, inputs: dict[str, Tensor]) -> list[np.ndarray]:
    outputs = vlm.adapter.backbone(vlm.model)(**inputs, use_cache=False)
    return [grid.float().cpu().numpy() for grid in vlm.adapter.vision_grids(outputs, inputs, vlm.processor)]


def _mean(states: dict[str, Tensor], where: slice) -> dict[str, np.ndarray]:
    return {name: state[where].float().mean(0).cpu().numpy() for name, state in states.items()}
