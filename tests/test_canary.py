"""What the kit takes for granted of transformers. Run first after changing its version: each test names one belief."""

import inspect

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
