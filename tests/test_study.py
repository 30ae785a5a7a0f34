"""Studies: what is recorded, what fails aloud, and that a stopped run goes on as if it had never stopped.

The model is a stub: scores drawn from the bytes of the images and the text. What real models do with the same code is
the end-to-end test's matter.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import vfkit
import vfkit.readout
from vfkit.datasets import LOADERS, RowError, Rows
from vfkit.perturb import NATURAL_FAMILIES, natural_suite
from vfkit.readout import rules
from vfkit.sample import Sample
from vfkit.study import StudyConfig, job, key, open_run, progress, provenance, run_study, store

CHECKPOINT = Path(__file__).parent / "data" / "stub"  # a config.json that names an architecture, and nothing else
PARTS = ["logp_text", "logp_end", "n_tokens", "logp_letter"]
FAMILIES = ("identity", "pad_crop", "scale", "text_overlay")  # 13 instances of a 4-option sample


# --- the stub ---------------------------------------------------------------------------------------------------------


class VerifyError(Exception):
    pass


class StubReadout:
    scored = True

    def __init__(self, sample, images):
        seed = hashlib.sha256(repr((sample.question, sample.options)).encode())
        for image in images:
            seed.update(image.tobytes())
        draw = np.random.default_rng(list(seed.digest())).normal(size=(3, len(sample.options)))
        letters = draw[2] if sample.prompt == "mcq" else np.full(len(sample.options), np.nan)
        tokens = [len(option.split()) for option in sample.options]
        parts = dict(logp_text=draw[0], logp_end=draw[1] / 10, n_tokens=tokens, logp_letter=letters)
        self.options, self.off_mass = pd.DataFrame(parts), 0.25

    def scores(self, rule):
        return rules.scores(rule, *(self.options[part] for part in PARTS))


class Stub:
    """Stands in for the model, the engine and the oracle; counts what it is asked."""

    def __init__(self):
        self.loads, self.counters, self.verified, self.calls = 0, {}, [], []
        self.fail = lambda sample, images: None  # what read_many returns in place of a readout
        self.before_read = lambda: None
        self.disagree = False

    def load_model(self, name, device=None, dtype=None):
        self.loads += 1
        self.counters = {"encodes": 0}
        return self

    def fingerprint(self, name, dtype=None):
        return f"weights of {name}" + (f" as {dtype}" if dtype else "")

    def is_hosted(self, name):
        return False

    def mode_of(self, name, thinking=False):
        return "instruct"

    def set_thinking(self, on, max_new_tokens):
        pass

    def find(self, name):
        return types.SimpleNamespace(name=name, path=None, hub=name, params=1.0, type="stub", training="stub")

    def files(self, spec):
        return CHECKPOINT

    def check(self, name, device=None, dtype=None):
        pass  # there is room for it

    def describe(self):
        return {"device": "cpu"}

    def read_many(self, requests, probes, batch_tokens):
        assert probes is False and batch_tokens > 0 and requests
        self.before_read()
        self.calls.append(len(requests))
        self.counters["encodes"] += len(requests)
        return [self.fail(*request) or StubReadout(*request) for request in requests]

    def verify(self, vlm, requests, readouts):
        self.verified += [sample.id for sample, _ in requests]
        assert [len(sample.options) for sample, _ in requests] == [len(readout.options) for readout in readouts]
        if self.disagree:
            raise VerifyError("engine and oracle disagree")

    def install(self, setitem):
        """Put the stub where the study looks for models; `setitem` is monkeypatch's, or dict's own in a subprocess."""
        for name in ("models", "models.load", "readout.verify"):
            module = types.ModuleType(f"vfkit.{name}")
            for function in ("load_model", "fingerprint", "is_hosted", "find", "files", "mode_of", "check", "verify"):
                setattr(module, function, getattr(self, function))
            setitem(sys.modules, module.__name__, module)
            if name != "models.load":
                setitem((vfkit.readout if "." in name else vfkit).__dict__, name.split(".")[-1], module)
        setitem(LOADERS, "toy", load_toy)
        return self


def png(seed, side=40):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def load_toy(path=None, size=11):
    """Questions of two kinds; some with two images, one on an image too small for most crops."""
    samples = []
    for i in range(size):
        images = (png(i // 2, 20 if i == 4 else 40), png(i))[: 1 + (i % 5 == 0)]
        options, prompt = (("Yes", "No"), "yes_no") if i % 3 == 0 else (("red", "green", "light blue", "None"), "mcq")
        answer = None if i == 7 else i % len(options)
        samples.append(Sample(f"toy/{i}", images, f"question {i}", options, answer, prompt, prompt=prompt))
    return Rows(samples)


@pytest.fixture
def stub(monkeypatch):
    return Stub().install(monkeypatch.setitem)


@pytest.fixture
def config(tmp_path):
    return settings(tmp_path)


def settings(out, **fields):
    fields = dict(model="stub", dataset="toy", n=None, families=FAMILIES, chunk=4, out=str(out)) | fields
    return StudyConfig(**fields)


def again(config, **fields):
    return StudyConfig(**config.model_dump() | fields)


def run(config):
    return run_study(config, progress=False)


def assert_same_records(first, second):
    """Every column of every row, whatever the order in which the rows were made."""
    first, second = (r.records().sort_values(["sample_id", "instance"], ignore_index=True) for r in (first, second))
    assert not first.duplicated(["sample_id", "instance"]).any()
    pd.testing.assert_frame_equal(first, second, check_exact=True)


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_records_hold_the_base_and_every_instance_of_every_sample(stub, config, capsys):
    done = run(config)
    records = done.records()
    counts = records.groupby("sample_id").size()
    assert {counts[f"toy/{i}"] for i in (0, 3, 6, 9)} == {12} and {counts[f"toy/{i}"] for i in (1, 2, 4)} == {14}
    assert sum(counts) == len(records) == len(records.drop_duplicates(["sample_id", "instance"]))
    assert (records.groupby("sample_id").first()["family"] == "base").all()

    read = records[records["applicable"]]
    scores = [rules.scores("paper", *row) for row in read[PARTS].itertuples(index=False)]
    assert read["prediction"].tolist() == [int(np.argmax(s)) for s in scores]
    assert ((read["base_margin"] < 0) == (read["prediction"] != read["base_prediction"])).all()
    assert (read["margin"] >= 0).all() and (read["off_mass"] == 0.25).all()
    assert read["prediction"].ne(read["base_prediction"]).any()  # or the line above says nothing
    base = read[read["family"] == "base"].set_index("sample_id")
    assert (base["prediction"] == base["base_prediction"]).all() and (base["margin"] == base["base_margin"]).all()
    identity = read[read["family"] == "identity"].set_index("sample_id")
    assert (identity["image_hash"] == base["image_id"]).all()
    assert base["image_hash"]["toy/0"].count("+") == 1  # two images
    assert base["image_id"]["toy/2"] == base["image_id"]["toy/3"] != base["image_id"]["toy/6"]  # two questions on one
    assert pd.isna(base["answer"]["toy/7"]) and base["width"]["toy/4"] == 20
    overlays = read[(read["sample_id"] == "toy/1") & (read["family"] == "text_overlay")]
    own = "ABCD"[base["prediction"]["toy/1"]]
    assert [json.loads(p)["label"] for p in overlays["params"]] == [letter for letter in "ABCD" if letter != own]
    assert "11 of 11 samples read, 0 failed" in capsys.readouterr().out


def test_instances_that_do_not_apply_are_recorded_without_a_readout(stub, config):
    rows = run(config).records().query("not applicable")
    assert set(rows["sample_id"]) == {"toy/4"} and set(rows["family"]) == {"pad_crop"} and (rows["reason"] != "").all()
    readout = ["prediction", "tied", "margin", "base_margin", "off_mass", "image_hash", "width", "height"]
    assert rows[readout + PARTS].isna().all(axis=None)
    assert rows[["category", "n_options", "base_prediction", "image_id", "params"]].notna().all(axis=None)


def test_a_chunk_is_read_in_two_calls_whatever_its_size(stub, config):
    run(again(config, chunk=100))
    assert len(stub.calls) == 2 and stub.calls[0] == 11


def test_run_json_says_what_was_done_and_what_it_cost(stub, config):
    done = run(config)
    manifest = done.manifest
    assert done.config == config and manifest["config"]["families"] == list(FAMILIES)
    assert manifest["counters"] == {"encodes": int(done.records()["applicable"].sum())} == {"encodes": sum(stub.calls)}
    assert manifest["samples"] == {"asked": 11, "done": 11, "failed": 0} and manifest["error_rows"] == 0
    assert manifest["fingerprints"]["model"] == "weights of stub" and "transformers" in manifest["versions"]
    assert manifest["started"] <= manifest["finished"]
    assert open_run(done.folder).config == config


def test_the_commit_is_looked_up_without_a_lock(tmp_path):
    """`git status` writes its index; killed as it does, it would leave the repository locked."""
    for command in (["init", "-q"], ["add", "."]):
        (tmp_path / "file").write_text("x")
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    index = (tmp_path / ".git" / "index").read_bytes()
    os.utime(tmp_path / "file", (1, 1))
    assert provenance._git(tmp_path, "status", "--porcelain") == "A  file"
    assert (tmp_path / ".git" / "index").read_bytes() == index


def test_a_run_says_what_was_asked(stub, config):
    samples = run(config).samples()
    assert len(samples) == 11 and samples.options.map(len).min() >= 2
    assert set(samples.n_images) == {1, 2} and all(meta == {} for meta in samples.meta)


@pytest.mark.parametrize("name", ["n", "path", "subset"])
def test_an_option_of_the_data_set_that_is_a_field_of_the_study_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}: a field of the study itself"):
        vfkit.StudyConfig(model="m", dataset="toy", dataset_options={name: 1})


def test_without_families_the_samples_are_read_as_they_are(stub, config):
    assert set(run(again(config, families=())).records().family) == {"base"}


def test_tables_are_made_of_the_records(stub, config):
    done = run(config)
    pd.testing.assert_frame_equal(done.table("flips"), vfkit.metrics.flip_table(done.records()))
    with pytest.raises(ValueError, match="unknown table: 'flps'; did you mean 'flip'"):
        done.table("flps")


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        open_run(tmp_path)


# --- stopping and going on --------------------------------------------------------------------------------------------


def test_a_finished_run_is_not_read_again(stub, config):
    first = run(config)
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    stub.calls.clear()
    second = run(again(config, chunk=3, batch_tokens=77, verify=0))
    assert second.folder == first.folder and stub.loads == 1 and not stub.calls
    assert {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()} == before


def test_an_interrupted_run_goes_on_in_chunks_of_another_size(stub, config, tmp_path, capsys):
    whole = run(again(config, out=str(tmp_path / "whole")))

    def interrupt():
        if len(stub.calls) == 5:  # the instances of the second chunk
            raise KeyboardInterrupt

    stub.calls.clear()
    stub.before_read = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(again(config, chunk=2))
    done = sum(stub.calls[0:4:2])  # the bases of two chunks: questions on one image stay together
    assert 2 < done <= 4 and f"Stopped after {done} of 11 samples" in capsys.readouterr().out
    stub.before_read = lambda: None
    stub.calls.clear()
    resumed = run(again(config, chunk=5))
    assert 2 < stub.calls[0] <= 5 and sum(stub.calls) < len(whole.records())
    assert_same_records(resumed, whole)
    assert resumed.manifest["counters"]["encodes"] == whole.manifest["counters"]["encodes"]


KILLED_RUN = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import test_study
from vfkit.study import store

left = int(sys.argv[3])
def countdown(*args):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def counted(function):
    def wrapper(*args):
        countdown()
        return function(*args)
    return wrapper

store.os.replace, store.os.fsync = counted(os.replace), counted(os.fsync)
stub = test_study.Stub().install(lambda d, k, v: d.__setitem__(k, v))
stub.before_read, stub.fail = countdown, test_study.some_failures
test_study.run(test_study.settings(sys.argv[2], chunk=2))
"""


def some_failures(sample, images):
    failing = sample.id == "toy/5" or (sample.id == "toy/8" and images[0].width < 40)
    return ValueError("the stub cannot read this") if failing else None


def test_killed_at_any_moment_and_resumed_the_records_are_those_of_an_unbroken_run(stub, tmp_path):
    stub.fail = some_failures
    whole = run(settings(tmp_path / "whole"))
    moments = Random(0)
    statuses = []
    while len(statuses) < 40 and 0 not in statuses:  # each attempt is killed before a read, a flush or a rename
        moment = str(moments.randint(4, 20))
        command = [sys.executable, "-c", KILLED_RUN, str(Path(__file__).parent), str(tmp_path / "killed"), moment]
        statuses.append(subprocess.run(command, stdout=subprocess.DEVNULL).returncode)
    assert statuses[-1] == 0 and len(statuses) > 4 and set(statuses[:-1]) == {-signal.SIGKILL}
    folder = tmp_path / "killed" / whole.folder.relative_to(tmp_path / "whole")
    killed = open_run(folder)
    assert_same_records(killed, whole)
    pd.testing.assert_frame_equal(killed.errors(), whole.errors())
    assert not list(folder.rglob("*.tmp"))


def test_a_damaged_part_is_redone(stub, config):
    first = run(config)
    records = first.records()
    part = sorted((first.folder / "records").iterdir())[1]
    os.truncate(part, part.stat().st_size // 2)
    stub.calls.clear()
    with pytest.warns(UserWarning, match=part.name):
        second = run(config)
    assert len(stub.calls) == 2
    pd.testing.assert_frame_equal(second.records(), records)
    assert second.manifest["finished"] and second.manifest["samples"]["done"] == 11


# --- failing aloud ----------------------------------------------------------------------------------------------------


def test_everything_that_fails_becomes_an_error_row_and_the_rest_is_kept(stub, config, monkeypatch, capsys):
    def load(path=None):
        broken = [
            Sample("no image", (), "?", ("a", "b")),
            Sample("cut", (png(0)[:200],), "?", ("a", "b")),
            Sample("base fails", (png(1),), "?", ("a", "b")),
            Sample("not numbers", (png(2),), "?", ("a", "b")),
            Sample("one instance fails", (png(3),), "?", ("a", "b")),
            Sample("fine", (png(4),), "?", ("a", "b")),
            Sample("fine", (png(5),), "a second row of the same id", ("a", "b")),
            Sample("one option", (png(6),), "?", ("a",)),
        ]
        return Rows(broken, [RowError("row 9", "no question")])

    def fail(sample, images):
        if sample.id == "base fails" or (sample.id == "one instance fails" and images[0].size == (36, 36)):
            return MemoryError("too large")
        if sample.id == "not numbers":
            readout = StubReadout(sample, images)
            readout.options["logp_text"] = np.nan
            return readout

    monkeypatch.setitem(LOADERS, "toy", load)
    stub.fail = fail
    done = run(config)
    errors = done.errors().set_index("sample_id")
    assert {name: (row.stage, row.instance, row.error) for name, row in errors.iterrows()} == {
        "no image": ("image", "base", "ImageError"),
        "cut": ("image", "base", "ImageError"),
        "base fails": ("read", "base", "MemoryError"),
        "not numbers": ("read", "base", "ValueError"),
        "one instance fails": ("read", "scale_0.9", "MemoryError"),
        "fine": ("dataset", "", "RowError"),
        "row 9": ("dataset", "", "RowError"),
    }
    assert "cut" in errors["message"]["cut"] and errors["message"]["base fails"] == "too large"
    counts = done.records().groupby("sample_id").size()
    assert counts.to_dict() == {"one instance fails": 11, "fine": 12, "one option": 11}
    assert done.records().query("sample_id == 'one option'")["margin"].isna().all()
    said = capsys.readouterr().out
    assert "3 of 7 samples read, 4 failed" in said
    assert f"7 error rows: run.errors(), or {done.folder / 'errors'}" in said

    run(config)  # nothing of this is tried or written twice
    assert len(done.errors()) == 7 and stub.loads == 1

    shutil.rmtree(done.folder / "errors")  # until the user asks for it
    stub.fail = lambda sample, images: None
    with pytest.warns(UserWarning, match="set aside"):
        run(config)
    assert set(done.errors()["sample_id"]) == {"no image", "cut", "fine", "row 9"}
    assert len(done.records().query("sample_id == 'base fails'")) == 12


def test_a_family_that_breaks_on_a_sample_costs_its_instances_not_its_base(stub, config, monkeypatch):
    from vfkit.perturb import Suite

    instances = Suite.instances

    def broken(self, sample, *args):
        if sample.id == "toy/2":
            raise OSError("no font")
        return instances(self, sample, *args)

    monkeypatch.setattr(Suite, "instances", broken)
    done = run(config)
    assert done.errors()[["sample_id", "instance", "stage"]].values.tolist() == [["toy/2", "all", "perturb"]]
    assert done.records().query("sample_id == 'toy/2'")["instance"].tolist() == ["base"]


def test_the_letter_rule_where_no_letters_are_asked(stub, config):
    done = run(again(config, rule="letter"))
    assert set(done.errors()["sample_id"]) == {f"toy/{i}" for i in (0, 3, 6, 9)}
    assert done.errors()["message"].str.contains("letter rule needs").all()


@pytest.mark.parametrize("chunk", [1, 4])
def test_the_first_samples_of_a_run_are_checked_against_the_oracle(stub, config, chunk):
    run(again(config, chunk=chunk))
    assert len(stub.verified) == 4 and len(set(stub.verified)) == 2  # two samples, each by its base and an instance


def test_disagreement_with_the_oracle_stops_the_run_and_nothing_is_kept(stub, config, tmp_path):
    stub.disagree = True
    with pytest.raises(VerifyError):
        run(config)
    assert not list(tmp_path.rglob("*.parquet"))
    stub.disagree = False
    assert len(run(config).records())


def test_wrong_configs_are_refused_before_anything_is_done(stub, config, tmp_path):
    with pytest.raises(ValueError, match="familys"):
        settings(tmp_path, familys=["scale"])
    for field, value in dict(n=0, chunk=0, rule="papr", engine="slurm", controls=-1, verify=-1).items():
        with pytest.raises(ValueError, match=field):
            settings(tmp_path, **{field: value})
    for field, value in dict(families=["rotaton"], dataset="toyy", dataset_options={"sise": 3}).items():
        with pytest.raises(ValueError, match="did you mean"):
            run(again(config, **{field: value}))
    assert not stub.loads and not list(tmp_path.iterdir())


def test_two_runs_of_one_study_at_once(stub, config):
    folder = run(config).folder
    with store.lock(folder), pytest.raises(RuntimeError, match="another process"):
        run(config)


# --- the key ----------------------------------------------------------------------------------------------------------


def test_runs_share_a_key_only_if_their_records_must_agree(stub, config, monkeypatch):
    def run_key(data="data", **fields):
        one = again(config, **fields)
        return key.run_key(key.identity(one, one.suite(), data))

    same = dict(
        out="x", dataset_path="x", device="cuda", batch_tokens=1, verify=0, chunk=1, ahead=1, engine="ray", study="x"
    )
    same |= dict(workers=2, gpus_per_worker=0.5, cpus_per_worker=2, retries=0)
    same |= dict(n=5, seed=1, subset=1, dataset_options={"size": 3})  # what they choose is in the data's fingerprint
    same |= dict(controls=3, max_new_tokens=64, keep_vectors=True)  # of probes, which are off
    same |= dict(inside_layers=(0,), inside_window=3)  # of what is measured inside: nothing
    assert {run_key(**{field: value}) for field, value in same.items()} == {run_key()}
    other = dict(model="other", rule="text", dtype="bfloat16", probes=True, families=["scale"])
    other |= dict(family_params={"scale": {"factor": [0.8]}}, inside=("lens",))
    other.pop("probes")  # among the protocols
    keys = [run_key(), run_key("edited data")] + [run_key(**{field: value}) for field, value in other.items()]
    same_protocols = ["vfkit", {"sampling": "random"}, {"bands": "equal"}, {"thinking": True}]  # choice, probes
    assert {run_key(protocol=protocol) for protocol in same_protocols} == {run_key()}
    protocols = ["hi_program", {"prompts": {"mcq": "{question}\n{options}"}}, {"scale": "restored"}, {"union": 8}]
    protocols += [{"attack": "label_only"}, {"tap": {"qwen3_vl": "pre_norm"}}, {"judge": "someone"}]
    keys += [run_key(protocol=protocol, families=["scale", "pgd_low"]) for protocol in ["vfkit", *protocols]]
    keys += [run_key(protocol=protocol, probes=True) for protocol in ["vfkit", {"bands": "equal"}, {"thinking": True}]]
    inside = dict(controls=3, max_new_tokens=64, keep_vectors=True)
    keys += [run_key(probes=True, **{field: value}) for field, value in inside.items()]
    for part in ("code", "surroundings"):
        with monkeypatch.context() as patch:
            patch.setattr(key, part, lambda *args: {"edited": "prompt"})
            keys.append(run_key())
    assert len(set(keys)) == len(keys)
    assert {*same, *other, "probes", "protocol", "dataset"} == set(StudyConfig.model_fields)  # a new field takes a side


def test_families_mean_the_same_however_they_are_written(stub, config):
    def run_key(families, params=None):
        return key.run_key(key.identity(config, natural_suite(families, params), "data"))

    known = run_key(None)
    assert run_key(NATURAL_FAMILIES) == run_key(list(reversed(NATURAL_FAMILIES))) == known
    spelled = {"rotation": {"degrees": [-30, 30], "fill": "white"}, "noise_low": {"trials": 3}}  # the latter not in use
    assert run_key(None, spelled) == known
    assert run_key(None, {"rotation": {"degrees": [-30, 31]}}) != known


def test_two_models_never_share_a_folder(stub, config):
    names = ["org/model", "org_model", "../org/model", "/org/model"]  # alike once made safe for a file system
    folders = [run(again(config, model=name, dataset_options={"size": 1})).folder for name in names]
    assert len(set(folders)) == len(names) and stub.loads == len(names)
    assert all(folder.resolve().is_relative_to(Path(config.out).resolve()) for folder in folders)
    assert {folder.parts[len(Path(config.out).parts)] for folder in folders} == {"perturbation"}


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_plain_lines_where_there_is_no_terminal(stub, config, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    run_study(config)
    assert sum(stub.calls[::2]) == 11  # the bases of every chunk
    loading, checking, *lines = capsys.readouterr().err.splitlines()
    assert loading == "loading stub" and checking.startswith("checked 2 samples against the oracle")
    assert [line.split(",")[0] for line in lines] == [f"{done} of 11 samples" for done in np.cumsum(stub.calls[::2])]
    assert all("sample" in line.split(",")[1] and line.endswith("left") for line in lines)


def test_the_rate_is_that_of_reading(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shown = progress.Progress(20, 10, show=True)
    now += 100.0  # of loading and checking, and 8 seconds for 4 samples
    now += 8.0
    shown.tick(4, overhead=100.0)
    now += 10.0
    shown.tick(2, overhead=40.0)  # another worker, that loaded at the same time
    now += 0.2
    shown.tick(4, overhead=100.0)
    lines = capsys.readouterr().err.splitlines()
    paces = ["14 of 20 samples, 2.0 s/sample", "16 of 20 samples, 3.0 s/sample", "20 of 20 samples, 1.8 s/sample"]
    assert lines == [f"{pace}, {left} left" for pace, left in zip(paces, ("00:12", "00:12", "00:00"), strict=True)]


def test_progress_is_a_bar_on_a_terminal(stub, config, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run_study(config)
    assert "11/11" in capsys.readouterr().err


def test_control_samples_are_others_whatever_their_images_are():
    samples = [Sample(str(i), (np.full((9, 9, 3), i, dtype=np.uint8),), "?", ("a", "b")) for i in range(6)]
    controls = job.control_samples(samples, 1)
    assert all(len(others) >= 4 for others in controls.values())
    assert all(sample.id not in [other.id for other in controls[sample.id]] for sample in samples)
    assert job.control_samples(samples, 1) == controls
