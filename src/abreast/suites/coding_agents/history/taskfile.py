"""A file of tasks: which pull requests are asked for, and in which words. An object a line, which people may edit."""

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
class Entry:
    """One pull request, from `base` to `commit`; `by` is whose words the task is in, `model` who was asked for them."""

    commit: str
    task: str
    id: str | None = None
    base: str | None = None
    title: str | None = None
    style: Style | None = None
    by: By | None = None
    model: str | None = None
    line: int = 0  # where it stands

    def told(self) -> dict[str, str]:
        return {key: value for key in _KEYS if (value := getattr(self, key)) is not None}

    def text(self) -> str:
        return json.dumps(self.told(), ensure_ascii=False) + "\n"


def read(path: Path) -> list[Entry]:
    found = entries(path)
    if not found:
        raise BadInput(
            f"{relative_path(path)}: has no task in it", "abreast cases new coding-agents --repo PATH writes some"
        )
    return found


def entries(path: Path) -> list[Entry]:
    where = relative_path(path)
    if not path.is_file():
        what = "is not a file" if path.exists() else f"no such file{near_files(path)}"
        raise BadInput(f"{where}: {what}", "abreast cases new coding-agents --repo PATH writes one")
    try:
        found = [_entry(str(place), place.number, item) for place, item in json_lines(path)]
    except OSError as error:
        raise BadInput(f"{where}: cannot be read ({error.strerror or error})") from None
    for key in ("commit", "id"):
        seen = dict[str, int]()
        for one in found:
            value = getattr(one, key)
            if value is not None and value in seen:
                told = f'{where}:{one.line}: the {key} "{value}" is there twice: it is on line {seen[value]} too'
                raise BadInput(told, "keep one of the lines" if key == "commit" else "give each an id of its own")
            seen[value] = one.line
    return found


def _entry(where: str, line: int, given: Any) -> Entry:
    if not isinstance(given, Mapping):
        raise BadInput(f"{where}: a task must be an object, got {quote(given)}", f"such as {_EXAMPLE}")
    settings = Settings(where, given)
    settings.noun = "key"
    commit, task = _needed(settings, "commit"), _needed(settings, "task")
    base = settings.take("base", None, is_text, "the hash of the commit before")
    for key, value in (("commit", commit), ("base", base)):
        if value is not None and not _HASH.fullmatch(value):
            fix = "write the hash that git log shows: a branch moves on, a hash does not"
            raise BadInput(f"{where}: {key} {quote(value)} is no hash", fix)
    if len(task.strip()) < SHORTEST:
        told = f"the task has {len(task.strip())} characters, {SHORTEST} are needed"
        raise BadInput(f"{where}: {told}", "say what shall be different afterwards, or remove the line")
    found = Entry(
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
    if wrong := find_unstorable(dict(given)):
        raise BadInput(f"{where}: {'.'.join(map(str, wrong[0]))} {wrong[1]}")
    return found


def _needed(settings: Settings, key: str) -> str:
    found: str | None = settings.take(key, None, is_text, "text")
    if found is None:
        raise BadInput(f'{settings.where}: "{key}" is missing', f"a task is such as {_EXAMPLE}")
    return found


def _one_of(known: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in known


# -- writing -----------------------------------------------------------------------------------------------------------


class Kept:
    """A file that gets the tasks of the pull requests in `wanted`; it keeps lines of these by the same model."""

    def __init__(self, path: Path, wanted: Sequence[Entry], may_replace: bool) -> None:
        self.path, self._wanted, self._may_replace = path, wanted, may_replace

    def found(self) -> list[Entry]:
        """What is there already. Tasks that would be lost are refused, unless they may be replaced."""
        there = self._there()
        return [there[one.commit][0] for one in self._wanted if one.commit in there]

    def add(self, new: Sequence[Entry]) -> None:
        """Add tasks to those in the file, all at once."""

        def with_new(before: bytes) -> bytes:
            lines = {entry.commit: entry.text() for entry in new}
            lines |= {commit: text for commit, (_, text) in self._there().items()}
            return "".join(lines[entry.commit] for entry in self._wanted if entry.commit in lines).encode()

        rewrite(self.path, with_new)

    def _there(self) -> dict[str, tuple[Entry, str]]:
        if not self.path.exists():
            return {}
        wanted = {one.commit: one for one in self._wanted}
        try:
            found = entries(self.path)
        except BadInput as error:
            raise BadInput(error.message, f"{error.fix or 'mend it'}; or name another file: --output FILE") from None
        others = [one for one in found if not _is_same(one, wanted.get(one.commit))]
        if others and not self._may_replace:
            told = (
                f"{relative_path(self.path)}:{others[0].line}: has a task of another pull request, or by another model"
            )
            more = f" (and {len(others) - 1:,} more)" if len(others) > 1 else ""
            raise BadInput(f"{told}{more}", "name another file: --output FILE; or replace what is there: --yes")
        lines = self.path.read_bytes().decode("utf-8-sig").split("\n")
        ends = [*(one.line for one in found[:-1]), len(lines)]
        texts = ["\n".join(lines[start:end]).strip() for start, end in zip([0, *ends], ends, strict=False)]
        return {one.commit: (one, f"{text}\n") for one, text in zip(found, texts, strict=True) if one not in others}


def _is_same(one: Entry, wanted: Entry | None) -> bool:
    return wanted is not None and one.model == wanted.model and one.base in (None, wanted.base)
