"""Models by name, folder or hub id: what can be had loads, what cannot fails at once and says what to do."""

import shutil
import sys
from dataclasses import replace

import pytest
import tiny
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

import vfkit
from vfkit.models import __main__ as command
from vfkit.models import load, registry
from vfkit.models.processor import set_budget


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


def test_an_architecture_without_an_adapter_is_refused_by_name(checkpoint, monkeypatch):
    monkeypatch.setattr(load, "ADAPTERS", {})
    with pytest.raises(vfkit.ModelUnavailable, match="'qwen3_vl'"):
        vfkit.load_model(str(checkpoint))


def test_a_type_that_does_not_exist_is_refused_not_replaced():
    with pytest.raises(ValueError, match="'fp32'.*float32"):
        vfkit.load_model("mini_qwen3vl", dtype="fp32")
    with pytest.raises(ValueError, match="unknown device 'banana'"):
        vfkit.load_model("mini_qwen3vl", device="banana")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named():
    with pytest.raises(vfkit.ModelUnavailable, match="device 'cuda' is not available"):
        vfkit.load_model("mini_qwen3vl", device="cuda")


def test_what_cannot_fit_is_refused_before_it_is_read():
    with pytest.raises(vfkit.ModelUnavailable, match="'huge' needs about .* GB"):
        load.check_memory("huge", 2 * 10**15, "cpu")


def test_every_registered_model_has_one_source():
    for name, spec in registry.specs().items():
        assert [spec.path, spec.hub, spec.api].count(None) == 2, name
        assert spec.api or (spec.dtype and spec.params), name


# --- sizes and budgets ------------------------------------------------------------------------------------------------

PAPERS = (
    "qwen3vl_2b qwen3vl_4b qwen3vl_8b qwen3vl_32b qwen3vl_8b_thinking llava_ov_0.5b llava_ov_7b gemma3_4b gemma3_12b "
    "qwen25vl_7b qwen25vl_32b qwen25vl_72b internvl3_78b glm46v"
)


def test_every_open_model_of_both_papers_is_listed_with_its_size():
    table = vfkit.models.listing().set_index("name")
    listed = table.loc[PAPERS.split()]
    assert listed["source"].str.fullmatch(r"[\w-]+/[\w.-]+").all() and listed["source"].is_unique
    assert set(listed["type"]) <= set(load.ADAPTERS)
    assert listed.loc["qwen25vl_72b", "gigabytes"] == pytest.approx(146.8)
    assert table.loc["mini_qwen3vl", "source"] == "embedded"


def test_the_listing_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vfkit.models"])
    command.main()
    printed = capsys.readouterr().out
    assert all(name in printed for name in PAPERS.split()) and "OpenGVLab/InternVL3-78B-hf" in printed


def test_a_dry_run_counts_what_the_loaded_model_has(vlm):
    tried = vfkit.models.dry_run("mini_qwen3vl", (200, 100))
    assert tried.params == sum(parameter.numel() for parameter in vlm.model.parameters())
    assert tried.gigabytes["bfloat16"] == pytest.approx(tried.params * 2e-9)
    assert [tried.tokens] == vlm.adapter.n_image_tokens(vlm.processor, [(200, 100)])


@pytest.mark.parametrize("name", tiny.ALL)
def test_a_dry_run_needs_configs_only(tiny_vlm, tmp_path, name):
    vlm = tiny_vlm(name)
    for file in ("config.json", "processor_config.json"):
        shutil.copy(f"{vlm.name}/{file}", tmp_path)
    tried = vfkit.models.dry_run(str(tmp_path), (90, 60))
    assert (tried.type, tried.reason) == (name, "")
    assert tried.params == sum(parameter.numel() for parameter in vlm.model.parameters())
    assert [tried.tokens] == vlm.adapter.n_image_tokens(vlm.processor, [(90, 60)])


def test_a_dry_run_without_a_processor_says_what_is_missing(checkpoint):
    for file in checkpoint.iterdir():
        if file.name != "config.json":
            file.unlink()
    tried = vfkit.models.dry_run(str(checkpoint))
    assert tried.tokens is None and "processor_config.json" in str(tried)


def test_a_dry_run_that_cannot_be_says_why(checkpoint, monkeypatch):
    (checkpoint / "config.json").write_text('{"model_type": "unheard_of"}')
    for name, says in (
        (str(checkpoint), "unheard_of"),
        ("nobody/nothing", "hf download"),
        ("qwen3vl_4", "Did you mean"),
    ):
        monkeypatch.setattr(sys, "argv", ["vfkit.models", "--dry-run", name])
        with pytest.raises(SystemExit, match=f"(?s){says}"):
            command.main()


def _spec(**pixels) -> registry.Spec:
    return registry.Spec("mine", **pixels)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "glm4v_moe"])
def test_a_pixel_budget_is_set_and_kept(tiny_vlm, name):
    processor = AutoProcessor.from_pretrained(tiny_vlm(name).name)
    set_budget(processor, _spec(min_pixels=64**2, max_pixels=128**2))
    count = tiny_vlm(name).adapter.n_image_tokens
    cell = 16**2  # pixels of a token: patches of 8, two by two
    assert count(processor, [(20, 20), (100, 100), (500, 500)]) == [64**2 // cell, 96**2 // cell, 128**2 // cell]


def test_a_budget_that_the_processor_ignores_or_lacks_is_refused(tiny_vlm, monkeypatch):
    processor = AutoProcessor.from_pretrained(tiny_vlm("gemma3").name)
    with pytest.raises(vfkit.ModelUnavailable, match="'mine'.*one size"):
        set_budget(processor, _spec(max_pixels=128**2))
    processor = AutoProcessor.from_pretrained(tiny_vlm("qwen2_5_vl").name)
    with pytest.raises(vfkit.ModelUnavailable, match="more than max_pixels"):
        set_budget(processor, _spec(min_pixels=128**2, max_pixels=64**2))
    kind, fixed = type(processor.image_processor), {"shortest_edge": 32**2, "longest_edge": 64**2}
    monkeypatch.setattr(kind, "size", property(lambda self: fixed, lambda self, value: None), raising=False)
    with pytest.raises(vfkit.ModelUnavailable, match="ignores the pixel budget"):
        set_budget(processor, _spec(min_pixels=128**2, max_pixels=256**2))


def test_the_fingerprint_follows_the_pixel_budget(checkpoint, monkeypatch):
    spec = registry.Spec("mine", path=str(checkpoint), dtype="float32")
    digests = set()
    for changed in (spec, replace(spec, max_pixels=100), replace(spec, min_pixels=10, max_pixels=100)):
        monkeypatch.setattr(registry, "find", lambda name, changed=changed: changed)
        digests.add(registry.fingerprint("mine"))
    assert len(digests) == 3
