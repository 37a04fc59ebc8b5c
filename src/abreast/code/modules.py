"""Whose a module is: the user's own, installed, or Python's; and what the user's own modules are made of.

The user's own modules count by what their files say and, in turn, those that they import; installed packages by their
versions. Nothing is imported to find this out.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import linecache
import sys
import sysconfig
import time
import types
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Literal

from abreast.code.source import Definition, Import, Source, is_compiled_from, read

Home = Literal["script", "user", "foreign"]
SCRIPTS = ("__main__", "__mp_main__")
_OURSELVES = __name__.partition(".")[0]
_SITES = {"site-packages", "dist-packages"}
_STARTED = time.time()


class Modules:
    """The user's modules that were met and those they import, by their files; installed packages by their versions."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._packages: set[str] = set()
        self._seen: set[str] = set()
        self._texts: dict[str, bytes] = {}

    def parts(self) -> Iterator[str]:
        yield from (f"{name} {content}" for name, content in sorted(self._files.items()))
        yield from sorted(self._packages)

    def add(self, name: Any) -> None:
        pending = [name]
        while pending:
            each = pending.pop()
            if isinstance(each, str) and each not in self._seen:
                self._seen.add(each)
                if each.partition(".")[0] not in (*SCRIPTS, _OURSELVES, "") and not is_standard(each):
                    pending += self._take(each)

    def add_imports(self, imports: set[Import], scope: dict[str, Any]) -> None:
        for name in resolve_imports(imports, str(scope.get("__package__") or "")):
            self.add(name)

    def written(self, code: types.CodeType, scope: dict[str, Any]) -> Definition | None:
        """Where a function was written; None if it was made by `exec`, or its file was edited after it was loaded."""
        file = code.co_filename
        source = self.source(file, scope)
        if source is None:
            return None
        in_doubt = file.startswith("<") or _is_edited(file)  # whoever names a file <string> may do it again
        return source.function(code) if not in_doubt or is_compiled_from(code, self._texts[file], file) else None

    def source(self, file: str, scope: dict[str, Any]) -> Source | None:
        """What the file says from which something was compiled; a cell of a notebook is such a file."""
        if file not in self._texts:
            content = _content(str(scope.get("__name__")), file)
            if content is None:
                content = "".join(linecache.getlines(file, scope)).encode("utf-8", "surrogatepass")
            self._texts[file] = content
        return read(self._texts[file])

    def _take(self, name: str) -> Iterator[str]:
        """Take in a module; the names of those that it leads to."""
        parent = name.rpartition(".")[0]
        if parent:
            yield parent  # importing a module runs the files of its packages
        origin = _origin(name)
        if origin is None:
            return
        if _is_installed(origin):
            top = name.partition(".")[0]
            self._packages.add(_version(top, _origin(top) or origin))  # google has no file: who brings google.cloud?
            return
        content = _content(name, origin)
        if content is None:
            return
        source = read(content) if origin.endswith(".py") else None
        self._files[name] = source.digest if source else hashlib.blake2b(content, digest_size=16).hexdigest()
        if source:
            yield from resolve_imports(source.whole.imports, name if Path(origin).name == "__init__.py" else parent)
        yield from _modules_of(name)


def home(module: Any, scope: dict[str, Any] | None = None) -> Home:
    """Whether a module is a script (or typed at a prompt), a file of the user's, or somebody else's. With the scope of
    a function, another module of that name is not mistaken for its own."""
    if not isinstance(module, str) or module in SCRIPTS or module not in sys.modules:
        return "script"
    if scope is not None and vars(sys.modules[module]) is not scope:
        return "script"
    if module.partition(".")[0] == _OURSELVES or is_standard(module):
        return "foreign"
    origin = _origin(module)
    return "script" if origin is None else "foreign" if _is_installed(origin) else "user"


def _is_edited(file: str) -> bool:
    try:
        return Path(file).stat().st_mtime > _STARTED
    except OSError:
        return False


def _content(name: str, origin: str) -> bytes | None:
    """The bytes of a module, out of an archive too."""
    try:
        return Path(origin).read_bytes()
    except OSError:
        spec = getattr(sys.modules.get(name), "__spec__", None) or _found(name)
    try:
        return bytes(spec.loader.get_data(origin))  # type: ignore[union-attr]
    except (OSError, AttributeError):
        return None


def resolve_imports(imports: set[Import], package: str) -> Iterator[str]:
    """The names of modules that a source imports anywhere in it; `from a import b` may mean a module a.b."""
    for origin, taken in imports:
        try:
            base = importlib.util.resolve_name(origin, package) if origin.startswith(".") else origin
        except ImportError:
            continue
        base = base.rstrip(".")
        yield base
        yield from (f"{base}.{name}" for name in taken if name != "*")


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
    spec = _found(name)
    return spec.origin if spec is not None and spec.has_location else None


def _found(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return _spec(name)
    except (ImportError, ValueError, AttributeError, TypeError, KeyError):
        return None


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


def is_standard(module: str) -> bool:
    """Whether a module is Python's own; a file of the user's may hide a standard one."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return False
    origin = _origin(top) if top in sys.modules else None
    return origin is None or _is_in_standard_library(origin)


@functools.cache
def _is_in_standard_library(origin: str) -> bool:
    places = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return not _is_installed(origin) and any(PurePath(origin).is_relative_to(place) for place in places if place)


@functools.cache
def _is_installed(origin: str) -> bool:
    return not _SITES.isdisjoint(PurePath(origin).parts)


def is_own_file(file: str) -> bool:
    """Whether a line of this file is one that the user wrote."""
    return Path(file).is_file() and not (
        _is_installed(file) or _is_in_standard_library(file) or Path(file).is_relative_to(Path(__file__).parent)
    )


@functools.cache
def _version(package: str, origin: str) -> str:
    """Name and version of the installed package that provides `package` (PyYAML for `yaml`).

    For a package installed from a folder, also a digest of its files: its version does not change with every edit.
    """
    import importlib.metadata  # late: takes 20 ms

    try:
        found = importlib.metadata.distribution(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        record = _record(Path(origin))
        if record is None:
            return package
        found = importlib.metadata.PathDistribution(record.parent)
    if found.read_text("direct_url.json") is None:
        return f"{found.name} {found.version}"
    files = [line for line in (found.read_text("RECORD") or "").splitlines() if ".py," in line]
    return f"{found.name} {found.version} {hashlib.blake2b(repr(sorted(files)).encode()).hexdigest()}"


def _record(origin: Path) -> Path | None:
    """Whose list of files names this one. `packages_distributions` also knows, and takes a tenth of a second."""
    site = next((parent for parent in origin.parents if parent.name in _SITES), None)
    if site is None:
        return None
    file = f"\n{origin.relative_to(site).as_posix()},".encode()
    records = sorted(site.glob("*.dist-info/RECORD"))
    return next((record for record in records if file in b"\n" + record.read_bytes()), None)


@functools.cache
def project_of(file: str) -> str:
    """The folder that moves to another machine as a whole; a cell of a notebook is in the working folder."""
    folder = Path(file).parent if Path(file).is_file() else Path.cwd()
    for each in (folder, *folder.parents):
        if any((each / mark).exists() for mark in (".git", "pyproject.toml")):
            return str(each)
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return str(folder)
