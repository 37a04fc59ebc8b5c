"""What servers are made of, as a digest: the same as long as answers given with their help stand."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from abreast.digest import compose, digest
from abreast.errors import BadInput
from abreast.targets.mcp.declaration import Server, Variables
from abreast.targets.mcp.expanding import located
from abreast.targets.mcp.imports import Imports, sites_of

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
    program = _program(located(words[0], str(base), str(cwd), first=True), cwd, server)
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
