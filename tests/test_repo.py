"""The repository itself: stripped small notebooks, dependency lists in step, commands that exist, light imports."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import vfkit
from vfkit.parameters import PARAMETERS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = sorted((ROOT / "vfkit").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
on_each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells if cell["cell_type"] == "code"]


def tagged(cell: dict, tag: str) -> bool:
    return tag in cell["metadata"].get("tags", [])


def bounds(lines: list[str]) -> dict[str, str]:
    """Package -> its version bounds, of requirement lines."""
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(each.name): str(each.specifier) for each in parsed}


# Notebooks


def test_a_folder_of_the_same_name_does_not_hide_the_package(tmp_path):
    (tmp_path / "vfkit").mkdir()  # as beside a fresh clone
    subprocess.run([sys.executable, "-c", "import vfkit; vfkit.Sample"], cwd=tmp_path, check=True)


def test_there_is_a_notebook():
    assert NOTEBOOKS


@on_each_notebook
def test_notebook_is_stripped(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    metadata = notebook["metadata"]
    assert not {"papermill", "widgets"} & set(metadata)
    assert metadata["kernelspec"]["name"] == "python3" and metadata["kernelspec"]["language"] == "python"
    for cell in notebook["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert "papermill" not in cell["metadata"]
        assert not tagged(cell, "injected-parameters") and not tagged(cell, "papermill-error-cell-tag")


@on_each_notebook
def test_notebook_has_one_parameters_cell_then_validates(path):
    cells = code_cells(path)
    at = [i for i, cell in enumerate(cells) if tagged(cell, "parameters")]
    assert len(at) == 1 and cells[at[0]]["source"].startswith(PARAMETERS)
    assert "notebook.validate(" in cells[at[0] + 1]["source"]
    assert "finish(" in cells[-1]["source"]


@pytest.mark.parametrize("path", NOTEBOOKS[1:], ids=lambda path: path.stem)
def test_notebook_cells_are_short_and_define_nothing(path):  # all but 00, which is the method itself
    cells = [cell["source"] for cell in code_cells(path) if not tagged(cell, "parameters")]
    assert len(cells) <= 16  # the validation cell and fifteen more
    for source in cells:
        assert len(source.splitlines()) <= 15, source
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, definitions)], source


def test_the_strip_command_removes_what_must_go_and_keeps_tags():
    keys = re.search(r"^STRIP := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1]
    output = dict(output_type="stream", name="stdout", text="1")
    cell = dict(
        cell_type="code", id="a", source="n = 1", execution_count=3, outputs=[output],
        metadata={"tags": ["parameters"], "papermill": {"duration": 1}},
    )  # fmt: skip
    language = {"name": "python", "version": "3.11.7"}
    metadata = {"papermill": {"input_path": "secret"}, "widgets": {}, "language_info": language}
    dirty = json.dumps(dict(cells=[cell], metadata=metadata, nbformat=4, nbformat_minor=5))
    command = [sys.executable, "-m", "nbstripout", "--extra-keys", keys]
    stripped = json.loads(subprocess.run(command, input=dirty, capture_output=True, text=True, check=True).stdout)
    assert stripped["metadata"] == {"language_info": {"name": "python"}}
    assert stripped["cells"][0]["outputs"] == [] and stripped["cells"][0]["execution_count"] is None
    assert stripped["cells"][0]["metadata"] == {"tags": ["parameters"]}


# Dependencies


def test_conda_and_pip_lists_are_in_step():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(item["pip"] for item in listed if isinstance(item, dict))
    conda = [item for item in listed if isinstance(item, str) and item != "pip" and not item.startswith("python=")]
    conda = [re.sub("^pytorch(?=[<>=])", "torch", item) for item in conda]
    ours = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    assert "-e ." in pip
    assert bounds(conda + [item for item in pip if item != "-e ."]) == bounds(ours)


def test_every_dependency_is_bounded_on_both_sides():
    for line in sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"]):
        assert {each.operator for each in Requirement(line).specifier} == {">=", "<"}, line
    assert bounds(PROJECT["dependencies"])["transformers"] == "<5.25,>=5.24"


def test_every_import_is_a_declared_dependency():
    imported = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    owners = packages_distributions()
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in ("api", "ray"))]
    declared = set(bounds(sum(lists, [])))
    foreign = imported - sys.stdlib_module_names - {"vfkit"}
    named = {name: canonicalize_name(owners.get(name, [name])[0]) for name in foreign}
    assert not {name: owner for name, owner in named.items() if owner not in declared}


# Commands


def test_the_commands_of_the_readme_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", readme, re.S))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    used = set(re.findall(r"\bmake ([a-z]+)", code))
    assert {"run", "test"} <= used <= targets
    for path in set(re.findall(r"\b(?:notebooks|params)/[\w./]+\.(?:ipynb|yaml)", code)):
        assert (ROOT / path).is_file(), path


def test_the_readme_names_the_files_that_are_the_method_and_how_long_they_are():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(.+?)`\]\((.+?)\) \| (\d+) \|", readme, re.M)
    assert 10 <= len(rows) <= 15
    for name, link, stated in rows:
        lines = len((ROOT / link).read_text(encoding="utf-8").splitlines())
        assert link == f"vfkit/{name}" and abs(lines - int(stated)) <= 0.15 * lines, f"{link} has {lines} lines"
    (total,) = re.findall(r"^\| together \| (\d+) \|", readme, re.M)
    assert int(total) == sum(int(stated) for _, _, stated in rows)


def test_the_tests_named_in_their_readme_exist():
    readme = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\btest_\w+", readme))
    assert named and not [name for name in named if not (ROOT / "tests" / f"{name}.py").is_file()]


def test_links_and_layout_of_the_readme_name_what_is_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.+)$", readme, re.M)
    }
    for target in re.findall(r"\]\(([^)\s]+)\)", readme):
        assert target.removeprefix("#") in headings if target.startswith("#") else (ROOT / target).exists(), target
    layout = set(re.findall(r"\bvfkit/(\w+)/ ", readme))
    rooms = {path.parent.name for path in (ROOT / "vfkit").glob("*/__init__.py")}
    assert layout == rooms, "the README's layout lists every folder of vfkit"


def test_continuous_integration_runs_the_readmes_test_command():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.search(r"^\s*make test$", script.read_text(), re.M)


# Texts and code


def test_no_file_names_a_place_on_some_machine():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    place = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp)/\w|\b[A-Z]:\\Users" + "|" + re.escape(f"{ROOT}{os.sep}"))
    for name in filter(None, listed.split("\0")):
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):  # binary; deleted but not yet committed
            continue
        assert not place.search(text), f"{name}: {place.search(text)[0]}"


def test_citations_of_methods_name_sections_that_exist():
    headings = re.findall(r"^## (\d+)\. ", (ROOT / "vfkit" / "METHODS.md").read_text(encoding="utf-8"), re.M)
    assert headings == [str(n) for n in range(1, len(headings) + 1)]
    cited = 0
    for path in MODULES + NOTEBOOKS + [ROOT / "README.md"]:
        text = path.read_text(encoding="utf-8")
        assert "PROTOCOL" not in text, f"{path.name} cites a page that the repository does not hold"
        for sections in re.findall(r"\bMETHODS (\d+(?:(?:, | and | to )\d+)*)", text):
            cited += 1
            assert set(re.findall(r"\d+", sections)) <= set(headings), f"{path.name}: METHODS {sections}"
    assert cited


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_short_and_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))


def test_editors_see_the_public_names_that_are_there():
    tree = ast.parse((ROOT / "vfkit" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert sorted(seen) == vfkit.__all__
    for name, module in seen.items():
        assert getattr(vfkit, name) is getattr(importlib.import_module(module), name)
    assert (ROOT / "vfkit" / "py.typed").is_file()


@pytest.mark.parametrize(
    "module, heavy",
    [
        ("vfkit", "torch transformers pandas matplotlib"),
        ("vfkit.readout.rules", "torch transformers"),
        ("vfkit.metrics", "torch transformers"),
        ("vfkit.figures", "torch transformers"),
        ("vfkit.paper", "torch transformers"),
    ],
)
def test_import_stays_light(module, heavy):
    code = f"import sys, {module}; print(*sorted(set({heavy.split()!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_threads_wait_without_spinning_unless_told_otherwise(given):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": given} if given else {}
    code = "import sys, os, vfkit; assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (given or "PASSIVE")
