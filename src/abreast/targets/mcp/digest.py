"""Digests of MCP servers: they change when answers that used a server may change."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from abreast.code.modules import resolve_imports
from abreast.code.source import read_source
from abreast.digest import compose, digest
from abreast.errors import BadInput
from abreast.targets.mcp.declaration import Server, Variables
from abreast.targets.mcp.expansion import locate

MOST_MODULES = 5_000
LARGEST_SOURCE = 5_000_000  # bytes


def sites_of(program: Path | None) -> tuple[Path, ...]:
    """Return the site-packages of an interpreter, or of the environment of a script."""
    if program is None:
        return ()
    library = program.absolute().parent.parent / "lib"
    return tuple(sorted(site for kind in ("site", "dist") for site in library.glob(f"python3*/{kind}-packages")))


class Imports:
    """Everything that a file or module imports, directly or not. Nothing is imported or run."""

    def __init__(self, roots: Iterable[Path], sites: Sequence[Path]) -> None:
        self._roots = list(dict.fromkeys([*roots, *(root for site in sites for root in editable_folders(site))]))
        self._packages = [record for site in sites for record in read_records(site)]
        self._contents: dict[str, str] = {}
        self._pending: list[str] = []

    def of_file(self, file: Path) -> Iterator[str]:
        self._add("", file, "")
        yield from self._parts()

    def of_module(self, name: str) -> Iterator[str]:
        if all(part.isidentifier() for part in name.split(".")):
            self._pending += [name, f"{name}.__main__"]
        yield from self._parts()

    def _parts(self) -> Iterator[str]:
        while self._pending and len(self._contents) < MOST_MODULES:
            name = self._pending.pop()
            if name in self._contents:
                continue
            self._contents[name] = ""
            self._pending += [name.rpartition(".")[0]] if "." in name else []
            file = self._file(name)
            if file is not None:
                self._add(name, file, name if file.name == "__init__.py" else name.rpartition(".")[0])
            elif "." not in name:
                self._contents[name] = package_version(self._packages, name)
        yield from (f"{name} {content}" for name, content in sorted(self._contents.items()) if content)

    def _file(self, name: str) -> Path | None:
        path = name.replace(".", "/")
        for root in self._roots:
            for file in (root / path / "__init__.py", root / f"{path}.py"):
                if _check(Path.is_file, file):
                    return file
        return None

    def _add(self, name: str, file: Path, package: str) -> None:
        try:
            content = file.read_bytes()
        except OSError:
            return
        source = read_source(content) if len(content) <= LARGEST_SOURCE else None
        self._contents[name] = source.digest if source else hashlib.blake2b(content, digest_size=16).hexdigest()
        if source:
            self._pending += resolve_imports(source.module.imports, package)


def editable_folders(site: Path) -> Iterator[Path]:
    """Yield folders of editable installs: in `.pth` files, or in a finder of setuptools."""
    for file in sorted(site.glob("*.pth")):
        for line in _lines(file):
            if line and not line.startswith(("#", "import ", "import\t")) and (site / line).is_dir():
                yield site / line
    for file in sorted(site.glob("__editable__*_finder.py")):
        yield from (Path(folder).parent for folder in _finder_folders("\n".join(_lines(file))))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _finder_folders(text: str) -> list[str]:
    try:
        for node in ast.parse(text).body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if any(getattr(target, "id", "") == "MAPPING" for target in targets):
                return [str(folder) for folder in ast.literal_eval(node.value).values()]  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError, RecursionError):
        pass
    return []


def read_records(site: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the lists of the files of all installed packages."""
    for record in sorted(site.glob("*.dist-info/RECORD")):
        with contextlib.suppress(OSError):
            yield record, b"\n" + record.read_bytes()


def package_version(records: Iterable[tuple[Path, bytes]], module: str) -> str:
    """Return the name and version of the package of a module, and its files if it was installed from a folder."""
    folder, file = f"\n{module}/".encode(), f"\n{module}.".encode()
    for record, content in records:
        if folder in content or file in content:
            package = importlib.metadata.PathDistribution(record.parent)
            is_local = package.read_text("direct_url.json")
            files = hashlib.blake2b(content, digest_size=16).hexdigest() if is_local else ""
            return f"{package.name} {package.version} {files}"
    return ""


LARGEST = 500_000_000  # bytes; of a larger file only the size counts

# Programs that run others: only the programs that they run count.
_RUNNERS = re.compile(
    r"(python|pypy|node|ruby|perl|php)[\d.]*|npx|npm|pnpm|yarn|bunx?|deno|uvx?|pipx|docker|podman|java|dotnet|go|cargo"
    r"|env|bash|sh|zsh|dash|timeout|nice"
)
_FETCHERS = {"npx", "uvx", "bunx", "pipx"}  # what they run comes from a registry


def version(servers: Iterable[Server], base: Path) -> str:
    """Return a digest of the declarations as written, and of the files on this machine that they start."""
    digests = []
    for server in sorted(servers, key=lambda server: server.name):
        declared = replace(server, base="", env=dict(server.env), headers=dict(server.headers))
        digests.append(compose(digest(declared), *(_executed_content(server, base) if server.kind == "stdio" else ())))
    return compose(*digests)


def _executed_content(server: Server, base: Path) -> Iterator[str]:
    """Yield digests of the executed files. Paths do not count, so that folders may be moved."""
    words = [_expand(word) for word in server.command]
    cwd = Path(base, _expand(server.cwd or "")).expanduser()
    program = _program(locate(words[0], str(base), str(cwd), first=True), cwd, server)
    name = Path(words[0]).name
    is_runner = _RUNNERS.fullmatch(name) is not None
    if program is not None and not is_runner:
        yield from _executable(program)
    if name in _FETCHERS:
        return
    files, folders = _files_in(words[1:], cwd, base)
    roots = [Path(cwd, path) for path in _expand(server.env.get("PYTHONPATH", "")).split(os.pathsep) if path]
    sites = sites_of(program) if program is not None and is_runner else ()
    for file in files:
        if file.suffix == ".py":
            yield from Imports([file.parent, *roots], sites).of_file(file)
        else:
            yield _file_digest(file)
    if "-m" in words[:-1]:
        yield from Imports([*folders, *roots], sites).of_module(words[words.index("-m") + 1])


def _expand(text: str) -> str:
    try:
        return Variables(os.environ).fill("", text)
    except BadInput:  # a variable is not set: the server will not start
        return text


def _program(word: str, cwd: Path, server: Server) -> Path | None:
    try:
        search_path = _expand(server.env["PATH"]) if "PATH" in server.env else None
        file = str(cwd / word) if os.sep in word else shutil.which(word, path=search_path)
        return Path(file) if file and Path(file).is_file() else None
    except (OSError, ValueError):
        return None


def _executable(program: Path) -> Iterator[str]:
    """Yield the content of a program, and the imports of a Python script, since installed commands are short."""
    try:
        with program.open("rb") as content:
            head = content.read(300)
    except OSError:
        head = b""
    if head.startswith(b"#!") and b"python" in head:
        real = program.resolve()
        yield from Imports([real.parent], sites_of(real)).of_file(real)
    else:
        yield _file_digest(program)


def _files_in(words: Iterable[str], cwd: Path, base: Path) -> tuple[list[Path], list[Path]]:
    """Return the files in arguments, also after `=` and in folders among the arguments; and those folders."""
    parts = [part for word in words for part in dict.fromkeys((word, word.partition("=")[2])) if part]
    folders = list(dict.fromkeys([cwd, *(cwd / part for part in parts if _check(Path.is_dir, cwd / part)), base]))
    files = []
    for part in parts:
        files += [folder / part for folder in folders if _check(Path.is_file, folder / part)][:1]
    return files, folders


def _check(test: Callable[[Path], bool], path: Path) -> bool:
    try:
        return test(path)
    except (OSError, ValueError):  # longer than a path may be
        return False


def _file_digest(file: Path) -> str:
    try:
        size = file.stat().st_size
        if size > LARGEST:
            return f"{size} bytes"
        with file.open("rb") as content:
            return hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=12)).hexdigest()
    except OSError:
        return "unreadable"
