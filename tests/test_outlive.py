"""Runs outlive edits, upgrades and machines: found again, used in place of what is not here, read on from each other.

The model is the stub of `test_study`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import test_study
from test_study import again, assert_same_records, png, run, settings

import vfkit
from vfkit.datasets import LOADERS, DatasetUnavailable, Rows
from vfkit.models import ModelUnavailable
from vfkit.sample import Sample
from vfkit.study import StudyConfig, execute, key, open_run, open_runs, run_sweep
from vfkit.study.__main__ import main


@pytest.fixture
def stub(monkeypatch):
    return test_study.Stub().install(monkeypatch.setitem)


@pytest.fixture
def config(tmp_path):
    return settings(tmp_path / "out")


def nothing_is_read(stub):
    stub.calls.clear()

    def refuse():
        raise AssertionError("this was read before")

    stub.before_read = refuse


# --- one run by many names --------------------------------------------------------------------------------------------


def test_a_run_of_equal_meaning_is_used_whatever_it_is_called(stub, config):
    first = run(again(config, families=None, n=11))
    nothing_is_read(stub)
    for same in (
        dict(families=list(reversed(test_study.NATURAL_FAMILIES)), study="pope", n=None),
        dict(families=None, family_params={"rotation": {"fill": "white"}, "noise_low": {"trials": 7}}, seed=0, n=500),
        dict(families=None, dataset_options={"size": 11}, controls=9, max_new_tokens=3),
    ):
        with pytest.warns() if same.get("n") == 500 else _quietly():
            assert run(again(config, **same)).folder == first.folder


class _quietly:
    def __enter__(self): ...

    def __exit__(self, *error): ...


def test_a_run_with_more_serves_a_study_that_asks_for_less(stub, config, monkeypatch):
    asked = []
    monkeypatch.setattr(stub, "read_many", lambda requests, probes, n: asked.append(probes) or [
        test_study.StubReadout(*request) for request in requests
    ])  # fmt: skip
    monkeypatch.setattr(test_study.StubReadout, "probes", {}, raising=False)
    monkeypatch.setattr(test_study.StubReadout, "vision", [], raising=False)
    monkeypatch.setattr(test_study.StubReadout, "texts", {}, raising=False)
    full = run(again(config, probes=True, keep_vectors=True, controls=1, n=5))
    assert set(asked) == {True}
    asked.clear()
    assert run(again(config, probes=True, controls=1, n=5)).folder == full.folder
    assert run(again(config, controls=1, n=5)).folder == full.folder and not asked
    assert run(again(config, probes=True, keep_vectors=True, controls=2, n=5)).folder != full.folder and asked


# --- why a run starts anew --------------------------------------------------------------------------------------------


def test_what_made_a_run_start_anew_is_said_in_one_line(stub, config, monkeypatch, capsys):
    first = run(config)
    capsys.readouterr()

    def line(**patches):
        with monkeypatch.context() as patch:
            for name, value in patches.items():
                patch.setattr(key, name, value)
                patch.setattr(execute, name, value, raising=False)
            second = run(config)
        assert second.folder != first.folder
        shutil.rmtree(second.folder)
        (said,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("Starting anew")]
        assert f"the finished run of this study in {first.folder} differs in " in said
        assert said.endswith(f"To use it as it is: vfkit.open_run({str(first.folder)!r})")
        return said.split("differs in ")[1].split(". To use")[0]

    code, version = key.code, key._version
    assert line(code=lambda *args: code(*args) | {"translate": "edited"}) == "code (translate)"
    edited = dict.fromkeys("abcde", "new")
    assert line(code=lambda *args: code(*args) | edited) == "code (a, b, c and 2 more)"
    is_old = {"transformers": "5.99.0"}
    theirs = version("transformers")
    new = line(_version=lambda name: is_old.get(name) or version(name))
    assert new == f"transformers {theirs} -> 5.99.0"
    monkeypatch.setattr(stub, "fingerprint", None)
    monkeypatch.setattr(vfkit.models, "fingerprint", lambda name, dtype=None: "other weights")
    assert line() == "the model's files"


def test_edited_data_start_anew_and_say_so(stub, config, monkeypatch, capsys):
    first = run(config)
    load = LOADERS["toy"]

    def edited(path=None, size=11):
        rows = load(path, size)
        return Rows([*rows.samples[:-1], Sample("toy/10", (png(99),), "question 10", ("a", "b"), 0)])

    monkeypatch.setitem(LOADERS, "toy", edited)
    assert run(config).folder != first.folder
    assert "differs in the data. To use it" in capsys.readouterr().out


def test_a_partial_run_is_called_partial(stub, config, monkeypatch, capsys):
    stub.disagree = True
    with pytest.raises(test_study.VerifyError):
        run(config)
    stub.disagree = False
    monkeypatch.setattr(vfkit.models, "fingerprint", lambda name, dtype=None: "other weights")
    run(config)
    assert "the partial run of this study" in capsys.readouterr().out


# --- a finished run in place of what is not here ----------------------------------------------------------------------


@pytest.fixture
def gone(stub, monkeypatch):
    """Take weights or data away."""

    def take(what):
        def missing(*args, **kwargs):
            raise {"model": ModelUnavailable, "data": DatasetUnavailable}[what](f"the {what} lie elsewhere")

        if what == "model":
            for name in ("fingerprint", "find", "files", "load_model"):
                monkeypatch.setattr(vfkit.models, name, missing)
        else:
            monkeypatch.setitem(LOADERS, "toy", missing)

    return take


@pytest.mark.parametrize("what", [["model"], ["data"], ["model", "data"]])
def test_a_finished_run_stands_in_for_what_is_not_here_and_that_is_said(config, gone, what, capsys, stub):
    first = run(config)
    for each in what:
        gone(each)
    capsys.readouterr()
    assert run(again(config, chunk=2, study="other")).folder == first.folder
    said = capsys.readouterr().out
    assert f"Not available here: the {what[0]} lie elsewhere" in said and "is used as it is" in said
    with pytest.raises((ModelUnavailable, DatasetUnavailable), match="lie elsewhere"):
        run(again(config, rule="text"))  # another study has no run


def test_changed_weights_are_not_stood_in_for_where_only_the_data_are_gone(config, gone, stub, monkeypatch):
    run(config)
    gone("data")
    monkeypatch.setattr(vfkit.models, "fingerprint", lambda name, dtype=None: "other weights")
    with pytest.raises(DatasetUnavailable):
        run(config)


def test_changed_data_are_not_stood_in_for_where_only_the_weights_are_gone(config, gone, stub, monkeypatch):
    run(config)
    gone("model")
    monkeypatch.setitem(LOADERS, "toy", lambda path=None: Rows([Sample("new", (png(1),), "?", ("a", "b"), 0)]))
    with pytest.raises(ModelUnavailable):
        run(config)


def test_an_unfinished_run_does_not_stand_in(config, gone, stub):
    stub.disagree = True
    with pytest.raises(test_study.VerifyError):
        run(config)
    gone("model")
    with pytest.raises(ModelUnavailable):
        run(config)


def test_a_sweep_stands_in_too(config, gone, stub, capsys):
    fields = dict(n=3, families=["rotation"], out=config.out, progress=False)
    first = run_sweep(["one", "two"], "toy", **fields)
    gone("model"), gone("data")
    second = run_sweep(["one", "two"], ["toy"], **fields)
    pd.testing.assert_frame_equal(second.table(), first.table())
    assert second.folder == first.folder
    with pytest.raises(ModelUnavailable, match="1 of 3 models"):
        run_sweep(["one", "two", "three"], ["toy"], **fields)


# --- runs found by their run.json -------------------------------------------------------------------------------------


@pytest.fixture
def some_runs(stub, tmp_path):
    """Two models on one data set; of one of them a second study with other n, and one run that is not finished."""
    out = tmp_path / "out"
    runs = [run(settings(out, model=model, n=5)) for model in ("small", "large")]
    runs += [run(settings(out, model="small", n=6, study="other"))]
    stub.disagree = True
    with pytest.raises(test_study.VerifyError):
        run(settings(out, model="third", n=5))
    return out, runs


def test_open_runs_finds_finished_runs_and_tells_them_apart(some_runs):
    out, runs = some_runs
    sweep = open_runs(out)
    assert {name for _, name in sweep.runs} == {"large", "small (other)", "small (perturbation)"}
    table = sweep.table().set_index("model")
    assert table.asked.to_dict() == {"large": 5, "small (other)": 6, "small (perturbation)": 5}
    assert table.finished.all() and (table.when >= "2020").all() and table.vfkit.eq(vfkit.__version__).all()
    assert {Path(folder) for folder in table.folder} == {one.folder for one in runs}
    assert len(sweep.frame("records")) == sum(len(one.records()) for one in runs)
    assert set(vfkit.metrics.by_model(vfkit.metrics.flip_table, sweep.frame("records"), sweep.models).model) == set(
        table.index
    )


def test_open_runs_is_what_the_sweep_was(stub, tmp_path):
    fields = dict(n=4, families=["rotation", "identity"], out=str(tmp_path), progress=False)
    sweep = run_sweep(["one", "two"], ["toy"], **fields)
    found = vfkit.open_runs(tmp_path)
    pd.testing.assert_frame_equal(found.models, sweep.models)
    pd.testing.assert_frame_equal(found.table(), sweep.table())
    pd.testing.assert_frame_equal(found.frame("records"), sweep.frame("records"))
    assert found.folder == sweep.folder


def test_open_runs_filters(some_runs):
    out, _ = some_runs
    assert list(open_runs(out, model="large").runs) == [("toy", "large")]
    assert {name for _, name in open_runs(out, model=["small", "large"], n=5).runs} == {"small", "large"}
    assert list(open_runs(out, finished=False).runs) == [("toy", "third")]
    assert len(open_runs(out, finished=None).runs) == 4
    with pytest.raises(ValueError, match="unknown column of runs: 'modell'; did you mean 'model'"):
        open_runs(out, modell="large")
    with pytest.raises(FileNotFoundError, match="no finished run .*'huge'.*there are: large on toy"):
        open_runs(out, model="huge")
    with pytest.raises(FileNotFoundError, match="there is no run"):
        open_runs(out / "nowhere")


def test_the_list_of_runs_on_a_shell(some_runs, capsys):
    out, runs = some_runs
    main(["list", str(out)])
    said = capsys.readouterr().out
    assert all(one.folder.as_posix() in said for one in runs) and "third" in said and len(said.splitlines()) == 5
    with pytest.raises(SystemExit, match="there is no run"):
        main(["list", str(out / "nowhere")])


def test_runs_are_found_and_drawn_from_without_torch(some_runs, tmp_path):
    out, _ = some_runs
    lines = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {{name!r}}")
sys.meta_path.insert(0, Absent())
import vfkit
sweep = vfkit.open_runs({str(out)!r})
print(len(sweep.table()), len(sweep.frame("records")), len(next(iter(sweep.runs.values())).table("flips")) > 1)
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)
    assert done.stdout.startswith("3 ") and done.stdout.strip().endswith("True"), done.stderr


# --- run.json ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"config": {}}'])
def test_a_damaged_run_json_is_named_and_written_anew(stub, config, damage):
    first = run(config)
    before = first.manifest
    (first.folder / "run.json").write_text(damage)
    with pytest.raises(ValueError, match="run.json is damaged.*running the same study again writes it anew"):
        _ = open_run(first.folder).manifest
    with pytest.warns(UserWarning, match="run.json is damaged"), pytest.raises(FileNotFoundError):
        open_runs(config.out)
    nothing_is_read(stub)
    with pytest.warns(UserWarning, match="run.json is damaged"):
        second = run(config)
    same = ("samples", "config", "identity", "error_rows", "key")
    assert {name: second.manifest[name] for name in same} == {name: before[name] for name in same}
    assert second.finished


# --- rows of other runs -----------------------------------------------------------------------------------------------


def test_more_samples_of_a_study_read_only_the_new_ones(stub, config, tmp_path, capsys):
    few = run(again(config, n=5))
    read = sum(stub.calls)
    more = run(again(config, n=None))
    whole = run(again(config, out=str(tmp_path / "whole")))
    assert_same_records(more, whole)
    pd.testing.assert_frame_equal(more.samples(), whole.samples())
    assert sum(stub.calls) - read < 2 * len(whole.records()) - len(few.records())
    assert more.manifest["reused"] == 5 and "5 of them taken from other runs" in capsys.readouterr().out
    fewer = run(again(config, n=4))
    assert fewer.manifest["reused"] == 4 and fewer.manifest["counters"] == {} and fewer.finished


def test_a_repaired_image_is_the_only_one_read(stub, config, monkeypatch, tmp_path):
    load = LOADERS["toy"]

    def broken(path=None, size=11):
        samples = load(path, size).samples
        fields = {
            name: getattr(samples[3], name) for name in ("id", "question", "options", "answer", "category", "prompt")
        }
        return Rows([*samples[:3], Sample(images=(samples[3].images[0][:100],), **fields), *samples[4:]])

    monkeypatch.setitem(LOADERS, "toy", broken)
    first = run(config)
    assert first.errors().sample_id.to_list() == ["toy/3"]
    monkeypatch.setitem(LOADERS, "toy", load)
    stub.calls.clear()
    second = run(config)
    assert stub.calls == [1, 11] and not len(second.errors()) and second.manifest["reused"] == 10
    assert_same_records(second, run(again(config, out=str(tmp_path / "whole"))))


def test_other_images_words_or_settings_are_read_and_other_answers_are_not(stub, config, monkeypatch):
    def load(path=None, pixels=0, words="?", answer=0):
        samples = [Sample(f"s{i}", (png(i),), "?", ("red", "blue"), 0) for i in range(3)]
        return Rows(
            [*samples, Sample("s3", (png(3 + pixels),), words, ("red", "blue"), answer, "new" if answer else "")]
        )

    monkeypatch.setitem(LOADERS, "toy", load)
    base = again(config, families=["rotation"])
    run(base)
    for options, reused in (({"pixels": 9}, 3), ({"words": "why?"}, 3), ({"answer": 1}, 4)):
        other = run(again(base, dataset_options=options))
        assert other.manifest["reused"] == reused
        if "answer" in options:
            rows = other.records().query("sample_id == 's3'")
            assert (rows.answer == 1).all() and (rows.category == "new").all()
    assert run(again(base, rule="text", dataset_options={"answer": 1})).manifest["reused"] == 0


def test_of_another_run_families_are_not_read_twice(stub, config, tmp_path, capsys):
    """Those that are new, or have other parameters, are, with the base; fewer families need nothing at all."""
    first = run(again(config, families=["scale", "rotation", "blank"]))
    wanted = dict(families=["rotation", "translation", "scale"], family_params={"rotation": {"fill": "black"}})
    stub.calls.clear()
    more = run(again(config, **wanted))
    rows = more.records()
    new = rows[~rows.family.isin(["base", "scale"])]
    assert sum(stub.calls) == 11 + len(new) and more.manifest["reused"] == 11
    assert_same_records(more, run(again(config, out=str(tmp_path / "whole"), **wanted)))
    families = ["base", "translation", "scale", "rotation"]  # the suite's order, whoever read them
    assert all(list(dict.fromkeys(one.family)) == families for _, one in rows.groupby("sample_id"))
    nothing_is_read(stub)
    fewer = run(again(config, families=["scale"]))
    assert set(fewer.records().family) == {"base", "scale"} and fewer.finished
    assert set(first.records().family) == {"base", "scale", "rotation", "blank"}


def test_families_that_depend_on_another_prediction_are_read_again(stub, config, monkeypatch):
    run(again(config, families=["text_overlay"]))
    scores = test_study.StubReadout.scores
    monkeypatch.setattr(test_study.StubReadout, "scores", lambda self, rule: scores(self, rule)[::-1])
    other = run(again(config, families=["text_overlay", "scale"]))
    moved = other.records().query("family == 'base'")
    assert other.manifest["reused"] < 11 and len(moved) == 11
    assert (other.records().groupby("sample_id").base_prediction.nunique() == 1).all()


def test_a_damaged_part_of_another_run_is_read_again(stub, config):
    first = run(config)
    for part in (first.folder / "records").glob("*.parquet"):
        part.write_bytes(part.read_bytes()[:-9])
    more = run(again(config, families=[*test_study.FAMILIES, "rotation"]))
    assert more.finished and more.manifest["reused"] == 0 and not len(more.errors())


class Probed(test_study.StubReadout):
    """A stub that also has states: drawn from its images and words."""

    vision, texts = [], {"open": "red", "mcq": "blue"}

    def __init__(self, sample, images):
        super().__init__(sample, images)
        draw = np.random.default_rng(abs(hash((sample.question, tuple(image.tobytes() for image in images)))) % 2**32)
        self.probes = {"ctx_open": {"post_norm": draw.normal(size=4).astype(np.float32)}}


def test_with_probes_only_control_images_that_were_not_read_are(stub, config, monkeypatch, tmp_path):
    monkeypatch.setattr(stub, "read_many", lambda requests, probes, n: stub.calls.append(len(requests)) or [
        Probed(*request) for request in requests
    ])  # fmt: skip
    probed = again(config, probes=True, controls=2, families=["rotation"], verify=0)
    few = run(again(probed, n=6))
    assert few.controls().groupby("sample_id").size().eq(2).all() and few.controls().partner_image_id.notna().all()
    stub.calls.clear()
    more = run(probed)
    spent = sum(stub.calls)
    whole = run(again(probed, out=str(tmp_path / "whole")))
    for kind in ("records", "vectors", "controls", "samples"):
        by = [name for name in ("sample_id", "instance", "partner_id") if name in getattr(more, kind)()]
        one, other = (getattr(each, kind)().sort_values(by, ignore_index=True) for each in (more, whole))
        pd.testing.assert_frame_equal(one, other)
    new = len(whole.samples()) - 6
    assert more.manifest["reused"] == 6 and new * 5 <= spent < new * 5 + 6 * 3  # base, two turned, two controls each


def test_what_is_to_be_known_of_the_data_stands_in_run_json(stub, config, monkeypatch):
    load = LOADERS["toy"]
    monkeypatch.setitem(LOADERS, "toy", lambda path=None: Rows(load().samples, notes=["these rows have no votes"]))
    with pytest.warns(UserWarning, match="no votes"):
        done = run(again(config, families=[]))
    assert done.manifest["notes"] == ["these rows have no votes"]


def test_too_few_control_images_are_an_error_row(stub, config, monkeypatch):
    monkeypatch.setattr(stub, "read_many", lambda requests, probes, n: [Probed(*request) for request in requests])
    done = run(again(config, probes=True, controls=3, n=3, dataset_options={"size": 3}, families=["rotation"]))
    errors = done.errors()
    assert len(errors) == 3 and set(errors.stage) == {"control"} and len(done.records()) == 9
    assert errors.message.str.match("[0-2] of 3 control images: there are no more samples on other images").all()


# --- columns that users ask for first ---------------------------------------------------------------------------------


def test_records_say_what_flipped_and_what_was_answered(stub, config):
    rows = run(config).records()
    read = rows[rows.applicable]
    assert (read.flip == (read.prediction != read.base_prediction)).all() and read.flip.any()
    assert rows[~rows.applicable][["flip", "prediction_text"]].isna().all(axis=None) and len(rows) > len(read)
    assert str(rows.flip.dtype) == "boolean" and not rows[rows.family == "base"].flip.any()
    options = test_study.load_toy().samples[1].options
    own = read[read.sample_id == "toy/1"]
    assert own.prediction_text.to_list() == [options[index] for index in own.prediction]


# --- what a config takes ----------------------------------------------------------------------------------------------


def test_paths_numbers_and_single_names_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    given = dict(model=Path("~/weights"), dataset="toy", n=np.int64(7), seed=np.uint8(3), families="rotation")
    given |= dict(out=Path("~/out"), dataset_path="~/data", dataset_options={"size": np.int64(3), "file": Path("~/x")})
    config = StudyConfig(**given, family_params={"rotation": {"degrees": np.array([1.0, 2.0])}})
    assert (config.model, config.out, config.dataset_path) == tuple(
        str(tmp_path / x) for x in ("weights", "out", "data")
    )
    assert (config.n, config.seed, config.families) == (7, 3, ("rotation",))
    assert config.dataset_options == {"size": 3, "file": str(tmp_path / "x")}
    assert json.loads(config.model_dump_json()) == config.model_dump(mode="json")
    assert config.family_params == {"rotation": {"degrees": [1.0, 2.0]}}


def test_a_table_of_ones_own_is_called_by_its_file():
    names = [("photos.csv", None), ("table", "photos.csv"), ("photos", "photos.csv")]
    configs = [StudyConfig(model="m", dataset=name, dataset_path=path) for name, path in names]
    assert all((one.dataset, one.dataset_path) == ("photos", "photos.csv") for one in configs)


# --- runs of earlier code ---------------------------------------------------------------------------------------------

STORED = Path(__file__).parent / "data" / "stored"


def test_runs_from_before_open_and_draw():
    """Stored runs, made before records had `flip` and the key was one of meaning; `test_stored` holds their tables."""
    sweep = open_runs(STORED)
    assert len(sweep.runs) >= 7 and sweep.table().finished.all() and (sweep.table().params > 0).all()
    assert sweep.models.series.str.startswith("mini ").all()
    for one in sweep.runs.values():
        rows = one.records()
        assert "identity" not in one.manifest and one.config.model.startswith("mini_")
        assert (rows.flip == (rows.prediction != rows.base_prediction)).all() and rows.prediction_text.notna().all()
        options = one.samples().set_index("sample_id").options
        assert rows.prediction_text[0] == options[rows.sample_id[0]][rows.prediction[0]]
        assert list(one.controls()) and one.errors().empty
        assert len(one.table("accuracy"))
    assert len(vfkit.compare_runs(*list(sweep.runs.values())[:2]).made)


def test_a_run_from_before_says_why_it_is_not_gone_on_with_and_stands_in(tmp_path, capsys, monkeypatch):
    """The stored run's config under today's code: another key, the line that says so, and a stand-in without torch."""
    old = next(one for one in open_runs(STORED, study="perturbation").runs.values() if one.config.families is not None)
    shutil.copytree(STORED / "perturbation", tmp_path / "perturbation")
    config = again(old.config, out=str(tmp_path))
    (same, *_) = execute.same_study(config)
    assert same.folder.name == old.folder.name
    suite = config.suite()
    who = key.identity(config, suite, "data")
    assert "code" in execute.differences(same, who, {})
    monkeypatch.setitem(LOADERS, config.dataset, _gone)
    who_is = vfkit.models.fingerprint
    monkeypatch.setattr(vfkit.models, "fingerprint", _gone)
    assert run(config).folder == same.folder and "is used as it is" in capsys.readouterr().out
    monkeypatch.setattr(vfkit.models, "fingerprint", who_is)


def _gone(*args, **kwargs):
    raise ModelUnavailable("not here")
