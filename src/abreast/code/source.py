"""What a Python source says, whatever its layout, and the same under every version of Python.

Comments, blank lines, quotes and line breaks do not count. Docstrings do: a docstring may be a prompt.

>>> read(b"x = 'a'  # why").digest == read(b'x = (\\n  "a"\\n)').digest
True
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import re
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Import = tuple[str, tuple[str, ...]]
"""What is imported, with leading dots if relative, and the names taken from it."""


@dataclass(slots=True)
class Definition:
    """A function, lambda or class, those inside it included: what it says, reads, changes and imports."""

    digest: str = ""
    reads: set[str] = field(default_factory=set)  # names and dotted names, local ones among them
    changes: set[str] = field(default_factory=set)  # names whose objects it changes
    rebinds: set[str] = field(default_factory=set)  # names that it declares global
    imports: set[Import] = field(default_factory=set)

    def take(self, inner: Definition) -> None:
        self.reads |= inner.reads
        self.changes |= inner.changes
        self.rebinds |= inner.rebinds
        self.imports |= inner.imports


@dataclass(slots=True)
class Source:
    """A whole file."""

    whole: Definition
    functions: dict[tuple[str, int], list[Definition]]
    classes: dict[str, list[Definition]]

    @property
    def digest(self) -> str:
        return self.whole.digest

    def function(self, code: types.CodeType) -> Definition | None:
        """Where a code object was written; None if two that differ begin in one line, as lambdas may."""
        found = self.functions.get((code.co_name, code.co_firstlineno), [])
        return found[0] if found and all(other.digest == found[0].digest for other in found) else None


@functools.lru_cache(maxsize=4096)
def read(content: bytes) -> Source | None:
    """The source in these bytes, whatever their declared encoding; None if they are no Python, or nested
    too deeply."""
    collects = gc.isenabled()
    gc.disable()  # a tree is a million objects without a circle: looking for one takes a third of the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they belong to the one who runs the code
            return _Reader().read(ast.parse(content))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    finally:
        if collects:
            gc.enable()


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANONYMOUS: dict[type, str] = {ast.Lambda: "<lambda>", ast.GeneratorExp: "<genexpr>"}
_WITHOUT_MEANING = ("ctx", "kind", "type_comment", "type_ignores")
_CHANGING = re.compile(
    "append|appendleft|extend|insert|add|update|setdefault|pop|popleft|popitem|remove|discard|clear|sort"
)
_IMPORTING = ("import_module", "__import__")


class _Reader:
    """One pass over a tree that writes down what it says and notes what each definition in it does."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._open = [Definition()]
        self._source = Source(self._open[0], {}, {})

    def read(self, tree: ast.Module) -> Source:
        self._visit(tree)
        self._source.whole.digest = self._digest(0)
        return self._source

    def _visit(self, node: Any) -> None:
        kind = node.__class__
        if kind is ast.Name:
            self._said.append("'" + node.id)  # a name may look like the name of a field
            self._open[-1].reads.add(node.id)
        elif kind is ast.Constant:
            self._said.append(_plain(node.value))
        elif kind in _SPECIAL:
            _SPECIAL[kind](self, node)
        else:
            self._fields(node)

    def _fields(self, node: Any) -> None:
        """A field without content is as good as none: later versions have more of them."""
        say, visit, held = self._said.append, self._visit, node.__dict__
        name, names = _FIELDS[node.__class__]
        say(name)
        for name in names:
            value = held.get(name)
            if value is None:
                continue
            kind = value.__class__
            if kind is list:
                if value:
                    say(name)
                    for each in value:
                        visit(each) if isinstance(each, ast.AST) else say(_plain(each))
                    say("]")
            elif kind is str or kind is int:
                say(f"{name} {value}")
            elif kind is bool:  # `case True:`
                say(_plain(value))
            elif value._fields:
                say(name)
                visit(value)
            else:  # an operator
                say(kind.__name__)
        say(")")

    def _digest(self, begin: int) -> str:
        text = "\n".join(self._said[begin:])
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _definition(self, node: Any) -> None:
        begin, made = len(self._said), Definition()
        self._open.append(made)
        self._fields(node)
        self._open.pop()
        made.digest = self._digest(begin)
        self._open[-1].take(made)
        if isinstance(node, ast.ClassDef):
            self._source.classes.setdefault(node.name, []).append(made)
        else:
            name = _ANONYMOUS.get(type(node)) or node.name
            first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
            self._source.functions.setdefault((name, first), []).append(made)

    def _place(self, node: Any) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._open[-1].changes.add(_root(node))
        elif isinstance(node, ast.Attribute):
            self._open[-1].reads.add(_dotted(node))
        self._fields(node)

    def _call(self, node: Any) -> None:
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if isinstance(called, ast.Attribute) and _CHANGING.fullmatch(name):
            self._open[-1].changes.add(_root(called))
        elif name in _IMPORTING and node.args and isinstance(node.args[0], ast.Constant):
            self._open[-1].imports.add((str(node.args[0].value), ()))
        self._fields(node)

    def _global(self, node: Any) -> None:
        self._open[-1].rebinds.update(node.names)
        self._fields(node)

    def _import(self, node: Any) -> None:
        self._open[-1].imports.update((each.name, ()) for each in node.names)
        self._fields(node)

    def _import_from(self, node: Any) -> None:
        names = tuple(each.name for each in node.names)
        self._open[-1].imports.add(("." * node.level + (node.module or ""), names))
        self._fields(node)

    def _joined(self, node: Any) -> None:
        node.values = [each for each in node.values if getattr(each, "value", None) != ""]  # some versions add these
        self._fields(node)

    def _if(self, node: Any) -> None:
        if "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
            node.body = []  # never executed
        self._fields(node)


_SPECIAL: dict[type, Callable[[_Reader, Any], None]] = {
    **dict.fromkeys((*_FUNCTIONS, *_ANONYMOUS, ast.ClassDef), _Reader._definition),
    ast.Attribute: _Reader._place,
    ast.Subscript: _Reader._place,
    ast.Call: _Reader._call,
    ast.Global: _Reader._global,
    ast.Import: _Reader._import,
    ast.ImportFrom: _Reader._import_from,
    ast.JoinedStr: _Reader._joined,
    ast.If: _Reader._if,
}


_FIELDS = {
    kind: (kind.__name__, [name for name in kind._fields if name not in _WITHOUT_MEANING])
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def _plain(value: Any) -> str:
    """A constant, by its text and not its repr, which follows the version's Unicode tables."""
    if value.__class__ is str:
        return f"str {len(value)} {value}"
    return f"int {value:x}" if value.__class__ is int else f"{value.__class__.__name__} {value!r}"


def _root(node: ast.AST) -> str:
    """The name that `name.attribute[index]` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.AST) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def code_parts(code: types.CodeType) -> Iterator[Any]:
    """What was compiled, for code without a source; another version of Python compiles differently."""
    yield from (code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars)
    for constant in code.co_consts:
        yield from code_parts(constant) if isinstance(constant, types.CodeType) else (constant,)


def names_in(code: types.CodeType) -> set[str]:
    """The names around it that code refers to, attributes and modules among them."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def is_compiled_from(code: types.CodeType, content: bytes, name: str) -> bool:
    """Whether a source, as it is now, has this code: it may have been edited after it was loaded."""
    return _compiled(code) in _all_compiled(content, name)


def _compiled(code: types.CodeType) -> str:
    return f"{code.co_qualname} {list(code_parts(code))}"


@functools.lru_cache(maxsize=256)
def _all_compiled(content: bytes, name: str) -> frozenset[str]:
    found: set[str] = set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pending = [compile(content, name, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pending = []
    while pending:
        code = pending.pop()
        found.add(_compiled(code))
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(found)
