"""Protected files: those that decide a check, found at the start of a trial and restored before the check runs.

An agent that rewrites a test has not solved the task, so tests, settings of test runners and scripts that the check
runs are restored to their state at the start. Test files that the agent added stay.
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
from abreast.targets.checks.check_runs import CheckTask
from abreast.targets.checks.test_commands import NO_SCRIPT, is_test_name
from abreast.targets.untrusted_json import mapping, mappings
from abreast.targets.workspace.files.copies import resolve_folder, sync_path
from abreast.targets.workspace.files.directories import walk

_TEST_FOLDERS = frozenset(("test", "tests", "__tests__", "testdata", "__snapshots__"))
_SPEC_FOLDERS = frozenset(("spec", "specs", "e2e"))  # test folders only if a file in them is a test by name
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", ".venv", "venv", ".tox", ".nox", "__pycache__", ".pytest_cache"))
_DECIDING_NAME = re.compile(
    r"(?<![a-z])(?:tests?|checks?|checker|verif[a-z]*|validat[a-z]*|grade[a-z]*|expected|golden|ci)(?![a-z])",
    re.I,
)
# Files that only configure a test runner, or that Python runs before anything else.
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
    """The files that decide a check, the words of its command, and whether the files were found by default rules."""

    files: tuple[str, ...]
    words: tuple[str, ...]
    by_rule: bool

    @property
    def folders(self) -> list[str]:
        return list(dict.fromkeys(str(folder) for name in self.files for folder in PurePosixPath(name).parents))


def find_protected(start: Path, task: CheckTask) -> Protected:
    """Find the files of `start` that decide a check: those that match `tests:`, by default tests, settings of test
    runners and scripts of the command. Raises OSError."""
    below = walk(start, lambda name: posixpath.basename(name) not in _SKIPPED_FOLDERS)
    names = [name for name, entry in below if not entry.is_dir(follow_symlinks=False)]
    words, check = _command_words(task), task.check
    if check.tests is not None:
        matchers = [matcher(glob) for glob in check.tests]
        files = {name for name in names if any(matches(name) for matches in matchers)}
    else:
        files = {*_find_tests(names), *_find_scripts(start, words)}
        files |= {name for name in names if _RUNNER_CONFIG.fullmatch(posixpath.basename(name))}
    linked = [_link_target(start, name) for name in files]
    return Protected(tuple(sorted({*files, *filter(None, linked)})), tuple(words), check.tests is None)


def restore(
    start: Path, work: Path, protected: Protected, since: int, renames: Iterable[tuple[str, str]] = ()
) -> list[str]:
    """Restore protected files from `start`; `since` is when the agent began, by the file system's clock. Return the
    files that the agent had changed, deleted or added. Raises OSError."""
    changed = [name for name in protected.files if _is_changed(start, work, name, since)]
    if protected.by_rule:
        changed += _changed_settings(start, work, protected)
    renamed = [new for old, new in renames if old in changed and is_test_name(new)]
    for name in (*changed, *renamed):
        sync_path(start, work, name)
    return sorted(set(changed))


# -- Protected files ---------------------------------------------------------------------------------------------------


def _find_tests(names: Sequence[str]) -> list[str]:
    """Find tests by name, and all files in folders of tests.

    >>> _find_tests(["src/app.py", "app_test.go", "tests/data/a.json", "spec/api.yaml"])
    ['app_test.go', 'tests/data/a.json']
    >>> _find_tests(["spec/models/user_spec.rb", "spec/spec_helper.rb"])
    ['spec/models/user_spec.rb', 'spec/spec_helper.rb']
    """
    tests = {name for name in names if is_test_name(name)}
    specs = {folder for name in tests if (folder := _folder_named(name, _SPEC_FOLDERS))}
    folders = [(_folder_named(name, _TEST_FOLDERS), _folder_named(name, _SPEC_FOLDERS)) for name in names]
    inside = {name for name, (test, spec) in zip(names, folders, strict=True) if test or (spec and spec in specs)}
    return [name for name in names if name in inside or name in tests]


def _folder_named(name: str, folders: frozenset[str]) -> str | None:
    parts = PurePosixPath(name).parts[:-1]
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part.lower() in folders), None)


def _find_scripts(start: Path, words: Sequence[str]) -> list[str]:
    """Find files of the command that are checks by name: `python checks.py`, but not `python app.py`, which may be what
    the agent should write."""
    paths = [posixpath.normpath(word.partition("::")[0]) for word in words if word and not word.startswith(("/", "-"))]
    for before, word in itertools.pairwise(words):
        if before == "-m":
            module = word.replace(".", "/")
            paths += [f"{module}.py", f"{module}/__main__.py"]
    scripts = [path for path in dict.fromkeys(paths) if not path.startswith("..") and _DECIDING_NAME.search(path)]
    return [path for path in scripts if os.path.isfile(start / path)]  # noqa: PTH113 - False for invalid paths


def _command_words(task: CheckTask) -> list[str]:
    words: list[str] = []
    for word in task.words:
        words.append(word)
        if " " in word:  # a shell script, as in `sh -c "..."`
            try:
                words += shlex.split(word, comments=True)
            except ValueError:
                words += word.split()
    return words


def _link_target(start: Path, name: str) -> str | None:
    path = start / name
    if not path.is_symlink():
        return None
    target, top = path.resolve(), start.resolve()
    return str(target.relative_to(top)) if target.is_file() and target.is_relative_to(top) else None


# -- Changes -----------------------------------------------------------------------------------------------------------


def _is_changed(start: Path, work: Path, name: str, since: int) -> bool:
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
        return False  # `ctime` cannot be set back
    if stat.S_ISLNK(now.st_mode):
        return (work / name).readlink() != (start / name).readlink()
    return _content(work / name) != _content(start / name)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _changed_settings(start: Path, work: Path, protected: Protected) -> list[str]:
    """Find changed settings of test runners next to or above tests of the start: configuration files that the agent
    added, and project files whose test settings it changed."""
    programs = {posixpath.basename(word) for word in protected.words}
    runs_make = not programs.isdisjoint(("make", "gmake"))
    readers = {**_SETTINGS_READERS, **(dict.fromkeys(_MAKEFILES, _read_makefile) if runs_make else {})}
    paths = []
    for folder in protected.folders or ["."]:
        subfolder = resolve_folder(work, () if folder == "." else PurePosixPath(folder).parts)
        entries = () if subfolder is None else os.listdir(subfolder)  # noqa: PTH208 - names only
        for name in sorted({*entries, *readers}):
            path = str(PurePosixPath(folder) / name)
            if name in readers:
                before, now = (_test_settings(top / path, readers[name], protected.words) for top in (start, work))
                is_switch = bool(protected.files) and name in _SWITCHES
                if before != now and (before or is_switch or _hides_makefile(start / folder, name)):
                    paths.append(path)
            elif _RUNNER_CONFIG.fullmatch(name) and protected.files and not os.path.lexists(start / path):
                paths.append(path)
    return [path for path in paths if path not in protected.files]


def _hides_makefile(folder: Path, name: str) -> bool:
    """Whether make would read a file of this name instead of the existing makefile."""
    below = _MAKEFILES[_MAKEFILES.index(name) + 1 :] if name in _MAKEFILES else ()
    return any(os.path.lexists(folder / other) for other in below)


def _test_settings(path: Path, read: Callable[[str, Sequence[str]], Any], words: Sequence[str]) -> Any:
    """Return the test settings of a file, None if it has none or does not exist."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        return read(text, words) or None
    except (OSError, ValueError, RecursionError, configparser.Error):
        return "unreadable"


def _read_pyproject(text: str, words: Sequence[str]) -> Any:
    tools = mapping(tomllib.loads(text).get("tool"))
    return {name: tools[name] for name in ("pytest", "tox") if name in tools}


def _read_ini(text: str, words: Sequence[str]) -> Any:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    section = re.compile(r"(?:tool:)?pytest|tox|testenv.*")
    return {name: dict(parser[name]) for name in parser.sections() if section.fullmatch(name)}


def _read_package(text: str, words: Sequence[str]) -> Any:
    """Runner settings in `package.json`, and the scripts for tests or in the command."""
    content = json.loads(text)
    if not isinstance(content, dict):
        return content
    scripts = {
        name: script
        for name, script in mapping(content.get("scripts")).items()
        if (re.match(r"(?:pre|post)?test", name) or name in words) and NO_SCRIPT not in str(script)
    }
    runners = {name: content[name] for name in ("jest", "vitest", "mocha", "ava", "tap", "nyc") if name in content}
    return {**runners, **({"scripts": scripts} if scripts else {})}


def _read_makefile(text: str, words: Sequence[str]) -> Any:
    """Return the rules for `test`, `check` and the targets of the command in a makefile, the variables they use, the
    variables that configure make itself, and included makefiles.

    >>> _read_makefile("app: app.o\\n\\tcc -o app app.o\\ntest: app\\n\\t./run\\n", ["make", "test"])
    ['test: app', '\\t./run']
    >>> _read_makefile("RUN = ./run\\nCC = cc\\ntest:\\n\\t$(RUN)\\n", ["make", "test"])
    ['test:', '\\t$(RUN)', 'RUN = ./run']
    """
    rules, values, inside = [], [], False
    targets = {"test", "check", "tests", *words}
    for line in text.replace("\\\n", " ").splitlines():
        if not line.startswith("\t"):
            variable, rule = _VARIABLE.match(line), _RULE.match(line)
            inside = rule is not None and not targets.isdisjoint(rule[1].split())
            if variable is not None:
                values.append((variable[1], line))
        if (inside or _INCLUDE.match(line)) and line.strip():
            rules.append(line)
    lines = [*rules, *(line for name, line in values if name in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS"))]
    for line in lines:  # the list grows, since variables may refer to others
        names = set(_USED.findall(line))
        lines += [value for name, value in values if name in names and value not in lines]
    return lines


def _read_npmrc(text: str, words: Sequence[str]) -> Any:
    return re.findall(r"^\s*((?:ignore-scripts|script-shell|node-options)\b.*)$", text, re.M)


def _read_cargo(text: str, words: Sequence[str]) -> Any:
    """Tests that `Cargo.toml` switches off or runs with another harness."""
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


def _read_cargo_config(text: str, words: Sequence[str]) -> Any:
    """Settings that make cargo run something else than a test or a compiler."""
    content = tomllib.loads(text)
    return {name: content[name] for name in ("target", "build", "env", "alias") if name in content}


_SETTINGS_READERS: dict[str, Callable[[str, Sequence[str]], Any]] = {
    "pyproject.toml": _read_pyproject,
    "setup.cfg": _read_ini,
    "tox.ini": _read_ini,
    "package.json": _read_package,
    ".npmrc": _read_npmrc,
    "Cargo.toml": _read_cargo,
    ".cargo/config.toml": _read_cargo_config,
    ".cargo/config": _read_cargo_config,
}
_SWITCHES = frozenset(_SETTINGS_READERS) - {"package.json"}  # settings added to them may switch tests off
