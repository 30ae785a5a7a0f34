"""What an executed notebook is to others: its finding, links to its files, and one HTML page without code."""

import html
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat

from vfkit.parameters import PARAMETERS, check

STYLE = """
p, li { max-width: 60rem; }
body { max-width: 76rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
img { max-width: 100%; height: auto; } pre { white-space: pre-wrap; } code { overflow-wrap: anywhere; }
a { color: #0645ad; } figure { margin: 1rem 0; } p.note, p.folded { color: #444; font-size: 0.9em; }
.wide, .jp-RenderedHTMLCommon { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85em; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: 0.2em 0.7em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { vertical-align: bottom; } section.finding { background: #f4f6fa; padding: 0.5rem 1.5rem; border-radius: 6px; }
.anchor-link { display: none; }
@media print { body { max-width: none; } details { display: none; } }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What the page may do: show its own pictures, run nothing, load nothing."""

SAVED = "application/vnd.vfkit.saved+json"
"""Type of the notebook output that lists the files written: names by folder."""
_opened_in = Path.cwd()  # JupyterLab starts a kernel in its notebook's folder


def root() -> Path:
    """Find the repository's folder when the working directory lies in it (`notebooks/` does), else the latter."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "vfkit" / "__init__.py").is_file() and (folder / "notebooks").is_dir():
            return folder
    return here


def link(path: str | Path, text: str = "") -> str:
    """Make an HTML link to a file, relative to the notebook's folder; `relink` makes it anew for another one."""
    path = Path(path)
    path = path.relative_to(root()) if path.is_relative_to(root()) else path
    return f'<a data-path="{html.escape(str(path))}" href="{_address(path, _opened_in)}" target="_blank">' + (
        f"{html.escape(text or Path(path).name)}</a>"
    )


def relink(notebook: dict[str, Any], folder: Path) -> None:
    """Make the links in an executed notebook's outputs relative to `folder`, in which it is to stand."""
    for cell in notebook["cells"]:
        for data in (output["data"] for output in cell.get("outputs", []) if "text/html" in output.get("data", {})):
            data["text/html"] = re.sub(
                r'<a data-path="([^"]*)" href="[^"]*"',
                lambda at: f'<a data-path="{at[1]}" href="{_address(html.unescape(at[1]), folder)}"',
                "".join(data["text/html"]),
            )


def _address(path: str | Path, folder: Path) -> str:
    return quote(Path(os.path.relpath(root() / path, folder.resolve())).as_posix())


def links(folders: dict[str, list[str]]) -> str:
    """Make the HTML list of the files written, names by folder: a name once, with a link for each of its types."""
    lines = []
    for folder, files in folders.items():
        kinds: dict[str, list[str]] = {}
        for file in map(Path, files):
            kinds.setdefault(file.stem, []).append(link(Path(folder, file), file.suffix.removeprefix(".")))
        names = "; ".join(f"{html.escape(name)} ({', '.join(of)})" for name, of in kinds.items())
        lines.append(f"<li><code>{html.escape(folder)}</code>: {names}</li>")
    return f"<p>Saved {sum(map(len, folders.values()))} files:</p><ul>{''.join(lines)}</ul>"


def summary(notebook: str | Path) -> str:
    """Read the finding of an executed notebook, with a last line that says where it and its files are.

    Raises:
        ValueError: it is no notebook, or one that never reached `finish`: it has no results to look at.
    """
    outputs = [output.get("data", {}) for cell in read(notebook)["cells"] for output in cell.get("outputs", [])]
    folders = [folder for data in outputs for folder in data.get(SAVED, {})]
    if not folders:
        raise ValueError(f"{notebook} declares no outputs: it was not run, or did not run to its end")
    finding = ["".join(data["text/markdown"]) for data in outputs if "text/markdown" in data]
    look = f"Look at {notebook} (executed notebook) and at the files in {', '.join(dict.fromkeys(folders))}"
    return "\n".join([*finding, look])


def read(notebook: str | Path) -> dict[str, Any]:
    """Read a notebook's JSON; ValueError if it is none."""
    try:
        content = json.loads(Path(notebook).read_text(encoding="utf-8"))
        content["cells"]  # noqa: B018
        return content
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook} is not a notebook") from None


def write(executed: str | Path, path: str | Path | None = None) -> Path:
    """Write an executed notebook as an HTML page; it needs no network, no server and no Jupyter.

    Args:
        path: of the page, which is replaced; beside the notebook where None. Links to saved files and to the pages of
            samples are relative to it.

    Raises:
        ValueError: it is no notebook, or did not run to its end.
    """
    executed = Path(executed)
    path = executed.with_suffix(".html") if path is None else Path(path)
    summary(executed)  # refuses what has no results
    content = nbformat.reads(executed.read_text(encoding="utf-8"), as_version=4)
    relink(content, path.parent)
    cells = content.cells
    title, about = _opening(cells[0].source)
    shown = [kept for cell in cells[1:] if (kept := _without_code(cell)) is not None]
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f'<section class="finding"><h2>Finding</h2>{_body(content, _finding(cells))}</section>',
        _body(content, [nbformat.v4.new_markdown_cell(about, id="about")]),
        _settings([cell.source for cell in cells if cell.cell_type == "code"]),
        _body(content, shown),
    ]
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    page = (
        f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{"".join(parts)}</body></html>'
    )
    path.write_text(page, encoding="utf-8")
    return path


def _opening(source: str) -> tuple[str, str]:
    """The title of a notebook, without its mark, and the rest of its opening cell."""
    first, _, rest = source.partition("\n")
    return first.lstrip("# "), rest


def _finding(cells: list[Any]) -> list[Any]:
    """What cells say in Markdown, and the links to what was written, which stand in their last output."""
    outputs = [output for cell in cells for output in cell.get("outputs", []) if "data" in output]
    chosen = [output for output in outputs if "text/markdown" in output.data or SAVED in output.data]
    return [nbformat.v4.new_code_cell(id=f"finding-{i}", outputs=[_plain(each)]) for i, each in enumerate(chosen)]


def _without_code(cell: Any) -> Any:
    """A cell as the page shows it, or None: outputs without their code, Markdown as it is, no progress lines."""
    if cell.cell_type != "code":
        return cell
    outputs = [
        _plain(output)
        for output in cell.outputs
        if "data" in output and not {"text/markdown", SAVED} & set(output.data)
    ]
    return nbformat.v4.new_code_cell(id=cell.id, outputs=outputs) if outputs else None


def _plain(output: Any) -> Any:
    """An output whose embedded pages are left out: beside them stands a link."""
    if "text/html" in output.get("data", {}):
        output.data["text/html"] = re.sub(r"<iframe.*?</iframe>", "", output.data["text/html"], flags=re.DOTALL)
    return output


def _settings(sources: list[str]) -> str:
    """The notebook's parameters, folded."""
    values = check(sources) if any(source.lstrip().startswith(PARAMETERS) for source in sources) else {}
    lines = "".join(f"<li><code>{html.escape(f'{name} = {value!r}')}</code></li>" for name, value in values.items())
    return f"<details><summary>Parameters</summary><ul>{lines}</ul></details>"


def _body(content: Any, cells: list[Any]) -> str:
    """Cells as HTML, without code and prompts."""
    from nbconvert import HTMLExporter  # only here: no kernel needs it

    exporter = HTMLExporter(
        template_name="basic", exclude_input=True, exclude_output_prompt=True, anchor_link_text="", sanitize_html=False
    )
    part = nbformat.v4.new_notebook(cells=cells, metadata=content.metadata)
    return exporter.from_notebook_node(part)[0]
