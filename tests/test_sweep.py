"""One study for several models and data sets (vfkit.study.sweep), with copies of the embedded model as further ones."""

import gc
import json
import shutil
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import vfkit
from vfkit import metrics
from vfkit.datasets import LOADERS, Rows
from vfkit.models import ModelUnavailable, files, find
from vfkit.study import lineup, run_sweep

FIELDS = dict(n=2, families=("text_overlay", "rotation"), verify=0, progress=False)


def _copy(folder: Path, drop: int = 0, **config) -> str:
    """The embedded model as a folder of its own; `drop` makes it smaller by so many of its language model's layers."""
    source = files(find("mini_qwen3vl"))
    shutil.copytree(source, folder)
    own = json.loads((folder / "config.json").read_text()) | config
    layers = own["text_config"]["num_hidden_layers"]
    kept = range(layers - drop)
    own["text_config"] |= {"num_hidden_layers": len(kept)}
    if own["text_config"].get("layer_types"):
        own["text_config"]["layer_types"] = own["text_config"]["layer_types"][: len(kept)]
    (folder / "config.json").write_text(json.dumps(own))
    gone = [f"language_model.layers.{i}." for i in range(len(kept), layers)]
    state = load_file(source / "model.safetensors")
    state = {name: value for name, value in state.items() if not any(part in name for part in gone)}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[str]:
    """The larger first."""
    folder = tmp_path_factory.mktemp("models")
    return [_copy(folder / "larger"), _copy(folder / "smaller", drop=1)]


def test_lineup_orders_by_series_and_size(models, vlm):
    table = lineup([models[0], "mini_qwen3vl", models[1], models[1]])
    assert table["model"].to_list() == ["smaller", "larger", "mini_qwen3vl"]
    assert table["series"].to_list() == ["qwen3_vl planted", "qwen3_vl planted", "mini qwen3_vl planted"]
    assert table["source"].to_list() == [models[1], models[0], "mini_qwen3vl"]
    whole = sum(parameter.numel() for parameter in vlm.model.parameters())
    assert table["params"][1] == pytest.approx(whole / 1e9, rel=0.1) and table["params"][0] < table["params"][1]


def test_a_name_says_nothing_of_training(tmp_path):
    folders = [Path(_copy(tmp_path / name)) for name in ("clean", "thinking", "other")]
    for folder in folders[1:]:
        (folder / "training.json").unlink()
    table = lineup([*map(str, folders), "mini_qwen3vl_clean"])
    training = dict(zip(table["model"], zip(table["training"], table["series"], strict=True), strict=True))
    assert training == {
        "clean": ("planted", "qwen3_vl planted"),
        "thinking": ("unknown", "qwen3_vl unknown (thinking)"),
        "other": ("unknown", "qwen3_vl unknown (other)"),
        "mini_qwen3vl_clean": ("clean", "mini qwen3_vl clean"),
    }


def test_lineup_names_every_model_that_cannot_be_had(models, tmp_path):
    with pytest.raises(ModelUnavailable, match="2 of 3 models cannot be had") as error:
        lineup(["qwen3vl_4b", models[0], "mini_qwen3v1"])
    assert "hf download Qwen/Qwen3-VL-4B-Instruct" in str(error.value)
    assert "Did you mean 'mini_qwen3vl'" in str(error.value)
    with pytest.raises(ValueError, match="two models go by one name"):
        lineup([models[0], _copy(tmp_path / "larger")])
    with pytest.raises(ValueError, match="at least one model"):
        lineup([])
    assert lineup("mini_qwen3vl").model.to_list() == ["mini_qwen3vl"]  # a single name


def test_a_folder_whose_config_says_nothing_is_refused(tmp_path):
    folder = _copy(tmp_path / "broken")
    Path(folder, "config.json").write_text("{")
    with pytest.raises(ModelUnavailable, match="config.json says no model_type"):
        lineup([folder])


def test_a_sweep_reads_each_model_once_and_holds_one_at_a_time(models, tmp_path, monkeypatch):
    load, held, alive = vfkit.load_model, [], []

    def watched(*args, **kwargs):
        gc.collect()
        alive.append(sum(one() is not None for one in held))
        vlm = load(*args, **kwargs)
        held.append(weakref.ref(vlm.model))
        return vlm

    monkeypatch.setattr(vfkit, "load_model", watched, raising=False)
    out = str(tmp_path / "out")
    sweep = run_sweep(models, ["mini_seed", "easy_vqa"], out=out, **FIELDS)
    assert alive == [0, 0, 0, 0] and all(one() is None for one in held)
    table = sweep.table()
    assert table[["dataset", "model"]].to_numpy().tolist() == [
        ["mini_seed", "smaller"], ["mini_seed", "larger"], ["easy_vqa", "smaller"], ["easy_vqa", "larger"],
    ]  # fmt: skip
    assert (table["done"] == 2).all() and (table["failed"] == 0).all()

    def refuse(*args, **kwargs):
        raise AssertionError("a finished run needs no model")

    monkeypatch.setattr(vfkit, "load_model", refuse, raising=False)
    again = run_sweep(models[::-1], ["mini_seed", "easy_vqa"], out=out, **FIELDS)
    assert again.table()["folder"].to_list() == table["folder"].to_list() and again.folder == sweep.folder

    records = sweep.frame("records")
    assert records.columns[:4].to_list() == ["dataset", "model", "study", "sample_id"] and "logp_text" not in records
    assert records.groupby(["dataset", "model"])["sample_id"].nunique().to_list() == [2] * 4
    overlays = sweep.frame("records", family="text_overlay")
    pd.testing.assert_frame_equal(
        overlays, records[records["family"] == "text_overlay"].reset_index(drop=True), check_dtype=False
    )
    shared, counts = metrics.shared_samples(records)
    assert len(shared) == len(records) and (counts["shared"] == 2).all()
    assert len(metrics.scale_summary(shared, sweep.models)) == 4
    assert set(metrics.scale_differences(shared, sweep.models)["larger"]) == {"larger"}


@pytest.mark.parametrize(
    "change, says",
    [
        (dict(models=["mini_qwen3vl", "qwen3vl_4b"]), "1 of 2 models cannot be had.*hf download"),
        (dict(datasets=["mini_seed", "easy_vqq"]), "did you mean 'easy_vqa'"),
        (dict(dataset_paths=["here"]), "a path .or None. for each: 2 and 1"),
        (dict(datasets=[]), "needs data sets"),
        (dict(families=("rotatoin",)), "rotation"),
        (dict(device="cuda:99"), "1 of 1 models cannot be had.*device 'cuda:99' is not available"),
        (dict(prob=True), "unknown field of a study: 'prob'; did you mean 'probes'"),
    ],
)
def test_what_is_wrong_is_refused_before_any_run(change, says, tmp_path):
    if change.get("device"):
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("a machine with a GPU")
    asked = dict(models=["mini_qwen3vl"], datasets=["mini_seed", "easy_vqa"], out=str(tmp_path / "out")) | FIELDS
    with pytest.raises((ModelUnavailable, ValueError), match=f"(?s){says}"):
        run_sweep(**asked | change)
    assert not (tmp_path / "out").exists()


def test_an_architecture_without_an_adapter_is_refused_before_any_run(models, tmp_path):
    other = _copy(tmp_path / "other", model_type="blip")
    with pytest.raises(ModelUnavailable, match="(?s)1 of 2 models cannot be had.*'blip'.*no adapter"):
        run_sweep([models[0], other], ["mini_seed"], out=str(tmp_path / "out"), **FIELDS)
    assert not (tmp_path / "out").exists()


def test_a_model_that_reads_nothing_is_said_to(monkeypatch, tmp_path):
    broken = [vfkit.Sample(str(i), (np.zeros((0, 0)),), "What?", ("a", "b"), 0) for i in range(2)]
    monkeypatch.setitem(LOADERS, "broken", lambda path=None: Rows(broken))
    with pytest.raises(RuntimeError, match="mini_qwen3vl read no sample of broken; the reasons are in .*errors"):
        run_sweep(["mini_qwen3vl"], ["broken"], out=str(tmp_path / "out"), **FIELDS)
