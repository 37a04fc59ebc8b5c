"""Digests of the code that an answer depends on: stored answers are reused as long as the digest is the same."""

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

from abreast.code import content
from abreast.code.content import CODE, NoContentError, Piece, has_type, qualified_name
from abreast.code.modules import ModuleOrigin, Modules, classify_module, is_standard, project_folder
from abreast.code.source import Definition, code_parts, names_in
from abreast.errors import BadInput


def source_digest(function: Any, versioned: bool = False) -> str:
    """Return a digest that changes when the function's answers may have changed, and is the same in every process,
    folder and version of Python.

    It covers the function's code and, transitively, the functions, classes and data it refers to and the objects it
    holds (closures, defaults, arguments of a partial, the object of a method), by content. A function of a module also
    depends on the module's file, one of a script only on its own lines. Of imported modules, the
    user's count by file, installed packages by version. Objects without content (clients, locks, loggers) count by
    class. Other held objects whose content cannot be read are refused, unless the user sets a version.

    >>> source_digest(len) == source_digest(len)
    True
    """
    try:
        return _Digester(versioned).digest(function)
    except RecursionError as error:
        message = f"{qualified_name(function)} holds data that is nested too deeply to detect changes in it"
        raise BadInput(message, "make it flatter, or create it inside the function") from error


def content_digest(value: Any) -> str:
    """Return a digest of the content of any object and its class; an object without content is refused.

    >>> content_digest({1, 2}) == content_digest({2, 1})
    True
    """
    return _Digester(versioned=False).digest(value)


_FIX = "set `version:` of the variant, or make it a dataclass"
_MUTABLE = (list, dict, set, bytearray, collections.deque)
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_GENERATED_METHODS = re.compile(  # generated for dataclasses and named tuples
    "__(init|repr|eq|ne|lt|le|gt|ge|hash|setattr|delattr|getstate|setstate|replace|new|getnewargs)__|"
    "_make|_replace|_asdict"
)
_INITIAL_DIGESTS: dict[int, tuple[Any, str]] = {}  # first digests of containers that functions fill


class _Digester:
    """Visits everything that a function is made of, each object once. Its text never contains memory addresses."""

    def __init__(self, versioned: bool) -> None:
        self._versioned = versioned
        self._modules = Modules()
        self._digests: dict[int, str] = {}
        self._alive: list[Any] = []  # keeps values alive, since ids are reused
        self._pending: list[Any] = []
        self._path: list[str] = []
        self._depth = 0
        self._foreign_depth = 0
        self._project = ""

    def digest(self, value: Any) -> str:
        entry, digests = self.of(value), []
        while self._pending:
            pending_value = self._pending.pop()
            digests.append(_hash(qualified_name(pending_value), *self._parts(pending_value)))
        return _hash(entry, *sorted(digests), *self._modules.parts())

    def of(self, value: Any) -> str:
        kind = type(value)
        if kind is str:
            return f"str {self._relocatable(value)}"
        if value is None or kind in content.PLAIN:
            return f"int {value:x}" if kind is int else f"{kind.__name__} {value!r}"
        if id(value) in self._digests:
            return self._digests[id(value)]
        self._alive.append(value)
        if _is_importable_by_name(value):  # by name, since a chain of calls may be very deep
            self._pending.append(value)
            self._digests[id(value)] = qualified_name(value)
        else:
            self._digests[id(value)] = f"(inside itself, {self._depth})"
            self._depth += 1
            self._digests[id(value)] = _hash(qualified_name(value), *self._parts(value))
            self._depth -= 1
        return self._digests[id(value)]

    def _relocatable(self, text: str) -> str:
        """Make a path in the user's project independent of the project's location."""
        path = text.removeprefix(self._project)
        return f"(project){path}" if len(path) < len(text) and path[:1] in ("", "/", "\\") else text

    def _parts(self, value: Any) -> Iterator[str]:
        if has_type(value, types.FunctionType):
            yield from self._function(value)
        elif has_type(value, type):
            yield from self._class(value)
        elif has_type(value, types.ModuleType):
            self._modules.add(value.__name__)
        elif has_type(value, types.CodeType):
            yield from map(self.of, code_parts(value))
        elif has_type(value, *CODE):
            yield from self._pieces(_wrapper_pieces(value))
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
        module = scope.get("__name__", "")  # not __module__, which decorators copy
        origin = classify_module(module, scope)
        with self._within(function.__qualname__, origin):
            if origin != "script":
                self._modules.add(module)
            if origin != "foreign":
                yield from self._code(function.__code__, scope, origin)
            values = map(content.cell_value, function.__closure__ or ())
            cells = zip(function.__code__.co_freevars, values, strict=True)
            attributes = vars(function) if origin != "foreign" else {"__wrapped__": vars(function).get("__wrapped__")}
            yield from self._pieces([*cells, *sorted(attributes.items())])
            yield from self._pieces([("defaults", function.__defaults__), ("defaults", function.__kwdefaults__)])

    def _code(self, code: types.CodeType, scope: dict[str, Any], origin: ModuleOrigin) -> Iterator[str]:
        self._project = self._project or project_folder(code.co_filename)
        definition = self._modules.definition_of(code, scope)
        names = names_in(code)
        if definition is None:  # made by exec, or ambiguous in its line
            yield from map(self.of, code_parts(code))
            definition = Definition("", names, imports={(name, ()) for name in names - scope.keys()})
        yield definition.digest
        self._modules.add_imports(definition.imports, scope)
        yield from self._globals(definition, names, scope, origin)

    def _globals(
        self, definition: Definition, names: set[str], scope: dict[str, Any], origin: ModuleOrigin
    ) -> Iterator[str]:
        """The globals that a function reads. Globals that a module's function also rebinds are state, not code."""
        for dotted in sorted(definition.reads):
            name, *attributes = dotted.split(".")
            if name not in scope or name not in names or (origin == "user" and name in definition.rebinds):
                continue
            value = scope[name]
            for attribute in attributes:  # attributes of the user's modules; those of objects count with the object
                if not (has_type(value, types.ModuleType) and classify_module(value.__name__) == "user"):
                    break
                value = vars(value).get(attribute)
            if id(value) in _INITIAL_DIGESTS or (name in definition.changes and type(value) in _MUTABLE):
                if id(value) not in _INITIAL_DIGESTS:
                    _INITIAL_DIGESTS[id(value)] = (value, self.of(value))
                yield from (dotted, _INITIAL_DIGESTS[id(value)][1])
            else:
                counts = not content.is_random_source(value) and (origin == "script" or content.is_data(value))
                yield from self._pieces([(dotted, value if counts else type(value))])

    def _class(self, value: type) -> Iterator[str]:
        origin = classify_module(value.__module__)
        self._modules.add(value.__module__)
        if origin == "foreign":
            return
        with self._within(value.__qualname__, origin):
            source_digests = self._class_source(value) if origin == "script" else ["(in the file)"]
            yield from source_digests
            yield from map(self.of, value.__bases__)
            yield from self._pieces(content.declared_pieces(value))
            for name, member in sorted(vars(value).items()):
                if has_type(member, *CODE):
                    if not self._is_generated(name, member, bool(source_digests)):
                        yield from self._pieces([(name, member)])
                elif not issubclass(value, enum.Enum) and not (name.startswith("__") and name.endswith("__")):
                    yield from self._pieces([(name, member if content.is_data(member) else type(member))])

    def _class_source(self, value: type) -> list[str]:
        """The digests of the source of a class in a script; in a notebook, located by its methods."""
        scope = vars(sys.modules[value.__module__]) if value.__module__ in sys.modules else {}
        methods = [member.__code__ for member in vars(value).values() if has_type(member, types.FunctionType)]
        files = {str(scope.get("__file__", "<>")), *(code.co_filename for code in methods)}
        sources = [self._modules.source(file, scope) for file in sorted(files)]
        return sorted(
            {definition.digest for source in sources if source for definition in source.classes.get(value.__name__, ())}
        )

    def _is_generated(self, name: str, member: Any, class_is_written: bool) -> bool:
        """Whether a standard decorator or metaclass generated a member from the source of the class."""
        if has_type(member, *content.BUILTIN, type):
            return (
                name.startswith("_") and classify_module(getattr(member, "__module__", None) or "builtins") == "foreign"
            )
        function = inspect.unwrap(getattr(member, "__func__", member))
        if not has_type(function, types.FunctionType) or not (class_is_written or _GENERATED_METHODS.fullmatch(name)):
            return False
        if function.__code__.co_filename.startswith("<"):
            return self._modules.definition_of(function.__code__, function.__globals__) is None
        return name.startswith("_") and is_standard(str(function.__globals__.get("__name__")))

    # Objects

    def _object(self, value: Any) -> Iterator[str]:
        kind = type(value)
        if classify_module(kind.__module__) != "foreign":
            yield from self._pieces(content.own_object_pieces(value))
            return
        self._modules.add(kind.__module__)
        if kind in (set, frozenset):
            yield from sorted(map(self.of, value))
        elif content.is_container(value):
            yield from self._pieces(content.container_pieces(value))
        elif not content.is_service(value):
            with self._within("", "foreign"):
                yield from self._suspended(value) if has_type(value, *_SUSPENDED) else self._foreign(value)

    def _foreign(self, value: Any) -> Iterator[str]:
        """Yield the parts of a library's object; refuse one that has no content and is held by the user's own code."""
        try:
            pieces = content.foreign_object_pieces(value)
        except NoContentError as error:
            if self._versioned or self._foreign_depth > 1:
                return
            where, kind = ".".join(filter(None, self._path)), type(value)
            reason = f"a {kind.__module__}.{kind.__qualname__}, whose content cannot be compared"
            raise BadInput(f"{where or 'the function'} is {reason}", _FIX) from error
        yield from self._pieces(pieces)

    def _suspended(self, value: Any) -> Iterator[str]:
        """The code, position and variables of a generator or coroutine."""
        prefix = next(prefix for prefix in ("gi", "cr", "ag") if hasattr(value, f"{prefix}_code"))
        frame = getattr(value, f"{prefix}_frame")
        scope = frame.f_globals if frame else {}
        yield from self._code(getattr(value, f"{prefix}_code"), scope, classify_module(scope.get("__name__"), scope))
        if frame is not None:
            yield str(frame.f_lasti)
            yield from self._pieces(sorted(frame.f_locals.items()))

    @contextmanager
    def _within(self, name: str, origin: ModuleOrigin) -> Iterator[None]:
        outer_depth, self._foreign_depth = self._foreign_depth, self._foreign_depth + 1 if origin == "foreign" else 0
        self._path.append(name)
        yield
        self._path.pop()
        self._foreign_depth = outer_depth


def _wrapper_pieces(value: Any) -> Iterator[Piece]:
    if has_type(value, types.MethodType):
        yield from (("__func__", value.__func__), ("__self__", value.__self__))
    elif has_type(value, functools.partial):
        yield from (("func", value.func), ("args", value.args))
        yield from (*sorted(value.keywords.items()), *sorted(vars(value).items()))
    elif has_type(value, *content.ACCESSORS):
        yield from ((name, getattr(value, name, None)) for name in ("fget", "fset", "fdel", "__func__", "func"))
    elif has_type(value, *content.BUILTIN) and not has_type(value.__self__, types.ModuleType):
        yield "__self__", value.__self__


def _is_importable_by_name(value: Any) -> bool:
    """Whether a function or class can be found by its qualified name, so that the name identifies it."""
    if has_type(value, types.FunctionType):
        scope: Any = value.__globals__
    elif has_type(value, type) and value.__module__ in sys.modules:
        scope = vars(sys.modules[value.__module__])
    else:
        return False
    member: Any = None
    for name in value.__qualname__.split("."):
        member = scope.get(name)
        scope = vars(member) if has_type(member, type) else {}
    return member is value


def _hash(*parts: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return digest.hexdigest()
