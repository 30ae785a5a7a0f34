"""One model by three names: registered name, hub id and folder give the same settings, fingerprint and name."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
import tiny
import torch
from transformers import AutoConfig

import vfkit
from vfkit.hub import hub_id_of, missing_parts, revision_of
from vfkit.models import __main__ as command
from vfkit.models import load, registry
from vfkit.models.estimate import dry_run, n_params

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OF_THE_SAME_SIZE = sorted(registry.released())


@pytest.fixture
def three_names(tiny_vlm, tmp_path, monkeypatch):
    """(a registered name, its hub id, a folder) of one tiny checkpoint that lies in the hub's cache and in a folder."""
    repo = tmp_path / "hub" / "models--owner--Small-VL"
    snapshot = repo / "snapshots" / COMMIT
    shutil.copytree(tiny_vlm("qwen2_5_vl").name, snapshot)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = shutil.copytree(snapshot, tmp_path / "mine")
    config = json.loads((folder / "config.json").read_text())
    spec = registry.Spec(
        "small",
        hub="owner/Small-VL",
        type="qwen2_5_vl",
        dtype="bfloat16",
        params=0.001,
        min_pixels=64**2,
        max_pixels=128**2,
    )
    monkeypatch.setattr(registry, "specs", lambda: {"small": spec})
    monkeypatch.setattr(registry, "released", lambda: {"small": {"source": "a test", "config": config}})
    return "small", "owner/Small-VL", str(folder)


def test_three_names_of_one_model_give_the_same_model(three_names):
    loaded = [vfkit.load_model(name, device="cpu") for name in three_names]
    assert {vlm.name for vlm in loaded} == {"small"} and {vlm.dtype for vlm in loaded} == {torch.bfloat16}
    assert len({str(vlm.processor.image_processor.size) for vlm in loaded}) == 1
    assert loaded[0].processor.image_processor.size["longest_edge"] == 128**2
    assert len({vlm.fingerprint for vlm in loaded}) == 1
    assert {registry.fingerprint(name) for name in three_names} == {loaded[0].fingerprint}
    assert [vlm.revision for vlm in loaded] == [COMMIT, COMMIT, None]
    assert loaded[0].describe()["revision"] == COMMIT


def test_three_names_of_one_model_are_refused_alike_where_memory_is_short(three_names, monkeypatch):
    monkeypatch.setattr(load.os, "sysconf", lambda name: 10)
    for name in three_names:
        with pytest.raises(vfkit.ModelUnavailable, match="'small' needs about .* GB on cpu"):
            vfkit.load_model(name, device="cpu")


def test_any_models_memory_is_known_from_its_config_before_its_weights_are_here(tiny_vlm, tmp_path, monkeypatch):
    folder = shutil.copytree(tiny_vlm("gemma3").name, tmp_path / "no_weights")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(load.os, "sysconf", lambda name: 10)
    with pytest.raises(vfkit.ModelUnavailable, match="needs about"):
        vfkit.load_model(str(folder), device="cpu")


def test_weights_of_ones_own_have_the_settings_and_not_the_name(three_names, tmp_path):
    (tmp_path / "mine" / "trainer_state.json").write_text("{}")
    spec = registry.find(three_names[2])
    assert (spec.like, spec.name, spec.max_pixels, spec.dtype) == ("small", three_names[2], 128**2, "bfloat16")


def test_a_hub_id_of_other_weights_has_the_settings_and_not_the_name(three_names, tmp_path):
    other = tmp_path / "hub" / "models--someone--Tuned"
    shutil.copytree(tmp_path / "hub" / "models--owner--Small-VL", other)
    for name in ("someone/Tuned", str(other / "snapshots" / COMMIT)):
        spec = registry.find(name)
        assert (spec.like, spec.name, spec.max_pixels) == ("small", "someone/Tuned", 128**2)
    assert registry.find("SOMEONE/tuned-too").like is None
    assert registry.find("Owner/small-vl").name == "small"


def test_a_model_of_another_size_is_not_taken_for_it(three_names, tmp_path):
    file = tmp_path / "mine" / "config.json"
    config = json.loads(file.read_text())
    config["text_config"]["num_hidden_layers"] += 1
    file.write_text(json.dumps(config))
    spec = registry.find(three_names[2])
    assert (spec.like, spec.name, spec.max_pixels) == (None, three_names[2], None)


def test_thinking_and_instruct_forms_of_one_size_are_told_apart_by_their_templates(three_names, tmp_path, monkeypatch):
    small = registry.specs()["small"]
    both = {"small": small, "small_thinking": replace(small, name="small_thinking", hub="owner/Thinking")}
    figures = registry.released()["small"]
    monkeypatch.setattr(registry, "specs", lambda: both)
    monkeypatch.setattr(registry, "released", lambda: {"small": figures, "small_thinking": figures})
    assert registry.find(three_names[2]).name == "small"
    (tmp_path / "mine" / "chat_template.jinja").write_text(tiny.THINKING)
    assert registry.find(three_names[2]).name == "small_thinking"


# --- released figures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_THE_SAME_SIZE)
def test_released_figures_give_the_parameters_that_the_registry_states(name):
    tried, spec = dry_run(name), registry.specs()[name]
    assert tried.params / 1e9 == pytest.approx(spec.params, abs=0.05) and tried.type == spec.type
    assert tried.tokens and not tried.reason and registry.released()[name]["source"] in str(tried)


@pytest.mark.parametrize("name", [name for name, spec in registry.specs().items() if spec.hub])
def test_without_network_a_dry_run_says_what_is_known_of_every_model(name):
    tried = dry_run(name)
    assert tried.gigabytes["bfloat16"] == pytest.approx(2 * registry.specs()[name].params, rel=0.03)
    assert (tried.tokens is None) == (name not in registry.released()) == bool(tried.reason)


@pytest.mark.parametrize("name", OF_THE_SAME_SIZE)
def test_a_folder_with_a_released_config_is_known_for_what_it_is(tmp_path, name):
    """Also as today's library writes the config, which names more fields and keeps the text model's apart."""
    for form in ("released", "saved"):
        folder = tmp_path / form
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(registry.released()[name]["config"]))
        if form == "saved":
            AutoConfig.from_pretrained(folder).save_pretrained(folder)
        spec = registry.find(str(folder))
        assert (spec.name, spec.max_pixels, spec.dtype) == (
            name,
            registry.specs()[name].max_pixels,
            registry.specs()[name].dtype,
        )


def test_parameters_are_those_of_the_loaded_model(tiny_vlm):
    model = tiny_vlm("glm4v_moe").model
    assert n_params(model.config) == sum(parameter.numel() for parameter in model.parameters())


def test_revisions_are_commits():
    pinned = [spec.revision for spec in registry.specs().values() if spec.revision]
    assert len(pinned) > 5 and all(len(each) == 40 and set(each) <= set("0123456789abcdef") for each in pinned)


# --- the hub's cache --------------------------------------------------------------------------------------------------


def test_a_pinned_revision_gives_way_to_the_one_that_is_here_and_is_recorded(three_names, monkeypatch):
    small = registry.specs()["small"]
    monkeypatch.setattr(registry, "specs", lambda: {"small": replace(small, revision="f" * 40)})
    assert vfkit.load_model("small", device="cpu").revision == COMMIT


@pytest.mark.parametrize("lost", ["model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"])
def test_an_interrupted_download_goes_on(three_names, tmp_path, monkeypatch, lost):
    """The index names three shards of which two are here: the hub is asked again, and asked for the same revision."""
    snapshot = tmp_path / "hub" / "models--owner--Small-VL" / "snapshots" / COMMIT
    whole = (snapshot / "model.safetensors").read_bytes()
    (snapshot / "model.safetensors").unlink()
    names = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    (snapshot / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict(zip("abc", names, strict=True))})
    )
    for name in names:
        if name != lost:
            (snapshot / name).write_bytes(whole)
    with pytest.raises(vfkit.ModelUnavailable, match=rf"not whole \(missing: {lost}\) .* HF_HUB_OFFLINE"):
        vfkit.load_model("small", device="cpu")
    asked = []

    def goes_on(**wanted):
        asked.append(wanted)
        if not wanted.get("local_files_only"):
            (snapshot / lost).write_bytes(whole)
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *args, **options: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", goes_on)
    assert registry.files(registry.find("small")) == snapshot and (snapshot / lost).exists()
    assert [each.get("local_files_only", False) for each in asked] == [True, False]


def test_parts_are_found_missing_by_number_and_by_index_and_behind_broken_links(tmp_path):
    for name in ("train-00000-of-00003.parquet", "deep/model-00001-of-00002.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "train-00001-of-00003.parquet").symlink_to(tmp_path / "nowhere")
    assert missing_parts(tmp_path) == ["train-00001-of-00003.parquet", "train-00002-of-00003.parquet"]
    assert "deep/model-00002-of-00002.safetensors" in missing_parts(tmp_path, deep=True)


def test_a_folder_downloaded_from_the_hub_knows_its_commit(tmp_path):
    notes = tmp_path / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    assert revision_of(tmp_path) is None
    (notes / "config.json.metadata").write_text(f"{COMMIT}\nabc\n1.0\n")
    assert revision_of(tmp_path) == COMMIT and hub_id_of(tmp_path) is None
    assert hub_id_of(tmp_path / "models--a--b-c" / "snapshots" / COMMIT) == "a/b-c"


# --- the check of a model ---------------------------------------------------------------------------------------------


def _run(monkeypatch, capsys, *arguments) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["vfkit.models", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    return stopped.value.code, capsys.readouterr().out


def test_the_check_says_what_a_study_would_take_and_that_nothing_looks_wrong(monkeypatch, capsys):
    status, said = _run(monkeypatch, capsys, "--check", "mini_qwen3vl", "--device", "cpu", "--n", "100")
    assert status == 0 and said.rstrip().endswith("nothing looks wrong")
    for words in (
        "answers: 2 of 2 right",
        "tokens of a picture of 640 x 480 pixels: 12",
        "s an instance",
        "a study of 100 samples",
        "noise floor (identity)",
        "engine against oracle in float32",
        "end of the turn: '<|im_end|>",
        "stop at '<|im_end|>'",
    ):
        assert words in said


def test_the_check_of_a_random_model_says_that_it_looks_wrong(tiny_vlm, monkeypatch, capsys):
    status, said = _run(
        monkeypatch, capsys, "--check", tiny_vlm("internvl").name, "--device", "cpu", "--dtype", "bfloat16"
    )
    assert "engine against oracle in bfloat16" in said and "engine against oracle in float32" in said
    assert status == 1 and "LOOKS WRONG: most answers to the question with options run on" in said


def test_the_check_refuses_what_does_not_load(monkeypatch, capsys):
    for name, says in (("qwen3vl_4b", "hf download"), ("gpt_5_1", "hosted|OPENAI_API_KEY|openai")):
        monkeypatch.setattr(sys, "argv", ["vfkit.models", "--check", name])
        with pytest.raises(SystemExit, match=f"(?s){says}"):
            command.main()
