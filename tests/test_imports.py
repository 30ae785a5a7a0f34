"""The import graph: later stages import earlier ones, never the reverse; nothing private crosses a module."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Folders and single modules of vfkit, earliest first; those of one line do not import each other.
STAGES = """
names
sample hub fingerprint
images prompts
perturb
mini
datasets
chat
judge
readout
models
attack
inside
measure
study
metrics
paper
figures
browse
parameters
webpage
notebook
output
report
ask
__main__
workshop
""".split("\n")
RANK = {room: rank for rank, line in enumerate(STAGES) for room in line.split()}
ALIASES = {"vfkit.items", "vfkit.bench", "vfkit.mini.train", "vfkit.mini.card"}  # old commands of the workshop


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_imports(text: str, module: str, modules: set[str]) -> set[tuple[str, str]]:
    """(module, name taken from it) of every import of vfkit in a module's text, those inside functions included.

    The name is empty where the module itself is imported. Modules named in a call of `import_module` or `run_module`
    count too, and so do attributes with a leading underscore read from an imported module.
    """
    found, aliases = set(), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "vfkit":
                    found.add((alias.name, ""))
                    aliases[alias.asname or "vfkit"] = alias.name if alias.asname else "vfkit"
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: relative import"
            for alias in node.names if node.module.split(".")[0] == "vfkit" else ():
                whole = f"{node.module}.{alias.name}"
                found.add((whole, "") if whole in modules else (node.module, alias.name))
                if whole in modules:
                    aliases[alias.asname or alias.name] = whole
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "run_module")):
            named = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
            found |= {(named, "")} if named.split(".")[0] == "vfkit" else set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            if node.attr.startswith("_") and not node.attr.startswith("__"):
                found.add((aliases[node.value.id], node.attr))
    return found - {(module, "")}


PATHS = {_name(path): path for path in sorted((ROOT / "vfkit").rglob("*.py"))}
GRAPH = {name: module_imports(path.read_text(encoding="utf-8"), name, set(PATHS)) for name, path in PATHS.items()}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_room_has_its_stage():
    rooms = {_room(module) for module in PATHS} - {""} - {_room(alias) for alias in ALIASES if alias.count(".") == 1}
    assert rooms == set(RANK), "list a new folder or module of vfkit in STAGES, and remove one that is gone"


def test_no_stage_imports_a_later_one():
    wrong = []
    for module, imports in GRAPH.items():
        for target, _ in imports:
            one, other = _room(module), _room(target)
            if module != "vfkit" and module not in ALIASES and one != other and other and RANK[one] <= RANK[other]:
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_nothing_private_crosses_a_module():
    wrong = [f"{m} takes {t}.{n}" for m, imports in GRAPH.items() for t, n in imports if n.startswith("_") and t != m]
    assert not [line for line in wrong if "__version__" not in line], "\n".join(wrong)


def test_nothing_imports_the_workshop_but_its_commands_aliases():
    users = {module for module, imports in GRAPH.items() for target, _ in imports if _room(target) == "workshop"}
    assert {user for user in users if _room(user) != "workshop"} == ALIASES


def test_modules_form_no_circle():
    edges = {m: {t for t, _ in imports if t != "vfkit"} for m, imports in GRAPH.items() if m != "vfkit"}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("room", ["metrics", "figures", "paper", "browse"])
def test_pages_are_made_where_torch_is_not_installed(room):
    code = f"""
import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name in ("torch", "transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent)
import vfkit.{room}
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_graph_sees_every_kind_of_import():
    text = (
        "import vfkit.a as a\nfrom vfkit import b\nfrom vfkit.c import d, _e\nfrom vfkit.c.f import g\n"
        "def h():\n    from vfkit import i\n    importlib.import_module('vfkit.j')\n    return b._k + a._l\n"
    )
    seen = module_imports(text, "vfkit.x", {"vfkit.a", "vfkit.b", "vfkit.c", "vfkit.c.f"})
    expected = {("vfkit.a", ""), ("vfkit.b", ""), ("vfkit.c", "d"), ("vfkit.c", "_e"), ("vfkit.c.f", "g")}
    assert seen == expected | {("vfkit", "i"), ("vfkit.j", ""), ("vfkit.b", "_k"), ("vfkit.a", "_l")}
