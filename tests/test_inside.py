"""A run with probes: what moves inside reaches the records, and nothing larger than a vector is kept."""

import numpy as np
import pytest

import vfkit
from vfkit.measure import dirichlet_energy
from vfkit.readout.readout import PROBES, TAPS
from vfkit.study.schema import DISTANCES, SPECTRUM


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    families = ("identity", "translation", "rotation", "text_overlay")
    options = dict(dataset="mini_seed", n=5, families=families, probes=True, chunk=3, verify=1)
    return vfkit.run_study(vfkit.StudyConfig(model="mini_qwen3vl", out=str(tmp_path_factory.mktemp("out")), **options))


@pytest.fixture(scope="module")
def records(run):
    errors = run.errors()
    assert errors.stage.tolist() == ["control"] * 5 and errors.message.str.startswith("4 of 5 control images").all()
    return run.records()


def test_every_instance_has_every_measure(records):
    assert records[[*DISTANCES, *SPECTRUM, "dirichlet"]].notna().all(axis=None)
    assert (records.grid.str.fullmatch(r"\d+x\d+")).all()
    assert records[["text_open", "text_mcq"]].notna().all(axis=None)


def test_the_base_does_not_move_and_identity_moves_by_rounding_alone(records):
    assert (records.loc[records.family == "base", DISTANCES] == 0).all(axis=None)
    identity = records[records.family == "identity"]
    assert identity[[name for name in DISTANCES if name.startswith("cos")]].max(axis=None) < 1e-9
    moved = records[records.family == "rotation"]
    assert moved[[name for name in DISTANCES if name.startswith("cos_ctx")]].min(axis=None) > 1e-6


def test_distances_are_those_between_the_readouts_themselves(run, records, vlm):
    sample = vfkit.load_dataset("mini_seed", n=5)[0]
    base = vfkit.read(vlm, sample)
    suite = vfkit.natural_suite(families=["rotation"])
    instance = suite.instances(sample, base.prediction())[0]
    moved = vfkit.read(vlm, sample, instance.images)
    row = records[(records.sample_id == sample.id) & (records.instance == instance.name)].iloc[0]
    one, other = base.probes["ctx_open"]["post_norm"], moved.probes["ctx_open"]["post_norm"]
    cosine = 1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert row.cos_ctx_open_post_norm == pytest.approx(cosine, abs=1e-5)
    assert row.l2_ctx_open_post_norm == pytest.approx(np.linalg.norm(one - other), rel=1e-3)
    total, edges = dirichlet_energy(moved.vision[0])
    assert (row.dirichlet_sum, row.dirichlet_edges) == pytest.approx((total, edges), rel=1e-4)


def test_base_vectors_alone_are_kept(run, records):
    vectors = run.vectors()
    assert set(vectors.instance) == {"base"}
    assert len(vectors) == records.sample_id.nunique() * len(PROBES) * len(TAPS)
    assert {vector.dtype for vector in vectors.vector} == {np.dtype("float32")}


def test_all_vectors_are_kept_if_asked(tmp_path):
    config = vfkit.StudyConfig(
        model="mini_qwen3vl", dataset="mini_seed", n=1, families=("identity", "rotation"), probes=True,
        keep_vectors=True,
        out=str(tmp_path), verify=0,
    )  # fmt: skip
    assert set(vfkit.run_study(config).vectors().instance) == {"base", "identity", "rotation_-30", "rotation_+30"}


def test_each_question_is_asked_about_other_images_too(run):
    controls = run.controls()
    assert controls.groupby("sample_id").size().tolist() == [4] * 5  # all there are
    assert (controls.sample_id != controls.partner_id).all()
    assert (controls[DISTANCES] > 0).all(axis=None)


def test_drift_tables_come_from_the_run_alone(run):
    table = run.table("drift")
    assert {"identity", "rotation"} <= set(table.family) and {"all", "kept", "flipped"} <= set(table.answer)


def test_a_run_without_probes_says_that_it_has_none(tmp_path):
    options = dict(dataset="mini_seed", n=1, families=("identity",), out=str(tmp_path), verify=0)
    run = vfkit.run_study(vfkit.StudyConfig(model="mini_qwen3vl", **options))
    with pytest.raises(ValueError, match="without probes"):
        run.table("drift")
