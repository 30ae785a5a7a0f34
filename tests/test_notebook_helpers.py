"""The helpers of the notebooks: parameters are refused by name, outputs that are declared exist."""

import json
from pathlib import Path

import papermill
import pytest

from vfkit import notebook

ROOT = Path(__file__).parents[1]
CELL = """# Parameters: change them here, or papermill -p NAME VALUE
model = "mini_qwen3vl"  # a name in params/models.yaml
n = 40
eps: float = 0.5
quick = False
sizes = [4, 8]
span = (1, 2)
models = ["a"]
families: list[str] | None = None
path = None
options = {}
"""
DEFAULTS = dict(
    model="mini_qwen3vl", n=40, eps=0.5, quick=False, sizes=[4, 8], span=(1, 2), models=["a"], families=None, path=None,
    options={},
)  # fmt: skip


def injected(**values) -> str:
    return "# Parameters\n" + "".join(f"{name} = {value!r}\n" for name, value in values.items())


def test_defaults_and_passed_values():
    assert notebook.validate(["", "import vfkit", CELL]) == DEFAULTS
    assert notebook.validate([CELL, injected(n=7, model="b")]) == DEFAULTS | {"n": 7, "model": "b"}


def test_all_samples_are_asked_for_in_the_cell_itself_too():
    every = CELL.replace("n = 40", 'n = "all"')
    assert notebook.validate([every])["n"] is None and notebook.validate([every, injected(n=3)])["n"] == 3


def test_a_rerun_parameters_cell_overrules_what_papermill_passed():
    edited = CELL.replace("n = 40", "n = 9")
    assert notebook.validate([CELL, injected(n=7), "n = 1000", edited])["n"] == 9


@pytest.mark.parametrize(
    "name, passed, expected",
    [
        ("n", "3", 3),  # np.int64(3) arrives so
        ("n", 40.0, 40),
        ("n", "all", None),
        ("n", None, None),
        ("eps", 1, 1.0),
        ("eps", "1e-3", 0.001),
        ("quick", "true", True),
        ("span", "(3, 4)", (3, 4)),  # a tuple arrives so
        ("sizes", "16,32", [16, 32]),
        ("sizes", (16,), [16]),
        ("sizes", 16, [16]),
        ("models", "a, b", ["a", "b"]),
        ("models", "['a', 'b']", ["a", "b"]),
        ("models", "[a, b]", ["a", "b"]),
        ("models", "(a, 'b, c')", ["a", "b, c"]),
        ("models", "[007]", ["007"]),
        ("models", "007", ["007"]),
        ("models", "", []),
        ("families", "identity,scale", ["identity", "scale"]),
        ("families", None, None),
        ("families", "None", None),
        ("families", "[None, data]", [None, "data"]),
        ("families", "None,data", [None, "data"]),
        ("families", "[1, 2]", [1, 2]),
        ("path", "data/a,b.csv", "data/a,b.csv"),
        ("options", "{'scale': 4}", {"scale": 4}),
    ],
)
def test_conversion(name, passed, expected):
    value = notebook.validate([CELL, injected(**{name: passed})])[name]
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize(
    "name, passed",
    [
        ("n", True),
        ("n", 2.5),
        ("n", "many"),
        ("eps", None),
        ("eps", "wide"),
        ("quick", 1),
        ("model", 7),
        ("sizes", "4,wide"),
        ("sizes", "[4, None]"),
        ("models", "[a, None]"),
        ("n", "every"),
        ("sizes", {"a": 1}),
        ("options", "scale=4"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(name, passed):
    with pytest.raises(ValueError, match=rf"parameter '{name}': .* is not of type"):
        notebook.validate([CELL, injected(**{name: passed})])


def test_unknown_parameters_are_all_named_with_the_nearest():
    with pytest.raises(ValueError, match="'modle'.* is model\n.*'zzz'") as error:
        notebook.validate([CELL, injected(modle="b", zzz=1, n=3)])
    assert "'n'" not in str(error.value)


@pytest.mark.parametrize(
    "cells, error, words",
    [
        (["n = 3"], RuntimeError, "run the parameters cell first"),
        ([injected(n=3), CELL], RuntimeError, "tag 'parameters'"),  # an untagged notebook
        ([CELL + "import os"], ValueError, "not: import os"),
        ([CELL + "k = len('a')"], ValueError, "'k': len"),
        ([CELL, "# Parameters\neps = float('nan')"], ValueError, "'eps': float"),
    ],
)
def test_cells_that_cannot_be_parameters(cells, error, words):
    with pytest.raises(error, match=words):
        notebook.validate(cells)


def test_root_is_the_same_from_every_folder_of_the_repository(monkeypatch, tmp_path):
    for folder in (ROOT, ROOT / "notebooks"):
        monkeypatch.chdir(folder)
        assert notebook.root() == ROOT
    monkeypatch.chdir(tmp_path)
    assert notebook.root() == tmp_path


def test_finish_names_each_missing_or_empty_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text("a\n")
    Path("empty.csv").touch()
    with pytest.raises(FileNotFoundError) as error:
        notebook.finish(["good.csv", "empty.csv", "never.png"])
    assert "empty.csv" in str(error.value) and "never.png" in str(error.value) and "good.csv" not in str(error.value)
    with pytest.raises(ValueError, match="no output"):
        notebook.finish([])


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Run a notebook of these helpers by papermill, in a kernel whose working directory is tmp_path."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    body = [
        (CELL, ["parameters"]),
        ("import vfkit\nparams = vfkit.notebook.validate()", []),
        ("path = vfkit.notebook.root() / 'tables' / 'a.csv'\npath.parent.mkdir()\npath.write_text(str(sizes))", []),
        ("assert params['sizes'] is sizes\nvfkit.notebook.finish(['tables/a.csv'])", []),
    ]
    cells = [
        dict(cell_type="code", id=str(i), source=source, metadata={"tags": tags}, outputs=[], execution_count=None)
        for i, (source, tags) in enumerate(body)
    ]
    kernel = dict(name="python3", language="python", display_name="Python 3")
    source = tmp_path / "in.ipynb"
    source.write_text(json.dumps(dict(cells=cells, metadata={"kernelspec": kernel}, nbformat=4, nbformat_minor=5)))

    def run(**parameters) -> Path:
        out = tmp_path / "out.ipynb"
        papermill.execute_notebook(source, out, parameters, cwd=tmp_path, progress_bar=False)
        return out

    return run


def test_papermill_passes_values_and_the_executed_notebook_says_where_to_look(execute, tmp_path):
    executed = execute(sizes="16,32", n=3)
    assert (tmp_path / "tables" / "a.csv").read_text() == "[16, 32]"
    assert notebook.summary(executed) == f"Look at {executed} (executed notebook) and at the files in tables"
    content = json.loads(executed.read_text())
    shown = {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": ["- It flips.\n", "- Often."]}}
    content["cells"][0]["outputs"] = [shown]
    executed.write_text(json.dumps(content))
    assert notebook.summary(executed).splitlines()[:2] == ["- It flips.", "- Often."]
    with pytest.raises(ValueError, match="did not run to its end"):
        notebook.summary(tmp_path / "in.ipynb")
    (tmp_path / "in.ipynb").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="is not a notebook"):
        notebook.summary(tmp_path / "in.ipynb")


def test_papermill_with_an_unknown_parameter_fails_by_name(execute, tmp_path):
    with pytest.raises(papermill.PapermillExecutionError, match="'modle'.* is model"):
        execute(modle="b")
    assert not (tmp_path / "tables").exists()
