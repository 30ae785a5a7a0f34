"""The check that every run makes of itself: rounding passes, a wrong adapter does not, and the message tells which."""

from copy import copy

import pytest
import torch
from test_adapters import make_requests, with_adapter

from vfkit.models.adapters import MRope
from vfkit.readout import engine, verify
from vfkit.readout.verify import TOLERANCE, VerifyError, exact_difference, in_float32, rounding_floor


class Shifted(MRope):
    """Text after an image counted on from the count of tokens: the mistake made most easily."""

    def positions(self, model, inputs):
        ids, shift = super().positions(model, inputs)
        return ids, torch.zeros_like(shift)


@pytest.fixture
def rough(tiny_vlm, request):
    """A bfloat16 model on a machine whose kernels round much worse, and never twice alike: what a GPU is to a CPU."""
    vlm = tiny_vlm("qwen2_5_vl", "bfloat16")
    noise = torch.Generator().manual_seed(0)

    def shake(_, args, out):
        state = out[0] if isinstance(out, tuple) else out
        if state.dtype == torch.bfloat16:
            state.mul_(1 + 0.02 * torch.randn(state.shape, generator=noise).to(state.dtype))

    for layer in vlm.model.model.language_model.layers:
        request.addfinalizer(layer.register_forward_hook(shake).remove)
    return vlm


def test_rounding_larger_than_foreseen_is_measured_and_passes(rough):
    requests = make_requests(rough)[:3]
    read = engine.read_many(rough, requests, probes=True)
    assert verify.verify(rough, requests, read) > TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("fits", [True, False])
def test_a_wrong_adapter_is_told_from_rounding_on_a_rough_machine_too(rough, monkeypatch, fits):
    monkeypatch.setattr(verify, "fits_in_float32", lambda vlm: fits)
    wrong = with_adapter(rough, Shifted())
    requests = make_requests(rough)[1:2]
    says = "in float32 they differ as well .*its adapter does not fit" if fits else "too large for rounding"
    with pytest.raises(VerifyError, match=says):
        verify.verify(wrong, requests, engine.read_many(wrong, requests, probes=True))


def test_what_float32_does_not_confirm_passes_with_a_warning(rough, monkeypatch):
    """Rounding that happens to be measured too small: float32 decides."""
    monkeypatch.setitem(verify.TOLERANCE, torch.bfloat16, 0.01)
    monkeypatch.setattr(verify, "rounding_floor", lambda *of: {"scores": 1e-3, "states": 1e-3})
    requests = make_requests(rough)[1:2]
    read = engine.read_many(rough, requests, probes=True)
    with pytest.warns(UserWarning, match="In float32 they agree .*, so it is rounding"):
        verify.verify(rough, requests, read)
    monkeypatch.setattr(verify, "fits_in_float32", lambda vlm: False)
    with pytest.raises(VerifyError):
        verify.verify(rough, requests, read)


@pytest.mark.parametrize("differences, rounding", [([0.6, 0.8, 0.7, 0.9], True), ([0.1, 0.1, 0.1, 1.7], False)])
def test_rounding_is_small_and_everywhere_a_wrong_adapter_large_somewhere(differences, rounding):
    named = {f"logp_{i}": value for i, value in enumerate(differences)}
    assert verify._looks_like_rounding(named, {"scores": 0.1, "states": 0.1}) is rounding


def test_the_floor_is_that_of_the_type(tiny_vlm):
    floors = {}
    for dtype in ("float32", "bfloat16"):
        vlm = tiny_vlm("gemma3", dtype)
        request = make_requests(vlm)[0]
        (read,) = engine.read_many(vlm, [request], probes=True)
        floors[dtype] = rounding_floor(vlm, request, read)
    assert all(0 < value < 1e-5 for value in floors["float32"].values())
    assert all(1e-3 < value < 0.2 for value in floors["bfloat16"].values())


def test_float32_finds_what_bfloat16_hides(tiny_vlm):
    """An image's tokens that see each other one way only: below bfloat16's tolerance."""

    class OneWay(type(tiny_vlm("gemma3").adapter)):
        def masks(self, model, seen, queries, keys, ids=None):
            return super().masks(model, seen, queries, keys)

    vlm = tiny_vlm("gemma3", "bfloat16")
    request = make_requests(vlm)[0]
    assert exact_difference(vlm, request) < TOLERANCE[torch.float32]
    assert exact_difference(with_adapter(vlm, OneWay()), request) > 1e-3


def test_weights_are_what_they_were_after_a_while_in_float32(tiny_vlm):
    vlm = copy(tiny_vlm("llava_onevision", "bfloat16"))
    before = {key: value.clone() for key, value in vlm.model.state_dict().items()}
    buffers = {key: (value.dtype, value.clone()) for key, value in vlm.model.named_buffers()}
    with pytest.raises(KeyError), in_float32(vlm) as exact:
        assert exact.dtype == next(exact.model.parameters()).dtype == torch.float32
        raise KeyError("in the middle")
    assert all(torch.equal(before[key], value) for key, value in vlm.model.state_dict().items())
    assert {key: value.dtype for key, value in vlm.model.named_buffers()} == {k: d for k, (d, _) in buffers.items()}
    assert vlm.dtype == torch.bfloat16


def test_a_quantised_model_and_one_on_several_devices_are_not_tried_in_float32(tiny_vlm):
    vlm = copy(tiny_vlm("internvl", "bfloat16"))
    vlm.quantization = {"quant_method": "fp8"}
    assert exact_difference(vlm, make_requests(vlm)[0]) is None
    vlm.quantization, vlm.device = None, torch.device("meta")
    assert exact_difference(vlm, make_requests(vlm)[0]) is None
