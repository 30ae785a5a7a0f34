"""The readout engine: one vision encode and one prefill per distinct image, whatever is asked of it.

For every image the prompts, and under them the options, branch off a shared prefix (`tree.py`) and are read in the same
forward pass. Greedy answers continue from that pass's cache. The oracle (`oracle.py`) is the obvious way to the same.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor
from transformers import DynamicCache

from vfkit.images import content_hash
from vfkit.readout.conversation import Answer, Prompt, open_prompt, scored_prompt
from vfkit.readout.forward import log_probs, model_inputs, row_inputs, tap, vision_inputs
from vfkit.readout.greedy import Spoken, greedy
from vfkit.readout.readout import TAPS, Readout
from vfkit.readout.tree import Row
from vfkit.sample import Sample

BATCH_TOKENS = 8192

Request = tuple[Sample, tuple[Image, ...]]


@dataclass
class _Asked:
    """One request: where its result goes, and its prompts."""

    index: int
    sample: Sample
    scored: Prompt
    open: Prompt | None


@dataclass
class _Group:
    """Requests that share an image prefix, read as one row."""

    images: tuple[Image | Tensor, ...]
    asked: list[_Asked]
    length: int  # tokens of the row: what batches are built by


@dataclass(frozen=True)
class _Nodes:
    """Where one request's prompts and answers lie in its row."""

    scored: int
    open: int | None
    answers: list[int]
    letters: list[int]


def read_many(
    vlm, requests: list[Request], probes: bool = False, batch_tokens: int = BATCH_TOKENS
) -> list[Readout | Exception]:
    """Readouts of many (sample, images), in the order asked.

    Requests with the same image contents, and the same words before them, share one encode and one prefill, as long as
    their row stays within `batch_tokens`. Rows are batched longest first, up to `batch_tokens` padded tokens a batch;
    those without images among themselves. Where a request fails its exception stands in the readout's place; after an
    out-of-memory error the batch is read once more in halves.
    """
    results: list[Readout | Exception | None] = [None] * len(requests)
    groups = sorted(_group(vlm, requests, probes, results, batch_tokens), key=lambda group: -group.length)
    for left in ([group for group in groups if bool(group.images) == seen] for seen in (True, False)):
        while left:
            n = max(1, batch_tokens // left[0].length)
            _read_or_fail(vlm, left[:n], results)
            left = left[n:]
    return results


# --- requests to batches ----------------------------------------------------------------------------------------------


def _group(vlm, requests: list[Request], probes: bool, results: list, longest: int = BATCH_TOKENS) -> list[_Group]:
    groups: list[_Group] = []
    latest: dict[Any, _Group] = {}  # the group that takes further questions on an image
    known, vlm.prompts = vlm.prompts, {}  # a sample's many instances ask the words that its base asked before
    template = vlm.processor.chat_template
    for index, (sample, images) in enumerate(requests):
        try:
            words = (sample.question, sample.options, sample.hint, sample.prompt, len(images), probes, template)
            if words not in vlm.prompts:
                vlm.prompts[words] = known.get(words) or _prompts(vlm, sample, len(images), probes)
            scored, open_ = vlm.prompts[words]
            asked = _Asked(index, sample, scored, open_)
            key = (scored.head, *map(content_hash, images)) if images else index  # without images nothing is shared
            length = _length(scored) + (_length(open_) if open_ else 0)
            if key not in latest or latest[key].length + length > longest:
                tokens = sum(vlm.adapter.n_image_tokens(vlm.processor, [image.size for image in images]))
                latest[key] = _Group(images, [], tokens)
                groups.append(latest[key])
            latest[key].asked.append(asked)
            latest[key].length += length
        except Exception as error:
            results[index] = _bare(error)
    return groups


def _prompts(vlm, sample: Sample, n_images: int, probes: bool) -> tuple[Prompt, Prompt | None]:
    rendering = (sample, n_images, vlm.processor, vlm.adapter.placeholder(vlm.processor))
    return scored_prompt(*rendering), open_prompt(*rendering) if probes else None


def _length(prompt: Prompt) -> int:
    return len(prompt.tail) + sum(len(answer.text + answer.end) for answer in prompt.answers + prompt.letters)


def _read_or_fail(vlm, groups: list[_Group], results: list) -> None:
    """Read a batch; halve it once if memory runs out, and read it one by one to find out which request fails.

    A batch of one image is taken apart by its questions.
    """
    single = groups if len(groups) > 1 else [replace(groups[0], asked=[asked]) for asked in groups[0].asked]
    try:
        return _read_batch(vlm, groups, results)
    except torch.OutOfMemoryError as error:
        parts, failure = [single[: len(single) // 2], single[len(single) // 2 :]], _bare(error)
    except Exception as error:
        parts, failure = [[group] for group in single], _bare(error)
    if len(single) == 1:
        return _fail(groups, failure, results)
    for part in parts:
        try:
            _read_batch(vlm, part, results)
        except Exception as error:
            _fail(part, error, results)


def _fail(groups: list[_Group], error: Exception, results: list) -> None:
    for asked in (asked for group in groups for asked in group.asked):
        results[asked.index] = _bare(error)


def _bare(error: Exception) -> Exception:
    """Without its traceback, which would keep the failed batch's tensors in memory."""
    return error.with_traceback(None)


# --- one batch --------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def _read_batch(vlm, groups: list[_Group], results: list) -> None:
    inputs = model_inputs(vlm, [(group.asked[0].scored.messages, group.images) for group in groups])
    rows, nodes = zip(*(_grow(vlm, inputs, index, group) for index, group in enumerate(groups)), strict=True)
    probes = groups[0].asked[0].open is not None
    cache = DynamicCache() if probes else None  # without a config no layer drops what has left its window
    positions, shift = vlm.adapter.positions(vlm.model, inputs)
    states, grids = _forward(vlm, rows, inputs, positions, shift, cache)
    vlm.counters.update(encodes=sum(len(group.images) for group in groups), prefills=len(rows))

    readouts = _scores(vlm, groups, rows, nodes, states["post_norm"])
    if probes:
        paths = sorted({(row, node) for row, each in enumerate(nodes) for n in each for node in (n.scored, n.open)})
        spoken = greedy(vlm, rows, paths, states["post_norm"], cache, shift, positions.shape[:-2])
        grids = iter(grids)
    for index, (group, each) in enumerate(zip(groups, nodes, strict=True)):
        vision = [_vector(next(grids)) for _ in group.images] if probes else []
        own = {name: states[name][index] for name in TAPS}
        for asked, at in zip(group.asked, each, strict=True):
            readout = next(readouts)
            if probes:
                answers = spoken[index, at.open], spoken[index, at.scored]
                readout = replace(_with_probes(readout, rows[index], at, own, *answers), vision=vision)
            results[asked.index] = readout


def _grow(vlm, inputs: dict[str, Tensor], index: int, group: _Group) -> tuple[Row, list[_Nodes]]:
    """The row of a group: its prefix as the processor made it, then every prompt and every answer."""
    ids = inputs["input_ids"][index][inputs["attention_mask"][index].bool()].tolist()
    image = vlm.adapter.image_token_id(vlm.processor)
    n_prefix = len(ids) - ids[::-1].index(image) if group.images else 0
    tail = group.asked[0].scored.asked
    closing = ids[n_prefix : len(ids) - len(tail)]  # what the processor itself adds after an image
    if tuple(ids[len(ids) - len(tail) :]) != tail:
        raise RuntimeError("the processor's tokens after the image are not those of the rendered prompt")
    row = Row(ids[:n_prefix])
    return row, [_grow_request(row, closing, asked) for asked in group.asked]


def _grow_request(row: Row, closing: list[int], asked: _Asked) -> _Nodes:
    scored = row.grow(0, [*closing, *asked.scored.tail])
    if asked.open is None or asked.open.tail == asked.scored.tail:
        open_ = scored
    else:
        open_ = row.grow(0, [*closing, *asked.open.tail])
    fed = [answer.text + answer.end[:-1] for answer in asked.scored.answers]  # nothing follows the last token
    fed += [letter.text[:-1] for letter in asked.scored.letters]
    grown = {tokens: row.grow(scored, tokens) for tokens in dict.fromkeys(fed)}  # equal options are exact ties
    nodes, n = [grown[tokens] for tokens in fed], len(asked.scored.answers)
    return _Nodes(scored, open_, nodes[:n], nodes[n:])


def _forward(vlm, rows, inputs, positions, shift, cache) -> tuple[dict[str, Tensor], list[Tensor]]:
    """States around the final norm, by tap [row, token, channel], and the vision tokens of every image."""
    text = row_inputs(vlm, rows, positions, shift)
    with tap(vlm) as states:
        outputs = vlm.adapter.backbone(vlm.model)(
            **text, **vision_inputs(inputs), cache=cache, use_cache=cache is not None
        )
    grids = vlm.adapter.vision_grids(outputs, inputs, vlm.processor) if rows[0].length[0] else []
    return states, grids


# --- scores and probes ------------------------------------------------------------------------------------------------


def _scores(vlm, groups, rows, nodes, post: Tensor):
    """Yields one readout per request, in order."""
    logp = iter(_answer_logps(vlm, groups, rows, nodes, post).cpu().double().tolist())
    for index, (group, each) in enumerate(zip(groups, nodes, strict=True)):
        for asked, at in zip(group.asked, each, strict=True):
            values = [
                [next(logp) for _ in _steps(rows[index], at.scored, node, answer)]
                for answer, node in _candidates(asked, at)
            ]
            yield _readout(asked, values)


def _answer_logps(vlm, groups, rows, nodes, post: Tensor) -> Float[Tensor, " token"]:
    """Log-probabilities of all tokens of all candidates, group by group, request by request; all the batch's needed
    states meet the output projection together."""
    wanted = [
        (index, place, token)
        for index, (group, each) in enumerate(zip(groups, nodes, strict=True))
        for asked, at in zip(group.asked, each, strict=True)
        for answer, node in _candidates(asked, at)
        for place, token in _steps(rows[index], at.scored, node, answer)
    ]
    states = {place: i for i, place in enumerate(dict.fromkeys((row, place) for row, place, _ in wanted))}
    where = torch.tensor(list(states), device=post.device)
    logp = log_probs(vlm, post[where[:, 0], where[:, 1]])
    return logp[[states[row, place] for row, place, _ in wanted], [token for _, _, token in wanted]]


def _candidates(asked: _Asked, at: _Nodes) -> list[tuple[Answer, int]]:
    """Everything scored under a request's prompt: options, then letters, each with its node."""
    return list(zip(asked.scored.answers + asked.scored.letters, at.answers + at.letters, strict=True))


def _steps(row: Row, scored: int, node: int, answer: Answer) -> list[tuple[int, int]]:
    """(place of the state that predicts it, token) for each token of an answer, as far as its node was fed."""
    return list(zip([row.last(scored), *row.places(node)], answer.text + answer.end, strict=False))


def _readout(asked: _Asked, values: list[list[float]]) -> Readout:
    options = list(zip(asked.scored.answers, values, strict=False))
    letters = [sum(each) for each in values[len(options) :]]
    return Readout(
        asked.sample.labels,
        asked.sample.options,
        logp_text=np.array([sum(each[: len(answer.text)]) for answer, each in options]),
        logp_end=np.array([sum(each[len(answer.text) :]) for answer, each in options]),
        n_tokens=np.array([len(answer.text) for answer, _ in options]),
        logp_letter=np.array(letters or [np.nan] * len(options)),
    )


def _with_probes(
    readout: Readout, row: Row, at: _Nodes, states: dict[str, Tensor], open_: Spoken, free: Spoken
) -> Readout:
    """The five probes of HI 3.3, each by tap. The teacher-forced one follows the default rule's answer."""
    best = readout.prediction()
    spoken = list(row.places(at.answers[best])[: readout.n_tokens[best]])
    probes = {
        "ctx_open": {tap: _vector(state[row.last(at.open)]) for tap, state in states.items()},
        "ctx_mcq": {tap: _vector(state[row.last(at.scored)]) for tap, state in states.items()},
        "ans_open": open_.states,
        "ans_mcq": {tap: _vector(state[spoken].float().mean(0)) for tap, state in states.items()},
        "ans_mcq_free": free.states,
    }
    own = {"open": open_, "mcq": free}
    texts, said = ({name: getattr(each, what) for name, each in own.items()} for what in ("text", "ids"))
    return replace(readout, probes=probes, texts=texts, said=said)


def _vector(state: Tensor) -> np.ndarray:
    return state.float().cpu().numpy()
