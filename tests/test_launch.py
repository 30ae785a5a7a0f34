"""Study files, plans and the launcher: counts agree with what runs count, scheduling on made-up machines, gaps."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import vfkit
from vfkit.parameters import check
from vfkit.study import recipes
from vfkit.study.count import count
from vfkit.study.launch import Task, do_here, slurm, starts, tasks
from vfkit.study.plan import missing, plan, total
from vfkit.study.status import status
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
    ]:  # fmt: skip
        file.write_text(SMALL.replace(old, new))
        with pytest.raises(ValueError, match=message):
            planned(read_study(file))
    with pytest.raises(ValueError, match="mini_qwen3vl"):
        planned(read_study("smoke"), models=["mini_qwen3v"])
    with pytest.raises(ValueError, match="seedbench"):
        read_study("hi", {"seedbank": "here"})


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
    assert starts([middle, small, small], busy, total_gb) == [(middle, (0,)), (small, (0,)), (small, (1,))]
    huge = Task("huge", (4,), 999)
    assert starts([huge], busy, total_gb) == [] and starts([huge], total_gb, total_gb) == [(huge, (0, 1, 2, 3))]
    assert starts([small], {0: 80.0, 1: 16.0}, {0: 80.0, 1: 24.0}) == [(small, (1,))]  # the one that it fills most
    assert starts([small], {}, {}) == []


def test_tasks_are_a_models_runs_or_single_runs_largest_first():
    runs = planned(read_study("hi"))
    by_model, by_run = tasks(runs, by_run=False), tasks(runs, by_run=True)
    assert by_model[0].name == "qwen3vl_32b" and len(by_model) == 8 and len(by_run) == len(runs)
    assert sorted(number for task in by_model for number in task.numbers) == [run.number for run in runs]


def test_the_slurm_script_is_bash_and_names_every_option():
    study = read_study("hi", engine="ray", workers=4)
    command = ["python", "-m", "vfkit.study", "run", "hi", "--engine", "ray", "--here", "--only"]
    script = slurm(study, planned(study, parts=["main"]), command, "gpu", 12)
    assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True).returncode == 0
    options = "job-name array=1,2,3,4 nodes ntasks cpus-per-task gpus-per-node mem time=12:00:00 output partition=gpu"
    for option in options.split():
        assert f"#SBATCH --{option}" in script, option
    assert '--engine ray --here --only "$SLURM_ARRAY_TASK_ID"' in script


def test_the_command_plans_runs_and_tells_the_state(small, done, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.replace("OUT", small.settings["out"]))
    command = [sys.executable, "-m", "vfkit.study", "run", str(file), "--models", "NOWHERE", "--jobs", "1"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert said.returncode == 0 and "left out: run" in said.stdout and "Traceback" not in said.stdout + said.stderr
    wrong = subprocess.run([*command[:4], "nofile.yaml"], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert wrong.returncode == 1 and wrong.stderr.count("\n") == 1
