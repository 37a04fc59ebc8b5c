"""What servers are made of, as a digest: the same as long as answers given with their help stand."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from abreast.code.modules import resolve_imports
from abreast.code.source import read
from abreast.digest import compose, digest
from abreast.errors import BadInput
from abreast.targets.mcp.declaration import Server, Variables
from abreast.targets.mcp.expansion import locate

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
                if _is(Path.is_file, file):
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
            self._pending += resolve_imports(source.whole.imports, package)


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


LARGEST = 500_000_000  # bytes; of a larger file only the size counts

# Programs that run others. Which one is there is the machine's affair; what it runs is in its arguments.
_RUNNERS = re.compile(
    r"(python|pypy|node|ruby|perl|php)[\d.]*|npx|npm|pnpm|yarn|bunx?|deno|uvx?|pipx|docker|podman|java|dotnet|go|cargo"
    r"|env|bash|sh|zsh|dash|timeout|nice"
)
_FETCHERS = {"npx", "uvx", "bunx", "pipx"}  # what they run comes from a registry


def version(servers: Iterable[Server], base: Path) -> str:
    """The declarations as they are written, and the content of what they start, as far as it is on this machine."""
    return compose(*(_of_server(server, base) for server in sorted(servers, key=lambda each: each.name)))


def _of_server(server: Server, base: Path) -> str:
    declared = replace(server, base="", env=dict(server.env), headers=dict(server.headers))
    return compose(digest(declared), *(_content(server, base) if server.kind == "stdio" else ()))


def _content(server: Server, base: Path) -> Iterator[str]:
    """What is executed, by content; files are not named by where they are, so that a folder may be moved."""
    words = [_filled(word) for word in server.command]
    cwd = Path(base, _filled(server.cwd or "")).expanduser()
    program = _program(locate(words[0], str(base), str(cwd), first=True), cwd, server)
    name = Path(words[0]).name
    runs = _RUNNERS.fullmatch(name) is not None
    if program is not None and not runs:
        yield from _executable(program)
    if name in _FETCHERS:
        return
    files, folders = _named(words[1:], cwd, base)
    places = [Path(cwd, each) for each in _filled(server.env.get("PYTHONPATH", "")).split(os.pathsep) if each]
    sites = sites_of(program) if program is not None and runs else ()
    for file in files:
        if file.suffix == ".py":
            yield from Imports([file.parent, *places], sites).of_file(file)
        else:
            yield _of_file(file)
    if "-m" in words[:-1]:
        yield from Imports([*folders, *places], sites).of_module(words[words.index("-m") + 1])


def _filled(text: str) -> str:
    try:
        return Variables(os.environ).fill("", text)
    except BadInput:  # not set: the server will not start
        return text


def _program(word: str, cwd: Path, server: Server) -> Path | None:
    try:
        found = str(cwd / word) if os.sep in word else shutil.which(word, path=_path(server))
        return Path(found) if found and Path(found).is_file() else None
    except (OSError, ValueError):
        return None


def _path(server: Server) -> str | None:
    return _filled(server.env["PATH"]) if "PATH" in server.env else None


def _executable(program: Path) -> Iterator[str]:
    """A program of its own. What a Python script imports counts too: an installed command is but a few lines."""
    try:
        with program.open("rb") as content:
            head = content.read(300)
    except OSError:
        head = b""
    if head.startswith(b"#!") and b"python" in head:
        real = program.resolve()
        yield from Imports([real.parent], sites_of(real)).of_file(real)
    else:
        yield _of_file(program)


def _named(words: Iterable[str], cwd: Path, base: Path) -> tuple[list[Path], list[Path]]:
    """The files that arguments name, also after `=` and in folders that other arguments name; and those folders."""
    parts = [part for word in words for part in dict.fromkeys((word, word.partition("=")[2])) if part]
    folders = list(dict.fromkeys([cwd, *(cwd / part for part in parts if _is(Path.is_dir, cwd / part)), base]))
    files = []
    for part in parts:
        files += [folder / part for folder in folders if _is(Path.is_file, folder / part)][:1]
    return files, folders


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    try:
        return kind(path)
    except (OSError, ValueError):  # longer than a path may be
        return False


def _of_file(file: Path) -> str:
    try:
        size = file.stat().st_size
        if size > LARGEST:
            return f"{size} bytes"
        with file.open("rb") as content:
            return hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=12)).hexdigest()
    except OSError:
        return "unreadable"
