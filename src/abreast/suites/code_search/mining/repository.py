"""The files of a repository, their kinds and contents."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal

from abreast.languages import Outline, language_of, outline
from abreast.plan import git
from abreast.suites.code_search.finding import CASE_FOLDERS
from abreast.suites.code_search.server.files import Files, regular_files, walk

MOST_BYTES = 1_000_000  # size limit of files to read; larger ones are only searched for words
LONGEST_LINE = 2_000  # characters; a file with a longer line is generated
OUTLINES = 500  # kept in memory

Kind = Literal["source", "config", "prose", "data", "other"]

_FOREIGN = {
    *("node_modules", "bower_components", "vendor", "vendored", "_vendor", "third_party", "thirdparty", "external"),
    *("target", "dist", "build", "out", "venv", "env", "site-packages", "__pycache__", "generated", "__generated__"),
    *("testdata", "fixtures", "migrations"),
}
_NOT_WALKED = {"node_modules", "target", "dist", "build", "vendor", "venv", "site-packages", "__pycache__"}
_CONFIG_SUFFIXES = (".yaml", ".yml", ".toml", ".ini", ".cfg")
_CONFIG_NAMES = {
    *("package.json", "tsconfig.json", "go.mod", "dockerfile", "makefile", "gnumakefile"),
    *(".env.example", ".env.sample", ".env.template", ".editorconfig"),
}
_LOCKS = {
    *("package-lock.json", "pnpm-lock.yaml", "yarn.lock", "cargo.lock", "poetry.lock", "uv.lock", "pdm.lock"),
    *("pipfile.lock", "go.sum", "composer.lock", "gemfile.lock", "packages.lock.json", "bun.lock", "deno.lock"),
}
_PROSE = {".md", ".rst", ".txt", ".adoc", ".markdown", ".org", ".tex"}
_PROSE_NAMES = {  # names of prose files without a suffix
    *("readme", "license", "licence", "copying", "copyright", "notice", "authors", "contributors", "maintainers"),
    *("changelog", "changes", "history", "news", "todo", "install", "credits", "thanks", "version", "codeowners"),
}
_DATA = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".xml", ".svg", ".lock", ".po", ".snap", ".map", ".log"}
_GENERATED_NAME = re.compile(r"\.min\.|\.bundle\.|\.pb\.|_pb2|\.generated\.|\.gen\.|\.d\.ts$|\.snap$")
_GENERATED_HEADER = re.compile(rb"DO NOT EDIT|@generated|[Cc]ode generated|[Aa]uto-?generated")
_WORD = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """A file by its path from the root. Questions may be about candidates."""

    path: str
    kind: Kind
    language: str | None
    is_candidate: bool

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


class CodeRepository:
    """A folder and its files by size; `is_tracked` if git tracks them."""

    def __init__(self, root: Path, sizes: Mapping[str, int], is_tracked: bool) -> None:
        self.root, self.is_tracked = root, is_tracked
        self.files = [_file(path) for path in sorted(sizes) if sizes[path] <= MOST_BYTES]
        self._large = [path for path in sorted(sizes) if sizes[path] > MOST_BYTES and _file(path).kind != "prose"]
        self.outline = lru_cache(OUTLINES)(self._outline)
        self._by_path = {file.path: file for file in self.files}
        self._readable = Files(root)

    @classmethod
    def open(cls, root: Path) -> CodeRepository:
        """List the tracked files, or, outside of a repository, those that are not hidden, built or installed."""
        output = git.output(root, "ls-files", "-z")
        paths: Iterable[str] = dict.fromkeys(filter(None, (output or "").split("\0")))
        is_tracked = bool(paths) or (output is not None and (root / ".git").exists())
        if not is_tracked:
            paths = walk(root, _NOT_WALKED, math.inf)
        return cls(root, dict(regular_files(root, paths)), is_tracked)

    def has(self, path: str) -> bool:
        return path in self._by_path

    def file(self, path: str) -> RepositoryFile:
        return self._by_path[path]

    def read(self, path: str) -> bytes:
        """Return the content of a text file; empty if it is binary, too large or missing."""
        return self._readable.read(path) or b""

    def text(self, path: str) -> str:
        return self.read(path).decode("utf-8", "replace")

    def line(self, path: str, number: int) -> str:
        """Return a line, counted from 1, stripped."""
        lines = self.text(path).split("\n")
        return lines[number - 1].strip() if number <= len(lines) else ""

    def _outline(self, path: str) -> Outline | None:
        return outline(path, self.read(path))

    def may_be_asked_about(self, file: RepositoryFile) -> bool:
        """Whether a file appears to be written by people."""
        if not file.is_candidate:
            return False
        content = self.read(file.path)
        has_long_lines = any(len(line) > LONGEST_LINE for line in content.split(b"\n"))
        return bool(content) and not _GENERATED_HEADER.search(content[:1_000]) and not has_long_lines

    def files_with(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Map each name to the files with all its words; to no files if one of them is too large to read."""
        words_of = {name: frozenset(_WORD.findall(name.encode("utf-8", "surrogatepass"))) for name in names}
        words = frozenset[bytes]().union(*words_of.values())
        by_word: dict[bytes, set[str]] = {word: set() for word in words}
        for file in self.files:
            for word in words.intersection(_WORD.findall(self.read(file.path))):
                by_word[word].add(file.path)
        large = [words.intersection(_words(self.root / path)) for path in self._large] if words else []
        return {
            name: sorted(set.intersection(*(by_word[word] for word in words)))
            if words and not any(words <= contained for contained in large)
            else []
            for name, words in words_of.items()
        }


def _file(path: str) -> RepositoryFile:
    pure = PurePosixPath(path)
    name, folders = pure.name.lower(), {part.lower() for part in pure.parts[:-1]}
    language = language_of(path)
    is_ours = not folders & _FOREIGN and not any(path.startswith(f"{folder}/") for folder in CASE_FOLDERS)
    is_candidate = is_ours and name not in _LOCKS and not _GENERATED_NAME.search(name) and path.isprintable()
    return RepositoryFile(path, _kind(name, pure.suffix.lower(), language), language, is_candidate)


def _kind(name: str, suffix: str, language: str | None) -> Kind:
    if language is not None:
        return "source"
    if name in _LOCKS or name.endswith(".lock"):
        return "data"
    if name in _CONFIG_NAMES or suffix in _CONFIG_SUFFIXES or name.endswith((".dockerfile", ".mk")):
        return "config"
    if suffix in _PROSE or name in _PROSE_NAMES:
        return "prose"
    return "data" if suffix in _DATA else "other"


def _words(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            rest = b""
            while chunk := file.read(MOST_BYTES):
                if b"\0" in chunk[:8_000]:
                    return
                *words, rest = _WORD.findall(rest + chunk + b"_") or [b"_"]
                yield from words
                rest = rest[:-1][:MOST_BYTES]
            yield rest
    except OSError:
        return
