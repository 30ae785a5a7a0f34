"""What every notebook does first and last: check its parameters, stand in the right folder, show what it wrote.

`python -m vfkit.notebook --run 01_perturbation -p n 40` runs a notebook and prints its finding, `--html FILE.ipynb`
writes an executed one as a page without code, `--copy DIR` copies the notebooks that vfkit brings.
"""

import argparse
import json
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from IPython import get_ipython
from IPython.display import display

from vfkit.names import unknown
from vfkit.parameters import check, literal
from vfkit.study import StudyConfig, estimate
from vfkit.webpage import SAVED, links, read, relink, root, summary, write

warnings.filterwarnings("ignore", message="IProgress not found")  # plain progress lines are what we want here

PACKAGE = Path(__file__).parent


def validate(cells: Sequence[str] | None = None, nonempty: Sequence[str] = ()) -> dict[str, Any]:
    """Check the notebook's parameters (`vfkit.parameters.check`) and make ready to run.

    In a kernel the checked values are written back to the notebook's variables, `root()` becomes the working
    directory, so that relative paths mean the same in JupyterLab and on a shell, and an error that vfkit raises on
    purpose is shown as one line (`%tb` shows where it arose).

    Args:
        cells: sources of the cells run so far, in order; None takes them from the running kernel, where the latest run
            of each cell counts, so editing and re-running the parameters cell in JupyterLab works.
        nonempty: parameters of which the notebook needs at least one entry.

    Raises:
        ValueError: as `check`, or a parameter of `nonempty` has no entry. RuntimeError: as `check`.
    """
    shell = None
    if cells is None:
        shell = get_ipython()
        cells = shell.user_ns["In"] if shell else []
    if shell:
        shell.set_custom_exc((Exception,), _show_error)
        os.chdir(root())
    parameters = check(cells)
    for name in nonempty:
        if not parameters[name]:
            raise ValueError(f"{name} has no entry: name at least one")
    if shell:
        shell.user_ns.update(parameters)
    return parameters


def dry_run(*configs: StudyConfig) -> None:
    """Say how many requests studies would make of hosted models and at what cost, and end the notebook here.

    Raises:
        SystemExit: always, with status 0, so that papermill takes the notebook as done.
        ValueError: a study that the model cannot serve.
    """
    for config in configs:
        print(estimate(config))
    raise SystemExit(0)


def finish(saved: Iterable[str | Path]) -> None:
    """Show the files that a notebook wrote as links, by folder; relative paths start at `root()`.

    Raises:
        FileNotFoundError: names every declared file that is missing or empty.
        ValueError: no file is declared.
    """
    base = root()
    files = [base / path for path in saved]
    if not files:
        raise ValueError("no output is declared")
    missing = [str(file) for file in files if not (file.is_file() and file.stat().st_size)]
    if missing:
        raise FileNotFoundError("declared but not written: " + ", ".join(missing))
    folders: dict[str, list[str]] = {}
    for file in dict.fromkeys(files):
        folder = file.parent.relative_to(base) if file.is_relative_to(base) else file.parent
        folders.setdefault(folder.as_posix(), []).append(file.name)
    text = "\n".join([f"Saved {len(set(files))} files:", *(f"  {k}: {', '.join(v)}" for k, v in folders.items())])
    display({"text/plain": text, "text/html": links(folders), SAVED: folders}, raw=True)


def run(notebook: str | Path, out: str | Path | None = None, parameters: dict[str, Any] | None = None) -> Path:
    """Run a notebook by papermill; write it, executed, and its page without code.

    Args:
        notebook: a file, or the name of one that vfkit brings (`01_perturbation`).
        out: the executed notebook; NAME.ipynb in `outputs/notebooks` where None. Until the notebook has run to its
            end it is called NAME-unfinished.ipynb, and an older NAME.ipynb stays.

    Returns:
        The path of the executed notebook; the page lies beside it, as NAME.html.

    Raises:
        ValueError: there is no such notebook.
        RuntimeError: a cell failed; what it said is the message.
    """
    import papermill  # only here: no kernel needs it

    source = Path(notebook)
    if source.suffix != ".ipynb" or not source.is_file():
        names = {path.stem: path for path in notebooks()}
        if str(notebook) not in names:
            raise unknown("notebook, which is no file either", str(notebook), names)
        source = names[str(notebook)]
    done = Path(out) if out else root() / "outputs" / "notebooks" / source.name
    done.parent.mkdir(parents=True, exist_ok=True)
    unfinished = done.with_name(f"{done.stem}-unfinished.ipynb")
    streams = {"stdout_file": sys.stdout, "stderr_file": sys.stderr, "progress_bar": False}
    quiet = ["--log-level=ERROR"]  # of the kernel, which else begins with a warning about its own connection
    try:
        papermill.execute_notebook(
            source, unfinished, parameters, kernel_name="python3", extra_arguments=quiet, **streams
        )
    except papermill.PapermillExecutionError as error:
        lines = error.traceback if isinstance(error.traceback, list) else [str(error.traceback)]
        raise RuntimeError("\n".join(lines)) from None
    content = read(unfinished)
    relink(content, done.parent)
    unfinished.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    unfinished.replace(done)
    write(done)
    return done


def notebooks() -> list[Path]:
    """List the notebooks that vfkit brings: the repository's, or those in an installed package."""
    places = [PACKAGE.parent / "notebooks", PACKAGE / "notebooks"]
    return sorted(next((place for place in places if place.is_dir()), places[1]).glob("*.ipynb"))


def copy(folder: str | Path) -> list[Path]:
    """Copy the notebooks that vfkit brings into a folder, and ready-made parameters into `params` in it.

    Files that are there already stay as they are.

    Returns:
        The files written.
    """
    folder = Path(folder).expanduser()
    parameters = notebooks()[0].parents[1] / "params"
    wanted = {file: folder / file.name for file in notebooks()}
    wanted |= {file: folder / "params" / file.name for file in sorted(parameters.glob("*.yaml"))}
    (folder / "params").mkdir(parents=True, exist_ok=True)
    written = [file for file in wanted if not wanted[file].exists()]
    return [Path(shutil.copyfile(file, wanted[file])) for file in written]


def _show_error(shell: Any, kind: type, error: Exception, trace: Any, tb_offset: int | None = None) -> None:
    """Show an error that vfkit raises on purpose as one line, any other as IPython does."""
    if Path(traceback.extract_tb(trace)[-1].filename).is_relative_to(PACKAGE):
        error._render_traceback_ = lambda: [f"{kind.__name__}: {error}"]  # type: ignore[attr-defined]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    if hasattr(error, "_render_traceback_"):
        del error._render_traceback_  # %tb shows it whole


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m vfkit.notebook",
        description="Print the finding of an executed notebook and where its files are; run or copy notebooks.",
    )
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="executed notebooks; with --run, one to run")
    parser.add_argument("--run", action="store_true", help="run a notebook, by file or by name (01_perturbation)")
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="a parameter")
    parser.add_argument("-f", action="append", default=[], metavar="FILE.yaml", help="a file of parameters")
    parser.add_argument("-o", "--out", metavar="OUT.ipynb", help="the executed notebook of --run")
    parser.add_argument("--html", action="store_true", help="write executed notebooks as pages without code")
    parser.add_argument("--copy", metavar="DIR", help="copy the notebooks that vfkit brings, and parameters, to DIR")
    given = parser.parse_args(arguments)
    if not given.notebooks and not given.copy:
        parser.error("name a notebook, or --copy DIR")
    try:
        if given.copy:
            print("\n".join(map(str, copy(given.copy))) or "All of it is there already.")
        for name in given.notebooks:
            if given.run:
                values = {key: value for file in given.f for key, value in _yaml(file).items()}
                values |= {key: literal(value) for key, value in given.p}
                name = run(name, given.out, values)
                print(f"Page: {name.with_suffix('.html')}")
            elif given.html:
                print(write(name))
                continue
            print(summary(name))
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"{error}")


def _yaml(file: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{file} holds no parameters: lines of `name: value` are needed")
    return values


if __name__ == "__main__":
    main()
