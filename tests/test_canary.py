"""What the kit takes for granted of transformers. Run first after changing its version: each test names one belief."""

import inspect

import pytest
import torch
import transformers
from transformers import DynamicCache

import vfkit
from vfkit.readout.forward import model_inputs, tap
from vfkit.sample import Sample


def _inputs(vlm, n_images: int = 1):
    sample = vfkit.load_dataset("mini_seed", n=3)[0]
    image = vfkit.load_image(sample.images[0])
    asked = Sample("s", (), "What is it?", ("a", "b"))
    messages = vfkit.prompts.user_turn(vfkit.prompts.text(asked, "mcq"), n_images)
    return model_inputs(vlm, [(messages, (image,) * n_images)])


def test_the_minor_version_is_the_pinned_one():
    assert transformers.__version__.startswith("5.24.")


@torch.inference_mode()
def test_the_last_hidden_state_is_what_leaves_the_final_norm(vlm):
    with tap(vlm) as states:
        outputs = vlm.model.model(**_inputs(vlm))
    assert torch.equal(outputs.last_hidden_state, states["post_norm"])
    assert not torch.allclose(states["pre_norm"], states["post_norm"])


@torch.inference_mode()
def test_image_outputs_hold_the_merged_tokens_of_each_image(vlm):
    inputs = _inputs(vlm, n_images=2)
    tokens = vlm.model.model(**inputs).image_outputs.pooler_output
    merge = vlm.processor.image_processor.merge_size
    assert [len(each) for each in tokens] == [int(grid.prod()) // merge**2 for grid in inputs["image_grid_thw"]]
    assert tokens[0].shape[1] == vlm.model.config.text_config.hidden_size


@torch.inference_mode()
def test_a_boolean_mask_of_our_own_is_obeyed(vlm):
    """A token that no other sees leaves the others' states alone."""
    inputs = _inputs(vlm)
    positions, _ = vlm.adapter.positions(vlm.model, inputs)
    length = inputs["input_ids"].shape[1]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    mask[-1, -2] = False
    vision = {key: inputs[key] for key in ("pixel_values", "image_grid_thw")}
    states = []
    for other in (100, 101):
        ids = inputs["input_ids"].clone()
        ids[0, -2] = other
        out = vlm.model.model(input_ids=ids, attention_mask=mask[None, None], position_ids=positions, **vision)
        states.append(out.last_hidden_state[0])
    assert torch.equal(states[0][-1], states[1][-1])
    assert not torch.equal(states[0][-2], states[1][-2])


@torch.inference_mode()
def test_a_cache_without_a_config_keeps_every_token_and_grows(vlm):
    cache = DynamicCache()
    inputs = _inputs(vlm)
    vlm.model.model(**inputs, cache=cache, use_cache=True)
    assert cache.get_seq_length() == inputs["input_ids"].shape[1]


def test_positions_come_with_their_shift(vlm):
    inputs = _inputs(vlm)
    ids, shift = vlm.model.model.get_rope_index(
        inputs["input_ids"],
        inputs["mm_token_type_ids"],
        inputs["image_grid_thw"],
        attention_mask=inputs["attention_mask"],
    )
    assert ids.shape == (3, *inputs["input_ids"].shape) and shift.shape == (1, 1)
    assert int(ids.max()) + 1 == inputs["input_ids"].shape[1] + int(shift)


def test_the_cache_is_called_cache(vlm):
    assert "cache" in inspect.signature(vlm.model.model.forward).parameters


@torch.inference_mode()
def test_a_cache_grows_even_where_none_is_wanted(vlm):
    """So nothing is ever scored from a cache twice."""
    cache, inputs = DynamicCache(), _inputs(vlm)
    for times in (1, 2):
        positions, _ = vlm.adapter.positions(vlm.model, inputs)
        vlm.model.model(input_ids=inputs["input_ids"], position_ids=positions, cache=cache, use_cache=False)
        assert cache.get_seq_length() == times * inputs["input_ids"].shape[1]


@torch.inference_mode()
@pytest.mark.parametrize("name", ["qwen2_5_vl", "glm4v"])
def test_three_axis_models_keep_the_shift_of_their_last_image(tiny_vlm, name):
    """So positions are always passed, and the oracle clears what is left."""
    vlm = tiny_vlm(name)
    inputs = _inputs(vlm)
    vlm.model.model.rope_deltas = None
    vlm.model(**inputs)
    _, shift = vlm.adapter.positions(vlm.model, inputs)
    assert vlm.model.model.rope_deltas[:, 0].tolist() == shift.tolist() and int(shift) < 0


@torch.inference_mode()
def test_gemma_reads_its_images_both_ways_only_where_it_is_told_which_tokens_they_are(tiny_vlm):
    vlm = tiny_vlm("gemma3")
    inputs = _inputs(vlm)
    assert int(inputs["token_type_ids"].sum()) == vlm.processor.image_seq_length
    told = vlm.model(**inputs).logits
    untold = vlm.model(**{key: value for key, value in inputs.items() if key != "token_type_ids"}).logits
    assert not torch.allclose(told, untold, atol=1e-3)


@torch.inference_mode()
def test_gemma_takes_a_mask_for_each_type_of_layer(tiny_vlm):
    vlm = tiny_vlm("gemma3")
    inputs = _inputs(vlm)
    length = inputs["input_ids"].shape[1]
    seen, places = torch.ones(1, length, length, dtype=torch.bool).tril(), torch.arange(length)[None]
    masks = vlm.adapter.masks(vlm.model, seen, places, places, inputs["input_ids"])
    assert set(masks) == set(vlm.model.config.text_config.layer_types)
    ours = vlm.model(**{key: inputs[key] for key in ("input_ids", "pixel_values")}, attention_mask=masks)
    assert torch.allclose(ours.logits, vlm.model(**inputs).logits, atol=1e-5)


def test_gemma_begins_once_and_pads_on_the_side_that_is_asked_for(tiny_vlm):
    vlm = tiny_vlm("gemma3")
    short, long = (vfkit.prompts.user_turn(words, 0) for words in ("Hi", "What is the color of the ring?"))
    ids = model_inputs(vlm, [(short, ()), (long, ())])["input_ids"]
    tokenizer = vlm.processor.tokenizer
    assert tokenizer.padding_side == "left"
    assert ids[0, -1] == tokenizer.pad_token_id and ids[0, 0] == ids[1, 0] == tokenizer.bos_token_id
    assert (ids == tokenizer.bos_token_id).sum() == 2


def test_llava_tiles_an_image_only_where_it_is_alone(tiny_vlm):
    vlm = tiny_vlm("llava_onevision")
    assert [_inputs(vlm, n)["batch_num_images"].tolist() for n in (1, 2)] == [[1], [2]]
    assert [_inputs(vlm, n)["pixel_values"].shape[1] > 1 for n in (1, 2)] == [True, False]
