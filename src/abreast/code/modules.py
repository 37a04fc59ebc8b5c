"""The origin of modules (the user's own, installed, or Python's), and digests of the user's modules.

A user's module is identified by the content of its file and, transitively, of the modules it imports; an installed
package by its version. Finding them imports nothing.
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

from abreast.code.source import Definition, Import, SourceFile, is_compiled_from, read_source

ModuleOrigin = Literal["script", "user", "foreign"]
SCRIPTS = ("__main__", "__mp_main__")
_OWN_PACKAGE = __name__.partition(".")[0]
_SITE_FOLDERS = {"site-packages", "dist-packages"}
_STARTED_AT = time.time()


class Modules:
    """Collects the user's modules, with digests of their files, and installed packages, with their versions."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.packages: set[str] = set()
        self._visited: set[str] = set()
        self._texts: dict[str, bytes] = {}

    def parts(self) -> Iterator[str]:
        yield from (f"{name} {content}" for name, content in sorted(self.files.items()))
        yield from sorted(self.packages)

    def add(self, name: Any) -> None:
        pending = [name]
        while pending:
            name = pending.pop()
            if isinstance(name, str) and name not in self._visited:
                self._visited.add(name)
                if name.partition(".")[0] not in (*SCRIPTS, _OWN_PACKAGE, "") and not is_standard(name):
                    pending += self._add_module(name)

    def add_imports(self, imports: set[Import], scope: dict[str, Any]) -> None:
        for name in resolve_imports(imports, str(scope.get("__package__") or "")):
            self.add(name)

    def definition_of(self, code: types.CodeType, scope: dict[str, Any]) -> Definition | None:
        """The definition of a function; None if `exec` made it, or its file was edited after it was loaded."""
        file = code.co_filename
        source = self.source(file, scope)
        if source is None:
            return None
        is_doubtful = file.startswith("<") or _is_edited(file)  # several sources may be named <string>
        return source.function(code) if not is_doubtful or is_compiled_from(code, self._texts[file], file) else None

    def source(self, file: str, scope: dict[str, Any]) -> SourceFile | None:
        """The source file of compiled code, which may be a cell of a notebook."""
        if file not in self._texts:
            content = _content(str(scope.get("__name__")), file)
            if content is None:
                content = "".join(linecache.getlines(file, scope)).encode("utf-8", "surrogatepass")
            self._texts[file] = content
        return read_source(self._texts[file])

    def _add_module(self, name: str) -> Iterator[str]:
        """Add a module; yield the names of the modules that it imports or refers to."""
        parent = name.rpartition(".")[0]
        if parent:
            yield parent  # importing a module runs the files of its packages
        origin = _origin(name)
        if origin is None:
            return
        if _is_installed(origin):
            top = name.partition(".")[0]
            self.packages.add(_version(top, _origin(top) or origin))  # a namespace package has no file of its own
            return
        content = _content(name, origin)
        if content is None:
            return
        source = read_source(content) if origin.endswith(".py") else None
        self.files[name] = source.digest if source else hashlib.blake2b(content, digest_size=16).hexdigest()
        if source:
            yield from resolve_imports(source.module.imports, name if Path(origin).name == "__init__.py" else parent)
        yield from _referenced_modules(name)


def classify_module(module: Any, scope: dict[str, Any] | None = None) -> ModuleOrigin:
    """Classify a module as a script (or an interactive session), the user's own, or foreign.

    With the globals of a function as `scope`, another module of the same name is not mistaken for the function's own.
    """
    if not isinstance(module, str) or module in SCRIPTS or module not in sys.modules:
        return "script"
    if scope is not None and vars(sys.modules[module]) is not scope:
        return "script"
    if module.partition(".")[0] == _OWN_PACKAGE or is_standard(module):
        return "foreign"
    origin = _origin(module)
    return "script" if origin is None else "foreign" if _is_installed(origin) else "user"


def _is_edited(file: str) -> bool:
    try:
        return Path(file).stat().st_mtime > _STARTED_AT
    except OSError:
        return False


def _content(name: str, origin: str) -> bytes | None:
    try:
        return Path(origin).read_bytes()
    except OSError:
        spec = getattr(sys.modules.get(name), "__spec__", None) or _find_spec(name)
    try:
        return bytes(spec.loader.get_data(origin))  # type: ignore[union-attr]
    except (OSError, AttributeError):
        return None


def resolve_imports(imports: set[Import], package: str) -> Iterator[str]:
    """The names of imported modules; `from a import b` may import a module a.b."""
    for origin, names in imports:
        try:
            base = importlib.util.resolve_name(origin, package) if origin.startswith(".") else origin
        except ImportError:
            continue
        base = base.rstrip(".")
        yield base
        yield from (f"{base}.{name}" for name in names if name != "*")


def _referenced_modules(name: str) -> Iterator[str]:
    """Yield the modules that define the functions and classes in a loaded module.

    Submodules are left out: which of them are present depends on what else was imported.
    """
    for value in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
        if isinstance(value, types.ModuleType):
            module = value.__name__
        elif isinstance(value, types.FunctionType):
            module = value.__globals__.get("__name__", "")
        elif isinstance(value, type):
            module = value.__module__
        else:
            continue
        if isinstance(module, str) and not module.startswith(f"{name}."):
            yield module


def _origin(name: str) -> str | None:
    """The file of a module, loaded or not. Nothing is imported to find it."""
    if name in sys.modules:
        file = vars(sys.modules[name]).get("__file__")
        return file if isinstance(file, str) else None
    spec = _find_spec(name)
    return spec.origin if spec is not None and spec.has_location else None


def _find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return _spec(name)
    except (ImportError, ValueError, AttributeError, TypeError, KeyError):
        return None


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    parent = name.rpartition(".")[0]
    if not parent:
        return importlib.util.find_spec(name) if name.isidentifier() else None
    if parent in sys.modules:
        paths = vars(sys.modules[parent]).get("__path__")
    else:
        parent_spec = _spec(parent)
        paths = parent_spec.submodule_search_locations if parent_spec is not None else None
    return importlib.machinery.PathFinder.find_spec(name, list(paths)) if paths is not None else None


def is_standard(module: str) -> bool:
    """Whether a module is in the standard library. A user's file may shadow one."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return False
    origin = _origin(top) if top in sys.modules else None
    return origin is None or _is_in_standard_library(origin)


@functools.cache
def _is_in_standard_library(origin: str) -> bool:
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return not _is_installed(origin) and any(PurePath(origin).is_relative_to(folder) for folder in folders if folder)


@functools.cache
def _is_installed(origin: str) -> bool:
    return not _SITE_FOLDERS.isdisjoint(PurePath(origin).parts)


def is_own_file(file: str) -> bool:
    return Path(file).is_file() and not (
        _is_installed(file) or _is_in_standard_library(file) or Path(file).is_relative_to(Path(__file__).parent)
    )


@functools.cache
def _version(package: str, origin: str) -> str:
    """Name and version of the distribution that provides a package (PyYAML for `yaml`).

    If it was installed from a folder, also a digest of its files, because edits do not change its version.
    """
    import importlib.metadata  # imported late: takes 20 ms

    try:
        distribution = importlib.metadata.distribution(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        record = _find_record(Path(origin))
        if record is None:
            return package
        distribution = importlib.metadata.PathDistribution(record.parent)
    if distribution.read_text("direct_url.json") is None:
        return f"{distribution.name} {distribution.version}"
    files = [line for line in (distribution.read_text("RECORD") or "").splitlines() if ".py," in line]
    return f"{distribution.name} {distribution.version} {hashlib.blake2b(repr(sorted(files)).encode()).hexdigest()}"


def _find_record(origin: Path) -> Path | None:
    """The RECORD file that lists a file. `importlib.metadata.packages_distributions` would take a tenth of a second."""
    site = next((parent for parent in origin.parents if parent.name in _SITE_FOLDERS), None)
    if site is None:
        return None
    file = f"\n{origin.relative_to(site).as_posix()},".encode()
    records = sorted(site.glob("*.dist-info/RECORD"))
    return next((record for record in records if file in b"\n" + record.read_bytes()), None)


@functools.cache
def project_folder(file: str) -> str:
    """The top folder of the project that contains a file; notebook cells belong to that of the working directory."""
    folder = Path(file).parent if Path(file).is_file() else Path.cwd()
    for parent in (folder, *folder.parents):
        if any((parent / mark).exists() for mark in (".git", "pyproject.toml")):
            return str(parent)
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return str(folder)
