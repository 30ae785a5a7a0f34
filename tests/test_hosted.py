"""Hosted models in whole studies against a local endpoint that counts: what is refused before it, what it costs."""

import numpy as np
import pytest
from chat_server import ChatServer, text_of
from test_api import register, study

import vfkit
from vfkit import metrics, notebook
from vfkit.models import registry
from vfkit.perturb import ATTACKS
from vfkit.study import answers_only, estimate, run_sweep
from vfkit.workshop.items.__main__ import main as items


@pytest.fixture
def server(monkeypatch):
    def answer(body):
        words = text_of(body)
        return "AB"[len(str(body)) % 5 == 0] if "Options:" in words else ["Yes", "No"][len(str(body)) % 2]

    with ChatServer(answer) as server:
        monkeypatch.setenv("TOY_URL", "")
        monkeypatch.setenv("TOY_KEY", "")
        register(server.url, lambda name, api: registry.Spec(name, api=api | {"prices": [1, 10]}), monkeypatch.setitem)
        yield server


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"probes": True}, "states"),
        ({"families": ["scale", *ATTACKS]}, "gradients"),
        ({"inside": ("lens",)}, "layers"),
        ({"families": list(ATTACKS), "probes": True}, "states.*gradients"),
    ],
)
def test_what_it_cannot_give_is_refused_before_the_first_request(server, tmp_path, fields, says):
    config = study(tmp_path, **fields)
    for run in (vfkit.run_study, estimate):
        with pytest.raises(ValueError, match=f"'toy_hosted' is hosted.*{says}"):
            run(config)
    if not fields.get("probes"):
        with pytest.raises(ValueError, match=says):
            run_sweep(["toy_hosted", "mini_qwen3vl"], "mini_seed", n=2, out=str(tmp_path), **fields)
    assert not server.requests and not list(tmp_path.iterdir())


@pytest.mark.parametrize("dataset", ["toy", "mini_pope"])
def test_the_requests_of_a_study_are_counted_before_they_are_made(server, tmp_path, monkeypatch, capsys, dataset):
    config = study(tmp_path, dataset=dataset, n=4, families=["identity", "scale", "scale_pad", "rotation", "blank"])
    monkeypatch.delenv("TOY_KEY")
    said = estimate(config)  # without a key
    assert not server.requests and said.samples == 4 and said.requests == 4 * 7
    assert said.tokens_written == 8 * said.requests and said.tokens_read > 1000 * said.requests
    assert said.dollars == pytest.approx((said.tokens_read + 10 * said.tokens_written) / 1e6)
    with pytest.raises(SystemExit) as end:
        notebook.dry_run(config)
    assert end.value.code == 0 and f"about {said.requests:,} requests" in capsys.readouterr().out
    monkeypatch.setenv("TOY_KEY", "sk-0123456789")
    run = vfkit.run_study(config, progress=False)
    assert f"about {said.requests:,} requests" in capsys.readouterr().out
    asked = len(server.requests)
    assert asked == run.manifest["counters"]["calls"] <= said.requests
    vfkit.run_study(config, progress=False)
    assert len(server.requests) == asked


def test_a_local_model_costs_nothing():
    said = estimate(vfkit.StudyConfig(model="mini_qwen3vl", dataset="mini_seed", n=2))
    assert said.requests == said.dollars == 0 and "nothing is paid for" in str(said)
    assert not answers_only("mini_qwen3vl") and not answers_only("no_such_model") and answers_only("gpt_5_1")


def test_tables_of_answers_need_no_scores(server, tmp_path):
    families = ["identity", "scale", "rotation", "text_overlay", "random_text", "box_overlay", "noise_low", "blank"]
    changes = {"noise_low": {"eps": [0.1], "scaling": "rms", "trials": 1}}
    run = vfkit.run_study(study(tmp_path, dataset="mini_pope", n=12, families=families, family_params=changes), False)
    records, samples = run.records(), run.samples()
    assert not run.scored and run.errors().empty
    flips = run.table("flips").set_index("family")
    read = records[records.prediction.notna()].set_index("sample_id")
    base = read[read.family == "base"].prediction
    scale = read[read.family == "scale"].prediction
    assert flips.IFR["scale"] == pytest.approx((scale != base[scale.index]).mean()) and flips.instances["identity"] == 0
    pope = metrics.pope_table(records, samples).set_index(["category", "family"]).loc["all"]
    right = read[read.family == "base"]
    assert pope.accuracy["base"] == pytest.approx((right.prediction == right.answer).mean())
    assert pope.instances["scale"] == 12 and np.isfinite(pope.FPR["base"])
    for make in (metrics.pope_transition_table, metrics.pope_balance_table):
        assert len(make(records, samples))
    assert "No verdict: it gives answers but no scores" in metrics.verdict(records, "toy", "mini_pope", samples)
    for name in ("transitions", "accuracy", "compliance", "overlay"):
        assert len(run.table(name))


def test_a_sweep_reads_hosted_models_beside_others(server, tmp_path):
    families = ["scale", "rotation"]
    fields = dict(n=6, families=families, out=str(tmp_path), probes=True, controls=2, progress=False)
    sweep = run_sweep(["toy_hosted", "mini_qwen3vl"], "mini_seed", **fields)
    assert {run.config.probes for run in sweep.runs.values()} == {True, False}
    records, _ = metrics.shared_samples(sweep.frame("records"))
    table = metrics.scale_summary(records, sweep.models, sweep.frame("vectors"), sweep.frame("controls"))
    table = table.set_index("model")
    assert np.isnan(table.drift["toy_hosted"]) and table.drift["mini_qwen3vl"] > 0
    assert table.union_IFR.notna().all() and set(sweep.models["mode"]) == {"instruct"}


def test_making_items_is_estimated_without_a_key(monkeypatch, tmp_path, capsys):
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "seeds.jsonl").write_text("")
    command = ["items", "generate", str(tmp_path / "seeds.jsonl"), str(tmp_path / "work"), "--estimate"]
    monkeypatch.setattr("sys.argv", [*command, "--generator", "gpt_5_1", "--critic", "gemini_3_flash"])
    items()
    assert "_API_KEY" not in capsys.readouterr().out and not (tmp_path / "work").exists()
