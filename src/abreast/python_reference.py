"""References to Python functions: loading `python:MODULE:FUNCTION`, and a digest that changes with the code."""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import io
import random
import re
import sys
import sysconfig
import textwrap
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from abreast.digest import digest
from abreast.errors import BadInput, suggestion

_PREFIX = "python:"
_LONGEST_HINT = 300
_SCRIPTS = ("__main__", "__mp_main__")


def load_function(reference: str) -> Callable[..., Any]:
    """The function behind `python:MODULE:FUNCTION`; the function may be `Class.method`. Modules of the working folder
    are found as Python itself finds them.

    >>> load_function("python:math:sqrt")(9)
    3.0
    """
    module_name, _, path = reference.removeprefix(_PREFIX).partition(":")
    if not reference.startswith(_PREFIX) or not module_name or not path or ":" in path:
        raise BadInput(f'"{reference}" is not a function reference', "Write python:MODULE:FUNCTION.")
    found: Any = _imported(module_name, reference)
    for name in path.split("."):
        owner, found = found, getattr(found, name, _ABSENT)
        if found is _ABSENT:
            raise BadInput(*_no_such_name(reference, owner, name))
    if not callable(found):
        raise BadInput(f'"{reference}": {path} is not a function but a {type(found).__name__}')
    return found  # type: ignore[no-any-return]


def source_digest(function: Callable[..., Any]) -> str:
    """A digest that changes when the function's answers may have changed; the same in every process.

    It counts the function's code and, in turn, the functions, classes and data it refers to and the objects it holds
    (closures, defaults, arguments of a partial, the object of a method), by their content. For a function of a module
    also the module's file; for one of a script not, so that other lines of the script do not count. Of the user's
    modules that are imported on the way, the files count; of installed packages, the versions. What cannot have
    content (clients, locks, loggers) counts by its class. A held object that has content which cannot be read is
    refused.

    >>> source_digest(len) == source_digest(len)
    True
    """
    modules = _Modules()
    try:
        described = _Description(modules).of(function)
    except RecursionError as error:
        name = _qualified_name(function)
        raise BadInput(
            f"{name} holds data that is nested too deeply to tell one version of it from another", _FIX
        ) from error
    return _hash(described, *modules.parts())


_FIX = "give the variant a version:, or make it a dataclass"

_ABSENT = object()


def _imported(name: str, reference: str) -> types.ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise BadInput(*_import_failed(reference, name, error)) from error
        fix = f'Is "{error.name}" installed, or a file in {here} or on PYTHONPATH?'
        raise BadInput(f'"{reference}": there is no module "{error.name}"', fix) from error
    except (Exception, SystemExit) as error:
        raise BadInput(*_import_failed(reference, name, error)) from error


def _import_failed(reference: str, name: str, error: BaseException) -> tuple[str, str]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    if isinstance(error, SyntaxError):
        where = f" ({error.filename}, line {error.lineno})"
    reason = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return f'"{reference}": importing {name} failed: {reason}{where}', f"Check that `python -c 'import {name}'` works."


def _no_such_name(reference: str, owner: Any, name: str) -> tuple[str, str]:
    hint = suggestion(
        name, [key for key in dir(owner) if not key.startswith("_") and callable(getattr(owner, key, None))]
    )
    place = getattr(owner, "__file__", None) or getattr(owner, "__name__", type(owner).__name__)
    hint = hint if len(hint) < _LONGEST_HINT else ""
    return f'"{reference}": {place} has no "{name}"{hint}', "Check the spelling, and that this is the file you mean."


Home = Literal["script", "user", "foreign"]
_PLAIN = frozenset({str, bytes, bool, int, float, complex})
_CONTAINERS = (list, tuple, dict, set, frozenset, bytearray)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_READABLE = (PurePath, re.Pattern, re.Match, memoryview, types.CellType, types.MappingProxyType, *_VIEWS)
_SIMPLE = (*_PLAIN, *_CONTAINERS, PurePath, enum.Enum, re.Pattern)
_ACCESSORS = (property, staticmethod, classmethod, functools.cached_property, functools.partialmethod)
_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
_CODE = (types.FunctionType, types.MethodType, *_BUILTIN, types.ModuleType, type, functools.partial, *_ACCESSORS)
_SERVICE = re.compile(  # how the class of something that does, rather than is, ends: its insides change with use
    "(Client|Session|Connection|Pool|Transport|Logger|Handler|Lock|Semaphore|Condition|Barrier|Queue|Thread|Process|"
    "Popen|Executor|Loop|Socket|Channel|Stub|Cookies|CookieJar|Engine|WeakSet|WeakKeyDictionary|WeakValueDictionary|"
    "TemporaryDirectory|TemporaryFileWrapper|IOBase)$"
)
_LRU = type(functools.lru_cache(len))
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class _Description:
    """Walks from a function over everything it is made of, each thing once; never writes a memory address."""

    def __init__(self, modules: _Modules) -> None:
        self._modules = modules
        self._known: dict[int, str] = {}
        self._held: list[Any] = []  # the id of a freed value may come again
        self._path: list[str] = []
        self._depth = 0
        self._in_foreign = 0

    def of(self, value: Any) -> str:
        kind = type(value)
        if value is None or kind in _PLAIN:
            return f"int {value:x}" if kind is int else f"{kind.__name__} {value!r}"
        if id(value) in self._known:
            return self._known[id(value)]
        self._held.append(value)
        self._known[id(value)] = f"(inside itself, {self._depth})"
        self._depth += 1
        self._known[id(value)] = found = _hash(_qualified_name(value), *self._parts(value))
        self._depth -= 1
        return found

    def _parts(self, value: Any) -> Iterator[str]:
        if _is(value, types.FunctionType):
            yield from self._function(value)
        elif _is(value, types.MethodType):
            yield from self._named(("__func__", value.__func__), ("__self__", value.__self__))
        elif _is(value, functools.partial):
            yield from self._named(("func", value.func), ("args", value.args))
            yield from self._named(*sorted(value.keywords.items()), *sorted(vars(value).items()))
        elif _is(value, *_ACCESSORS):
            inner = ((name, getattr(value, name, None)) for name in ("fget", "fset", "fdel", "__func__", "func"))
            yield from self._named(*inner)
        elif _is(value, *_BUILTIN):
            if not _is(value.__self__, types.ModuleType):
                yield from self._named(("__self__", value.__self__))
        elif _is(value, type):
            yield from self._class(value)
        elif _is(value, types.ModuleType):
            self._modules.add(value.__name__)
        elif _is(value, types.CodeType):
            yield from self._code(value)
        else:
            yield from self._instance(value)

    def _named(self, *items: tuple[str, Any]) -> Iterator[str]:
        for name, value in items:
            self._path.append(name)
            yield name
            yield self.of(value)
            self._path.pop()

    # Code

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        module = function.__globals__.get("__name__", "")  # not __module__: a decorator borrows that
        home = _home(module)
        with self._place(function.__qualname__, home):
            if home == "foreign":
                self._modules.add(module)
                held = {"__wrapped__": vars(function).get("__wrapped__")}
            else:
                yield from self._own_code(function.__code__, module, home)
                yield from self._referred(function.__code__, function.__globals__, home)
                held = vars(function)
            cells = zip(function.__code__.co_freevars, map(_cell_value, function.__closure__ or ()), strict=True)
            yield from self._named(*cells, *sorted(held.items()))
            yield from self._named(("defaults", function.__defaults__), ("defaults", function.__kwdefaults__))

    def _own_code(self, code: types.CodeType, module: str, home: Home) -> Iterator[str]:
        file = getattr(sys.modules.get(module), "__file__", None)
        self._modules.add(module)
        if home == "user" and file == code.co_filename:  # the file counts: where in it is enough
            yield str(code.co_firstlineno)
            yield from self._bytecode(code) if code.co_name == "<lambda>" else ()
        else:
            yield from self._code(code)

    def _code(self, code: types.CodeType) -> Iterator[str]:
        source = _source(code)
        yield source
        if not source or code.co_name == "<lambda>":  # made by exec, or one of several in a line
            yield from self._bytecode(code)

    def _bytecode(self, code: types.CodeType) -> Iterator[str]:
        yield from (self.of(part) for part in (code.co_code, code.co_names, code.co_varnames))
        for constant in code.co_consts:
            yield from self._bytecode(constant) if isinstance(constant, types.CodeType) else (self.of(constant),)

    def _referred(self, code: types.CodeType, scope: dict[str, Any], home: Home) -> Iterator[str]:
        """What a function reads from around it. What a module's function also writes is its memory, not its making."""
        uses = _Uses(code)
        for name in sorted(uses.imported):
            self._modules.add(name)
        for name, attributes in sorted(uses.read.items()):
            if name not in scope or (home == "user" and name in uses.written):
                continue
            value = scope[name]
            yield from self._named((name, _global(value, home)))
            if isinstance(value, types.ModuleType) and _home(value.__name__) == "user":
                for attribute in sorted(attributes & vars(value).keys()):
                    yield from self._named((f"{name}.{attribute}", _global(vars(value)[attribute], "user")))

    def _class(self, value: type) -> Iterator[str]:
        home = _home(value.__module__)
        self._modules.add(value.__module__)
        if home == "foreign":
            return
        with self._place(value.__qualname__, home):
            yield _source(value) if home == "script" else ""
            yield from (self.of(base) for base in value.__bases__)
            for name, member in sorted(vars(value).items()):
                if _is(member, *_CODE):
                    yield from self._named((name, member))
                elif not issubclass(value, enum.Enum) and not (name.startswith("__") and name.endswith("__")):
                    yield from self._named((name, member if _is_data(member) else type(member)))

    # Objects

    def _instance(self, value: Any) -> Iterator[str]:
        kind = type(value)
        if _home(kind.__module__) != "foreign":
            yield from self._own_instance(value)
            return
        self._modules.add(kind.__module__)
        if kind in _CONTAINERS or issubclass(kind, _READABLE):
            yield from self._contents(value)
        elif not any(_SERVICE.search(each.__name__) for each in kind.__mro__):
            with self._place("", "foreign"):
                yield from self._foreign_instance(value)

    def _contents(self, value: Any) -> Iterator[str]:
        if isinstance(value, dict | types.MappingProxyType):
            for key, item in value.items():
                yield self.of(key)
                yield from self._named((str(key) if type(key) in _PLAIN else type(key).__name__, item))
        elif _is(value, list, tuple, *_VIEWS):
            yield from map(self.of, value)
        elif isinstance(value, set | frozenset):
            yield from sorted(map(self.of, value))
        elif isinstance(value, bytearray | memoryview):
            yield self.of(bytes(value))
        elif isinstance(value, re.Pattern):
            yield from map(self.of, (value.pattern, value.flags))
        elif isinstance(value, re.Match):
            yield from map(self.of, (value.re, value.string, value.regs))
        elif isinstance(value, types.CellType):
            yield self.of(_cell_value(value))
        else:
            yield str(value)

    def _own_instance(self, value: Any) -> Iterator[str]:
        """An object of a class of the user's: its class, its attributes, and what a base in C keeps elsewhere."""
        kind = type(value)
        yield self.of(kind)
        if isinstance(value, enum.Enum):
            yield from self._named((value.name or "", value.value))
            return
        attributes = _attributes(value)
        yield from self._named(*sorted(attributes.items()))
        if any(_home(base.__module__) == "foreign" and base is not object for base in kind.__mro__):
            with self._place("", "foreign"):
                yield from self._array(value) or self._reduced(value) or ()
        elif not attributes and not hasattr(value, "__dict__") and not _has_slots(kind):
            yield from self._foreign_instance(value)

    def _foreign_instance(self, value: Any) -> Iterator[str]:
        if _is(value, _LRU):
            yield self.of(value.__wrapped__)
        elif _is(value, *_SUSPENDED):
            yield from self._suspended(value)
        else:
            for read in (self._array, self._reduced, self._unreadable):
                parts = read(value)
                if parts is not None:
                    yield from parts
                    return

    def _suspended(self, value: Any) -> Iterator[str]:
        """A generator or a coroutine: its code, how far it is, and its variables."""
        prefix = next(each for each in ("gi", "cr", "ag") if hasattr(value, f"{each}_code"))
        frame = getattr(value, f"{prefix}_frame")
        yield self.of(getattr(value, f"{prefix}_code"))
        if frame is not None:
            yield str(frame.f_lasti)
            yield from self._named(*sorted(frame.f_locals.items()))

    def _array(self, value: Any) -> list[str] | None:
        """Arrays, and the frames and tensors that turn into them."""
        kind = type(value)
        if hasattr(kind, "tobytes") and hasattr(kind, "dtype") and hasattr(kind, "shape"):
            if value.dtype.hasobject:
                return [str(value.dtype), str(value.shape), self.of(value.tolist())]
            return [digest(value)]
        if not hasattr(kind, "__array__"):
            return None
        import numpy as np  # late: only for those that have it

        try:
            parts = self._array(np.asarray(value.detach() if hasattr(kind, "detach") else value))
            labels = [(name, getattr(value, name)) for name in ("columns", "index", "name") if hasattr(kind, name)]
        except Exception:  # noqa: BLE001 - on another device, or of a shape that has no array
            return None
        return [*(parts or ()), *self._named(*labels)]

    def _reduced(self, value: Any) -> list[str] | None:
        """What `copy` would make a twin from; None for what has no twin."""
        try:
            made: Any = type(value).__reduce_ex__(value, 2)  # type: ignore[call-arg]
        except Exception:  # noqa: BLE001 - a lock, a socket, or a library's own refusal
            return None
        if not isinstance(made, tuple):
            return [str(made)]
        maker, arguments, state, items, pairs = (*made, None, None, None)[:5]
        parts = [_qualified_name(maker), *map(self.of, arguments)]
        if type(state) is dict and all(type(key) is str for key in state):
            kept = {key: item for key, item in state.items() if not _is_cached(type(value), key)}
            parts += self._named(*((key, kept[key]) for key in sorted(kept)))
        else:
            parts.append(self.of(state))
        return [*parts, *map(self.of, items or ()), *map(self.of, pairs or ())]

    def _unreadable(self, value: Any) -> list[str]:
        """Neither data nor known to be a service. Refused if the user's own code holds it."""
        kind = type(value)
        is_iterator = hasattr(kind, "__next__") and not issubclass(kind, io.IOBase)
        if self._in_foreign > 1 or (_is_standard(kind.__module__) and not is_iterator):
            return []
        if _stable_text(value) and not is_iterator:
            return [_stable_text(value)]
        where = ".".join(name for name in self._path if name)
        what = f"a {kind.__module__}.{kind.__qualname__}, which has no content to tell one from another"
        raise BadInput(f"{where or 'the function'} is {what}", _FIX)

    @contextmanager
    def _place(self, name: str, home: Home) -> Iterator[None]:
        before, self._in_foreign = self._in_foreign, self._in_foreign + 1 if home == "foreign" else 0
        self._path.append(name)
        yield
        self._path.pop()
        self._in_foreign = before


class _Modules:
    """The user's modules that were met and those they import, by their files; installed packages by their versions."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._packages: set[str] = set()
        self._seen: set[str] = set()

    def parts(self) -> Iterator[str]:
        yield from (f"{name} {content}" for name, content in sorted(self._files.items()))
        yield from (f"{name} {_version(name)}" for name in sorted(self._packages))

    def add(self, name: str) -> None:
        pending = [name]
        while pending:
            each = pending.pop()
            if each in self._seen or not isinstance(each, str):
                continue
            self._seen.add(each)
            top = each.partition(".")[0]
            if top in (*_SCRIPTS, _OURSELVES, ""):
                continue
            origin = _origin(top)
            if _is_installed(origin):
                self._packages.add(top)
            elif not _is_standard(top):
                pending += self._read(each)

    def _read(self, name: str) -> Iterator[str]:
        """Take in a file; the names of the modules that it leads to."""
        parent = name.rpartition(".")[0]
        if parent:
            yield parent  # importing a module runs the files of its packages
        origin = _origin(name)
        if not origin or _is_installed(origin):
            return
        try:
            content = Path(origin).read_bytes()
        except OSError:
            return
        self._files[name] = hashlib.blake2b(content, digest_size=16).hexdigest()
        if origin.endswith(".py"):
            package = name if Path(origin).name == "__init__.py" else parent
            yield from _imports(content.decode("utf-8", "replace"), package)
        yield from _modules_of(name)


_OURSELVES = __name__.partition(".")[0]
_IMPORT = re.compile(
    r"(?:^|[:;])[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b[ \t]*(\([^)]*\)|[^\n;#]*)|import[ \t]+([^\n;#]+))", re.M
)


def _imports(text: str, package: str) -> Iterator[str]:
    """The names of modules that a source imports anywhere in it; `from a import b` may mean a module a.b."""
    for origin, taken, modules in _IMPORT.findall(text):
        for name in modules.split(","):
            yield name.split(" as ")[0].strip()
        if origin:
            yield from _imported_from(origin, re.findall(r"(\w+)(?:\s+as\s+\w+)?", taken), package)


def _imported_from(origin: str, taken: list[str], package: str) -> Iterator[str]:
    try:
        base = importlib.util.resolve_name(origin, package) if origin.startswith(".") else origin
    except ImportError:
        return
    base = base.rstrip(".")
    yield base
    yield from (f"{base}.{name}" for name in taken)


def _modules_of(name: str) -> Iterator[str]:
    """The modules whose functions and classes a loaded module holds. Its own submodules are there by accident of what
    else was imported."""
    for value in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
        if isinstance(value, types.ModuleType):
            found = value.__name__
        elif isinstance(value, types.FunctionType):
            found = value.__globals__.get("__name__", "")
        elif isinstance(value, type):
            found = value.__module__
        else:
            continue
        if isinstance(found, str) and not found.startswith(f"{name}."):
            yield found


def _origin(name: str) -> str | None:
    """The file of a module, whether it is loaded yet or not; nothing is run to find it."""
    if name in sys.modules:
        file = vars(sys.modules[name]).get("__file__")
        return file if isinstance(file, str) else None
    try:
        spec = _spec(name)
    except (ImportError, ValueError, AttributeError, TypeError):
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    parent = name.rpartition(".")[0]
    if not parent:
        return importlib.util.find_spec(name) if name.isidentifier() else None
    if parent in sys.modules:
        places = vars(sys.modules[parent]).get("__path__")
    else:
        above = _spec(parent)
        places = above.submodule_search_locations if above is not None else None
    return importlib.machinery.PathFinder.find_spec(name, list(places)) if places is not None else None


def _home(module: Any) -> Home:
    """Whether a module is a script (or typed at a prompt), a file of the user's, or somebody else's."""
    if not isinstance(module, str) or module in _SCRIPTS or module not in sys.modules:
        return "script"
    if module.partition(".")[0] == _OURSELVES or _is_standard(module):
        return "foreign"
    origin = _origin(module)
    return "script" if origin is None else "foreign" if _is_installed(origin) else "user"


_SITES = {"site-packages", "dist-packages"}


@functools.cache
def _is_installed(origin: str | None) -> bool:
    return origin is not None and not _SITES.isdisjoint(PurePath(origin).parts)


def _is_standard(module: str) -> bool:
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return False
    origin = _origin(top) if top in sys.modules else None
    return origin is None or _is_in_standard_library(origin)  # a file of the user's may hide a standard one


@functools.cache
def _is_in_standard_library(origin: str) -> bool:
    places = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return any(PurePath(origin).is_relative_to(place) for place in places if place)


@functools.cache
def _version(package: str) -> str:
    """The version of an installed package; of one named unlike its distribution (yaml is of PyYAML), with its name."""
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return _distribution(package)


def _distribution(package: str) -> str:
    """Whose list of files names the package. `packages_distributions` also knows, and takes a tenth of a second."""
    origin = Path(_origin(package) or "")
    site = next((parent for parent in origin.parents if parent.name in _SITES), None)
    if site is None:
        return ""
    file = f"\n{origin.relative_to(site).as_posix()},".encode()
    for record in sorted(site.glob("*.dist-info/RECORD")):
        if file in b"\n" + record.read_bytes():
            return record.parent.name.removesuffix(".dist-info").replace("-", " ")
    return ""


class _Uses:
    """The names that a function and the functions inside it read and write around them, and what they import."""

    def __init__(self, code: types.CodeType) -> None:
        self.read: dict[str, set[str]] = {}  # with the attributes read from each
        self.written: set[str] = set()
        self.imported: set[str] = set()
        self._walk(code)

    def _walk(self, code: types.CodeType) -> None:
        attributes: set[str] | None = None
        module = ""
        for step in dis.get_instructions(code):
            name = step.opname
            if name in ("LOAD_ATTR", "LOAD_METHOD") and attributes is not None:
                attributes.add(step.argval)
            attributes = None
            if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                attributes = self.read.setdefault(step.argval, set())
            elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self.written.add(step.argval)
            elif name == "IMPORT_NAME":
                module = step.argval
                self.imported.add(module)
            elif name == "IMPORT_FROM":
                self.imported.add(f"{module}.{step.argval}")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._walk(constant)


def _is(value: Any, *kinds: type) -> bool:
    """By the type alone: a mock or a proxy tells `isinstance` what it likes."""
    return issubclass(type(value), kinds)


def _hash(*parts: str) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return found.hexdigest()


def _qualified_name(value: Any) -> str:
    owner = value if _is(value, *_CODE) and hasattr(value, "__qualname__") else type(value)
    module = getattr(owner, "__module__", None)
    return f"{'__main__' if module in _SCRIPTS else module}.{owner.__qualname__}"


def _stable_text(value: Any) -> str:
    """The representation of a value; nothing if it is an address, which it is when it names one."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a library's __repr__
        return ""
    return "" if re.search(r"\b0x[0-9a-f]+|\bid=\d+", text.lower()) else text


def _source(value: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(value)).strip()
    except (OSError, TypeError, IndexError, SyntaxError):  # typed at a prompt or made by exec
        return ""


def _global(value: Any, home: Home) -> Any:
    """A global as far as it counts. A source of chance differs in every process; a library's object in a module is
    made by the module's file."""
    if _is(value, random.Random) or type(value).__module__.startswith("numpy.random"):
        return type(value)
    return value if home == "script" or _is_data(value) else type(value)


def _is_data(value: Any) -> bool:
    kind = type(value)
    return (
        value is None
        or _is(value, *_SIMPLE, *_CODE)
        or is_dataclass(kind)
        or _home(kind.__module__) != "foreign"
        or hasattr(kind, "__array__")
        or kind is _LRU
    )


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too; not what a cached property keeps, which follows from them."""
    kind = type(value)
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[f"{base.__qualname__}.{name}"] = member.__get__(value, kind)
                except AttributeError:  # a slot that was never filled
                    continue
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        found.update((key, item) for key, item in own.items() if not _is_cached(kind, key))
    for field in fields(value) if is_dataclass(kind) else ():
        if field.name not in found and hasattr(value, field.name):
            found[field.name] = getattr(value, field.name)
    return found


def _is_cached(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


def _has_slots(kind: type) -> bool:
    return any("__slots__" in vars(base) for base in kind.__mro__)


def _cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def add_to_path(folder: Path) -> None:
    """Let `python:module:function` find modules beside the spec."""
    text = str(folder.resolve())
    if text not in sys.path:
        sys.path.insert(0, text)
