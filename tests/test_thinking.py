"""Models that reason: answers after their own reasoning, or after an empty one, and what each is called."""

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from chat_server import ChatServer, completion
from PIL import Image
from test_api import register

import vfkit
from vfkit import metrics
from vfkit.datasets import LOADERS, Rows
from vfkit.judge import strip_reasoning
from vfkit.models import registry
from vfkit.models.load import load_model
from vfkit.readout import engine
from vfkit.readout.batch import question
from vfkit.readout.forward import answer_text
from vfkit.sample import Sample

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8))
SAMPLE = Sample("s", (IMAGE,), "What color is the circle?", ("red", "teal"), 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny checkpoint whose template opens a reasoning in the generation prompt, as Qwen3-VL-Thinking's does."""
    folder = tmp_path_factory.mktemp("reasons")
    tiny.save("qwen3_vl", folder)
    (folder / "chat_template.jinja").write_text(tiny.THINKING)
    return folder


@pytest.fixture
def thinker(folder):
    vlm = load_model(folder, device="cpu")
    vlm.reasoning_tokens = 6
    vlm.set_thinking(True, max_new_tokens=3)
    return vlm


def saying(vlm, monkeypatch, text):
    """Have a model say this, whatever it is asked, and then end its turn."""
    end = vlm.processor.tokenizer.eos_token_id
    ids = [*vlm.processor.tokenizer(text, add_special_tokens=False)["input_ids"], end]
    steps = {}

    def log_probs(vlm, states):
        place = steps.setdefault("at", 0)
        steps["at"] += 1
        logits = torch.full((len(states), len(vlm.processor.tokenizer)), -9.0)
        logits[:, ids[min(place, len(ids) - 1)]] = 0
        return logits

    monkeypatch.setattr("vfkit.readout.greedy.log_probs", log_probs)
    return ids


def test_engine_and_oracle_agree_on_answers_after_a_reasoning(thinker):
    assert thinker.mode == "thinking" and thinker.max_new_tokens == 9
    read, oracle = vfkit.read(thinker, SAMPLE), vfkit.read_oracle(thinker, SAMPLE)
    assert read.said == oracle.said and read.texts == oracle.texts
    assert all(text.startswith("<think>") for text in read.texts.values())  # which stands in the prompt
    assert all(strip_reasoning(text)[0] == "" for text in read.texts.values())  # cut off before it closed
    for name, taps in read.probes.items():
        for tap, state in taps.items():
            np.testing.assert_allclose(state, oracle.probes[name][tap], atol=1e-4)
    closed = load_model(thinker.processor.tokenizer.name_or_path, device="cpu")
    closed.max_new_tokens = 4
    after_empty = vfkit.read(closed, SAMPLE)
    assert closed.mode == "reasoning closed"
    np.testing.assert_allclose(read.logp_text, after_empty.logp_text, atol=1e-5)  # scores follow an empty reasoning
    assert read.said != after_empty.said and not after_empty.texts["mcq"].startswith("<think>")


def test_the_oracle_finds_an_answer_that_is_not_the_models(thinker, monkeypatch):
    read = vfkit.read(thinker, SAMPLE)
    wrong = {name: (ids[0], ids[1] + 1, *ids[2:]) for name, ids in read.said.items()}
    like = vfkit.read(thinker, SAMPLE)
    object.__setattr__(like, "said", wrong)
    assert vfkit.read_oracle(thinker, SAMPLE, like=like).said == read.said


def test_generation_goes_on_from_the_open_prompt_and_scores_from_the_closed_one(thinker):
    asked = question(thinker, SAMPLE, (IMAGE,), probes=True)
    decode = thinker.processor.tokenizer.decode
    assert decode(asked.scored.asked).endswith("<think>\n") and decode(asked.scored.tail).endswith("</think>\n\n")
    assert asked.opened == {"open": "<think>", "mcq": "<think>"}
    thinker.set_thinking(False)
    assert question(thinker, SAMPLE, (IMAGE,), probes=True).opened == {"open": "", "mcq": ""}
    assert thinker.max_new_tokens == 32


def test_a_reasoning_is_removed_before_the_answer_is_judged(thinker, monkeypatch):
    thinker.reasoning_tokens = 60
    thinker.set_thinking(True)
    ids = saying(thinker, monkeypatch, "it may be teal</think>\n\nred")
    (read,) = engine.read_many(thinker, [(SAMPLE, (IMAGE,))], probes=True)
    assert read.said["mcq"] == tuple(ids)
    assert strip_reasoning(read.texts["mcq"]) == ("red", len("<think>it may be teal</think>"))


def test_tags_that_are_special_tokens_stay_in_the_text(thinker):
    from tokenizers import AddedToken

    words = thinker.processor.tokenizer
    words.add_tokens([AddedToken("<think>", special=True), AddedToken("</think>", special=True)], special_tokens=True)
    ids = words("<think>a</think>b<|im_end|>", add_special_tokens=False)["input_ids"]
    assert answer_text(thinker, ids) == "<think>a</think>b"


@pytest.mark.parametrize("name, mode", [("glm46v", "reasoning closed"), ("glm4v", "instruct"), ("gemma3", "instruct")])
def test_a_model_is_called_by_how_it_answers(tiny_vlm, name, mode):
    vlm = tiny_vlm(name)
    assert vlm.mode == vlm.describe()["mode"] == mode


def test_registered_models_say_how_they_answer():
    modes = {name: (registry.mode_of(name), registry.mode_of(name, True)) for name in registry.specs()}
    assert modes["qwen3vl_8b_thinking"] == modes["glm46v"] == ("reasoning closed", "thinking")
    assert modes["qwen3vl_8b"] == modes["mini_qwen3vl"] == modes["claude_haiku_4_5"] == ("instruct", "instruct")
    assert modes["gemini_3_flash"] == ("thinking", "thinking") and modes["gpt_5_1"][1] == "reasoning closed"
    assert registry.find("qwen3vl_8b_thinking").thinking == registry.find("glm46v").thinking == 8192


def vfat(path=None):
    meta = {"item": "1", "truth": "red", "trap": "teal", "level": "L1"}
    return Rows([
        Sample("mcq", (IMAGE,), "What color?", ("red", "teal"), 0, meta=meta | {"format": "mcq"}),
        Sample("oe", (IMAGE,), "What color?", ("red", "teal"), 0, prompt="open", meta=meta | {"format": "oe"}),
    ])  # fmt: skip


def test_a_study_with_and_without_reasoning_gives_two_runs_and_two_rows(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(LOADERS, "vfat_toy", vfat)
    monkeypatch.setattr("vfkit.models.load.REASONING_TOKENS", 5)
    runs = {}
    for thinking in (False, True):
        fields = dict(model=str(folder), dataset="vfat_toy", n=None, families=(), probes=True, controls=0)
        fields |= dict(out=str(tmp_path), protocol={"thinking": thinking}, max_new_tokens=3)
        runs[thinking] = vfkit.run_study(vfkit.StudyConfig(**fields), progress=False)
        assert runs[thinking].errors().empty
    assert [run.mode for run in runs.values()] == ["reasoning closed", "thinking"]
    assert runs[True].manifest["reused"] == 0 and runs[True].folder != runs[False].folder
    found = [
        metrics.vfat_answers(run.records(), run.samples()).assign(model=f"m{mode}", mode=run.mode)
        for mode, run in runs.items()
    ]
    table = metrics.vfat_scaling(pd.concat(found, ignore_index=True))
    assert set(table["mode"]) == {"reasoning closed", "thinking"}
    row = table.set_index("mode").loc["thinking"]
    assert row.unanswered == 1.0 and row.reasoning > 0  # random weights never close a reasoning


def test_a_hosted_model_that_reasons_is_called_so_and_judged_by_its_answer(tmp_path, monkeypatch):
    with ChatServer(lambda body: (200, {}, completion("red", reasoning_content="maybe teal"))) as server:
        monkeypatch.setenv("TOY_URL", "")
        monkeypatch.setenv("TOY_KEY", "")
        register(server.url, lambda name, api: registry.Spec(name, api=api, thinking=True), monkeypatch.setitem)
        monkeypatch.setitem(LOADERS, "vfat_toy", vfat)
        config = vfkit.StudyConfig(model="toy_hosted", dataset="vfat_toy", n=None, families=(), out=str(tmp_path))
        run = vfkit.run_study(config, progress=False)
    answers = metrics.vfat_answers(run.records(), run.samples())
    assert run.mode == "thinking" and answers.vision.eq(1).all() and answers.reasoning.gt(0).all()
