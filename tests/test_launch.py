"""Study files, plans and the launcher: counts agree with what runs count, scheduling on made-up machines, gaps."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import made_up
import nbformat
import pytest

import vfkit
from vfkit.parameters import check
from vfkit.study import recipes
from vfkit.study.__main__ import main
from vfkit.study.count import count
from vfkit.study.launch import SLICE, Task, do_here, gap_file, launch, read_gap, slurm, starts, tasks, usable
from vfkit.study.plan import missing, plan, total
from vfkit.study.status import status
from vfkit.study.store import Locked, write_json
from vfkit.study.studyfile import parameters, planned, read_study

ROOT = Path(__file__).parents[1]
SMALL = """
name: small
settings: {device: cpu, out: OUT}
parts:
  natural: {kind: perturbation, models: [mini_qwen3vl, NOWHERE], datasets: mini_seed, n: 2, settings: {probes: false}}
  twice: {kind: perturbation, models: mini_qwen3vl, datasets: mini_seed, n: 2, subsets: 2, settings: {probes: false}}
  noise: {kind: spectral, models: mini_qwen3vl, datasets: mini_seed, n: 2, settings: {trials: 1, noise: [8]}}
  misled: {kind: vfat, models: mini_qwen3vl, datasets: mini_vfat, n: 6, settings: {probes: false}}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.yaml").write_text(SMALL.replace("OUT", str(folder / "out")))
    return read_study(folder / "small.yaml")


@pytest.fixture(scope="module")
def done(small):
    """The small study, done; one of its models does not exist."""
    return do_here(small, planned(small))


def test_files_of_both_papers_name_every_model_and_kind():
    hi, vf = planned(read_study("hi")), planned(read_study("vf"))
    assert {run.config.study for run in hi} == {"perturbation", "spectral", "attack", "pope"}
    assert {run.config.subset for run in hi if run.part == "main"} == {0, 1, 2, 3}
    assert len({run.config.model for run in hi}) == 8 and len({run.config.model for run in vf}) == 12
    assert {run.config.study for run in planned(read_study("smoke"))} == {run.config.study for run in hi + vf}
    assert all(run.config.protocol.preset == "vf" and run.config.probes != (run.part == "hosted") for run in vf)
    both = next(run for run in vf if run.config.model == "qwen3vl_8b")
    assert {"VF Table 1", "VF Table 2"} <= set(both.items)  # a run of two parts is done once
    assert both in planned(read_study("vf"), parts=["ablation"])


def test_unknown_names_are_refused_with_the_nearest(tmp_path):
    file = tmp_path / "wrong.yaml"
    for old, new, message in [
        ("trials", "trails", "trails"), ("kind: spectral", "kind: spectrum", "spectral"), ("n: 6", "m: 6", "m"),
        ("n: 6", "n: 0", "parts.misled.n: .* greater than 0, not 0"), ("subsets: 2", "subsets: 0", "greater than 0"),
        ("noise: [8]", "noise: [loud]", "part 'noise' has a value of a wrong type"),
        ("twice:", "noise:", "is there twice"),
        ("probes: false}}\n  twice", "families: [blur]}}\n  twice", "part 'natural': unknown family 'blur'"),
        ("name: small", "name: ../small", "name: .* pattern"),
    ]:  # fmt: skip
        file.write_text(SMALL.replace(old, new))
        with pytest.raises(ValueError, match=message):
            planned(read_study(file))
    with pytest.raises(ValueError, match="mini_qwen3vl"):
        planned(read_study("smoke"), models=["mini_qwen3v"])
    with pytest.raises(ValueError, match="seedbench"):
        read_study("hi", {"seedbank": "here"})
    with pytest.raises(ValueError, match="none of number 99"):
        planned(read_study("smoke"), numbers=[1, 99])
    for words in (
        ["plan", "smoke", "--csv", str(tmp_path / "no" / "plan.csv")],
        ["plan", "hi", "--data", "seedbench="],
    ):
        with pytest.raises(SystemExit, match="non-existent|NAME=PLACE"):
            main(words)


def test_notebooks_declare_what_their_kind_of_run_takes():
    kinds = {"01_perturbation": ["perturbation"], "03_spectral": ["spectral", "attack"], "04_pope": ["pope"]}
    for name, own in (kinds | {"05_vfat": ["vfat"]}).items():
        cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4).cells
        declared = check([cell.source for cell in cells if cell.cell_type == "code"][:1])
        assert {"engine", "workers", "gpus_per_worker", "batch_tokens", "protocol"} <= declared.keys()
        left = {each for kind in own for each in recipes.own_parameters(kind)} - declared.keys()
        assert left <= {"family_params"}, name
        assert any(f'recipes.config("{kind}", params' in cell.source for cell in cells for kind in own)


def test_a_notebook_and_the_launcher_name_one_run(small, done):
    run = planned(small, models=["mini_qwen3vl"], parts=["natural"])[0]
    given = parameters(small, "natural", "mini_qwen3vl", "mini_seed")
    extra = {"beside": None, "bound": 0.25}  # a notebook has more parameters than its run
    config = recipes.config("perturbation", given | extra)
    assert config == run.config
    again = vfkit.run_study(config, progress=False)
    assert again.manifest["seconds"] == manifest_of(small, run)["seconds"]


def manifest_of(study, run):
    row = status(study, [run]).iloc[0]
    return json.loads((Path(row.folder) / "run.json").read_text())


def test_encodes_of_a_plan_are_those_that_runs_count(small, done):
    for run in planned(small, models=["mini_qwen3vl"]):
        counted, predicted = manifest_of(small, run)["counters"]["encodes"], count(run.config, small.of("mini_seed"))
        if run.part == "noise":
            assert predicted.encodes == predicted.least == counted
        elif run.part != "misled":  # which overlays are drawn depends on answers
            assert predicted.least <= counted <= predicted.encodes
            assert predicted.encodes - predicted.least <= 6


def test_what_is_not_available_becomes_a_gap_and_the_rest_is_done(small, done):
    assert done == 1
    table = status(small, planned(small)).set_index("run")
    assert table.state.value_counts().to_dict() == {"done": 4, "left out": 1}
    assert "NOWHERE" in table.reason[table.state == "left out"].item()
    plans = plan(small, planned(small)).set_index("run")
    assert plans.state.value_counts().to_dict() == {"done": 4, "to do": 1}
    assert (
        "NOWHERE" in plans.missing[plans.state != "done"].item() and (plans[plans.state == "done"].missing == "").all()
    )


def test_plans_of_both_papers_name_what_is_missing_here(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("OPENAI_API_KEY", "ARK_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for file, words in {
        "hi": ["data seedbench: --data seedbench=PLACE", "weights of qwen3vl_32b", "licence", "not pinned: llava_ov"],
        "vf": ["$OPENAI_API_KEY", "data vfat", "weights of internvl3_78b"],
    }.items():
        study = read_study(file, out=str(tmp_path / "none"))
        table = plan(study, planned(study))
        assert all(word in total(table) for word in words), total(table)
        local = table[table.weights_gb.notna()]
        columns = "encodes forwards disk_gb weights_gb activations_gb masks_gb hours".split()
        assert (local[columns] > 0).to_numpy().all()
    run = planned(read_study("vf", {"vfat": str(tmp_path)}, engine="ray"))[0]
    assert not any(each.startswith("data") for each in missing(run.config, read_study("vf").of("vfat")))


def test_small_models_share_a_gpu_and_large_ones_are_spread():
    total_gb = dict.fromkeys(range(4), 80.0)
    small, middle, large = Task("small", (1,), 12), Task("middle", (2,), 60), Task("large", (3,), 200)
    assert starts([small, middle, large], total_gb, total_gb) == [(large, (0, 1, 2)), (middle, (3,)), (small, (3,))]
    busy = {0: 80.0, 1: 20.0, 2: 0.0, 3: 80.0}
    assert starts([large], busy, total_gb) == []  # waits for whole devices
    assert starts([middle, small, small], busy, total_gb) == [(middle, (0,)), (small, (3,)), (small, (3,))]
    assert starts([large, small, small], busy, total_gb) == [(small, (1,)), (small, (0,))]  # keep devices idle for it
    huge = Task("huge", (4,), 999)
    assert starts([huge], busy, total_gb) == [] and starts([huge], total_gb, total_gb) == [(huge, (0, 1, 2, 3))]
    assert starts([small] * 4, total_gb, total_gb) == [(small, (device,)) for device in range(4)]  # all are used
    assert starts([small], {}, {}) == []


def test_foreign_and_damaged_runs_are_named_and_left_out(tmp_path, capsys):
    frames = made_up.natural("qwen3vl_2b", "seedbench", 3, 1, probes=False)
    whole = made_up.write_run(tmp_path, {"model": "qwen3vl_2b", "dataset": "seedbench"}, **frames)
    manifest = json.loads((whole / "run.json").read_text())
    bare = {name: value for name, value in manifest.items() if name not in ("versions", "seconds", "started")}
    wrong = [[], 3, None, {"id": 1}, bare | {"samples": {}}, bare | {"finished": True}, bare | {"config": {}}]
    wrong += [bare | {"config": bare["config"] | {"field_of_another_version": 1}}]
    for i, content in enumerate([*wrong, bare]):
        (folder := tmp_path / "foreign" / "model" / str(i)).mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning) as told:
        assert len(vfkit.open_runs(tmp_path).runs) == 2
    assert len(told) == len(wrong)
    with pytest.warns(UserWarning, match="damaged"):
        for command in (["status", "hi", "--out", str(tmp_path)], ["list", str(tmp_path)]):
            main(command)
    assert "29 runs: " in capsys.readouterr().out


def test_gpus_are_those_that_are_visible_and_free():
    told = "0, GPU-aa11, 81000\n1, GPU-bb22, 500\n2, GPU-cc33, [N/A]\nNo devices were found\n"
    assert list(usable(told, None)) == [0, 1, 2] and usable(told, None)[0] == pytest.approx(84.9, abs=0.1)
    assert usable(told, None)[2] == SLICE  # of unknown size
    assert list(usable(told, "1,0")) == [1, 0] == list(usable(told, "GPU-bb22, GPU-aa"))
    assert usable(told, "MIG-ab12") == {"MIG-ab12": SLICE} and usable(told, "") == usable(told, "-1") == {}
    large, unknown = Task("large", (1,), 12), usable(told, "MIG-ab12")
    assert starts([large, large], unknown, unknown) == [(large, ("MIG-ab12",))]  # one at a time


def test_a_launch_notes_what_failed_as_a_whole_and_divides_the_cores(small, tmp_path, monkeypatch):
    study = small.model_copy(update={"settings": {**small.settings, "out": str(tmp_path)}})
    runs = planned(study)
    monkeypatch.setattr("vfkit.study.launch.cores", lambda: dict.fromkeys(range(4), 8.0))
    program = "import os, sys; print('threads', os.environ['OMP_NUM_THREADS'], sys.argv[1:]); sys.exit('no luck')"
    write_json(gap_file(study, runs[0]), {"reason": "of an earlier attempt"})
    assert launch(study, runs, [sys.executable, "-c", program], {0: 1.0, 1: 2.0}) == len(runs)
    reasons = [read_gap(study, run) for run in runs]
    assert all("status 1" in reason and reason.endswith("no luck") for reason in reasons)
    said = sorted(path.read_text()[:9] for path in (tmp_path / "studies" / "small").glob("*.log"))
    assert said == ["threads 1"] * 4 + ["threads 2"]  # four at once, as there are cores, and the last
    assert launch(study, runs[:1], [sys.executable, "-c", program], {0: 0.001, 1: 0.001}, jobs=9) == 1
    last = (tmp_path / "studies" / "small" / f"001_{runs[0].name.replace(' ', '_')}.log").read_text()
    assert last.splitlines()[-2] == "threads 4 ['1', '--device', 'auto']"  # larger than a device


def test_a_run_that_another_process_is_at_is_no_gap(small, done, monkeypatch):
    run = planned(small)[0]
    monkeypatch.setattr("vfkit.study.launch.run_study", lambda config: (_ for _ in ()).throw(Locked("another")))
    assert do_here(small, [run]) == 0 and read_gap(small, run) == ""


def test_tasks_are_a_models_runs_or_single_runs_largest_first():
    runs = planned(read_study("hi"))
    by_model, by_run = tasks(runs, by_run=False), tasks(runs, by_run=True)
    assert by_model[0].name == "qwen3vl_32b" and len(by_model) == 8 and len(by_run) == len(runs)
    assert sorted(number for task in by_model for number in task.numbers) == [run.number for run in runs]


def test_the_slurm_script_is_bash_and_names_every_option(tmp_path):
    odd = tmp_path / "it's 50% #1"
    study = read_study("hi", engine="ray", workers=4, out=str(odd))
    command = ["python", "-m", "vfkit.study", "run", "hi", "--engine", "ray", "--here", "--only"]
    script = slurm(study, planned(study, parts=["main"]), command, "gpu", 12)
    assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True).returncode == 0
    options = "job-name array=1,2,3,4 nodes ntasks cpus-per-task gpus-per-node mem time=12:00:00 output partition=gpu"
    for option in options.split():
        assert f"#SBATCH --{option}" in script, option
    assert '--engine ray --here --only "$SLURM_ARRAY_TASK_ID"' in script
    logs = next(line for line in script.splitlines() if line.startswith("#SBATCH --output="))
    folder = odd / "studies" / "hi"
    assert folder.is_dir()  # SLURM makes none
    assert shlex.split(logs[8:]) == [f"--output={folder}/slurm-%A_%a.log".replace("50%", "50%%")]
    smoke = slurm(study, planned(read_study("smoke"))[:1], command, "a b")
    assert "\n#SBATCH --gpus" not in smoke and "--partition='a b'" in smoke


def test_the_command_plans_runs_and_tells_the_state(small, done, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.replace("OUT", small.settings["out"]))
    command = [sys.executable, "-m", "vfkit.study", "run", str(file), "--models", "NOWHERE", "--jobs", "1"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert said.returncode == 0 and "left out: run" in said.stdout and "Traceback" not in said.stdout + said.stderr
    wrong = subprocess.run([*command[:4], "nofile.yaml"], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert wrong.returncode == 1 and wrong.stderr.count("\n") == 1
