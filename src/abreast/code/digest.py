"""What code an answer depends on, as a digest: if it is the same, stored answers stand; if not, they are given anew."""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from abreast.code.content import (
    ACCESSORS,
    BUILTIN,
    CODE,
    PLAIN,
    NoContentError,
    Piece,
    cell_value,
    declared,
    in_container,
    in_foreign_object,
    in_own_object,
    is_a,
    is_chance,
    is_container,
    is_data,
    is_service,
    qualified_name,
)
from abreast.code.modules import Home, Modules, home, is_standard, project_of
from abreast.code.source import Definition, code_parts, names_in
from abreast.errors import BadInput


def source_digest(function: Any, versioned: bool = False) -> str:
    """A digest that changes when the function's answers may have changed; the same in every process, folder and
    version of Python.

    It counts the function's code and, in turn, the functions, classes and data it refers to and the objects it holds
    (closures, defaults, arguments of a partial, the object of a method), by their content. For a function of a module
    also what the module's file says; for one of a script not, so that other lines of the script do not count. Of the
    user's modules that are imported on the way, the files count; of installed packages, the versions. What cannot have
    content (clients, locks, loggers) counts by its class. A held object that has content which cannot be read is
    refused, unless the user answers for it with a version.

    >>> source_digest(len) == source_digest(len)
    True
    """
    try:
        return _Description(versioned).whole(function)
    except RecursionError as error:
        what = f"{qualified_name(function)} holds data that is nested too deeply to tell one version of it from another"
        raise BadInput(what, "make it flatter, or make it inside the function") from error


def content_digest(value: Any) -> str:
    """A digest of any object by its content, that of its class included; what has none is refused.

    >>> content_digest({1, 2}) == content_digest({2, 1})
    True
    """
    return _Description(versioned=False).whole(value)


_FIX = "give the variant a version:, or make it a dataclass"
_CHANGEABLE = (list, dict, set, bytearray, collections.deque)
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_MADE = re.compile(  # methods of dataclasses and named tuples
    "__(init|repr|eq|ne|lt|le|gt|ge|hash|setattr|delattr|getstate|setstate|replace|new|getnewargs)__|"
    "_make|_replace|_asdict"
)
_AT_FIRST: dict[int, tuple[Any, str]] = {}  # containers that functions fill, as they were when first met


class _Description:
    """Walks from a function over everything it is made of, each thing once; never writes a memory address."""

    def __init__(self, versioned: bool) -> None:
        self._versioned = versioned
        self._modules = Modules()
        self._known: dict[int, str] = {}
        self._held: list[Any] = []  # the id of a freed value may come again
        self._later: list[Any] = []
        self._path: list[str] = []
        self._depth = 0
        self._in_foreign = 0
        self._project = ""

    def whole(self, value: Any) -> str:
        entry, found = self.of(value), []
        while self._later:
            each = self._later.pop()
            found.append(_hash(qualified_name(each), *self._parts(each)))
        return _hash(entry, *sorted(found), *self._modules.parts())

    def of(self, value: Any) -> str:
        kind = type(value)
        if kind is str:
            return f"str {self._moved(value)}"
        if value is None or kind in PLAIN:
            return f"int {value:x}" if kind is int else f"{kind.__name__} {value!r}"
        if id(value) in self._known:
            return self._known[id(value)]
        self._held.append(value)
        if _is_found_by_name(value):  # its name stands for it here: a chain of calls is as deep as a project is large
            self._later.append(value)
            self._known[id(value)] = qualified_name(value)
        else:
            self._known[id(value)] = f"(inside itself, {self._depth})"
            self._depth += 1
            self._known[id(value)] = _hash(qualified_name(value), *self._parts(value))
            self._depth -= 1
        return self._known[id(value)]

    def _moved(self, text: str) -> str:
        """A path in the user's project means the same wherever the project is."""
        rest = text.removeprefix(self._project)
        return f"(project){rest}" if len(rest) < len(text) and rest[:1] in ("", "/", "\\") else text

    def _parts(self, value: Any) -> Iterator[str]:
        if is_a(value, types.FunctionType):
            yield from self._function(value)
        elif is_a(value, type):
            yield from self._class(value)
        elif is_a(value, types.ModuleType):
            self._modules.add(value.__name__)
        elif is_a(value, types.CodeType):
            yield from map(self.of, code_parts(value))
        elif is_a(value, *CODE):
            yield from self._pieces(_around(value))
        else:
            yield from self._object(value)

    def _pieces(self, pieces: Iterable[Piece]) -> Iterator[str]:
        for piece in pieces:
            if isinstance(piece, str):
                yield piece
                continue
            name, value = piece
            self._path.append(name)
            yield name
            yield self.of(value)
            self._path.pop()

    # Code

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        scope = function.__globals__
        module = scope.get("__name__", "")  # not __module__: a decorator borrows that
        place = home(module, scope)
        with self._place(function.__qualname__, place):
            if place != "script":
                self._modules.add(module)
            if place != "foreign":
                yield from self._code(function.__code__, scope, place)
            yield from self._kept(function, place)

    def _kept(self, function: types.FunctionType, place: Home) -> Iterator[str]:
        cells = zip(function.__code__.co_freevars, map(cell_value, function.__closure__ or ()), strict=True)
        held = vars(function) if place != "foreign" else {"__wrapped__": vars(function).get("__wrapped__")}
        yield from self._pieces([*cells, *sorted(held.items())])
        yield from self._pieces([("defaults", function.__defaults__), ("defaults", function.__kwdefaults__)])

    def _code(self, code: types.CodeType, scope: dict[str, Any], place: Home) -> Iterator[str]:
        self._project = self._project or project_of(code.co_filename)
        written = self._modules.written(code, scope)
        names = names_in(code)
        if written is None:  # made by exec, or one of several in a line
            yield from map(self.of, code_parts(code))
            written = Definition("", names, imports={(name, ()) for name in names - scope.keys()})
        yield written.digest
        self._modules.add_imports(written.imports, scope)
        yield from self._referred(written, names, scope, place)

    def _referred(self, written: Definition, names: set[str], scope: dict[str, Any], place: Home) -> Iterator[str]:
        """What a function reads from around it. What a module's function also binds is its memory, not its making."""
        for dotted in sorted(written.reads):
            name, *attributes = dotted.split(".")
            if name not in scope or name not in names or (place == "user" and name in written.rebinds):
                continue
            value = scope[name]
            for attribute in attributes:  # of modules of the user's; what an object holds counts with the object
                if not (is_a(value, types.ModuleType) and home(value.__name__) == "user"):
                    break
                value = vars(value).get(attribute)
            if id(value) in _AT_FIRST or (name in written.changes and type(value) in _CHANGEABLE):
                yield from (dotted, self._at_first(value))
            else:
                counts = not is_chance(value) and (place == "script" or is_data(value))
                yield from self._pieces([(dotted, value if counts else type(value))])

    def _at_first(self, value: Any) -> str:
        """A container that the function itself fills counts as it was before."""
        if id(value) not in _AT_FIRST:
            _AT_FIRST[id(value)] = (value, self.of(value))
        return _AT_FIRST[id(value)][1]

    def _class(self, value: type) -> Iterator[str]:
        place = home(value.__module__)
        self._modules.add(value.__module__)
        if place == "foreign":
            return
        with self._place(value.__qualname__, place):
            written = self._class_source(value) if place == "script" else ["(in the file)"]
            yield from written
            yield from map(self.of, value.__bases__)
            yield from self._pieces(declared(value))
            for name, member in sorted(vars(value).items()):
                if is_a(member, *CODE):
                    if not self._is_made(name, member, bool(written)):
                        yield from self._pieces([(name, member)])
                elif not issubclass(value, enum.Enum) and not (name.startswith("__") and name.endswith("__")):
                    yield from self._pieces([(name, member if is_data(member) else type(member))])

    def _class_source(self, value: type) -> list[str]:
        """What is written of a class of a script; in a notebook as far as its methods tell where."""
        scope = vars(sys.modules[value.__module__]) if value.__module__ in sys.modules else {}
        methods = [member.__code__ for member in vars(value).values() if is_a(member, types.FunctionType)]
        files = {str(scope.get("__file__", "<>")), *(code.co_filename for code in methods)}
        sources = [self._modules.source(file, scope) for file in sorted(files)]
        found = (each.digest for source in sources if source for each in source.classes.get(value.__name__, ()))
        return sorted(set(found))

    def _is_made(self, name: str, member: Any, class_is_written: bool) -> bool:
        """Whether a decorator or metaclass of Python's made it, from what is written in the class."""
        if is_a(member, *BUILTIN, type):
            return name.startswith("_") and home(getattr(member, "__module__", None) or "builtins") == "foreign"
        function = inspect.unwrap(getattr(member, "__func__", member))
        if not is_a(function, types.FunctionType) or not (class_is_written or _MADE.fullmatch(name)):
            return False
        if function.__code__.co_filename.startswith("<"):
            return self._modules.written(function.__code__, function.__globals__) is None
        return name.startswith("_") and is_standard(str(function.__globals__.get("__name__")))

    # Objects

    def _object(self, value: Any) -> Iterator[str]:
        kind = type(value)
        if home(kind.__module__) != "foreign":
            yield from self._pieces(in_own_object(value))
            return
        self._modules.add(kind.__module__)
        if kind in (set, frozenset):
            yield from sorted(map(self.of, value))
        elif is_container(value):
            yield from self._pieces(in_container(value))
        elif not is_service(value):
            with self._place("", "foreign"):
                yield from self._suspended(value) if is_a(value, *_SUSPENDED) else self._foreign(value)

    def _foreign(self, value: Any) -> Iterator[str]:
        """Refused if it has no content and the user's own code holds it."""
        try:
            pieces = in_foreign_object(value)
        except NoContentError as error:
            if self._versioned or self._in_foreign > 1:
                return
            where, kind = ".".join(filter(None, self._path)), type(value)
            what = f"a {kind.__module__}.{kind.__qualname__}, which has no content to tell one from another"
            raise BadInput(f"{where or 'the function'} is {what}", _FIX) from error
        yield from self._pieces(pieces)

    def _suspended(self, value: Any) -> Iterator[str]:
        """A generator or a coroutine: its code, how far it is, and its variables."""
        prefix = next(each for each in ("gi", "cr", "ag") if hasattr(value, f"{each}_code"))
        frame = getattr(value, f"{prefix}_frame")
        scope = frame.f_globals if frame else {}
        yield from self._code(getattr(value, f"{prefix}_code"), scope, home(scope.get("__name__"), scope))
        if frame is not None:
            yield str(frame.f_lasti)
            yield from self._pieces(sorted(frame.f_locals.items()))

    @contextmanager
    def _place(self, name: str, place: Home) -> Iterator[None]:
        before, self._in_foreign = self._in_foreign, self._in_foreign + 1 if place == "foreign" else 0
        self._path.append(name)
        yield
        self._path.pop()
        self._in_foreign = before


def _around(value: Any) -> Iterator[Piece]:
    """What a method, a partial or a property is made of."""
    if is_a(value, types.MethodType):
        yield from (("__func__", value.__func__), ("__self__", value.__self__))
    elif is_a(value, functools.partial):
        yield from (("func", value.func), ("args", value.args))
        yield from (*sorted(value.keywords.items()), *sorted(vars(value).items()))
    elif is_a(value, *ACCESSORS):
        yield from ((name, getattr(value, name, None)) for name in ("fget", "fset", "fdel", "__func__", "func"))
    elif is_a(value, *BUILTIN) and not is_a(value.__self__, types.ModuleType):
        yield "__self__", value.__self__


def _is_found_by_name(value: Any) -> bool:
    """Whether it is the function or class of that name in its module, so that there is no other of that name."""
    if is_a(value, types.FunctionType):
        scope: Any = value.__globals__
    elif is_a(value, type) and value.__module__ in sys.modules:
        scope = vars(sys.modules[value.__module__])
    else:
        return False
    found: Any = None
    for name in value.__qualname__.split("."):
        found = scope.get(name)
        scope = vars(found) if is_a(found, type) else {}
    return found is value


def _hash(*parts: str) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return found.hexdigest()
