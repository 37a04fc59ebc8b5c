"""Questions about the configuration file that has a setting."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.suites.code_search.mining.proposal import Proposal, make_proposal, words_of
from abreast.suites.code_search.mining.repository import CodeRepository, RepositoryFile

LONGEST_LINE = 120  # characters of a line that the answer must quote
MOST_BYTES = 200_000  # size limit of configuration files in questions

_PLAIN = {
    *("version", "description", "license", "author", "authors", "scripts", "dependencies", "keywords", "homepage"),
    *("repository", "private", "default", "services", "volumes", "environment", "command", "strategy", "matrix"),
    *("runs-on", "branches", "install", "target", "compile", "options", "include", "exclude", "packages", "require"),
    *("enabled", "name", "type", "image", "ports", "build", "clean", "files", "module", "string", "object"),
}
_SECRET = re.compile(r"pass(?:word|wd|phrase)|secret|token|credential|private|api_?key", re.IGNORECASE)
_KEY = r"(?P<key>[A-Za-z_][\w.-]*)"
# Patterns of lines that set something, and the noun for it in a question.
_SETTING, _VARIABLE, _TARGET, _MODULE = "setting", "environment variable", "build target", "dependency"
_LINES = {
    "toml": (re.compile(rf'^[ \t]*"?{_KEY}"?[ \t]*=[ \t]*\S'), _SETTING),
    "ini": (re.compile(rf"^{_KEY}[ \t]*[=:][ \t]*\S"), _SETTING),
    "yaml": (re.compile(rf"^[ \t]*(?:- )?[\"']?{_KEY}[\"']?:[ \t]+[^\s#|>&*{{[]"), _SETTING),
    "json": (re.compile(rf'^[ \t]*"{_KEY}"[ \t]*:[ \t]*[^\s{{[]'), _SETTING),
    "env": (re.compile(rf"^(?:export[ \t]+)?{_KEY}=\S"), _VARIABLE),
    "dockerfile": (re.compile(rf"^(?:ENV|ARG)[ \t]+{_KEY}[= \t]\S"), _VARIABLE),
    "makefile": (re.compile(rf"^{_KEY}:(?![=:])"), _TARGET),
    "go.mod": (re.compile(r"^(?:require[ \t]+|[ \t]+)(?P<key>[\w.-]+(?:/[\w.~-]+)+)[ \t]+v\d"), _MODULE),
}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A line that sets a key. `language` is the format of its file."""

    file: RepositoryFile
    key: str
    line: int
    text: str
    noun: str
    language: str


def candidates(repository: CodeRepository, files: Sequence[RepositoryFile]) -> list[ConfigEntry]:
    return [
        entry
        for file in files
        if len(repository.read(file.path)) <= MOST_BYTES
        for entry in _entries(file, repository.text(file.path))
        if _is_distinctive(entry)
    ]


def _entries(file: RepositoryFile, text: str) -> Iterator[ConfigEntry]:
    form = form_of(file)
    if form is None:
        return
    pattern, noun = _LINES[form]
    for number, line in enumerate(text.split("\n"), 1):
        if match := pattern.match(line):
            yield ConfigEntry(file, match["key"], number, line.strip(), noun=noun, language=form)


def form_of(file: RepositoryFile) -> str | None:
    name = file.name.lower()
    if name.startswith(".env"):
        return "env"
    if "dockerfile" in name:
        return "dockerfile"
    if name in ("makefile", "gnumakefile") or name.endswith(".mk"):
        return "makefile"
    if name == "go.mod":
        return "go.mod"
    suffixes = {".toml": "toml", ".ini": "ini", ".cfg": "ini", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
    return next((form for suffix, form in suffixes.items() if name.endswith(suffix)), None)


def _is_distinctive(entry: ConfigEntry) -> bool:
    key, text = entry.key, entry.text
    is_long = len(key) >= 7 or (len(key) >= 5 and len(words_of(key)) > 1)
    is_plain = key.lower() in _PLAIN or key.startswith((".", "test")) or _SECRET.search(key) is not None
    is_complete = text.isprintable() and len(text) <= LONGEST_LINE and not text.endswith(("[", "{", "(", '"""', "\\"))
    return is_long and not is_plain and is_complete


def proposals(
    repository: CodeRepository, order: Sequence[ConfigEntry], holding: dict[str, list[str]]
) -> Iterator[Proposal]:
    """Propose a case for each key that is on exactly one line of all configuration files."""
    for entry in order:
        if _is_unique(repository, entry, holding.get(entry.key, [])) and _is_confirmed(repository, entry):
            yield _proposal(repository, entry)


def _is_unique(repository: CodeRepository, entry: ConfigEntry, paths: list[str]) -> bool:
    """Whether no other configuration line has the key as a word, and no other file assigns to it."""
    word = re.compile(rf"(?<!\w){re.escape(entry.key)}(?!\w)")
    assignment = re.compile(rf"(?<!\w){re.escape(entry.key)}(?!\w)['\"]?\]?[ \t]*(?::=|[:=](?!=))")
    occurrences = []
    for path in paths:
        file, text = repository.file(path), repository.text(path)
        if file.kind == "config":
            occurrences += [(path, number) for number, line in enumerate(text.split("\n"), 1) if word.search(line)]
        elif file.kind != "prose" and assignment.search(text):
            return False
    return occurrences == [(entry.file.path, entry.line)]


def _is_confirmed(repository: CodeRepository, entry: ConfigEntry) -> bool:
    """Whether the parser of the format, if there is one, finds the key exactly once."""
    reader = _READERS.get(entry.language)
    if reader is None:
        return True
    try:
        return reader(repository.text(entry.file.path)).count(entry.key) == 1
    except (ValueError, RecursionError, configparser.Error):
        return False


def _keys(value: Any) -> list[str]:
    keys: list[str] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            keys += map(str, item)
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return keys


def _ini_keys(text: str) -> list[str]:
    parser = configparser.RawConfigParser(strict=True, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return [key for section in parser.sections() for key in parser[section]] + list(parser.defaults())


def _yaml_keys(text: str) -> list[str]:
    """Return all scalars as written, without following references."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return [str(event.value) for event in yaml.parse(text, Loader=loader) if isinstance(event, yaml.ScalarEvent)]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


_READERS: dict[str, Callable[[str], list[str]]] = {
    "toml": lambda text: _keys(tomllib.loads(text)),
    "json": lambda text: _keys(json.loads(text)),
    "ini": _ini_keys,
    "yaml": _yaml_keys,
}
_QUESTIONS = {
    _SETTING: "In which file is the setting `{key}` set?",
    _VARIABLE: "In which file does the environment variable `{key}` get its value?",
    _TARGET: "In which file is the build target `{key}` defined?",
    _MODULE: "Which file declares the dependency `{key}`?",
}
_WITH_QUOTATION = "Give the file, the number of the line, and the line itself as a quotation."
_COMMENT = re.compile(r"[ \t]+(?:#|//|;)[ \t].*\Z")


def quotation(entry: ConfigEntry) -> str:
    """Return the line without its comment and trailing comma.

    >>> quotation(ConfigEntry(None, "retries", 1, 'retries = "often",  # why not', noun="", language="toml"))
    'retries = "often"'
    """
    return _COMMENT.sub("", entry.text).rstrip(",")


def _proposal(repository: CodeRepository, entry: ConfigEntry) -> Proposal:
    path = entry.file.path
    return make_proposal(
        repository,
        kind="configuration",
        language=entry.language,
        name=("config", entry.key),
        category="search",
        description=f"Find the file with the {entry.noun} `{entry.key}`.",
        prompt=f"{_QUESTIONS[entry.noun].format(key=entry.key)} {_WITH_QUOTATION}",
        lines={path: [entry.line]},
        content=[quotation(entry)],
        why="no other line of a configuration file has this name",
        locations=[(path, entry.line)],
    )
