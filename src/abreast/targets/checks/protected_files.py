"""The files that decide a check: found in what a trial begins with, and restored before the check runs.

An agent that rewrites a test has not solved the task. Tests, settings of test runners and scripts that the check runs
are therefore put back as they were at the start. Test files that the agent added stay.
"""

from __future__ import annotations

import configparser
import itertools
import json
import os
import posixpath
import re
import shlex
import stat
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from abreast.globs import matcher
from abreast.targets.checks.check_runs import Task
from abreast.targets.checks.test_commands import NO_SCRIPT, is_test_name
from abreast.targets.untrusted_json import mapping, mappings
from abreast.targets.workspace.files.copies import resolve_folder, sync_path
from abreast.targets.workspace.files.directories import walk

_TEST_FOLDERS = frozenset(("test", "tests", "__tests__", "testdata", "__snapshots__"))
_SPEC_FOLDERS = frozenset(("spec", "specs", "e2e"))  # tests only if a file in them is one by its name
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", ".venv", "venv", ".tox", ".nox", "__pycache__", ".pytest_cache"))
_DECIDING_NAME = re.compile(
    r"(?<![a-z])(?:tests?|checks?|checker|verif[a-z]*|validat[a-z]*|grade[a-z]*|expected|golden|ci)(?![a-z])",
    re.I,
)
# Files with nothing but settings of a test runner, or that Python runs before anything else.
_RUNNER_CONFIG = re.compile(
    r"conftest\.py|\.?pytest\.(?:ini|toml)|(?:jest|vitest|karma|ava|playwright|cypress)\.config\.\w+"
    r"|\.mocharc(?:\.\w+)?|\.taprc|\.rspec|phpunit\.xml(?:\.dist)?|(?:site|user)customize\.py"
)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_RULE = re.compile(r"([^\s:#=][^:#=]*)::?(?!=)")
_VARIABLE = re.compile(r"\s*(?:(?:export|override)\s+)*([^\s:#=+?!]+)\s*(?:::?:?|[+?!])?=")
_INCLUDE = re.compile(r"\s*-?s?include\s")
_USED = re.compile(r"\$[({]([^\s)}:]+)")


@dataclass(frozen=True, slots=True)
class Protected:
    """Paths of the files that decide a check, the words of its command, and whether the rule was used to find them."""

    files: tuple[str, ...]
    words: tuple[str, ...]
    by_rule: bool

    @property
    def folders(self) -> list[str]:
        return list(dict.fromkeys(str(folder) for name in self.files for folder in PurePosixPath(name).parents))


def find_protected(start: Path, task: Task) -> Protected:
    """Find the files of `start` that decide a check: those that `tests:` names, else tests, settings of test runners
    and scripts of the command. Raises OSError."""
    below = walk(start, lambda name: posixpath.basename(name) not in _SKIPPED_FOLDERS)
    names = [name for name, entry in below if not entry.is_dir(follow_symlinks=False)]
    words, check = _words(task), task.check
    if check.tests is not None:
        fits = [matcher(glob) for glob in check.tests]
        found = {name for name in names if any(fit(name) for fit in fits)}
    else:
        found = {*_tests_among(names), *_scripts(start, words)}
        found |= {name for name in names if _RUNNER_CONFIG.fullmatch(posixpath.basename(name))}
    linked = [_link_target(start, name) for name in found]
    return Protected(tuple(sorted({*found, *filter(None, linked)})), tuple(words), check.tests is None)


def restore(
    start: Path, work: Path, protected: Protected, since: int, renames: Iterable[tuple[str, str]] = ()
) -> list[str]:
    """Make the files that decide a check what they are in `start`; `since` is when the agent began, by the file
    system's clock. Return those that the agent had changed, deleted or added. Raises OSError."""
    changed = [name for name in protected.files if _is_changed(start, work, name, since)]
    if protected.by_rule:
        changed += _changed_settings(start, work, protected)
    renamed = [new for old, new in renames if old in changed and is_test_name(new)]
    for name in (*changed, *renamed):
        sync_path(start, work, name)
    return sorted(set(changed))


# -- which files they are ---------------------------------------------------------------------------------------------


def _tests_among(names: Sequence[str]) -> list[str]:
    """Tests by their names, and all files in folders of tests.

    >>> _tests_among(["src/app.py", "app_test.go", "tests/data/a.json", "spec/api.yaml"])
    ['app_test.go', 'tests/data/a.json']
    >>> _tests_among(["spec/models/user_spec.rb", "spec/spec_helper.rb"])
    ['spec/models/user_spec.rb', 'spec/spec_helper.rb']
    """
    named = [name for name in names if is_test_name(name)]
    specs = {folder for name in named if (folder := _folder_among(name, _SPEC_FOLDERS))}
    folders = [(_folder_among(name, _TEST_FOLDERS), _folder_among(name, _SPEC_FOLDERS)) for name in names]
    inside = {name for name, (test, spec) in zip(names, folders, strict=True) if test or (spec and spec in specs)}
    return [name for name in names if name in inside or name in set(named)]


def _folder_among(name: str, folders: frozenset[str]) -> str | None:
    """The uppermost folder of a path that is called so."""
    parts = PurePosixPath(name).parts[:-1]
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part.lower() in folders), None)


def _scripts(start: Path, words: Sequence[str]) -> list[str]:
    """Files that the command names, if they are checks by their names: `python checks.py`, but not `python app.py`,
    which may well be what the agent is to write."""
    paths = [posixpath.normpath(word.partition("::")[0]) for word in words if word and not word.startswith(("/", "-"))]
    for before, word in itertools.pairwise(words):
        if before == "-m":
            module = word.replace(".", "/")
            paths += [f"{module}.py", f"{module}/__main__.py"]
    named = [path for path in dict.fromkeys(paths) if not path.startswith("..") and _DECIDING_NAME.search(path)]
    return [path for path in named if os.path.isfile(start / path)]  # noqa: PTH113 - False for what is no path


def _words(task: Task) -> list[str]:
    found: list[str] = []
    for word in task.words:
        found.append(word)
        if " " in word:  # the text of a shell, as in `sh -c "..."`
            try:
                found += shlex.split(word, comments=True)
            except ValueError:
                found += word.split()
    return found


def _link_target(start: Path, name: str) -> str | None:
    """The file inside of `start` that a link leads to."""
    path = start / name
    if not path.is_symlink():
        return None
    target, top = path.resolve(), start.resolve()
    return str(target.relative_to(top)) if target.is_file() and target.is_relative_to(top) else None


# -- what was changed -------------------------------------------------------------------------------------------------


def _is_changed(start: Path, work: Path, name: str, since: int) -> bool:
    """Whether a file differs from the start in content, kind or permissions."""
    folder = resolve_folder(work, PurePosixPath(name).parts[:-1])
    if folder is None:
        return True
    try:
        now, before = (folder / posixpath.basename(name)).lstat(), (start / name).lstat()
    except OSError:
        return True
    if now.st_mode != before.st_mode or now.st_size != before.st_size:
        return True
    if now.st_ctime_ns < since and now.st_mtime_ns == before.st_mtime_ns:
        return False  # nobody can set `ctime` back
    if stat.S_ISLNK(now.st_mode):
        return (work / name).readlink() != (start / name).readlink()
    return _content(work / name) != _content(start / name)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _changed_settings(start: Path, work: Path, protected: Protected) -> list[str]:
    """Settings of test runners where tests of the start are below them: files with nothing else that the agent added,
    and files of projects in which it changed that part."""
    programs = {posixpath.basename(word) for word in protected.words}
    runs_make = not programs.isdisjoint(("make", "gmake"))
    readers = {**_SETTINGS, **(dict.fromkeys(_MAKEFILES, _make_rules) if runs_make else {})}
    found = []
    for folder in protected.folders or ["."]:
        here = resolve_folder(work, () if folder == "." else PurePosixPath(folder).parts)
        listed = () if here is None else os.listdir(here)  # noqa: PTH208 - names only
        for name in sorted({*listed, *readers}):
            path = str(PurePosixPath(folder) / name)
            if name in readers:
                before, now = (_part(top / path, readers[name], protected.words) for top in (start, work))
                is_switch = bool(protected.files) and name in _SWITCHES
                if before != now and (before or is_switch or _hides_makefile(start / folder, name)):
                    found.append(path)
            elif _RUNNER_CONFIG.fullmatch(name) and protected.files and not os.path.lexists(start / path):
                found.append(path)
    return [path for path in found if path not in protected.files]


def _hides_makefile(folder: Path, name: str) -> bool:
    """Whether make would read a file of this name instead of the makefile that is there."""
    below = _MAKEFILES[_MAKEFILES.index(name) + 1 :] if name in _MAKEFILES else ()
    return any(os.path.lexists(folder / other) for other in below)


def _part(path: Path, read: Callable[[str, Sequence[str]], Any], words: Sequence[str]) -> Any:
    """What a file says about tests; nothing if it is not there."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        return read(text, words) or None
    except (OSError, ValueError, RecursionError, configparser.Error):
        return "unreadable"


def _of_pyproject(text: str, words: Sequence[str]) -> Any:
    tools = mapping(tomllib.loads(text).get("tool"))
    return {name: tools[name] for name in ("pytest", "tox") if name in tools}


def _of_sections(text: str, words: Sequence[str]) -> Any:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    wanted = re.compile(r"(?:tool:)?pytest|tox|testenv.*")
    return {name: dict(parser[name]) for name in parser.sections() if wanted.fullmatch(name)}


def _of_package(text: str, words: Sequence[str]) -> Any:
    """Settings of runners in `package.json`, and the scripts for tests or that the command names."""
    content = json.loads(text)
    if not isinstance(content, dict):
        return content
    wanted = {
        name: script
        for name, script in mapping(content.get("scripts")).items()
        if (re.match(r"(?:pre|post)?test", name) or name in words) and NO_SCRIPT not in str(script)
    }
    runners = {name: content[name] for name in ("jest", "vitest", "mocha", "ava", "tap", "nyc") if name in content}
    return {**runners, **({"scripts": wanted} if wanted else {})}


def _make_rules(text: str, words: Sequence[str]) -> Any:
    """What a makefile says about `test`, `check` and targets that the command names: their rules, the variables in
    them, those that change how make itself works, and other makefiles that are read.

    >>> _make_rules("app: app.o\\n\\tcc -o app app.o\\ntest: app\\n\\t./run\\n", ["make", "test"])
    ['test: app', '\\t./run']
    >>> _make_rules("RUN = ./run\\nCC = cc\\ntest:\\n\\t$(RUN)\\n", ["make", "test"])
    ['test:', '\\t$(RUN)', 'RUN = ./run']
    """
    rules, values, inside = [], [], False
    wanted = {"test", "check", "tests", *words}
    for line in text.replace("\\\n", " ").splitlines():
        if not line.startswith("\t"):
            variable, rule = _VARIABLE.match(line), _RULE.match(line)
            inside = rule is not None and not wanted.isdisjoint(rule[1].split())
            if variable is not None:
                values.append((variable[1], line))
        if (inside or _INCLUDE.match(line)) and line.strip():
            rules.append(line)
    found = [*rules, *(line for name, line in values if name in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS"))]
    for line in found:  # which grows: variables of variables
        used = set(_USED.findall(line))
        found += [value for name, value in values if name in used and value not in found]
    return found


def _of_npmrc(text: str, words: Sequence[str]) -> Any:
    """What keeps npm from running scripts as they are."""
    return re.findall(r"^\s*((?:ignore-scripts|script-shell|node-options)\b.*)$", text, re.M)


def _of_cargo(text: str, words: Sequence[str]) -> Any:
    """Tests that `Cargo.toml` switches off, and those of another harness."""
    content = tomllib.loads(text)
    lists = {kind: mappings(content.get(kind)) for kind in ("bin", "test")}
    lists["lib"] = [mapping(content.get("lib"))]
    switched_off = [
        (kind, entry.get("name"), name)
        for kind, entries in lists.items()
        for entry in entries
        for name in ("test", "doctest", "harness")
        if entry.get(name) is False
    ]
    is_off = mapping(content.get("package")).get("autotests") is False
    return [*(["autotests"] if is_off else []), *switched_off]


def _of_cargo_config(text: str, words: Sequence[str]) -> Any:
    """What cargo runs instead of a test or a compiler."""
    content = tomllib.loads(text)
    return {name: content[name] for name in ("target", "build", "env", "alias") if name in content}


_SETTINGS: dict[str, Callable[[str, Sequence[str]], Any]] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_sections,
    "tox.ini": _of_sections,
    "package.json": _of_package,
    ".npmrc": _of_npmrc,
    "Cargo.toml": _of_cargo,
    ".cargo/config.toml": _of_cargo_config,
    ".cargo/config": _of_cargo_config,
}
_SWITCHES = frozenset(_SETTINGS) - {"package.json"}  # tests run without settings in them, and may stop to with them
