"""Digests of Python source, independent of its layout and of the version of Python.

Comments, blank lines, quotes and line breaks do not count. Docstrings do, since a docstring may be a prompt.

>>> read_source(b"x = 'a'  # why").digest == read_source(b'x = (\\n  "a"\\n)').digest
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
"""A module, with leading dots if relative, and the names imported from it."""


@dataclass(slots=True)
class Definition:
    """The content of a function, lambda or class, with those inside it, and the names it reads, changes and imports."""

    digest: str = ""
    reads: set[str] = field(default_factory=set)  # names and dotted names, including local ones
    changes: set[str] = field(default_factory=set)  # names whose objects it changes
    rebinds: set[str] = field(default_factory=set)  # names that it declares global
    imports: set[Import] = field(default_factory=set)

    def merge(self, inner: Definition) -> None:
        self.reads |= inner.reads
        self.changes |= inner.changes
        self.rebinds |= inner.rebinds
        self.imports |= inner.imports


@dataclass(slots=True)
class SourceFile:
    """The definitions in a file; `module` is all of it."""

    module: Definition
    functions: dict[tuple[str, int], list[Definition]]
    classes: dict[str, list[Definition]]

    @property
    def digest(self) -> str:
        return self.module.digest

    def function(self, code: types.CodeType) -> Definition | None:
        """The definition of a code object; None if different ones begin in the same line, as lambdas may."""
        definitions = self.functions.get((code.co_name, code.co_firstlineno), [])
        return definitions[0] if len({definition.digest for definition in definitions}) == 1 else None


@functools.lru_cache(maxsize=4096)
def read_source(content: bytes) -> SourceFile | None:
    """Parse a source file in its declared encoding; None if it is not Python or nested too deeply."""
    collects = gc.isenabled()
    gc.disable()  # a syntax tree has many objects and no cycles: collection would take a third of the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the parsed code
            return _SourceReader().read(ast.parse(content))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    finally:
        if collects:
            gc.enable()


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANONYMOUS: dict[type, str] = {ast.Lambda: "<lambda>", ast.GeneratorExp: "<genexpr>"}
_IGNORED_FIELDS = ("ctx", "kind", "type_comment", "type_ignores")
_MUTATORS = re.compile(
    "append|appendleft|extend|insert|add|update|setdefault|pop|popleft|popitem|remove|discard|clear|sort"
)
_IMPORT_FUNCTIONS = ("import_module", "__import__")


class _SourceReader:
    """One pass over a syntax tree that writes its text and collects the names that each definition uses."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._open = [Definition()]
        self._source = SourceFile(self._open[0], {}, {})

    def read(self, tree: ast.Module) -> SourceFile:
        self._visit(tree)
        self._source.module.digest = self._digest(0)
        return self._source

    def _visit(self, node: Any) -> None:
        kind = node.__class__
        if kind is ast.Name:
            self._text.append("'" + node.id)  # a name may look like the name of a field
            self._open[-1].reads.add(node.id)
        elif kind is ast.Constant:
            self._text.append(_constant_text(node.value))
        elif kind in _SPECIAL:
            _SPECIAL[kind](self, node)
        else:
            self._fields(node)

    def _fields(self, node: Any) -> None:
        """Write the fields of a node except for empty ones, which later versions of Python add."""
        write, visit, fields = self._text.append, self._visit, node.__dict__
        name, names = _FIELDS[node.__class__]
        write(name)
        for name in names:
            value = fields.get(name)
            if value is None:
                continue
            kind = value.__class__
            if kind is list:
                if value:
                    write(name)
                    for item in value:
                        visit(item) if isinstance(item, ast.AST) else write(_constant_text(item))
                    write("]")
            elif kind is str or kind is int:
                write(f"{name} {value}")
            elif kind is bool:  # `case True:`
                write(_constant_text(value))
            elif value._fields:
                write(name)
                visit(value)
            else:  # an operator
                write(kind.__name__)
        write(")")

    def _digest(self, start: int) -> str:
        text = "\n".join(self._text[start:])
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _definition(self, node: Any) -> None:
        start, definition = len(self._text), Definition()
        self._open.append(definition)
        self._fields(node)
        self._open.pop()
        definition.digest = self._digest(start)
        self._open[-1].merge(definition)
        if isinstance(node, ast.ClassDef):
            self._source.classes.setdefault(node.name, []).append(definition)
        else:
            name = _ANONYMOUS.get(type(node)) or node.name
            first = min((decorator.lineno for decorator in getattr(node, "decorator_list", ())), default=node.lineno)
            self._source.functions.setdefault((name, first), []).append(definition)

    def _attribute_or_item(self, node: Any) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._open[-1].changes.add(_root(node))
        elif isinstance(node, ast.Attribute):
            self._open[-1].reads.add(_dotted(node))
        self._fields(node)

    def _call(self, node: Any) -> None:
        callee = node.func
        name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
        if isinstance(callee, ast.Attribute) and _MUTATORS.fullmatch(name):
            self._open[-1].changes.add(_root(callee))
        elif name in _IMPORT_FUNCTIONS and node.args and isinstance(node.args[0], ast.Constant):
            self._open[-1].imports.add((str(node.args[0].value), ()))
        self._fields(node)

    def _global(self, node: Any) -> None:
        self._open[-1].rebinds.update(node.names)
        self._fields(node)

    def _import(self, node: Any) -> None:
        self._open[-1].imports.update((alias.name, ()) for alias in node.names)
        self._fields(node)

    def _import_from(self, node: Any) -> None:
        names = tuple(alias.name for alias in node.names)
        self._open[-1].imports.add(("." * node.level + (node.module or ""), names))
        self._fields(node)

    def _f_string(self, node: Any) -> None:
        node.values = [value for value in node.values if getattr(value, "value", None) != ""]  # some versions add these
        self._fields(node)

    def _if(self, node: Any) -> None:
        if "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
            node.body = []  # only type checkers read it
        self._fields(node)


_SPECIAL: dict[type, Callable[[_SourceReader, Any], None]] = {
    **dict.fromkeys((*_FUNCTIONS, *_ANONYMOUS, ast.ClassDef), _SourceReader._definition),
    ast.Attribute: _SourceReader._attribute_or_item,
    ast.Subscript: _SourceReader._attribute_or_item,
    ast.Call: _SourceReader._call,
    ast.Global: _SourceReader._global,
    ast.Import: _SourceReader._import,
    ast.ImportFrom: _SourceReader._import_from,
    ast.JoinedStr: _SourceReader._f_string,
    ast.If: _SourceReader._if,
}


_FIELDS = {
    kind: (kind.__name__, [name for name in kind._fields if name not in _IGNORED_FIELDS])
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def _constant_text(value: Any) -> str:
    """The text of a constant; its repr would depend on the Unicode tables of the Python version."""
    if value.__class__ is str:
        return f"str {len(value)} {value}"
    return f"int {value:x}" if value.__class__ is int else f"{value.__class__.__name__} {value!r}"


def _root(node: ast.AST) -> str:
    """The name at the start of `name.attribute[index]`."""
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
    """The content of compiled code, for code without a source; it depends on the version of Python."""
    yield from (code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars)
    for constant in code.co_consts:
        yield from code_parts(constant) if isinstance(constant, types.CodeType) else (constant,)


def names_in(code: types.CodeType) -> set[str]:
    """The global names that code refers to, including attributes and modules."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def is_compiled_from(code: types.CodeType, content: bytes, name: str) -> bool:
    """Whether the current source contains this code; it may have been edited since it was loaded."""
    return _code_text(code) in _compiled_texts(content, name)


def _code_text(code: types.CodeType) -> str:
    return f"{code.co_qualname} {list(code_parts(code))}"


@functools.lru_cache(maxsize=256)
def _compiled_texts(content: bytes, name: str) -> frozenset[str]:
    texts: set[str] = set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pending = [compile(content, name, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pending = []
    while pending:
        code = pending.pop()
        texts.add(_code_text(code))
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(texts)
