"""The helpers of the notebooks: parameters are refused by name, outputs that are declared exist."""

import json
import tomllib
from pathlib import Path

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
    assert notebook.validate([CELL], nonempty=["model"]) == DEFAULTS
    with pytest.raises(ValueError, match="model has no entry: name at least one"):
        notebook.validate([CELL, injected(model="")], nonempty=["model"])
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
def source(tmp_path, monkeypatch):
    """A notebook of these helpers, and a working directory for it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    say = "import sys; from IPython.display import Markdown, display\nprint('loading', file=sys.stderr)\n"
    body = [
        (CELL, ["parameters"]),
        ("import vfkit\nparams = vfkit.notebook.validate()", []),
        (say + "display(Markdown('- It flips.\\n- Often, <script>alert(1)</script>.'))", []),
        ("path = vfkit.notebook.root() / 'tables' / 'a.csv'\npath.parent.mkdir()\npath.write_text(str(sizes))", []),
        ("assert params['sizes'] is sizes\nvfkit.notebook.finish(['tables/a.csv'])", []),
    ]
    cells = [
        dict(cell_type="code", id=str(i), source=source, metadata={"tags": tags}, outputs=[], execution_count=None)
        for i, (source, tags) in enumerate(body)
    ]
    opening = "# Does it <b>flip</b>?\n\n**Question.** Does it?"
    cells.insert(0, dict(cell_type="markdown", id="o", source=opening, metadata={}))
    kernel = dict(name="python3", language="python", display_name="Python 3")
    file = tmp_path / "in.ipynb"
    file.write_text(json.dumps(dict(cells=cells, metadata={"kernelspec": kernel}, nbformat=4, nbformat_minor=5)))
    return file


def test_a_notebook_is_run_and_published_without_its_code(source, tmp_path, capfd):
    executed = notebook.run(source, tmp_path / "deep" / "out.ipynb", {"sizes": "[16, 32]", "n": "all"})
    assert executed == tmp_path / "deep" / "out.ipynb" and (tmp_path / "tables" / "a.csv").read_text() == "[16, 32]"
    assert not list(tmp_path.rglob("*unfinished*")) and "TCP" not in capfd.readouterr().err
    summary = notebook.summary(executed).splitlines()
    assert summary[0] == "- It flips." and summary[-1].endswith("(executed notebook) and at the files in tables")
    assert "../tables/a.csv" in executed.read_text()  # a link that holds in the notebook's folder
    page = executed.with_suffix(".html").read_text()
    assert 'href="../tables/a.csv"' in page and "validate()" not in page and "loading" not in page
    assert "<h1>Does it &lt;b&gt;flip&lt;/b&gt;?</h1>" in page and "sizes = [16, 32]" in page and "n = None" in page
    assert page.index("It flips") < page.index("Question.") and "default-src 'none'" in page  # so no script runs
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")  # nothing is loaded
    notebook.main(["--html", str(executed)])
    assert executed.with_suffix(".html").read_text() == page


def test_a_refused_parameter_is_one_line(source, tmp_path):
    with pytest.raises(RuntimeError) as error:
        notebook.run(source, tmp_path / "out.ipynb", {"modle": "b"})
    assert str(error.value) == "ValueError: unknown parameter 'modle'; the nearest valid name is model"
    assert not (tmp_path / "tables").exists() and not (tmp_path / "out.ipynb").exists()


def test_what_is_no_executed_notebook_is_refused(source):
    with pytest.raises(ValueError, match="did not run to its end"):
        notebook.summary(source)
    source.write_text('{"a": 1}')
    with pytest.raises(ValueError, match="is not a notebook"):
        notebook.summary(source)


def test_notebooks_are_copied_and_own_files_stay(tmp_path):
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "models.yaml").write_text("mine: {hub: a/b}")
    written = notebook.copy(tmp_path)
    assert {path.name for path in written} >= {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert (tmp_path / "params" / "models.yaml").read_text() == "mine: {hub: a/b}"
    assert (tmp_path / "params" / "mini.yaml").read_bytes() == (ROOT / "params" / "mini.yaml").read_bytes()
    assert notebook.copy(tmp_path) == []


def test_the_package_carries_what_it_copies():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert table["packages"] == ["vfkit"]
    assert table["force-include"] == {"notebooks": "vfkit/notebooks", "params": "vfkit/params"}
