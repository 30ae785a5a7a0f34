"""Protocols: presets and single fields of them, wordings of one's own, what their settings change in records."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import vfkit
from vfkit import metrics, prompts
from vfkit.datasets.base import select
from vfkit.perturb import geometric
from vfkit.sample import Sample
from vfkit.study import run_subsets
from vfkit.study.protocol import PRESETS, VFKIT, Protocol

ROOT = Path(__file__).parents[1]
MCQ = Sample("s", ("image",), "Is {options} red?", ("{hint}", "no"), 0, hint="Look.")


def config(**fields):
    return vfkit.StudyConfig(**dict(model="mini_qwen3vl", dataset="mini_seed", n=4, families=["scale"]) | fields)


# --- presets and fields -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_a_small_mapping_whose_fields_can_be_set_one_by_one(preset):
    assert config(protocol=preset).protocol.changes() == {k: v for k, v in PRESETS[preset].items() if k != "union"}
    mine = config(protocol={"preset": preset, "union": 8}).protocol
    assert mine.changes() == config(protocol=preset).protocol.changes() | {"union": 8}
    assert Protocol.model_validate(f"{{preset: {preset}, union: 8}}") == mine  # as a command line writes it
    assert Protocol(**mine.model_dump()) == mine  # as run.json holds it
    assert mine.changes(Protocol.model_validate(preset)) == {"union": 8}


@pytest.mark.parametrize(
    "protocol, says",
    [
        ("hi_progam", "did you mean 'hi_program'"),
        ({"tab": {}}, "did you mean 'tap'"),
        ({"union": 7}, "union"),
        ({"prompts": "no_such.yaml"}, "no_such.yaml"),
        ({"prompts": {"mqc": "x"}}, "did you mean 'mcq'"),
        ({"prompts": {"mcq": "{question}"}}, "lacks {options}"),
        ({"prompts": {"open": "{question} {question}"}}, "twice"),
        ({"prompts": {"open": "{hint }\n{question}"}}, "write {hint}"),
        ({"prompts": {"open": "{quest}"}}, "did you mean 'question'"),
        ({"prompts": {"mcq": "{question} {options}"}}, "a line of its own"),
    ],
)
def test_a_mistake_is_refused_by_name(protocol, says):
    with pytest.raises(ValueError, match=says):
        config(protocol=protocol)


def test_half_precision_is_the_protocols_where_the_study_names_no_type():
    assert config(protocol="hi_program").dtype == "float16" and config().dtype is None
    assert config(protocol="hi_program", dtype="float32").dtype == "float32"
    assert config(protocol="hi_program").suite().families["scale"]["size"] == "restored"
    changed = config(protocol="hi_program", family_params={"scale": {"size": "scaled"}, "pgd_low": {"steps": 3}})
    assert changed.suite().families["scale"]["size"] == "scaled"  # the study's own goes before the protocol's


# --- wording ----------------------------------------------------------------------------------------------------------


def test_the_shipped_wording_is_ours_and_means_no_change(tmp_path):
    shipped = ROOT / "params" / "prompts.yaml"
    assert prompts.load_wording(shipped) == prompts.WORDING
    assert config(protocol={"prompts": str(shipped)}).protocol == VFKIT
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"open": "{question}\nBriefly."}))
    mine = config(protocol={"prompts": str(tmp_path / "mine.yaml")}).protocol
    assert list(mine.changes()) == ["prompts"] and mine.prompts["mcq"] == prompts.WORDING.mcq
    assert "another wording" in mine.say() and VFKIT.say() == ""


def test_a_users_text_is_no_template():
    said = prompts.text(MCQ, "mcq")
    assert said.startswith("Hint: Look.\nQuestion: Is {options} red?\nOptions:\nA. {hint}\nB. no\n")


def test_images_stand_at_their_marks_under_another_wording():
    wording = prompts.load_wording({"mcq": "Choose.\n{options}\nQ: {question}", "option": "({letter}) {option}"})
    sample = Sample("s", ("x",), "is <image 1> red?", ("<image 1>", "no"))
    body = prompts.text(sample, "mcq", wording)
    (turn,) = prompts.user_turn(body, 1, sample.question, wording.lead("mcq"))
    texts = [part.get("text", "IMAGE") for part in turn["content"]]
    assert texts == ["Choose.\n(A) <image 1>\n(B) no\nQ: is ", "IMAGE", " red?"]


def test_a_run_reads_the_wording_it_was_given_and_its_oracle_agrees(tmp_path, vlm, monkeypatch):
    other = {"mcq": "Options:\n{options}\nQuestion: {question}"}
    run = vfkit.run_study(config(n=2, families=[], out=str(tmp_path), protocol={"prompts": other}), progress=False)
    ours = vfkit.run_study(config(n=2, families=[], out=str(tmp_path)), progress=False)
    assert run.folder != ours.folder and run.manifest["reused"] == 0
    sample = vfkit.load_dataset("mini_seed", n=2)[0]
    rows = run.records().set_index("sample_id")
    monkeypatch.setattr(vlm, "wording", prompts.load_wording(other))
    np.testing.assert_allclose(rows.logp_text[sample.id], vfkit.read(vlm, sample, probes=False).logp_text, atol=1e-4)
    assert not np.allclose(rows.logp_text[sample.id], ours.records().set_index("sample_id").logp_text[sample.id])


# --- samples, images, tables ------------------------------------------------------------------------------------------


def test_random_subsets_share_no_sample_and_ignore_categories():
    samples = [Sample(f"{i}", ("x",), "?", ("a", "b"), category="ab"[i % 2]) for i in range(60)]
    chosen = [select(samples, 10, 0, subset, "random") for subset in range(3)]
    ids = {sample.id for each in chosen for sample in each}
    assert len(ids) == 30 and ids == {sample.id for sample in select(samples, 30, 0, sampling="random")}
    assert {sum(sample.category == "a" for sample in select(samples, 10, 0, subset)) for subset in range(3)} == {5}
    assert {sum(sample.category == "a" for sample in each) for each in chosen} != {5}
    with pytest.raises(ValueError, match="did you mean 'random'"):
        vfkit.load_dataset("mini_seed", 3, sampling="randm")


def test_a_scaled_image_can_be_brought_back_to_its_size():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 61, 3), np.uint8))
    small, back = geometric.scale(image, 0.5), geometric.scale(image, 0.5, "restored")
    assert back.size == image.size and small.size == (30, 20)
    assert back.tobytes() == small.resize(image.size, Image.Resampling.BICUBIC).tobytes()


def test_a_protocol_of_tables_only_reads_nothing_again(tmp_path):
    first = config(out=str(tmp_path), families=["scale", "rotation", "random_text"], n=3)
    vfkit.run_study(first, progress=False)
    again = vfkit.StudyConfig(**first.model_dump() | {"protocol": {"union": 8, "tap": {"qwen3_vl": "pre_norm"}}})
    run = vfkit.run_study(again, progress=False)
    assert run.manifest["reused"] == 3 and not run.manifest["counters"]
    assert run.tap == "pre_norm" and run.manifest["config"]["protocol"]["union"] == 8
    assert "union (scale, rotation, random_text)" in set(run.table("flips").family)
    assert "union (scale, rotation)" in set(metrics.flip_table(run.records()).family)


def test_subsets_come_as_mean_and_sd(tmp_path):
    runs = run_subsets(config(out=str(tmp_path), n=3), 2, progress=False)
    assert not set(runs[0].records().sample_id) & set(runs[1].records().sample_id)
    table = vfkit.open_runs(tmp_path).across("accuracy").set_index(["dataset", "model", "n"])
    row = table[(table.family == "base") & (table.category == "all")].loc[("mini_seed", "mini_qwen3vl", 3)]
    each = [metrics.accuracy_table(run.records()).accuracy[0] for run in runs]
    assert row.runs == 2 and row.samples == 6
    assert row.accuracy == pytest.approx(np.mean(each)) and row.accuracy_sd == pytest.approx(np.std(each, ddof=1))


# --- attacks as HI's program makes them -------------------------------------------------------------------------------


def test_an_attack_on_the_labels_copy_is_scored_against_the_others_on_the_clean_image(tmp_path):
    fields = dict(out=str(tmp_path), families=["pgd_low"], family_params={"pgd_low": {"steps": 3}}, n=3)
    run = vfkit.run_study(config(**fields, protocol={"attack": "label_only"}), progress=False)
    records = run.records()
    table = run.table("attacks")
    assert table.eps.tolist() == [4] and set(records.instance) >= {"pgd_low_4"}  # 8/255 of values in [-1, 1]
    base = records[records.family == "base"].set_index("sample_id")
    lost = []
    for row in records[records.family == "pgd_low"].itertuples():
        clean, label = np.array(base.logp_text[row.sample_id]) + base.logp_end[row.sample_id], int(row.base_prediction)
        now = row.logp_text[label] + row.logp_end[label]
        lost.append(now < np.delete(clean, label).max())
        trace = json.loads(row.params)["trace"]
        assert trace[0] == pytest.approx(base.base_margin[row.sample_id], abs=1e-3)
        assert trace[-1] == pytest.approx(now - np.delete(clean, label).max(), abs=1e-3)
    assert table.success_rate[0] == pytest.approx(np.mean(lost))
    assert json.loads(records[records.family == "pgd_low"].params.iloc[0])["leakage"] > 0.01  # it leaves its band
