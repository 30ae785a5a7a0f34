"""Models by name, folder or hub id: what can be had loads, what cannot fails at once and says what to do."""

import shutil

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

import vfkit
from vfkit.models import load, registry


@pytest.fixture
def checkpoint(tmp_path):
    """A copy of the embedded model's folder, free to be spoiled."""
    return shutil.copytree(registry.files(registry.find("mini_qwen3vl")), tmp_path / "mine")


def test_the_embedded_model_is_an_ordinary_checkpoint_of_the_real_classes(checkpoint):
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    processor = AutoProcessor.from_pretrained(checkpoint)
    assert type(model).__name__ == "Qwen3VLForConditionalGeneration"
    assert type(processor).__name__ == "Qwen3VLProcessor" and processor.chat_template


def test_a_folder_loads_like_a_name_and_is_the_same_model(checkpoint, vlm):
    mine = vfkit.load_model(str(checkpoint))
    assert mine.dtype == torch.float32
    for key, value in vlm.model.state_dict().items():
        assert torch.equal(value, mine.model.state_dict()[key])


def test_the_fingerprint_follows_content_and_type(checkpoint):
    before = registry.fingerprint(str(checkpoint))
    assert registry.fingerprint(str(checkpoint), dtype="bfloat16") != before
    (checkpoint / "README.md").write_text("another card")
    assert registry.fingerprint(str(checkpoint)) == before
    with (checkpoint / "chat_template.jinja").open("a") as file:
        file.write(" ")
    assert registry.fingerprint(str(checkpoint)) != before


@pytest.mark.parametrize(
    "name, says",
    [
        ("mini_qwen3v", "mini_qwen3vl"),
        ("qwen3vl_4b", "Qwen/Qwen3-VL-4B-Instruct.*HF_HUB_OFFLINE.*hf download"),
        ("nobody/nothing", "nobody/nothing.*hf download"),
        ("/no/such/folder", "neither a name"),
        ("", "neither a name"),
    ],
)
def test_a_model_that_cannot_be_had_says_which_and_what_to_do(name, says):
    with pytest.raises(vfkit.ModelUnavailable, match=f"(?s){says}"):
        vfkit.load_model(name)


def test_an_unreachable_hub_is_given_up_on(monkeypatch):
    """As on a machine without network: the hub is asked once, with a limit, and the error says so."""
    import huggingface_hub

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def unreachable(self, repo_id, **options):
        assert options["timeout"] <= 10
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(vfkit.ModelUnavailable, match="cannot be reached"):
        vfkit.load_model("qwen3vl_2b")


@pytest.mark.parametrize("damage", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_checkpoint_is_refused_by_name(checkpoint, damage):
    (checkpoint / damage).write_bytes((checkpoint / damage).read_bytes()[:100])
    with pytest.raises(vfkit.ModelUnavailable, match="mine"):
        vfkit.load_model(str(checkpoint))


def test_pickled_weights_are_never_read(checkpoint):
    torch.save({}, checkpoint / "pytorch_model.bin")
    (checkpoint / "model.safetensors").unlink()
    with pytest.raises(vfkit.ModelUnavailable, match="safetensors"):
        vfkit.load_model(str(checkpoint))


def test_an_architecture_without_an_adapter_is_refused_by_name(checkpoint, monkeypatch):
    monkeypatch.setattr(load, "ADAPTERS", {})
    with pytest.raises(vfkit.ModelUnavailable, match="'qwen3_vl'"):
        vfkit.load_model(str(checkpoint))


def test_a_type_that_does_not_exist_is_refused_not_replaced():
    with pytest.raises(ValueError, match="'fp32'.*float32"):
        vfkit.load_model("mini_qwen3vl", dtype="fp32")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named():
    with pytest.raises(vfkit.ModelUnavailable, match="device 'cuda' is not available"):
        vfkit.load_model("mini_qwen3vl", device="cuda")


def test_what_cannot_fit_is_refused_before_it_is_read():
    spec = registry.Spec("huge", hub="a/b", params=1e6)
    with pytest.raises(vfkit.ModelUnavailable, match="'huge' needs about .* GB"):
        load._check_memory(spec, "cpu", torch.bfloat16)


def test_every_registered_model_has_one_source():
    for name, spec in registry.specs().items():
        assert [spec.path, spec.hub, spec.api].count(None) == 2, name
        assert spec.dtype and spec.params, name
