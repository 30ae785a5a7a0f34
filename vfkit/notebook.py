"""What every notebook does first and last: check its parameters, find the repository, show what it wrote.

`python -m vfkit.notebook EXECUTED.ipynb` prints the finding of an executed notebook and where its results are.
"""

import argparse
import ast
import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.display import display

warnings.filterwarnings("ignore", message="IProgress not found")  # plain progress lines are what we want here

PARAMETERS = "# Parameters:"  # first words of a notebook's own parameters cell
INJECTED = "# Parameters"  # the whole first line of the cell that papermill adds after it
SAVED = "application/vnd.vfkit.saved+json"  # the notebook output that lists the files written


def validate(cells: Sequence[str] | None = None) -> dict:
    """The notebook's parameters, checked; also written back to its variables, so that conversions reach them.

    The cell that begins with `# Parameters:` declares them: plain literals, whose types are the types allowed
    (`n = 40`, `sizes = [4, 8]`; an annotation widens: `families: list | None = None`). Values come from there and from
    the cell papermill adds after it. What a command line can say is converted to the declared type: `"3"` to an int,
    `"a,b"` or `"(1, 2)"` to a list, `"true"` to a bool.

    `cells` are the sources run so far, in order; None takes them from the running kernel, where the latest run of
    each cell counts, so editing and re-running the parameters cell in JupyterLab works.

    Raises ValueError for an unknown parameter (with the nearest valid name) and for a value of another type;
    RuntimeError where no parameters cell was run, or where papermill put its cell before it.
    """
    shell = None
    if cells is None:
        shell = get_ipython()
        cells = shell.user_ns["In"] if shell else []
    declared = [i for i, cell in enumerate(cells) if cell.lstrip().startswith(PARAMETERS)]
    injected = [i for i, cell in enumerate(cells) if cell.lstrip().split("\n")[0].rstrip() == INJECTED]
    if not declared:
        raise RuntimeError(f"run the parameters cell first: the one that begins with '{PARAMETERS}'")
    if injected and injected[0] < declared[0]:
        raise RuntimeError("papermill's values came before the parameters cell: that cell needs the tag 'parameters'")

    parameters, kinds = {}, {}
    for name, annotation, value in _assignments(cells[declared[-1]]):
        parameters[name], kinds[name] = value, {type(value).__name__} | _kinds(annotation)
    problems = []
    for name, _, value in _assignments(cells[injected[-1]]) if injected and injected[-1] > declared[-1] else ():
        if name not in parameters:
            near = " or ".join(get_close_matches(name, parameters, n=1, cutoff=0)) or "none, there are no parameters"
            problems.append(f"unknown parameter '{name}'; the nearest valid name is {near}")
            continue
        try:
            parameters[name] = _convert(value, kinds[name], parameters[name])
        except ValueError as error:
            problems.append(f"parameter '{name}': {error}")
    if problems:
        raise ValueError("\n".join(problems))
    if shell:
        shell.user_ns.update(parameters)
    return parameters


def root() -> Path:
    """The repository's folder when the working directory lies in it (`notebooks/` does), else the working directory."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "vfkit" / "__init__.py").is_file() and (folder / "notebooks").is_dir():
            return folder
    return here


def finish(saved: Iterable[str | Path]) -> None:
    """Show the files a notebook wrote, by folder; relative paths start at `root()`.

    Raises FileNotFoundError that names every declared file which is missing or empty, ValueError if none is declared.
    """
    base = root()
    files = [base / path for path in saved]
    if not files:
        raise ValueError("no output is declared")
    missing = [str(file) for file in files if not (file.is_file() and file.stat().st_size)]
    if missing:
        raise FileNotFoundError("declared but not written: " + ", ".join(missing))
    folders: dict[str, list[str]] = {}
    for file in files:
        folder = file.parent.relative_to(base) if file.is_relative_to(base) else file.parent
        folders.setdefault(folder.as_posix(), []).append(file.name)
    text = "\n".join([f"Saved {len(files)} files:", *(f"  {k}: {', '.join(v)}" for k, v in folders.items())])
    display({"text/plain": text, SAVED: folders}, raw=True)


def summary(notebook: str | Path) -> str:
    """The finding of an executed notebook, and a last line saying where it and its files are.

    Raises ValueError if it is no notebook, or one that never reached `finish`: it has no results to look at.
    """
    try:
        cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook} is not a notebook") from None
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    folders = [folder for data in outputs for folder in data.get(SAVED, {})]
    if not folders:
        raise ValueError(f"{notebook} declares no outputs: it was not run, or did not run to its end")
    finding = ["".join(data["text/markdown"]) for data in outputs if "text/markdown" in data]
    look = f"Look at {notebook} (executed notebook) and at the files in {', '.join(dict.fromkeys(folders))}"
    return "\n".join([*finding, look])


def _assignments(cell: str) -> list[tuple[str, ast.expr | None, Any]]:
    """`name = literal` statements of a cell as (name, annotation, value), in order."""
    found: list[tuple[str, ast.expr | None, Any]] = []
    annotation: ast.expr | None
    value: Any
    for statement in ast.parse(cell).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                annotation = None
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value):
                pass
            case _:
                raise ValueError(f"a parameters cell holds 'name = value' lines only, not: {ast.unparse(statement)}")
        try:
            found.append((name, annotation, ast.literal_eval(value)))
        except ValueError:
            raise ValueError(f"parameter '{name}': {ast.unparse(value)} is not a plain value") from None
    return found


def _kinds(annotation: ast.expr | None) -> set[str]:
    """Type names at the top level of an annotation: `list[str] | None` gives {list, NoneType}."""
    match annotation:
        case ast.BinOp(left=left, right=right):
            return _kinds(left) | _kinds(right)
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return {name}
        case ast.Constant(value=None):
            return {"NoneType"}
    return set()


def _convert(value: Any, kinds: set[str], default: Any) -> Any:
    """`value` as one of the types named by `kinds`, the default's among them; ValueError if it is none of them."""
    kind = type(value).__name__
    sequences = kinds & {"list", "tuple"}
    if kinds == {"NoneType"} or kind in kinds - sequences:  # a bare None says nothing about the type
        return value
    if sequences and value is not None and kind != "dict":
        return _convert_items(value, kinds, default)
    if "int" in kinds and kind == "float" and value.is_integer():
        return int(value)
    if "float" in kinds and kind == "int":
        return float(value)
    if kind == "str" and not isinstance(parsed := _parse(value), str):
        return _convert(parsed, kinds, default)
    hint = " (papermill -r NAME VALUE keeps it as text)" if "str" in kinds else ""
    raise ValueError(f"{value!r} is not of type {' or '.join(sorted(kinds))}{hint}")


def _convert_items(value: Any, kinds: set[str], default: Any) -> list | tuple:
    """A list or tuple from one, from text ("(1, 2)", "a,b") or from a single item; items take the default's type."""
    if isinstance(value, str):
        literal = value.strip().startswith(("[", "("))
        value = _parse(value) if literal else [part.strip() for part in value.split(",") if part.strip()]
    items = list(value) if isinstance(value, list | tuple) else [value]
    if default:
        items = [_convert(item, {type(default[0]).__name__}, default[0]) for item in items]
    return items if "list" in kinds else tuple(items)


def _parse(text: str) -> object:
    """The literal that a text spells, else the text itself."""
    word = text.strip().title()
    try:
        return ast.literal_eval(word if word in ("True", "False", "None") else text.strip())
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m vfkit.notebook", description="The finding of an executed notebook, and where its results are."
    )
    parser.add_argument("notebook")
    try:
        print(summary(parser.parse_args().notebook))
    except (ValueError, OSError) as error:
        sys.exit(str(error))
