"""Task files: one JSON object per line with a pull request and its task, which users may edit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.settings import Settings, is_text
from abreast.spec.read_cases import json_lines
from abreast.spec.syntax import near_files
from abreast.spec.values import find_unstorable, name_problem, quote
from abreast.suites.atomic_file import rewrite
from abreast.suites.coding_agents.history.discovery import Style
from abreast.suites.coding_agents.history.task_text import SHORTEST

By = Literal["message", "model"]
_KEYS = ("id", "commit", "base", "title", "style", "by", "model", "task")
_HASH = re.compile(r"[0-9a-f]{7,64}")
_EXAMPLE = '{"commit": "1a2b3c4...", "task": "Greet people by their name"}'


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A pull request from `base` to `commit`; `by` is the author of the task, `model` the model that was asked."""

    commit: str
    task: str
    id: str | None = None
    base: str | None = None
    title: str | None = None
    style: Style | None = None
    by: By | None = None
    model: str | None = None
    line: int = 0  # its line in the file

    def as_dict(self) -> dict[str, str]:
        return {key: value for key in _KEYS if (value := getattr(self, key)) is not None}

    def text(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False) + "\n"


def read(path: Path) -> list[TaskEntry]:
    entries = _entries(path)
    if not entries:
        raise BadInput(
            f"{relative_path(path)}: no tasks", "run `abreast cases new coding-agents --repo PATH` to write some"
        )
    return entries


def _entries(path: Path) -> list[TaskEntry]:
    where = relative_path(path)
    if not path.is_file():
        problem = "not a file" if path.exists() else f"no such file{near_files(path)}"
        raise BadInput(f"{where}: {problem}", "run `abreast cases new coding-agents --repo PATH` to write one")
    try:
        entries = [_entry(str(position), position.number, item) for position, item in json_lines(path)]
    except OSError as error:
        raise BadInput(f"{where}: cannot be read ({error.strerror or error})") from None
    for key, fix in (("commit", "keep one of the lines"), ("id", "make the ids unique")):
        lines = dict[str, int]()
        for entry in entries:
            value = getattr(entry, key)
            if value is not None and value in lines:
                raise BadInput(f'{where}:{entry.line}: duplicate {key} "{value}", also on line {lines[value]}', fix)
            lines[value] = entry.line
    return entries


def _entry(where: str, line: int, values: Any) -> TaskEntry:
    if not isinstance(values, Mapping):
        raise BadInput(f"{where}: a task must be an object, got {quote(values)}", f"write a line such as {_EXAMPLE}")
    settings = Settings(where, values)
    settings.noun = "key"
    commit, task = _take_required(settings, "commit"), _take_required(settings, "task")
    base = settings.take("base", None, is_text, "the hash of the commit before")
    for key, value in (("commit", commit), ("base", base)):
        if value is not None and not _HASH.fullmatch(value):
            fix = "use a hash from `git log`; branches move"
            raise BadInput(f"{where}: {key} {quote(value)} is not a hash", fix)
    if len(task.strip()) < SHORTEST:
        message = f"the task has {len(task.strip())} characters, {SHORTEST} are needed"
        raise BadInput(f"{where}: {message}", "describe the desired result, or remove the line")
    entry = TaskEntry(
        commit,
        task,
        id=settings.take("id", None, lambda id: isinstance(id, str) and not name_problem(id), "a short plain text"),
        base=base,
        title=settings.take("title", None, lambda title: isinstance(title, str), "text"),
        style=settings.take("style", None, _one_of(get_args(Style)), f"one of {', '.join(get_args(Style))}"),
        by=settings.take("by", None, _one_of(get_args(By)), f"one of {', '.join(get_args(By))}"),
        model=settings.take("model", None, is_text, "the name of a model"),
        line=line,
    )
    settings.done()
    if problem := find_unstorable(dict(values)):
        raise BadInput(f"{where}: {'.'.join(map(str, problem[0]))} {problem[1]}")
    return entry


def _take_required(settings: Settings, key: str) -> str:
    value: str | None = settings.take(key, None, is_text, "text")
    if value is None:
        raise BadInput(f'{settings.where}: "{key}" is missing', f"write a line such as {_EXAMPLE}")
    return value


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in choices


class TaskFile:
    """A file for the tasks of the requested pull requests; it keeps existing lines that have the same model."""

    def __init__(self, path: Path, requested: Sequence[TaskEntry], may_replace: bool) -> None:
        self.path, self._requested, self._may_replace = path, requested, may_replace

    def entries(self) -> list[TaskEntry]:
        """Return the existing tasks; raises if others would be lost, unless they may be replaced."""
        existing = self._read_existing()
        return [existing[entry.commit][0] for entry in self._requested if entry.commit in existing]

    def add(self, new: Sequence[TaskEntry]) -> None:
        """Add tasks to those in the file, all at once."""

        def with_new(before: bytes) -> bytes:
            lines = {entry.commit: entry.text() for entry in new}
            lines |= {commit: text for commit, (_, text) in self._read_existing().items()}
            return "".join(lines[entry.commit] for entry in self._requested if entry.commit in lines).encode()

        rewrite(self.path, with_new)

    def _read_existing(self) -> dict[str, tuple[TaskEntry, str]]:
        """Return the entries to keep by commit, with their text as users left it."""
        if not self.path.exists():
            return {}
        requested = {entry.commit: entry for entry in self._requested}
        try:
            entries = _entries(self.path)
        except BadInput as error:
            raise BadInput(error.message, f"{error.fix or 'fix it'}; or use another file: `--output FILE`") from None
        others = [entry for entry in entries if not _is_same(entry, requested.get(entry.commit))]
        if others and not self._may_replace:
            more = f" (and {len(others) - 1:,} more)" if len(others) > 1 else ""
            message = f"{relative_path(self.path)}:{others[0].line}: task of another pull request or model{more}"
            raise BadInput(message, "use another file: `--output FILE`; or replace the tasks: `--yes`")
        lines = self.path.read_bytes().decode("utf-8-sig").split("\n")
        ends = [*(entry.line for entry in entries[:-1]), len(lines)]
        texts = ["\n".join(lines[start:end]).strip() for start, end in zip([0, *ends], ends, strict=False)]
        return {
            entry.commit: (entry, f"{text}\n")
            for entry, text in zip(entries, texts, strict=True)
            if entry not in others
        }


def _is_same(entry: TaskEntry, requested: TaskEntry | None) -> bool:
    return requested is not None and entry.model == requested.model and entry.base in (None, requested.base)
