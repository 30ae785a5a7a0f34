"""Every architecture: real classes, shrunken, with their real processors; the engine against the oracle."""

from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from PIL import Image

import vfkit
from vfkit import prompts
from vfkit.models.adapters import Gemma3
from vfkit.readout import engine, oracle
from vfkit.readout.conversation import scored_prompt
from vfkit.readout.forward import model_inputs
from vfkit.readout.greedy import end_tokens
from vfkit.readout.verify import VerifyError, compare, verify
from vfkit.sample import Sample

CLOSE = 1e-4
SIZES = [(96, 60), (64, 64), (40, 90), (30, 30), (120, 50), (200, 40), (33, 257)]
on_each = pytest.mark.parametrize("name", tiny.ALL)
GRIDS = {"gemma3": (4, 4), "llava_onevision": (4, 4), "internvl": (2, 2)}  # of every image; the others keep its shape


def _image(size: tuple[int, int], seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def make_requests(vlm) -> list[engine.Request]:
    """One image and two, at their marks and before the text, none; one option and more; special words in a question."""
    token = vlm.processor.tokenizer.convert_ids_to_tokens(vlm.adapter.image_token_id(vlm.processor))
    token += f" {vlm.processor.image_token} {vlm.processor.tokenizer.eos_token}"
    asked = [
        (Sample("one", (), "Where is it?", ("top left", "bottom right", "an unheard-of place"), 0), 1),
        (Sample("two", (), "Which shape is teal?", ("star", "ring"), 0), 2),
        (Sample("interleaved", (), "Is <image 1> as red as <image 2>?", ("as red", "<image 1>"), 0), 2),
        (Sample("open", (), "What is it?", ("a red star", "a ring"), 0, hint="It is a ring.", prompt="open"), 1),
        (Sample("yes no", (), f"Is there {token} in the image?", ("Yes", "No"), 0, prompt="yes_no"), 1),
        (Sample("no image", (), "What is it?", ("red",), 0), 0),
    ]
    sizes = iter(SIZES)
    return [
        (sample, tuple(_image(next(sizes), sample.question.count("e")) for _ in range(n_images)))
        for sample, n_images in asked
    ]


@on_each
def test_engine_equals_oracle(tiny_vlm, name):
    vlm = tiny_vlm(name)
    assert vlm.dtype == torch.float32 and vlm.processor.tokenizer.padding_side == "left"
    requests = make_requests(vlm)
    expected = [oracle.read_oracle(vlm, *request) for request in requests]
    for batch_tokens in (1, 100_000):
        for readout, truth in zip(engine.read_many(vlm, requests, True, batch_tokens), expected, strict=True):
            assert not isinstance(readout, Exception), readout
            assert {what: value for what, value in compare(readout, truth).items() if not value <= CLOSE} == {}
            assert (readout.texts, readout.said) == (truth.texts, truth.said)
    assert [len(each.vision) for each in expected] == [len(images) for _, images in requests]
    if name in GRIDS:
        assert {grid.shape[:2] for each in expected for grid in each.vision} == {GRIDS[name]}


@on_each
def test_bfloat16_passes_verify(tiny_vlm, name):
    vlm = tiny_vlm(name, "bfloat16")
    requests = make_requests(vlm)[1:4]
    assert 1e-4 < verify(vlm, requests, engine.read_many(vlm, requests, probes=True)) < 0.1


@on_each
def test_image_tokens_are_counted_as_the_processor_makes_them(tiny_vlm, name):
    vlm = tiny_vlm(name)
    token, counts = vlm.adapter.image_token_id(vlm.processor), set()
    for sizes in [*([size] for size in SIZES), SIZES[:2], SIZES[3:6]]:
        messages = prompts.user_turn("What is it?", len(sizes))
        inputs = model_inputs(vlm, [(messages, tuple(_image(size, 0) for size in sizes))])
        expected = vlm.adapter.n_image_tokens(vlm.processor, sizes)
        assert int((inputs["input_ids"] == token).sum()) == sum(expected) and len(expected) == len(sizes)
        counts |= set(expected)
    assert len(counts) >= 3 or name == "gemma3"


@on_each
def test_vision_tokens_lie_where_their_part_of_the_image_does(tiny_vlm, name):
    """A change at the lower left moves tokens there more than those of the other corners."""
    vlm = tiny_vlm(name)
    image = _image((64, 64), 1)
    changed = image.copy()
    changed.paste((255, 0, 0), (0, 52, 12, 64))
    sample = Sample("s", (), "What is it?", ("a", "b"))
    one, other = (vfkit.read(vlm, sample, (each,)).vision[0] for each in (image, changed))
    moved = np.linalg.norm(one - other, axis=2)
    corners = {(row, column): moved[row, column] for row in (0, -1) for column in (0, -1)}
    assert max(corners, key=corners.get) == (-1, 0), moved


@on_each
def test_special_tokens_in_a_question_stay_text(tiny_vlm, name):
    """Those too that are added tokens only, as the turn tokens of released Gemma-3 tokenizers are."""
    vlm = tiny_vlm(name)
    tokenizer = vlm.processor.tokenizer
    special = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    counts = []
    for question in ("What is it?", "What is it? " + " ".join(special.values())):
        requests = [(Sample("s", (), question, ("red", "teal"), 0), (_image((64, 64), 0),))]
        scored = scored_prompt(requests[0][0], 1, vlm.processor, vlm.adapter.placeholder(vlm.processor))
        ids = model_inputs(vlm, [(scored.messages, requests[0][1])])["input_ids"][0].tolist()
        counts.append({token: ids.count(i) for i, token in special.items()})
        assert not isinstance(engine.read_many(vlm, requests)[0], Exception)
    assert counts[0] == counts[1]


def test_special_tokens_are_named_as_released_tokenizers_name_them(tiny_vlm):
    tokenizer = tiny_vlm("gemma3").processor.tokenizer
    assert tokenizer.eos_token == "<eos>" and "<end_of_turn>" not in tokenizer.all_special_tokens
    assert tokenizer.added_tokens_decoder[tokenizer.convert_tokens_to_ids("<end_of_turn>")].special
    for name in ("glm4v", "glm46v", "glm4v_moe"):
        processor = tiny_vlm(name).processor
        text = processor.apply_chat_template(prompts.user_turn("Hi", 0), tokenize=False)
        assert text.startswith("[gMASK]<sop><|user|>")


@on_each
def test_generated_answers_stop_at_the_end_of_a_turn(tiny_vlm, name, monkeypatch):
    """Also where a fine-tune's generation config names another token: what closes a turn in the conversation counts."""
    vlm = tiny_vlm(name)
    closing = {"gemma3": "<end_of_turn>"} | dict.fromkeys(("glm4v", "glm46v", "glm4v_moe"), "<|user|>")
    end = vlm.processor.tokenizer.convert_tokens_to_ids(closing.get(name, "<|im_end|>"))
    monkeypatch.setattr(vlm.model.generation_config, "eos_token_id", 0)
    assert end in end_tokens(vlm)


# --- a wrong adapter is caught ----------------------------------------------------------------------------------------


def with_adapter(vlm, adapter):
    """The same model read by another adapter."""
    changed = copy(vlm)
    changed.adapter = adapter
    return changed


def _with(vlm, **wrong):
    """The same model with an adapter in which some functions are replaced."""
    own = {name: getattr(vlm.adapter, name) for name in dir(vlm.adapter) if not name.startswith("_")}
    return with_adapter(vlm, SimpleNamespace(**own | wrong))


def _stopped(vlm) -> bool:
    requests = make_requests(vlm)[1:2]
    readouts = engine.read_many(vlm, requests, probes=True)
    with pytest.raises(VerifyError, match="its adapter does not fit"):
        verify(vlm, requests, readouts)
    return True


@pytest.mark.parametrize(
    "name, dtype", [*((name, "float32") for name in tiny.ALL), ("qwen2_5_vl", "bfloat16"), ("internvl", "bfloat16")]
)
def test_wrong_positions_are_caught(tiny_vlm, name, dtype):
    """Text after an image counted on from another place than the model's own: for three-axis positions the count of
    tokens, the mistake made most easily; for the others some tokens too far."""
    vlm = tiny_vlm(name, dtype)
    _, right = vlm.adapter.positions(vlm.model, _inputs(vlm))

    def wrong(model, inputs):
        ids, shift = vlm.adapter.positions(model, inputs)
        return ids, torch.zeros_like(shift) if int(right[0]) else shift + 8

    assert _stopped(_with(vlm, positions=wrong))


def _inputs(vlm):
    return model_inputs(vlm, [(prompts.user_turn("What is it?", 1), (_image((96, 60), 0),))])


def _no_window(model, seen, queries, keys, ids=None):
    masks = Gemma3().masks(model, seen, queries, keys, ids)
    return masks | {"sliding_attention": masks["full_attention"]}


def _window_by_place(model, seen, queries, keys, ids=None):
    place = torch.arange(seen.shape[2]).repeat(len(seen), 1)
    return Gemma3().masks(model, seen, place[:, -seen.shape[1] :], place, ids)


def _images_one_way(model, seen, queries, keys, ids=None):
    return Gemma3().masks(model, seen, queries, keys)


def _images_as_one(model, seen, queries, keys, ids=None):
    image = torch.zeros_like(seen) if ids is None else ids == model.config.image_token_id
    both = image if ids is None else image[:, :, None] & image[:, None, :]
    return Gemma3().masks(model, seen | both, queries, keys)


@pytest.mark.parametrize(
    "masks, dtype",
    [(_no_window, "float32"), (_no_window, "bfloat16"), (_window_by_place, "float32"), (_window_by_place, "bfloat16"),
     (_images_one_way, "float32"), (_images_as_one, "float32")],
)  # fmt: skip
def test_wrong_masks_of_gemma_are_caught(tiny_vlm, masks, dtype):
    assert _stopped(_with(tiny_vlm("gemma3", dtype), masks=masks))


# --- templates --------------------------------------------------------------------------------------------------------


def _scored(vlm):
    sample = Sample("s", (), "What is it?", ("red", "teal"))
    return scored_prompt(sample, 1, vlm.processor, vlm.adapter.placeholder(vlm.processor))


def _text(vlm, ids) -> str:
    return vlm.processor.tokenizer.decode(list(ids))


def test_an_answer_follows_the_generation_prompt_where_the_template_opens_its_turn_otherwise(tiny_vlm):
    vlm = tiny_vlm("llava_onevision")
    scored = _scored(vlm)
    assert scored.tail == scored.asked and not scored.faithful
    assert _text(vlm, scored.tail).endswith("<|im_start|>assistant\n")
    assert [_text(vlm, answer.text) for answer in scored.answers] == ["red", "teal"]


@pytest.mark.parametrize("name", ["glm4v_moe", "glm4v"])
def test_a_turn_that_nothing_ends_has_no_end_tokens(tiny_vlm, name):
    scored = _scored(tiny_vlm(name))
    assert [answer.end for answer in scored.answers] == [(), ()]
    opening = _text(tiny_vlm(name), scored.tail).rpartition("<|assistant|>")[2]
    assert opening == {"glm4v_moe": "\n<think></think>\n", "glm4v": "\n"}[name]


def test_a_thinking_model_answers_after_an_empty_reasoning(tiny_vlm, monkeypatch):
    vlm = tiny_vlm("qwen2_5_vl")
    monkeypatch.setattr(vlm.processor, "chat_template", tiny.THINKING)
    scored = _scored(vlm)
    assert _text(vlm, scored.asked).endswith("assistant\n<think>\n")
    assert _text(vlm, scored.tail).endswith("assistant\n<think>\n\n</think>\n\n")
    assert [_text(vlm, answer.end) for answer in scored.answers] == ["<|im_end|>\n"] * 2
    requests = make_requests(vlm)[:3]
    assert verify(vlm, requests, engine.read_many(vlm, requests, probes=True)) <= CLOSE
