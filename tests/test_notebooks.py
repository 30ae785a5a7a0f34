"""The notebooks, run headlessly as a user runs them, at a smaller scale."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from vfkit import notebook
from vfkit.datasets import load_dataset
from vfkit.models import files, find

ROOT = Path(__file__).parents[1]


def _papermill(notebook: str, tmp_path: Path, python_path: Path | None = None, **parameters):
    """A notebook, executed; `python_path` is searched for packages before all others."""
    arguments = [part for name, value in parameters.items() for part in ("-p", name, str(value))]
    paths = [str(ROOT / "notebooks" / f"{notebook}.ipynb"), str(tmp_path / "executed.ipynb")]
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", *paths, *arguments]
    places = [str(python_path)] * (python_path is not None) + [os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, env=environment)


def _printed(tmp_path: Path) -> str:
    cells = json.loads((tmp_path / "executed.ipynb").read_text())["cells"]
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    texts = [output.get("text", output.get("data", {}).get("text/markdown", [])) for output in outputs]
    return "".join(line for text in texts for line in text)


def test_findings_call_own_data_by_the_runs_name():
    for path in (ROOT / "notebooks").glob("0[1-5]*.ipynb"):
        text = "".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])
        for call in ("metrics.finding(", "metrics.verdict("):
            assert all("run.config.dataset," in part.split(")")[0] for part in text.split(call)[1:]), path.name


def test_01_runs_to_its_end_and_again_from_the_finished_run(tmp_path):
    done = _papermill("01_perturbation", tmp_path, n=6, out=tmp_path / "out")
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (tmp_path / "out" / "perturbation" / "mini_llava_ov" / "mini_seed").iterdir()
    for name in ("flips", "transitions", "margins"):
        assert (run / "tables" / f"{name}.csv").stat().st_size and (run / "tables" / f"{name}.tex").stat().st_size
        assert (run / "figures" / f"{name}.png").stat().st_size and (run / "figures" / f"{name}.pdf").stat().st_size
    assert "6 of 6 samples read, 0 failed" in _printed(tmp_path)
    parts = {path: path.stat().st_mtime_ns for path in run.glob("records/*.parquet")}
    assert _papermill("01_perturbation", tmp_path, n=6, out=tmp_path / "out").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in run.glob("records/*.parquet")} == parts


def test_05_holds_two_models_against_each_other(tmp_path):
    twin = tmp_path / "twin"
    shutil.copytree(ROOT / "vfkit" / "mini" / "checkpoints" / "mini_qwen3vl", twin)
    done = _papermill(
        "05_vfat", tmp_path, n=48, models=f"mini_qwen3vl,{twin}", rules="paper,letter", out=tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (results,) = (tmp_path / "out" / "vfat" / "results").iterdir()
    for name in ("table_1", "table_2", "differences", "pressure", "transitions", "readings", "categories", "drift"):
        saved = results / "tables" / name
        assert saved.with_suffix(".csv").stat().st_size and saved.with_suffix(".tex").stat().st_size
    for name in ("figure_2_radar", "figure_4_vrs", "figure_5_outcomes", "figure_5_pairs", "categories", "inside"):
        saved = results / "figures" / name
        assert saved.with_suffix(".png").stat().st_size and saved.with_suffix(".pdf").stat().st_size
    assert "no level tells the VRS of" in _printed(tmp_path)  # the same model twice


def test_06_shows_where_an_answer_breaks(tmp_path):
    small = dict(n=3, models="mini_qwen3vl", families="text_overlay", layers="0,3", eps="[]", graded=0, controls=1)
    done = _papermill("06_attribution", tmp_path, out=tmp_path / "out", **small)
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (tmp_path / "out" / "attribution" / "mini_qwen3vl" / "easy_vqa").iterdir()
    for name in ("reasons", "layers", "crossover", "patch_contrasts", "knockout_contrasts", "attention_outcomes"):
        assert (run / "tables" / f"{name}.csv").stat().st_size and (run / "tables" / f"{name}.tex").stat().st_size
    for name in ("layers", "lens", "patching", "knockout", "attention"):
        assert (run / "figures" / f"{name}.png").stat().st_size and (run / "figures" / f"{name}.pdf").stat().st_size
    assert "Inside: up to" in _printed(tmp_path)


def test_03_shows_noise_ablation_and_attacks(tmp_path):
    small = dict(n=2, trials=1, steps=2, noise="1,2", loudest=4)
    done = _papermill("03_spectral", tmp_path, out=tmp_path / "out", **small)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = {"spectral": ("noise", "ablation"), "attack": ("attacks", "traces", "drift", "dirichlet", "adversarial")}
    for study, names in shown.items():
        (run,) = (tmp_path / "out" / study / "mini_gemma3" / "mini_seed").iterdir()
        assert all((run / "figures" / f"{name}.png").stat().st_size for name in names)
    assert (run / "tables" / "audit.tex").stat().st_size
    assert (
        _printed(tmp_path).count("2 of 2 samples read, 0 failed") == 3
    )  # the third is of louder noise, as nothing flips
    (spectral,) = (tmp_path / "out" / "spectral" / "mini_gemma3" / "mini_seed").iterdir()
    assert set(pd.read_csv(spectral / "tables" / "noise.csv").eps) == {1, 2, 4}
    assert "up to 4/255 nothing flips" in (tmp_path / "executed.ipynb").read_text()
    assert pd.read_csv(spectral / "tables" / "smoothness.csv").steps.tolist() == [9] * 4


def test_02_compares_models_and_shows_every_figure(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(files(find("mini_qwen3vl")), copy)
    given = dict(models=f"mini_qwen3vl,{copy}", n=4, families="rotation,text_overlay,scale", probes=False)
    done = _papermill("02_scaling", tmp_path, out=tmp_path / "out", **given)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder,) = (tmp_path / "out" / "scaling").iterdir()
    tables = {path.stem for path in (folder / "tables").glob("*.csv")}
    assert tables == {"runs", "shared_samples", "scale", "differences", "transitions", "flips", "ranks"}
    printed = _printed(tmp_path)
    assert "on the 4 samples that all 2 models answered" in printed
    assert "No two models of one series differ in size" in (tmp_path / "executed.ipynb").read_text()
    cells = json.loads((tmp_path / "executed.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    refused = _papermill("02_scaling", tmp_path, models="mini_qwen3vl,qwen3vl_2b", n=6, out=tmp_path / "none")
    assert refused.returncode != 0 and "hf download Qwen/Qwen3-VL-2B-Instruct" in refused.stderr
    assert not (tmp_path / "none").exists()


def test_04_gives_a_verdict(tmp_path):
    done = _papermill(
        "04_pope", tmp_path, n=18, families="rotation", blanks="black", probes=False, out=tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (tmp_path / "out" / "pope" / "mini_llava_ov" / "mini_pope").iterdir()
    for name in ("pope", "balance", "transitions", "margins", "priors", "prior_drift"):
        assert (run / "tables" / f"{name}.csv").stat().st_size and (run / "figures" / f"{name}.png").stat().st_size
    families = set(pd.read_csv(run / "tables" / "balance.csv").family)
    assert families == {"rotation", "noise_low", "noise_high", "noise_all"}
    assert "Verdict: " in _printed(tmp_path) and "are answered Yes on a black image." in _printed(tmp_path)


def test_02_after_01_reads_nothing(tmp_path):
    common = dict(n=5, probes=False, out=tmp_path / "out")
    assert _papermill("01_perturbation", tmp_path, dataset="mini_seed", **common).returncode == 0
    (folder,) = (tmp_path / "out" / "perturbation" / "mini_llava_ov" / "mini_seed").iterdir()
    before = (folder / "run.json").read_bytes()
    done = _papermill("02_scaling", tmp_path, models="mini_llava_ov", datasets="mini_seed", **common)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "loading" not in _printed(tmp_path) and (folder / "run.json").read_bytes() == before
    for path in set((tmp_path / "out").rglob("run.json")) - {folder / "run.json"}:  # 01 reads blanks too
        other = json.loads(path.read_text())
        assert other["reused"] == other["samples"]["done"] == 5 and not any(other["counters"].values())


@pytest.fixture
def far_away(tmp_path):
    """Two models and questions in a folder, and a function that takes them and torch away."""
    place, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for name in ("one", "other"):
        shutil.copytree(files(find("mini_qwen3vl")), place / name)
        config = json.loads((place / name / "config.json").read_text()) | {"made_for": name}  # or they are one model
        (place / name / "config.json").write_text(json.dumps(config))
    questions = load_dataset("mini_pope", n=8, size=8)
    rows = []
    for i, sample in enumerate(questions):
        (place / "data" / "images").mkdir(parents=True, exist_ok=True)
        (place / "data" / "images" / f"{i}.png").write_bytes(sample.images[0])
        rows.append({"question_id": i, "image": f"{i}.png", "text": sample.question, "category": "random"})
        rows[-1]["label"] = sample.options[sample.answer].lower()
    (place / "data" / "coco_pope_random.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "absent" / "torch").mkdir(parents=True)
    (tmp_path / "absent" / "torch" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    return place, lambda: place.rename(elsewhere) and tmp_path / "absent"


def test_finished_runs_are_drawn_without_weights_data_or_torch(tmp_path, far_away):
    place, take_away = far_away
    common = dict(n=8, families="rotation,identity,text_overlay", probes=False, out=tmp_path / "out")
    one, data = place / "one", place / "data"
    notebooks = {
        "02_scaling": dict(models=f"{one},{place / 'other'}", datasets="pope", dataset_paths=data),
        "01_perturbation": dict(model=one, dataset="pope", dataset_path=data),
        "04_pope": dict(model=one, dataset="pope", dataset_path=data, blanks="white"),
    }

    def tables():
        return {path.relative_to(tmp_path): path.read_bytes() for path in (tmp_path / "out").rglob("tables/*.csv")}

    for name, parameters in notebooks.items():
        done = _papermill(name, tmp_path, **common, **parameters)
        assert done.returncode == 0, done.stderr[-3000:]
    before, absent = tables(), take_away()
    for folder in {(tmp_path / path).parent for path in before}:
        shutil.rmtree(folder)
    for name, parameters in notebooks.items():
        done = _papermill(name, tmp_path, absent, **common, **parameters)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "is used as it is" in _printed(tmp_path)
    assert len(before) > 10 and tables() == before


@pytest.mark.parametrize(
    "parameters, says",
    [
        ({"modle": "mini_qwen3vl"}, "unknown parameter 'modle'; the nearest valid name is model"),
        ({"model": "qwen3vl_4b"}, "hf download Qwen/Qwen3-VL-4B-Instruct"),
        ({"dataset": "easy_vqq"}, "did you mean 'easy_vqa'"),
        ({"families": "rotatoin"}, "rotation"),
    ],
)
def test_a_wrong_name_fails_and_names_the_right_one(tmp_path, parameters, says):
    done = _papermill("01_perturbation", tmp_path, n=4, out=tmp_path / "out", **parameters)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(
    "file",
    [
        file
        for file in sorted((ROOT / "params").glob("*.yaml"))
        if file.stem not in ("models", "prompts") and "parts" not in yaml.safe_load(file.read_text())  # a study file
    ],
    ids=lambda file: file.stem,
)
def test_ready_made_parameters_are_parameters(file):
    cells = json.loads((ROOT / "notebooks" / "01_perturbation.ipynb").read_text())["cells"]
    (own,) = ["".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", [])]
    given = "\n".join(f"{name} = {value!r}" for name, value in yaml.safe_load(file.read_text()).items())
    validated = notebook.validate([own, f"# Parameters\n{given}"])
    assert validated | yaml.safe_load(file.read_text()) == validated


def test_07_reports_on_finished_runs_alone(tmp_path):
    shutil.copytree(ROOT / "tests" / "data" / "stored" / "pope", tmp_path / "out" / "pope")
    done = _papermill("07_report", tmp_path, out=tmp_path / "out")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "0 of 925 published numbers can be compared**: the runs are of mini_llava_ov on mini_pope" in _printed(
        tmp_path
    )
    tables = {path.stem for path in (tmp_path / "out" / "report" / "tables").glob("*.tex")}
    assert {"runs", "verdicts", "verdict_counts", "hi_7_and_d", "hi_d", "hi_table_6"} == tables - {"hi_7"}
    assert len(pd.read_csv(tmp_path / "out" / "report" / "tables" / "verdicts.csv")) == 925
