"""What a Python program of somebody else's process imports: local modules by content, installed ones by version.

`abreast.code` asks the same of functions in this process, with its path and loaded modules; here both are another's.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from abreast.code.source import Import, read

MOST_MODULES = 5_000
LARGEST_SOURCE = 5_000_000  # bytes


def sites_of(program: Path | None) -> tuple[Path, ...]:
    """Where packages of an interpreter, or of the environment that a script is in, are installed."""
    if program is None:
        return ()
    library = program.absolute().parent.parent / "lib"
    return tuple(sorted(site for kind in ("site", "dist") for site in library.glob(f"python3*/{kind}-packages")))


class Imports:
    """One walk from a file or module, over everything that it leads to. Nothing is imported or run."""

    def __init__(self, roots: Iterable[Path], sites: Sequence[Path]) -> None:
        self._roots = list(dict.fromkeys([*roots, *(root for site in sites for root in linked(site))]))
        self._installed = [records(site) for site in sites]
        self._found: dict[str, str] = {}
        self._pending: list[str] = []

    def of_file(self, file: Path) -> Iterator[str]:
        """A script: its own content by what it says, then its imports."""
        self._take("", file, "")
        yield from self._parts()

    def of_module(self, name: str) -> Iterator[str]:
        if all(part.isidentifier() for part in name.split(".")):
            self._pending += [name, f"{name}.__main__"]
        yield from self._parts()

    def _parts(self) -> Iterator[str]:
        while self._pending and len(self._found) < MOST_MODULES:
            name = self._pending.pop()
            if name in self._found:
                continue
            self._found[name] = ""
            self._pending += [name.rpartition(".")[0]] if "." in name else []
            file = self._file(name)
            if file is not None:
                self._take(name, file, name if file.name == "__init__.py" else name.rpartition(".")[0])
            elif "." not in name:
                self._found[name] = installed(self._installed, name)
        yield from (f"{name} {content}" for name, content in sorted(self._found.items()) if content)

    def _file(self, name: str) -> Path | None:
        path = name.replace(".", "/")
        for root in self._roots:
            for file in (root / path / "__init__.py", root / f"{path}.py"):
                if _is_file(file):
                    return file
        return None

    def _take(self, name: str, file: Path, package: str) -> None:
        try:
            content = file.read_bytes()
        except OSError:
            return
        source = read(content) if len(content) <= LARGEST_SOURCE else None
        self._found[name] = source.digest if source else hashlib.blake2b(content, digest_size=16).hexdigest()
        if source:
            self._pending += _names(source.whole.imports, package)


def _names(imports: Iterable[Import], package: str) -> Iterator[str]:
    """What is imported, by full name; `from a import b` may mean a module a.b."""
    for origin, taken in imports:
        try:
            base = importlib.util.resolve_name(origin, package).rstrip(".") if origin.startswith(".") else origin
        except ImportError:
            continue
        yield base
        yield from (f"{base}.{each}" for each in taken if each != "*")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def linked(site: Path) -> Iterator[Path]:
    """Folders of projects that are installed to be edited: listed in `.pth` files, or by a finder of setuptools."""
    for file in sorted(site.glob("*.pth")):
        for each in _lines(file):
            if each and not each.startswith(("#", "import ", "import\t")) and (site / each).is_dir():
                yield site / each
    for file in sorted(site.glob("__editable__*_finder.py")):
        yield from (Path(place).parent for place in _mapping("\n".join(_lines(file))))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _mapping(text: str) -> list[str]:
    try:
        for node in ast.parse(text).body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if any(getattr(target, "id", "") == "MAPPING" for target in targets):
                return [str(place) for place in ast.literal_eval(node.value).values()]  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError, RecursionError):
        pass
    return []


Records = list[tuple[Path, bytes]]
"""The list of files of every package that is installed in a place."""


def records(site: Path) -> Records:
    found = []
    for record in sorted(site.glob("*.dist-info/RECORD")):
        with contextlib.suppress(OSError):
            found.append((record, b"\n" + record.read_bytes()))
    return found


def installed(places: Iterable[Records], name: str) -> str:
    """The name and version of the package that brings a module; of one installed from a folder also its files."""
    folder, file = f"\n{name}/".encode(), f"\n{name}.".encode()
    for record, content in itertools.chain.from_iterable(places):
        if folder in content or file in content:
            found = importlib.metadata.PathDistribution(record.parent)
            own = hashlib.blake2b(content, digest_size=16).hexdigest() if found.read_text("direct_url.json") else ""
            return f"{found.name} {found.version} {own}"
    return ""
