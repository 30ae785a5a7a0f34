"""The readout engine: one vision encode and one prefill per distinct image, whatever is asked of it.

For every image the prompts, and under them the options, branch off a shared prefix (`tree.py`, `batch.py`) and are read
in the same forward pass (`rows.py`). Generated answers continue from that pass's cache (`greedy.py`). The oracle
(`oracle.py`) is the slow and obvious way to the same numbers.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vfkit.readout.batch import Group, Question, grouped
from vfkit.readout.forward import model_inputs
from vfkit.readout.greedy import Generated, greedy
from vfkit.readout.reader import BATCH_TOKENS, Request
from vfkit.readout.readout import TAPS, Readout
from vfkit.readout.rows import answer_logps, forward_rows
from vfkit.readout.tree import Row

Results = dict[int, Readout | Exception]
"""By the place of their request."""


def read_many(
    vlm, requests: Sequence[Request], probes: bool = False, batch_tokens: int = BATCH_TOKENS
) -> list[Readout | Exception]:
    """Readouts of many (sample, images), in the order of the requests.

    Requests with the same image contents, and the same words before them, share one encode and one prefill; where many
    do, in as many rows as cost least. Rows are batched longest first, up to `batch_tokens` padded tokens a batch; those
    without images among themselves. One request whose row is longer is a batch of its own. Where a request fails its
    exception stands in the readout's place. After an out-of-memory error the batch is read once more in halves, and
    batches of this model stay half as large from then on (`counters["out_of_memory"]` counts the times).
    """
    groups, failed = grouped(vlm, requests, probes, batch_tokens)
    results: Results = dict(failed)
    for left in ([group for group in groups if bool(group.images) == with_image] for with_image in (True, False)):
        while left:
            n = max(1, (batch_tokens >> vlm.counters["out_of_memory"]) // left[0].n_tokens)
            results |= _read_or_fail(vlm, left[:n])
            left = left[n:]
    return [results[index] for index in range(len(requests))]


def _read_or_fail(vlm, groups: list[Group]) -> Results:
    """Read a batch; halve it once if memory runs out, and read it one by one to find out which request fails.

    A batch of one image is taken apart by its questions.
    """
    try:
        return _read_batch(vlm, groups)
    except Exception as error:
        failure = _bare(error)
    single = groups if len(groups) > 1 else groups[0].apart()
    if len(single) == 1:
        return _fail(single, failure)
    half, parts = len(single) // 2, [[one] for one in single]
    if isinstance(failure, torch.OutOfMemoryError):
        parts = [single[:half], single[half:]]
        vlm.counters["out_of_memory"] += 1
        warnings.warn("out of memory: batches are half as large from here on", stacklevel=3)
    results: Results = {}
    for part in parts:
        try:
            results |= _read_batch(vlm, part)
        except Exception as error:
            results |= _fail(part, error)
    return results


def _fail(groups: list[Group], error: Exception) -> Results:
    return {question.index: _bare(error) for group in groups for question in group.questions}


def _bare(error: Exception) -> Exception:
    """Without its traceback, which would keep the failed batch's tensors in memory."""
    return error.with_traceback(None)


@torch.inference_mode()
def _read_batch(vlm, groups: list[Group]) -> Results:
    inputs = model_inputs(vlm, [(group.questions[0].scored.messages, group.images) for group in groups])
    with vlm.in_use:
        return _results(vlm, groups, inputs)


def _results(vlm, groups: list[Group], inputs: dict[str, Tensor]) -> Results:
    probes = groups[0].questions[0].open is not None
    done = forward_rows(vlm, groups, inputs, decode=probes)
    logps = iter(answer_logps(vlm, groups, done.states["post_norm"]).cpu().double().tolist())
    results: dict[int, Any] = {one.index: _scored(one, logps) for group in groups for one in group.questions}
    if not probes:
        return results
    ends = sorted({(i, node) for i, group in enumerate(groups) for q in group.questions for node in q.sources})
    answers = greedy(vlm, [group.row for group in groups], ends, done)
    grids = iter(done.grids)
    for i, group in enumerate(groups):
        vision = [_vector(next(grids)) for _ in group.images]
        states = {tap: done.states[tap][i] for tap in TAPS}
        for question in group.questions:
            own = {"open": answers[i, question.sources[0]], "mcq": answers[i, question.sources[1]]}
            readout = _with_probes(results[question.index], question, group.row, states, own)
            results[question.index] = replace(readout, vision=vision)
    return results


def _scored(question: Question, logps: Iterator[float]) -> Readout:
    """A readout of scores alone; takes the question's log-probabilities from those of the batch."""
    values = [[next(logps) for _ in tokens] for tokens in question.candidates]
    answers = question.scored.answers
    options = list(zip(answers, values, strict=False))
    letters = [sum(each) for each in values[len(answers) :]]
    return Readout(
        question.sample.labels,
        question.sample.options,
        logp_text=np.array([sum(each[: len(answer.text)]) for answer, each in options]),
        logp_end=np.array([sum(each[len(answer.text) :]) for answer, each in options]),
        n_tokens=np.array([len(answer.text) for answer in answers]),
        logp_letter=np.array(letters or [np.nan] * len(answers)),
    )


def _with_probes(
    readout: Readout, question: Question, row: Row, states: dict[str, Tensor], own: dict[str, Generated]
) -> Readout:
    """The five probes of HI 3.3, each by tap. The teacher-forced one follows the default rule's answer."""
    best = readout.prediction() or 0  # never None: local models score
    chosen = list(row.places(question.nodes[best])[: readout.n_tokens[best]])
    probes = {
        "ctx_open": {tap: _vector(state[row.last(question.open_context)]) for tap, state in states.items()},
        "ctx_mcq": {tap: _vector(state[row.last(question.context)]) for tap, state in states.items()},
        "ans_open": own["open"].states,
        "ans_mcq": {tap: _vector(state[chosen].float().mean(0)) for tap, state in states.items()},
        "ans_mcq_free": own["mcq"].states,
    }
    texts = {name: question.opened[name] + each.text for name, each in own.items()}
    return replace(readout, probes=probes, texts=texts, said={name: each.ids for name, each in own.items()})


def _vector(state: Tensor) -> np.ndarray:
    return state.float().cpu().numpy()
