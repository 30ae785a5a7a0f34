"""Parameters of a notebook: what its first code cell declares, and what papermill or a person put in its place."""

import ast
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

PARAMETERS = "# Parameters:"
"""First words of the cell in which a notebook declares its parameters."""
INJECTED = "# Parameters"
"""The whole first line of the cell that papermill adds after it."""
COUNT, ALL = "n", "all"
"""The parameter that counts samples, and what people write for None, which takes all there are."""


def check(cells: Sequence[str]) -> dict[str, Any]:
    """Read a notebook's parameters from the sources of its cells, in the order in which they ran.

    The cell that begins with `# Parameters:` declares them: plain literals, whose types are the types allowed
    (`n = 40`, `sizes = [4, 8]`; an annotation widens: `families: list | None = None`). Values come from there and from
    the cell that papermill adds after it; of a cell that ran twice the latest run counts. What a command line can say
    is converted to the declared type: `"3"` to an int, `"a,b"`, `"[a, None]"` or `"(1, 2)"` to a list, `"true"` to a
    bool; and `n = "all"` to None.

    Raises:
        ValueError: unknown parameters (each with the nearest valid name) and values of another type.
        RuntimeError: no parameters cell was run, or papermill put its cell before it.
    """
    declared = [i for i, cell in enumerate(cells) if cell.lstrip().startswith(PARAMETERS)]
    injected = [i for i, cell in enumerate(cells) if cell.lstrip().split("\n")[0].rstrip() == INJECTED]
    if not declared:
        raise RuntimeError(f"run the parameters cell first: the one that begins with '{PARAMETERS}'")
    if injected and injected[0] < declared[0]:
        raise RuntimeError("papermill's values came before the parameters cell: that cell needs the tag 'parameters'")

    parameters, kinds = {}, {}
    for name, annotation, value in _assignments(cells[declared[-1]]):
        parameters[name], kinds[name] = value, {type(value).__name__} | _kinds(annotation)
        if name == COUNT:
            parameters[name], kinds[name] = None if value == ALL else value, {"int", "NoneType"}
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
    return parameters


def literal(text: str) -> Any:
    """Read the literal that a text spells (`3`, `None`, `true`, `[1, 2]`); any other text stays as it is."""
    word = text.strip().title()
    try:
        return ast.literal_eval(word if word in ("True", "False", "None") else text.strip())
    except (ValueError, SyntaxError):
        return text


def _assignments(cell: str) -> list[tuple[str, ast.expr | None, Any]]:
    """`name = literal` statements of a cell as (name, annotation, value), in order."""
    assigned: list[tuple[str, ast.expr | None, Any]] = []
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
            assigned.append((name, annotation, ast.literal_eval(value)))
        except ValueError:
            raise ValueError(f"parameter '{name}': {ast.unparse(value)} is not a plain value") from None
    return assigned


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
    words = value.strip().lower() if kind == "str" else ""
    if "NoneType" in kinds and (words == "none" or words == ALL and kinds == {"int", "NoneType"}):
        return None
    if kinds == {"NoneType"} or kind in kinds - sequences:  # a bare None says nothing about the type
        return value
    if sequences and value is not None and kind != "dict":
        return _convert_items(value, kinds, default)
    if "int" in kinds and kind == "float" and value.is_integer():
        return int(value)
    if "float" in kinds and kind == "int":
        return float(value)
    if kind == "str" and not isinstance(parsed := literal(value), str):
        return _convert(parsed, kinds, default)
    names = " or ".join(sorted(kinds)).replace("NoneType", "None")
    hint = f" or {ALL!r}" if kinds == {"int", "NoneType"} else ""
    hint += " (papermill -r NAME VALUE keeps it as text)" if "str" in kinds else ""
    raise ValueError(f"{value!r} is not of type {names}{hint}")


def _convert_items(value: Any, kinds: set[str], default: Any) -> list | tuple:
    """A list or tuple from one, from text ("[a, b]", "(1, 2)", "a,b") or from a single item.

    Items take the default's type; without a default they are text, None, or what a literal list holds.
    """
    if isinstance(value, str):
        words = bool(default) and isinstance(default[0], str)
        whole = literal(value) if value.strip().startswith(("[", "(")) and not words else value
        value = whole if isinstance(whole, list | tuple) else _items(value)
    items = list(value) if isinstance(value, list | tuple) else [value]
    if default:
        items = [_convert(item, {type(default[0]).__name__}, default[0]) for item in items]
    return items if "list" in kinds else tuple(items)


def _items(text: str) -> list[str | None]:
    """Items of a list as people write it: commas between, brackets and quotes as they like, None for none."""
    inner = re.sub(r"^[\[(](.*)[\])]$", r"\1", text.strip(), flags=re.DOTALL)
    parts = re.findall(r"\s*('[^']*'|\"[^\"]*\"|[^,]+)\s*(?:,|$)", inner)
    words = [part.strip() for part in parts if part.strip()]
    bare = [word[1:-1] if word[0] in "'\"" and word[-1] == word[0] and len(word) > 1 else word for word in words]
    return [None if word in ("None", "none", "null") else word for word in bare]
