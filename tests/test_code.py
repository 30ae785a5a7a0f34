"""The code part of a run's key: what a run can use counts, and what it does, not where it stands or how it looks."""

import ast
import shutil
from pathlib import Path

import pytest

import vfkit
from vfkit.perturb import natural_suite
from vfkit.study import StudyConfig, key
from vfkit.study.code import definitions

PACKAGE = Path(vfkit.__file__).parent
CONFIGS = {
    "local": StudyConfig(model="mini_qwen3vl", dataset="seedbench", probes=True),
    "attack": StudyConfig(model="mini_gemma3", dataset="pope", families=["noise_low", "pgd_low"], probes=True),
    "hosted": StudyConfig(model="gpt_5_1", dataset="easy_vqa", families=["rotation", "text_overlay"]),
}

# --- a package of three files -----------------------------------------------------------------------------------------

FILES = {
    "__init__.py": "",
    "work.py": '''
        """Work."""
        import math as m
        from kit import shapes
        from kit.tools import scale as enlarge, TABLE

        def work(x: int, times=2) -> float:
            """Do it."""
            # thrice
            result = shapes.turn(x) + enlarge(x) * times - m.pi
            if x < 0:
                raise ValueError(f"{x} is negative")
            return TABLE["b"](result, shapes.Shape.corners)
        ''',
    "shapes.py": """
        from kit import tools

        class Shape:
            corners: int = 4

        def turn(x):
            return tools.halve(x) + _offset(x)

        def _offset(x):
            return x - 1

        def unused(x):
            return x
        """,
    "tools.py": """
        FACTOR = 3
        FACTOR += 1

        def scale(x):
            halves = [halve for halve in range(x)]  # not the function
            return x * FACTOR + len(halves)

        def halve(x):
            return x / 2

        def plus(x, y):
            return x + y

        def minus(x, y):
            return x - y

        TABLE = {"a": plus, "b": minus, "c": "kit.shapes:unused"}
        """,
}


def text(source):
    lines = source.strip("\n").splitlines()
    return "\n".join(line[8:] if line.startswith(" " * 8) else line for line in lines) + "\n"


@pytest.fixture
def kit(tmp_path):
    folder = tmp_path / "kit"
    folder.mkdir()
    for name, source in FILES.items():
        (folder / name).write_text(text(source))
    return folder


def digest(folder, chosen=("b",), root="kit.work.work", **options):
    return key.digest(definitions([root], folder, chosen={"kit.tools.TABLE": chosen}, **options))


def edit(folder, name, old, new):
    source = (folder / name).read_text()
    assert old in source
    (folder / name).write_text(source.replace(old, new))


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("work.py", '"""Do it."""', '"""Do it at once.\n\n    Args:\n        x: a number.\n    """'),
        ("work.py", "    # thrice\n", ""),
        ("work.py", "x: int, times=2) -> float", "x, times: float = 2)"),
        (
            "work.py",
            "shapes.turn(x) + enlarge(x) * times - m.pi",
            "(\n        shapes.turn(x)\n  + (enlarge(x)*times)  - m.pi)",
        ),
        ("work.py", "import math as m", "from math import pi"),
        ("work.py", "enlarge", "make_larger"),
        ("work.py", "is negative", "is less than nothing"),
        ("work.py", "    # thrice\n", "    print('thrice')\n"),
        ("shapes.py", "    return x\n", "    return x + 1\n"),  # of a function that is not used
        ("tools.py", "return x + y", "return x + y + 1"),  # of an entry that is not chosen
        ("tools.py", "FACTOR = 3", "'''A number.'''\nFACTOR: int = 3"),
    ],
)
def test_what_says_the_same_has_the_same_digest(kit, name, old, new):
    before = digest(kit)
    edit(kit, name, old, new)
    if "math" in old:
        edit(kit, name, "m.pi", "pi")
    assert digest(kit) == before


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("work.py", "times=2", "times=3"),
        ("work.py", "+ enlarge", "- enlarge"),
        ("work.py", "x < 0", "x <= 0"),
        ("work.py", "import math as m", "import cmath as m"),
        ("work.py", "ValueError", "TypeError"),
        ("shapes.py", "corners: int = 4", "corners: int = 5"),
        ("shapes.py", "return x - 1", "return x - 2"),
        ("shapes.py", "+ _offset(x)", ""),
        ("tools.py", "x / 2", "x // 2"),
        ("tools.py", "FACTOR += 1", "FACTOR += 2"),
        ("tools.py", "return x - y", "return y - x"),
        ("tools.py", "FACTOR += 1", "FACTOR += 1\nmath.set_precision('high')"),  # acts on import
        ("tools.py", '"b": minus', '"b": plus'),
    ],
)
def test_what_says_something_else_has_another_digest(kit, name, old, new):
    before = digest(kit)
    edit(kit, name, old, new)
    assert digest(kit) != before


def test_a_function_moved_and_files_merged_have_the_same_digest(kit):
    before = digest(kit)
    moved = "def _offset(x):\n    return x - 1\n"
    edit(kit, "shapes.py", moved, "")
    edit(kit, "shapes.py", "from kit import tools\n", "from kit import tools\nfrom kit.tools import _offset\n")
    (kit / "tools.py").write_text(moved + "\n" + (kit / "tools.py").read_text())
    assert digest(kit) == before
    for name in ("shapes.py", "tools.py"):  # all in one file
        source = (kit / name).read_text().replace("tools.halve", "halve")
        lines = [line for line in source.splitlines() if not line.startswith(("from kit", "import kit"))]
        with open(kit / "work.py", "a") as file:
            file.write("\n".join(lines) + "\n")
        (kit / name).unlink()
    edit(kit, "work.py", "from kit import shapes\n", "")
    edit(kit, "work.py", "from kit.tools import scale as enlarge, TABLE\n", "")
    for old, new in (("shapes.", ""), ("enlarge(", "scale(")):
        edit(kit, "work.py", old, new)
    assert key.digest(definitions(["kit.work.work"], kit, chosen={"kit.work.TABLE": ["b"]})) == before


def test_only_what_is_chosen_of_a_table_counts_and_its_texts_are_followed(kit):
    one, other = digest(kit), digest(kit, chosen=("c",))
    edit(kit, "shapes.py", "    return x\n", "    return x + 1\n")
    assert digest(kit) == one and digest(kit, chosen=("c",)) != other


def test_what_is_left_out_is_not_followed(kit):
    whole, without = digest(kit), digest(kit, without=["kit.shapes"])
    edit(kit, "shapes.py", "return x - 1", "return x - 2")
    assert digest(kit) != whole and digest(kit, without=["kit.shapes"]) == without
    with pytest.raises(ValueError, match="kit.work.play does not exist"):
        digest(kit, root="kit.work.play")


SYNTAX = """
def work(x, *rest, key=None, **more):
    global STATE
    text = f"{x!r:>{len(rest)}} and {x=}" "joined" rf"\\n{key}"
    match x:
        case {"a": [1, *others], **left} if others:
            return left
        case int(real=y) | y:
            STATE = (lambda z, w=1: z + w)(y)
    with open(text) as file, open("b"):
        return [line async for line in file] if False else {**more, "k": not key and -1j}
STATE: int = 0x10
"""


def test_the_digest_is_that_of_any_version_of_python(tmp_path, monkeypatch):
    """The value is the same on 3.11, 3.12 and 3.13; fields that versions add to nodes, being empty, do not count."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text(SYNTAX.replace("async for", "for"))
    known = definitions(["kit.work"], tmp_path / "kit")
    assert known == {"STATE": "1b2056986d46c809", "work": "d509bf4e0ad7a6cc"}
    parse = ast.parse

    def newer(source):
        tree = parse(source)
        for node in ast.walk(tree):
            node._fields = (*node._fields, "new_list", "new_value")
            node.new_list, node.new_value = [], None
        return tree

    from vfkit.study import code

    monkeypatch.setattr(code.ast, "parse", newer)
    code._module.cache_clear()
    assert definitions(["kit.work"], tmp_path / "kit") == known


# --- vfkit itself -----------------------------------------------------------------------------------------------------


def digest_of(config, package=PACKAGE):
    return key.code(config, natural_suite(config.families, config.family_params), package)


@pytest.fixture
def copy(tmp_path):
    """The package's source, to be edited."""
    ignore = shutil.ignore_patterns("__pycache__", "data", "checkpoints")
    return Path(shutil.copytree(PACKAGE, tmp_path / "vfkit", ignore=ignore))


class Mutation(ast.NodeTransformer):
    """The first constant, operator or comparison that a function computes with, changed."""

    def __init__(self):
        self.done = False

    def generic_visit(self, node):
        if (
            self.done
            or isinstance(node, ast.Raise | ast.JoinedStr)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        ):
            return node
        changes = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Lt: ast.LtE}
        changes |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Gt: ast.GtE, ast.And: ast.Or, ast.Or: ast.And}
        if type(node) in changes:
            self.done = True
            return changes[type(node)]()
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            self.done = True
            return ast.Constant(node.value + 1)
        return super().generic_visit(node)


def mutate(file, only=None):
    """Change every function of a file, or one; returns the names of the top-level definitions that are changed."""
    tree, changed = ast.parse(file.read_text()), set()
    for top in tree.body:
        for node in top.body if isinstance(top, ast.ClassDef) else [top]:
            if isinstance(node, ast.FunctionDef) and only in (None, node.name):
                mutation = Mutation()
                node.body = [mutation.visit(statement) for statement in node.body]
                changed |= {top.name} if mutation.done and hasattr(top, "name") else set()
    file.write_text(ast.unparse(ast.fix_missing_locations(tree)))
    return changed


# Where records are made, by the config whose runs use it.
ROOMS = {
    "local": ["prompts.py", "images.py", "sample.py", "perturb/*.py", "measure/*.py", "readout/*.py", "study/rows.py",
              "study/work.py", "study/job.py", "datasets/seedbench.py", "models/processor.py", "models/adapters.py"],
    "attack": ["attack.py", "perturb/frequency.py", "readout/gradient.py", "datasets/pope.py", "models/adapters.py"],
    "hosted": ["chat.py", "models/api.py", "judge/answers.py", "datasets/easy_vqa.py"],
}  # fmt: skip
# What is in these rooms and makes no record of such a run.
CHECKS = ["readout/oracle.py", "readout/verify.py"]  # a check of the readout
OTHERS = {
    "local": {
        *("Gemma3", "LlavaOneVision", "InternVL", "_square"),  # other adapters
        *("blank", "high_pass", "low_pass"),  # other families
        *("option_scores", "rule_scores", "to_planes", "to_images", "_inputs"),  # attacks
        *("Job", "chunks"),  # what is read together
        *("load_wording", "settings"),  # read, or planned, before a study is
        *("_reason", "load_without_tokenizer", "_tokenizer"),  # words of errors; estimates
    },
    "attack": {"MRope", "LlavaOneVision", "InternVL", "high_pass", "low_pass"},
    "hosted": {"match", "_words"},  # judges of open answers
}


@pytest.mark.parametrize("config", ROOMS)
def test_every_function_that_makes_records_counts(config, copy):
    whole = digest_of(CONFIGS[config], copy)
    assert whole == digest_of(CONFIGS[config])
    mutated = set()
    for room in ROOMS[config]:
        files = list(copy.glob(room))
        assert files
        for file in files:
            if file.relative_to(copy).as_posix() not in CHECKS and file.name != "__init__.py":
                mutated |= mutate(file)
    after = digest_of(CONFIGS[config], copy)
    silent = {name for name in mutated if after.get(name) == whole.get(name)}
    assert len(mutated) > 20 and silent <= OTHERS[config], silent - OTHERS[config]


@pytest.mark.parametrize(
    "file, function, reached",
    [
        ("perturb/geometric.py", "translate", True),
        ("readout/rules.py", "margins", True),
        ("readout/batch.py", None, True),  # None: all functions of the file
        ("readout/engine.py", None, True),
        ("datasets/seedbench.py", "load", True),
        ("datasets/pope.py", "load", False),  # a loader that is not in use
        ("readout/oracle.py", "read_oracle", False),
        ("metrics/flips.py", "flip_table", False),
        ("figures/flips.py", "plot_flips", False),
        ("models/registry.py", "find", False),
        ("models/load.py", "check_memory", False),
        ("study/store.py", "recover", False),
    ],
)
def test_one_changed_function_changes_the_digest_if_the_run_can_reach_it(file, function, reached, copy):
    whole = digest_of(CONFIGS["local"], copy)
    changed = mutate(copy / file, function)
    assert changed == {function} if function else changed
    assert (digest_of(CONFIGS["local"], copy) != whole) == reached


def test_no_comment_or_layout_of_the_package_counts(copy):
    whole = {name: digest_of(config, copy) for name, config in CONFIGS.items()}
    for file in copy.rglob("*.py"):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                node.body[0].value.value = "Another docstring."
        file.write_text("# edited\n" + ast.unparse(tree) + "\n")
    assert {name: digest_of(config, copy) for name, config in CONFIGS.items()} == whole


def test_everything_that_is_named_exists():
    """Paths of the key's tables that were renamed would silently stop to count."""
    from vfkit.study.code import Digester

    digester = Digester(PACKAGE, frozenset(), {})
    tables = ["vfkit.datasets.LOADERS", "vfkit.models.adapters.ADAPTERS", "vfkit.perturb.suite._FAMILIES"]
    for path in (*key.ROOTS, *key.NOT_RECORDS, *key.LOCAL, *key.HOSTED, *key.ATTACK, *key.PROBES, *tables):
        assert digester.exists(path) or (PACKAGE / path.removeprefix("vfkit.").replace(".", "/")).is_dir(), path
