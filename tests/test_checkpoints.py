"""Checkpoints as people have them: what is whole loads, and what is wrong with one is said in one line."""

import json
import os
import shutil
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

import vfkit
from vfkit.models import load, registry


@pytest.fixture
def copy_of(tiny_vlm, tmp_path):
    """A copy of an architecture's tiny checkpoint, free to be spoiled."""
    return lambda name: shutil.copytree(tiny_vlm(name).name, tmp_path / name)


def _change(file: Path, **fields) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def _refused(folder: Path, says: str) -> str:
    with pytest.raises(vfkit.ModelUnavailable, match=says) as caught:
        vfkit.load_model(str(folder), device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _reweigh(folder: Path, change) -> None:
    weights = change(load_file(folder / "model.safetensors"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiny.ALL)
def test_a_checkpoint_without_its_vision_tower_is_refused_by_the_names_of_what_is_missing(copy_of, name):
    folder = copy_of(name)
    _reweigh(folder, lambda weights: {key: value for key, value in weights.items() if "vis" not in key})
    assert "vis" in _refused(folder, r"\d\d missing \(.*and \d+ more\)")


@pytest.mark.parametrize("name", tiny.ALL)
def test_weights_under_a_name_that_nothing_has_are_refused(copy_of, name):
    folder = copy_of(name)
    _reweigh(folder, lambda weights: weights | {"stray.weight": torch.zeros(2)})
    _refused(folder, r"1 unexpected \(stray.weight\)")


@pytest.mark.parametrize("name", tiny.ALL)
def test_weights_of_another_shape_are_refused_by_name(copy_of, name, capfd):
    folder = copy_of(name)
    _reweigh(folder, lambda weights: {key: _narrow(key, weights[key]) for key in weights})
    _refused(folder, r"\d+ mismatched \(.*v_proj")
    assert "MISMATCH" not in capfd.readouterr().err


def _narrow(key: str, weight: torch.Tensor) -> torch.Tensor:
    return weight[:, :-1].clone() if "v_proj.weight" in key else weight


def test_a_head_is_missing_only_where_it_is_not_tied(vlm, copy_of, tmp_path):
    def without_head(weights):
        return {key: value for key, value in weights.items() if "lm_head" not in key}

    tied = shutil.copytree(registry.files(registry.find("mini_qwen3vl")), tmp_path / "tied")
    _reweigh(tied, without_head)
    mine = vfkit.load_model(str(tied), device="cpu").model
    assert torch.equal(mine.lm_head.weight, vlm.model.lm_head.weight)
    untied = copy_of("qwen2_5_vl")
    _reweigh(untied, without_head)
    _refused(untied, r"1 missing \(lm_head.weight\)")


def test_pickled_weights_a_git_lfs_pointer_a_file_cut_off_and_a_missing_shard_are_each_one_line(copy_of):
    folder = copy_of("qwen2_5_vl")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for kept, says in ((len(whole) - 9, "is cut off: .* of .* bytes"), (100, "inside its header"), (3, "cut off")):
        weights.write_bytes(whole[:kept])
        _refused(folder, says)
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    _refused(folder, "model.safetensors is a Git LFS pointer")
    weights.write_bytes(b"<html>not found</html>" * 9)
    _refused(folder, "cut off|not a safetensors")
    weights.rename(folder / "pytorch_model.bin")
    _refused(folder, "pytorch_model.bin only")
    (folder / "pytorch_model.bin").unlink()
    _refused(folder, "holds no weights")
    (folder / "model-00001-of-00003.safetensors").write_bytes(whole)
    _refused(folder, "2 of its files are missing .*model-00002-of-00003")  # known by their numbers
    (folder / "model-00001-of-00003.safetensors").rename(folder / "first.safetensors")
    shards = {"a": "first.safetensors", "b": "second.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    _refused(folder, r"1 of its files are missing \(second.safetensors\)")  # known by the index


def test_a_link_that_leads_nowhere_and_a_damaged_index_are_named(copy_of, tmp_path):
    folder = copy_of("qwen2_5_vl")
    (folder / "model.safetensors").rename(tmp_path / "away")
    (folder / "model.safetensors").symlink_to(folder / "nowhere")
    _refused(folder, r"1 of its files are missing \(model.safetensors\)")
    (folder / "model.safetensors").unlink()
    (tmp_path / "away").rename(folder / "model.safetensors")
    for text in ("{", "[]", ""):
        (folder / "model.safetensors.index.json").write_text(text)
        _refused(folder, r"model.safetensors.index.json \(damaged\)")


def test_another_training_checkpoint_inside_the_folder_is_not_of_this_one(copy_of):
    folder = copy_of("qwen2_5_vl")
    (folder / "checkpoint-10").mkdir()
    (folder / "checkpoint-10" / "model-00001-of-00002.safetensors").write_bytes(b"")
    assert vfkit.load_model(str(folder), device="cpu").dtype == torch.float32


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_a_pointer_in_place_of_a_small_file_is_named(copy_of, file):
    folder = copy_of("qwen2_5_vl")
    (folder / file).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    _refused(folder, f"{file} is a Git LFS pointer")


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen2_5_vl", "gemma3"])
@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_a_config_that_says_eager_is_read_with_the_attention_that_the_mask_needs(copy_of, name, key):
    folder = copy_of(name)
    _change(folder / "config.json", **{key: "eager"})
    model = vfkit.load_model(str(folder), device="cpu").model
    parts = [part for part in model.modules() if isinstance(getattr(part, "config", None), type(model.config))]
    assert parts and {part.config._attn_implementation for part in parts} == {"sdpa"}


def test_attention_that_is_not_the_one_needed_is_refused(vlm, monkeypatch):
    monkeypatch.setattr(vlm.model.model.language_model.config, "_attn_implementation_internal", "eager")
    with pytest.raises(vfkit.ModelUnavailable, match="attention runs as eager"):
        load._check_attention("mine", vlm.model)


# --- a checkpoint's own code ------------------------------------------------------------------------------------------


@pytest.fixture
def says_yes(monkeypatch, tmp_path):
    """A user who answers every question with yes; `IT_RAN` is set as soon as any of a checkpoint's code runs."""
    monkeypatch.setattr("builtins.input", lambda *question: "y")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("IT_RAN", "no")


def _with_code(folder: Path, file: str, **fields) -> Path:
    (folder / "code.py").write_text("import os\nos.environ['IT_RAN'] = 'yes'\n")
    _change(folder / file, **fields)
    return folder


OWN = {"AutoConfig": "code.Config", "AutoModelForImageTextToText": "code.Model"}


@pytest.mark.parametrize(
    "type_, says", [("internvl_chat", r"-hf form \(.*-hf\)"), ("novel", "Take a form that transf")]
)
def test_a_models_code_is_never_run_even_if_the_user_would_say_yes(copy_of, says_yes, type_, says):
    folder = _with_code(copy_of("qwen2_5_vl"), "config.json", model_type=type_, auto_map=OWN)
    assert "never runs a checkpoint's code" in _refused(folder, says)
    assert os.environ["IT_RAN"] == "no"
    with pytest.raises(AttributeError):  # the library alone would have run it
        AutoConfig.from_pretrained(folder)
    assert os.environ["IT_RAN"] == "yes"


def test_a_known_model_with_code_of_its_own_is_read_without_it(copy_of, says_yes):
    folder = _with_code(copy_of("qwen2_5_vl"), "config.json", auto_map=OWN)
    assert vfkit.load_model(str(folder), device="cpu").dtype == torch.float32
    assert os.environ["IT_RAN"] == "no"


def test_a_processors_code_is_never_run(copy_of, says_yes):
    own = dict(auto_map={"AutoProcessor": "code.Own"}, processor_class="Own")
    folder = _with_code(copy_of("qwen2_5_vl"), "processor_config.json", **own)
    _refused(folder, "never runs a checkpoint's code")
    assert os.environ["IT_RAN"] == "no"


def test_a_tokenizers_code_is_never_run_and_not_needed(copy_of, says_yes):
    own = dict(auto_map={"AutoTokenizer": ["code.Own", "code.Own"]}, tokenizer_class="Own")
    folder = _with_code(copy_of("qwen2_5_vl"), "tokenizer_config.json", **own)
    assert vfkit.load_model(str(folder), device="cpu").processor.tokenizer.eos_token == "<|im_end|>"
    assert os.environ["IT_RAN"] == "no"


# --- templates, quantisation, classes of old --------------------------------------------------------------------------


def test_without_a_chat_template_it_is_refused_and_the_tokenizers_own_will_do(copy_of):
    folder = copy_of("qwen2_5_vl")
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    _refused(folder, "has no chat template")
    _change(folder / "tokenizer_config.json", chat_template=template)
    assert vfkit.load_model(str(folder), device="cpu").processor.chat_template == template


def test_a_chat_template_that_fails_is_refused(copy_of):
    folder = copy_of("qwen2_5_vl")
    (folder / "chat_template.jinja").write_text("{% for")
    _refused(folder, "its chat template .* fails")


@pytest.mark.parametrize("method", ["awq", "gptq", "bitsandbytes"])
def test_a_quantised_checkpoint_that_cannot_be_read_here_says_so(copy_of, method):
    folder = copy_of("qwen2_5_vl")
    _change(folder / "config.json", quantization_config={"quant_method": method, "bits": 4, "load_in_4bit": True})
    _refused(folder, rf"quantised \({method}\).*unquantised form")


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the library reads fp8 as fp8")
def test_a_quantised_checkpoint_that_can_be_read_is_named_and_recorded(copy_of):
    """On a CPU the library turns fp8 into bfloat16; that these weights were never quantised makes no difference."""
    folder = copy_of("qwen2_5_vl")
    _change(folder / "config.json", quantization_config={"quant_method": "fp8"})
    with pytest.warns(UserWarning, match=r"quantised \(fp8\)"):
        assert vfkit.load_model(str(folder), device="cpu").quantization["quant_method"] == "fp8"


@pytest.mark.parametrize("file", ["preprocessor_config.json", "processor_config.json"])
def test_a_processor_under_its_old_name_is_read(tiny_vlm, copy_of, file):
    folder = copy_of("qwen2_5_vl")
    own = json.loads((folder / "processor_config.json").read_text())
    if file == "preprocessor_config.json":
        (folder / "processor_config.json").unlink()
        own = own["image_processor"] | {"processor_class": own["processor_class"]}
    text = json.dumps(own).replace("Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor")
    assert "Qwen2_5_VLImageProcessor" in text
    (folder / file).write_text(text)
    mine = vfkit.load_model(str(folder), device="cpu").processor
    assert mine.image_processor.to_dict() == tiny_vlm("qwen2_5_vl").processor.image_processor.to_dict()
    assert (folder / file).read_text() == text
