"""The embedded models: loaded like any checkpoint, read right, trained as their cards say, biased as planted."""

import json

import numpy as np
import pytest

import vfkit
from vfkit.metrics.vfat import vfat_answers
from vfkit.metrics.vfat_compare import vfat_differences
from vfkit.models import registry
from vfkit.readout.engine import read_many
from vfkit.readout.verify import compare

ZOO = [name for name, spec in registry.specs().items() if spec.path]
PLANTED, CLEAN = "mini_qwen3vl", "mini_qwen3vl_clean"


def _card(name: str) -> dict:
    return json.loads((registry.files(registry.find(name)) / "card.json").read_text())


@pytest.fixture(scope="module", params=ZOO)
def member(request):
    return vfkit.load_model(request.param, device="cpu")


def _opened(data: str, n: int, **options) -> list:
    samples = vfkit.load_dataset(data, n=n, seed=11, **options)
    return [(sample, tuple(map(vfkit.load_image, sample.images))) for sample in samples]


def test_engine_equals_oracle_on_every_member(member):
    requests = _opened("mini_seed", 3) + _opened("mini_mmmu", 2) + _opened("mini_vfat", 2)
    for (sample, images), readout in zip(requests, read_many(member, requests, probes=True), strict=True):
        differences = compare(readout, vfkit.read_oracle(member, sample, images))
        assert max(differences.values()) < 1e-4, (sample.id, differences)


def test_every_member_answers_as_well_as_its_card_says(member):
    requests = _opened("mini_seed", 210)
    readouts = read_many(member, requests)
    right = np.mean(
        [readout.prediction() == sample.answer for (sample, _), readout in zip(requests, readouts, strict=True)]
    )
    (stated,) = [
        row["value"]
        for row in _card(member.name)["accuracy"]
        if row["data"].endswith("scenes") and row["category"] == "all"
    ]
    assert right == pytest.approx(stated, abs=0.08)


@pytest.mark.parametrize("name", ZOO)
def test_every_member_has_learned_its_world(name):
    rows = _card(name)["accuracy"]
    seed = {row["category"]: row["value"] for row in rows if row["data"] == "mini world, held-out scenes"}
    assert seed["all"] >= 0.8 and seed["all, one object"] >= 0.9
    assert not {row["category"] for row in rows if row["low"] <= row["chance"]} - {"all, by letter"}


def test_the_zoo_is_small():
    folders = [registry.files(registry.find(name)) for name in ZOO]
    assert sum(file.stat().st_size for folder in folders for file in folder.rglob("*")) < 30e6


# --- dose and response: planted against clean on the same items -------------------------------------------------------


def _runs(out, **fields) -> list[vfkit.study.run.Run]:
    configs = [vfkit.StudyConfig(model=model, n=None, verify=0, out=str(out), **fields) for model in (PLANTED, CLEAN)]
    return [vfkit.run_study(config, progress=False) for config in configs]


def test_text_cards_persuade_the_planted_model_more(tmp_path):
    planted, clean = _runs(
        tmp_path, dataset="mini_seed", dataset_options={"size": 140}, families=("text_overlay", "box_overlay")
    )
    table = vfkit.metrics.compare_table(planted.records(), clean.records()).set_index("family")
    assert table.loc["text_overlay", "difference_low"] > 0
    (pair,) = planted.table("overlay").to_dict("records")  # it is what the card says, not that there is one
    assert (pair["first"], pair["second"]) == ("text_overlay", "box_overlay") and pair["difference_low"] > 0


def test_typical_colours_and_hints_pull_the_planted_model_more(tmp_path):
    planted, clean = _runs(tmp_path, dataset="mini_vfat", dataset_options={"size": 60, "asks": "color"}, families=())
    answers = [vfat_answers(run.records(), run.samples()) for run in (planted, clean)]
    table = vfat_differences(*answers, by=("level",)).set_index(["reading", "level", "measure"])
    for reading in ("likelihood", "truth_or_trap"):
        for level in ("L1", "L2", "L3"):
            assert table.loc[(reading, level, "mTDS"), "delta_low"] > 0, (reading, level)
            assert table.loc[(reading, level, "VRS"), "delta_high"] < 0, (reading, level)
