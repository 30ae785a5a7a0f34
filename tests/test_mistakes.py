"""Mistakes that people make: each is one clear line that says what is wrong and, where there is one, what is right."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from PIL import Image

import vfkit
from vfkit import ask, notebook, parameters
from vfkit.browse import __main__ as browse
from vfkit.models import __main__ as models
from vfkit.study import __main__ as study
from vfkit.workshop.items import __main__ as items

ROOT = Path(__file__).parents[1]


def given(**values):
    """Notebook 01 with these parameters."""
    cells = json.loads((ROOT / "notebooks" / "01_perturbation.ipynb").read_text(encoding="utf-8"))["cells"]
    (own,) = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    return parameters.check([own, "# Parameters\n" + "\n".join(f"{key} = {value!r}" for key, value in values.items())])


def config(**fields):
    return vfkit.StudyConfig(**{"model": "mini_qwen3vl", "dataset": "easy_vqa"} | fields)


def run(**fields):
    return vfkit.run_study(config(**{"n": 1, "families": ["identity"]} | fields), progress=False)


def listed(main, *arguments):
    """A command whose arguments are those of the process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["vfkit", *arguments])
        main()


def command(main):
    return lambda *arguments: main(list(arguments))


# what is tried, its arguments, words of the line
PARAMETERS = [
    (given, dict(modle="mini_qwen3vl"), "unknown parameter 'modle'; the nearest valid name is model"),
    (given, dict(n="ten"), "parameter 'n': 'ten' is not of type None or int or 'all'"),
    (given, dict(n=2.5), "parameter 'n': 2.5"),
    (given, dict(probes="maybe"), "parameter 'probes': 'maybe' is not of type bool"),
    (given, dict(seed=None), "parameter 'seed': None is not of type int"),
    (given, dict(families={"scale": 1}), "parameter 'families'"),
    (given, dict(model=7), "keeps it as text"),
]
CONFIGS = [
    (config, dict(modle="x"), "unknown field of a study: 'modle'; did you mean 'model'?"),
    (config, dict(n=0), "n: input should be greater than 0, not 0"),
    (config, dict(n="ten"), "n: "),
    (config, dict(rule="papr"), "'paper', 'text', 'text_mean' or 'letter', not 'papr'"),
    (config, dict(seed="x"), "seed: input should be a valid integer"),
    (config, dict(subset=-1), "subset: "),
    (config, dict(controls=-1), "controls: "),
    (config, dict(inside_layers=[]), "at least one; None takes all; not []"),
    (config, dict(dtype="float33"), "'float32', 'bfloat16' or 'float16', not 'float33'"),
    (config, dict(engine="rya"), "'local' or 'ray', not 'rya'"),
    (config, dict(engine="ray", workers=0), "workers: "),
    (config, dict(protocol="hii"), "unknown protocol: 'hii'"),
    (config, dict(dataset_options={"n": 3}), "a field of the study itself"),
]
RUNS = [
    (run, dict(model="mini_qwen"), "Did you mean 'mini_qwen3vl'?"),
    (run, dict(model=""), "neither a name in params/models.yaml"),
    (run, dict(model="./checkpoint"), "nor a folder with a checkpoint"),
    (run, dict(model="/etc/empty"), "nor a folder with a checkpoint"),
    (run, dict(model="Nobody/Nothing"), "hf download Nobody/Nothing"),
    (run, dict(model="qwen3vl_4b"), "hf download Qwen/Qwen3-VL-4B-Instruct"),
    (run, dict(device="cuda:9"), "device 'cuda:9' is not available here"),
    (run, dict(device="gpu0"), "unknown device 'gpu0'; devices are cpu, cuda"),
    (run, dict(families=["rotatoin"]), "did you mean 'rotation'?"),
    (run, dict(families=["scale"], family_params={"scale": {"factr": 1}}), "factr"),
    (run, dict(families=["scale"], family_params={"skale": {"factor": 1}}), "skale"),
    (run, dict(dataset="easy_vqq"), "unknown dataset: 'easy_vqq'; did you mean 'easy_vqa'?"),
    (run, dict(dataset="none.csv"), "there is no file or folder none.csv"),
    (run, dict(dataset="columns.csv"), "columns.csv is no table of questions"),
    (run, dict(dataset="empty.csv"), "holds no usable row"),
    (run, dict(dataset="pope", dataset_path="nowhere"), "there is no file or folder nowhere"),
    (run, dict(dataset="pope", dataset_path="empty"), "coco_pope_"),
    (run, dict(dataset_path="here"), "no easy-VQA data in here"),
    (run, dict(dataset_options={"enlarg": 2}), "enlarg"),
    (run, dict(subset=10**6), "there are 9673 samples in all"),
    (run, dict(out="columns.csv"), "give another `out`"),
    (run, dict(model="gpt_5_1"), "put it into the environment variable OPENAI_API_KEY"),
    (run, dict(model="gpt_5_1", probes=True), "it gives answers but no states"),
    (lambda: vfkit.load_model("mini_qwen3vl", dtype="float33"), {}, "unknown dtype 'float33'"),
    (lambda: vfkit.load_image("none.png"), {}, "none.png': no such file"),
    (lambda: vfkit.load_image("text.png"), {}, "it is not an image"),
    (lambda: vfkit.study.open_run("empty"), {}, "there is no run.json in it"),
    (lambda: vfkit.open_runs("none"), {}, "there is no run (no run.json) in none"),
]
COMMANDS = [
    (command(ask.main), ["none.png", "What?"], "no such file"),
    (command(ask.main), ["text.png", "What?"], "it is not an image"),
    (command(ask.main), ["image.png", "What?", "--options", "a"], "two or more options"),
    (command(ask.main), ["image.png", " "], "a question"),
    (command(ask.main), ["image.png", "What?", "--model", "gpt_5_1"], "is hosted"),
    (command(ask.main), ["image.png", "What?", "--model", "mini_qwen"], "Did you mean 'mini_qwen3vl'?"),
    (command(browse.main), ["none", "-o", "page.html"], "there is no folder none"),
    (command(browse.main), ["empty", "-o", "page.html"], "there is no run"),
    (command(browse.main), ["empty", "-o", "page.png"], "the page is an HTML file"),
    (command(browse.main), ["empty", "-o", "page.html", "--megabytes", "lots"], "invalid float value: 'lots'"),
    (command(notebook.main), ["none.ipynb"], "none.ipynb"),
    (command(notebook.main), ["text.png"], "is not a notebook"),
    (command(notebook.main), ["--html", str(ROOT / "notebooks" / "02_scaling.ipynb")], "did not run to its end"),
    (command(notebook.main), ["--run", "01_pertubation"], "did you mean '01_perturbation'?"),
    (command(notebook.main), ["--run", "01_perturbation", "-f", "none.yaml"], "none.yaml"),
    (command(notebook.main), ["--run", "01_perturbation", "-f", "broken.yaml"], "broken.yaml is no YAML"),
    (command(notebook.main), ["--run", "01_perturbation", "-f", "text.png"], "holds no parameters"),
    (command(notebook.main), ["--copy", "columns.csv"], "columns.csv"),
    (command(study.main), ["list", "none"], "there is no run"),
    (lambda *a: listed(models.main, *a), ["--dry-run", "mini_qwen"], "Did you mean 'mini_qwen3vl'?"),
    (lambda *a: listed(models.main, *a), ["--check", "mini_qwen"], "Did you mean 'mini_qwen3vl'?"),
    (lambda *a: listed(models.main, *a), ["--dry-run", "mini_qwen3vl", "--size", "big"], "WIDTHxHEIGHT"),
    (command(items.main), ["vlind", "nowhere", "out.jsonl"], "nowhere"),
]
MISTAKES = [*PARAMETERS, *CONFIGS, *RUNS, *COMMANDS]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with some files that are of no use."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "columns.csv").write_text("frage,bild\nx,y\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.yaml").write_text("n: [1")
    Image.new("RGB", (32, 32)).save(tmp_path / "image.png")


@pytest.mark.parametrize(
    "act, arguments, words", MISTAKES, ids=lambda value: getattr(value, "__name__", str(value)[:60])
)
def test_a_mistake_is_one_clear_line(place, act, arguments, words):
    printed = io.StringIO()
    with pytest.raises((ValueError, OSError, RuntimeError, SystemExit)) as error, contextlib.redirect_stderr(printed):
        act(**arguments) if isinstance(arguments, dict) else act(*arguments)
    usage = isinstance(error.value, SystemExit) and error.value.code == 2  # argparse: usage, then the line
    line = printed.getvalue().strip().splitlines()[-1] if usage else str(error.value)
    assert words in line and "\n" not in line and 10 < len(line) < 600, line


def test_there_are_fifty():
    assert len(MISTAKES) >= 50


@pytest.mark.parametrize(
    "text, words",
    [
        ("mine: {hubb: a/b}", "did you mean 'hub'?"),
        ("mine: a/b", "each entry is a name, a colon and its fields"),
        ("mine: [1", "is no YAML"),
    ],
)
def test_a_wrong_entry_of_an_own_model_is_one_clear_line(place, text, words):
    from vfkit.models import registry

    Path("params").mkdir()
    Path("params", "models.yaml").write_text(text)
    registry.specs.cache_clear()
    try:
        with pytest.raises(ValueError) as error:
            vfkit.load_model("mine")
        assert words in str(error.value) and "models.yaml" in str(error.value) and "\n" not in str(error.value)
        Path("params", "models.yaml").write_text("mine: {path: weights}")
        assert registry.specs()["mine"].path == str(Path("weights").resolve())
        assert registry.specs()["mini_qwen3vl"].path == "mini/checkpoints/mini_qwen3vl"
    finally:
        registry.specs.cache_clear()
