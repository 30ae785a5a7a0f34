"""Digest of the meaning of source code: of the definitions that a run can use, in any file and any layout.

From root symbols names are followed to the top-level definitions that they mean, through imports and attributes of
modules. Of each definition the syntax tree counts, without docstrings, comments, annotations, the wording of errors and
what is printed; imported names are replaced by what they mean. So a moved function, merged files, or another layout
change no digest; a changed constant, operator or default does. Standard library only: any version of Python gives the
same.
"""

import ast
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
IMPORTS = (ast.Import, ast.ImportFrom)
SPOKEN = {"print", "say", "warn"}  # calls whose result nobody takes: words for people
ALWAYS = "bare calls"  # name of a file's bare calls, which act whenever one of its definitions is used
# Of a node these say nothing of what it does; fields that are empty are left out too, as versions of Python differ.
SILENT = {"ctx", "kind", "type_comment", "type_ignores", "type_params", "annotation", "returns", "str"}


class Module(NamedTuple):
    """A source file: its top-level statements by the names that they define or change, and what its imports mean."""

    name: str
    statements: dict[str, list[ast.stmt]]
    imports: dict[str, str]  # name -> dotted path


def definitions(
    roots: Iterable[str],
    package: Path,
    without: Collection[str] = (),
    chosen: Mapping[str, Collection[str]] | None = None,
) -> dict[str, str]:
    """Digests, by name, of all definitions that the roots can reach.

    Args:
        roots: dotted paths of functions, classes or whole modules, such as `vfkit.study.work.work`.
        package: folder of the package's source; its name is the first part of all paths.
        without: dotted paths of what is not followed, modules or symbols.
        chosen: of top-level dictionaries, by dotted path, the keys that are used: other entries do not count. A text
            that names a module, or `module:symbol`, is followed there.

    Raises:
        ValueError: a root that does not exist.
    """
    return Digester(package, frozenset(without), chosen or {}).run(roots)


class Digester:
    """Follows names through a package, and makes digests of what it meets."""

    def __init__(self, package: Path, without: frozenset[str], chosen: Mapping[str, Collection[str]]):
        self.package, self.without, self.chosen = package, without, chosen

    def run(self, roots: Iterable[str]) -> dict[str, str]:
        texts: dict[tuple[str, str], str] = {}
        waiting: list[tuple[str, str]] = []
        for root in roots:
            if not self.exists(root):
                raise ValueError(f"{root} does not exist in {self.package}")
            waiting += self.targets(root)
        while waiting:
            module, name = target = waiting.pop()
            if target in texts or self.is_out(module, name):
                continue
            source = self.module(module)
            assert source, f"{module} was found before"
            reader = _Statement(self, source, self.chosen.get(f"{module}.{name}"))
            texts[target] = "\n".join(reader.text(statement) for statement in source.statements[name])
            waiting += reader.targets
            if ALWAYS in source.statements:
                waiting.append((module, ALWAYS))
        named: dict[str, set[str]] = {}
        for (_, name), text in texts.items():
            named.setdefault(name, set()).add(text)
        return {name: _digest("\n\n".join(sorted(texts))) for name, texts in sorted(named.items())}

    def is_out(self, module: str, name: str) -> bool:
        parts = f"{module}.{name}".split(".")
        return any(".".join(parts[:n]) in self.without for n in range(1, len(parts) + 1))

    def exists(self, path: str) -> bool:
        module = self.module(path) or self.module(path.rpartition(".")[0])
        return module is not None and (module.name == path or path.rpartition(".")[2] in module.statements)

    def module(self, name: str) -> Module | None:
        first, *rest = name.split(".")
        if first != self.package.name:
            return None
        path = self.package.joinpath(*rest)
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        return _module(name, file, file.read_bytes()) if file.is_file() else None

    def targets(self, path: str) -> Iterator[tuple[str, str]]:
        """(module, name) of what a dotted path means: a symbol, through re-exports; all symbols of a module."""
        module = self.module(path)
        if module is not None:
            for name in module.statements:
                yield module.name, name
            for imported in module.imports.values():  # re-exports: an adapter is made of what it imports, too
                if self.module(imported) is None:
                    yield from self.targets(imported)
            return
        if "." not in path:
            return
        parent, name = path.rsplit(".", 1)
        module = self.module(parent)
        if module is None:
            yield from self.targets(parent)  # an attribute of a class or object: the whole of it
        elif name in module.statements:
            yield parent, name
        elif name in module.imports:
            yield from self.targets(module.imports[name])
        elif lazy := _exported(module, name):
            yield from self.targets(lazy)
        else:
            yield from ((parent, each) for each in module.statements)  # not known: the coarser is the safer


class _Statement:
    """Text of a top-level statement, and what it refers to."""

    def __init__(self, digester: Digester, module: Module, chosen: Collection[str] | None):
        self.digester, self.module, self.chosen = digester, module, chosen
        self.targets: list[tuple[str, str]] = []
        self.scopes: list[tuple[set[str], dict[str, str]]] = []  # names bound in functions around, and their imports

    def text(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name | ast.Attribute) and (path := self.path(node)) is not None:
            return self.refer(path)
        if isinstance(node, ast.Dict) and self.chosen is not None:
            return self.entries(node, self.chosen)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign(targets=[node.target], value=node.value)
        if isinstance(node, FUNCTIONS + COMPREHENSIONS):
            return self.scope(node)
        if isinstance(node, ast.JoinedStr):
            node = ast.JoinedStr(values=list(_joined(node.values)))
        if isinstance(node, ast.Raise):
            node = ast.Raise(exc=_without_words(node.exc), cause=node.cause)
        return self.plain(node)

    def plain(self, node: ast.AST) -> str:
        fields = [(name, self.value(value)) for name, value in sorted(ast.iter_fields(node)) if name not in SILENT]
        inside = " ".join(f"{name}={text}" for name, text in fields if text)
        return f"({type(node).__name__} {inside})"

    def value(self, value: object) -> str:
        if isinstance(value, list):
            return "[" + " ".join(self.value(each) for each in _meaningful(value)) + "]" if value else ""
        if isinstance(value, ast.AST):
            return self.text(value)
        return "" if value is None else repr(value)

    def scope(self, node: Any) -> str:
        """A function or comprehension: names that it binds are its own."""
        before = ""
        if not isinstance(node, COMPREHENSIONS):  # defaults and decorators belong to what is around
            outside = [*node.args.defaults, *node.args.kw_defaults, *getattr(node, "decorator_list", [])]
            before = " ".join(self.value(each) or "-" for each in outside)
        self.scopes.append(_bound(node))
        fields = [(name, self.value(value)) for name, value in sorted(ast.iter_fields(node)) if name not in SILENT]
        self.scopes.pop()
        inside = " ".join(f"{name}={text}" for name, text in fields if text and name != "decorator_list")
        return f"({type(node).__name__} {before} {inside})"

    def path(self, node: ast.AST) -> str | None:
        """The dotted path that a name, or an attribute of a module, means; None for all else."""
        attributes = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        for bound, imports in reversed(self.scopes):
            if node.id in imports:
                return ".".join([imports[node.id], *reversed(attributes)])
            if node.id in bound:
                return None
        if node.id in self.module.statements:
            return ".".join([self.module.name, node.id, *reversed(attributes)])
        if node.id in self.module.imports:
            return ".".join([self.module.imports[node.id], *reversed(attributes)])
        return None

    def refer(self, path: str) -> str:
        """What stands for a reference: the symbol's own name, so that it may move."""
        if path.split(".")[0] != self.digester.package.name:
            return path
        symbol, rest = path, []
        while self.digester.module(symbol) is None and self.digester.module(symbol.rpartition(".")[0]) is None:
            symbol, _, attribute = symbol.rpartition(".")
            rest.append(attribute)
        defined = list(self.digester.targets(symbol))
        self.targets += defined
        name = defined[0][1] if len(defined) == 1 else symbol.rpartition(".")[2]
        return ".".join([name, *reversed(rest)])

    def entries(self, table: ast.Dict, chosen: Collection[str]) -> str:
        """A table's entries that are used; those without a literal key always are."""
        texts, self.chosen = [], None  # of this table only, not of those within it
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value not in chosen:
                continue
            if isinstance(value, ast.Constant) and isinstance(value.value, str):  # where it stands means nothing
                self.targets += self.digester.targets(value.value.replace(":", "."))
            else:
                texts.append(f"{self.value(key)}: {self.value(value)}")
        self.chosen = chosen
        return f"(Dict {' '.join(texts)})"


# --- reading source ---------------------------------------------------------------------------------------------------


@cache
def _module(name: str, file: Path, source: bytes) -> Module:
    module = Module(name, {}, {})
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    _collect(ast.parse(source).body, module, package)
    return module


def _collect(body: Iterable[ast.stmt], module: Module, package: str) -> None:
    for statement in body:
        if isinstance(statement, IMPORTS):
            module.imports.update(_imported(statement, package))
        elif isinstance(statement, ast.If | ast.Try):
            if isinstance(statement, ast.If) and "__name__" in _names(statement.test):
                continue  # a command line
            parts = [statement.body, statement.orelse, getattr(statement, "finalbody", [])]
            parts += [handler.body for handler in getattr(statement, "handlers", [])]
            for part in parts:
                _collect(part, module, package)
        else:
            bare = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Call)
            for name in _defined(statement) or ([] if bare else [ALWAYS]):
                module.statements.setdefault(name, []).append(statement)


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return set()


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _imported(statement: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """name -> dotted path of what an import statement binds."""
    if isinstance(statement, ast.Import):
        return {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in statement.names}
    source = statement.module or ""
    if statement.level:
        parents = package.split(".")
        source = ".".join([*parents[: len(parents) - statement.level + 1], *([source] if source else [])])
    return {alias.asname or alias.name: f"{source}.{alias.name}" for alias in statement.names}


def _exported(module: Module, name: str) -> str | None:
    """Find a name in a package that imports on first use: `{"name": "module"}` in a top-level dictionary."""
    for statement in (each for statements in module.statements.values() for each in statements):
        for node in ast.walk(statement):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name and isinstance(value, ast.Constant):
                        there = str(value.value)
                        return f"{there if there.startswith(module.name) else f'{module.name}.{there}'}.{name}"
    return None


def _meaningful(values: list) -> Iterator[object]:
    """Drop docstrings, `pass`, imports and what is only said: they have no effect or are followed by name."""
    for value in values:
        bare = value.value if isinstance(value, ast.Expr) else None
        text = isinstance(bare, ast.Constant) and isinstance(bare.value, str)
        if not text and not _spoken(bare) and not isinstance(value, (ast.Pass, *IMPORTS)):
            yield value


def _spoken(call: ast.AST | None) -> bool:
    called = call.func if isinstance(call, ast.Call) else None
    return getattr(called, "id", getattr(called, "attr", None)) in SPOKEN


def _joined(parts: list[ast.expr]) -> Iterator[ast.expr]:
    """The parts of an f-string with texts that follow each other as one: versions of Python differ."""
    text = ""
    for part in parts:
        if isinstance(part, ast.Constant):
            text += str(part.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        yield part
    if text:
        yield ast.Constant(text)


def _without_words(error: ast.expr | None) -> ast.expr | None:
    """Return a raised error without the wording of its message."""
    return error.func if isinstance(error, ast.Call) else error


def _bound(node: Any) -> tuple[set[str], dict[str, str]]:
    """Return the names that a function or comprehension binds, and the meaning of its own imports."""
    bound: set[str] = set()
    imports: dict[str, str] = {}
    shared: set[str] = set()
    waiting: list[ast.AST] = []
    if isinstance(node, COMPREHENSIONS):
        waiting += [generator.target for generator in node.generators]
    else:
        args = node.args
        bound |= {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a}
        waiting += node.body if isinstance(node.body, list) else [node.body]
    while waiting:
        each = waiting.pop()
        if isinstance(each, IMPORTS):
            imports |= _imported(each, "")
            continue
        if isinstance(each, ast.Global | ast.Nonlocal):
            shared.update(each.names)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(each.name)
            continue
        if isinstance(each, FUNCTIONS + COMPREHENSIONS):
            continue
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            bound.add(each.id)
        if isinstance(each, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and each.name:
            bound.add(each.name)
        if isinstance(each, ast.MatchMapping) and each.rest:
            bound.add(each.rest)
        waiting += ast.iter_child_nodes(each)
    return bound - shared, imports


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
