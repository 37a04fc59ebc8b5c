"""Infer the command that runs the tests of a case from the kind of its test files."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from abreast.targets.untrusted_json import mapping, parsed

_TEST_NAME = re.compile(
    r"(?:test_[^/]*|tests?|[^/]*_tests?|[^/]*[._-](?:test|spec)|[^/]*_spec|[^/]*Tests?|[^/]*TestCase|[^/]*Spec|Test[A-Z][^/]*)"
    r"\.\w+"
)
_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_JVM_SUFFIXES = (".java", ".kt", ".groovy", ".scala")
NO_SCRIPT = "no test specified"  # what `npm init` writes
_PYTEST_FILES = ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
_PYTHON_PROJECT_FILES = ("pyproject.toml", "setup.cfg", "tox.ini")
_SCRIPT_CONFIG = re.compile(r"(?:jest|vitest|vite|karma|ava|playwright)\.config\.\w+|\.mocharc(?:\.\w+)?|\.taprc")


def runnable_tests(tests: Sequence[str]) -> tuple[str, ...]:
    """Return files that are tests by name, without their data files; all files if none is.

    >>> runnable_tests(["tests/conftest.py", "tests/test_a.py", "tests/data/a.json"])
    ('tests/test_a.py',)
    """
    named_tests = list(filter(is_test_name, tests))
    return tuple(f"./{name}" if name.startswith("-") else name for name in named_tests or tests)  # not as an option


def is_test_name(path: str) -> bool:
    """Whether a file of this name is a test.

    >>> is_test_name("tests/test_app.py"), is_test_name("app.spec.ts"), is_test_name("contest.py")
    (True, True, False)
    """
    return _TEST_NAME.fullmatch(posixpath.basename(path)) is not None


def rest_command(words: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs the other tests of the project, or all; empty if unknown or if `words` run them.

    >>> rest_command(["python3", "-m", "pytest", "-q", "tests/test_a.py"], ["tests/test_a.py"])
    ('python3', '-m', 'pytest', '-q', '--ignore=tests/test_a.py')
    >>> rest_command(["go", "test", "./a"], ["a/a_test.go"]), rest_command(["make", "test"], ["a_test.c"])
    (('go', 'test', './...'), ())
    """
    names = [posixpath.basename(word) for word in words]
    files = [word for word in words if word in tests]
    if "pytest" in names and files:
        return (*(word for word in words if word not in tests), *(f"--ignore={name}" for name in files))
    if names[:2] == ["go", "test"] and words[2:] and all(word.startswith("./") for word in words[2:]):
        return () if "./..." in words else (*words[:2], "./...")
    if names[:2] == ["cargo", "test"] and words[2:] and set(words[2::2]) == {"--test"}:
        return tuple(words[:2])
    return ()


class _Runner(NamedTuple):
    """A test runner: its files, whether a folder uses it, and its command for files."""

    suffixes: tuple[str, ...]
    is_used: Callable[[Path], bool]
    words: Callable[[Path, Sequence[str], str | None], list[str]]


def infer_command(folder: Path, tests: Sequence[str], path: str | None) -> tuple[str, ...] | None:
    """Return the command for these files, or for most of them if they are of several kinds; None if unknown."""
    files = runnable_tests(tests)
    candidates = [([name for name in files if name.endswith(runner.suffixes)], runner) for runner in _RUNNERS]
    candidates = [(names, runner) for names, runner in candidates if names and runner.is_used(folder)]
    if not candidates:
        return None
    names, runner = max(candidates, key=lambda candidate: len(candidate[0]))
    return tuple(runner.words(folder, names, path))


def _pytest(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    python = next((name for name in ("python3", "python") if shutil.which(name, path=path)), "python3")
    return [python, "-m", "pytest", "-q", *names]


def _go(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    return ["go", "test", *dict.fromkeys(f"./{posixpath.dirname(name)}".rstrip("/") for name in names)]


def _cargo(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    """Select files of a folder `tests` by name; tests within the sources cannot be selected."""
    targets = [PurePosixPath(name) for name in names]
    if any(target.parent.name != "tests" for target in targets):
        return ["cargo", "test"]
    return ["cargo", "test", *(word for target in targets for word in ("--test", target.stem))]


def _maven(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    classes = ",".join(dict.fromkeys(PurePosixPath(name).stem for name in names))
    lenient = ("-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false")  # for modules without these tests
    return [_program(folder, "mvnw", "mvn"), "-q", "-B", f"-Dtest={classes}", *lenient, "test"]


def _gradle(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    return [_program(folder, "gradlew", "gradle"), "-q", "test"]


def _program(folder: Path, own: str, other: str) -> str:
    return f"./{own}" if (folder / own).is_file() else other


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda folder: any((folder / name).is_file() for name in names)


def npm_test_script(folder: Path) -> str | None:
    try:
        package = parsed((folder / "package.json").read_bytes())
    except OSError:
        return None
    script = mapping(mapping(package).get("scripts")).get("test")
    return script if isinstance(script, str) and script.strip() and NO_SCRIPT not in script else None


_RUNNERS = (
    _Runner((".py",), lambda folder: True, _pytest),
    _Runner(("_test.go",), _has("go.mod"), _go),
    _Runner((".rs",), _has("Cargo.toml"), _cargo),
    _Runner(_SCRIPT_SUFFIXES, lambda folder: npm_test_script(folder) is not None, lambda *_: ["npm", "test"]),
    _Runner(_JVM_SUFFIXES, _has("pom.xml"), _maven),
    _Runner(_JVM_SUFFIXES, _has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"), _gradle),
)


def is_test_config(name: str, tests: Sequence[str], is_inferred: bool) -> bool:
    """Whether a file of this name, next to or above such tests, decides what passing means. With an inferred command,
    project files matter too: they only configure the tests, since nothing is installed.

    >>> [is_test_config(name, ["tests/test_a.py"], False) for name in ("conftest.py", "pyproject.toml")]
    [True, False]
    """
    if any(test.endswith(".py") for test in tests) and (
        name in _PYTEST_FILES or (is_inferred and name in _PYTHON_PROJECT_FILES)
    ):
        return True
    if any(test.endswith(_SCRIPT_SUFFIXES) for test in tests) and (
        _SCRIPT_CONFIG.fullmatch(name) or (is_inferred and name == "package.json")
    ):
        return True
    return name.endswith("_test.go") and any(test.endswith("_test.go") for test in tests)
