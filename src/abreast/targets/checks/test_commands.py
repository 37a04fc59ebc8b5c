"""Which command runs the tests that a case brings, where nobody says one: by the kind of their files."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from abreast.targets.untrusted_json import mapping, parsed

_NAMED = re.compile(
    r"(?:test_[^/]*|tests?|[^/]*_tests?|[^/]*[._-](?:test|spec)|[^/]*_spec|[^/]*Tests?|[^/]*TestCase|[^/]*Spec|Test[A-Z][^/]*)"
    r"\.\w+"
)
_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_OF_JVM = (".java", ".kt", ".groovy", ".scala")
NO_SCRIPT = "no test specified"  # what `npm init` writes
_OF_PYTEST = ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
_OF_PYTHON = ("pyproject.toml", "setup.cfg", "tox.ini")
_OF_SCRIPTS = re.compile(r"(?:jest|vitest|vite|karma|ava|playwright)\.config\.\w+|\.mocharc(?:\.\w+)?|\.taprc")


def runnable(tests: Sequence[str]) -> tuple[str, ...]:
    """Those that are tests by their names, without what lies beside them; all of them if none is.

    >>> runnable(["tests/conftest.py", "tests/test_a.py", "tests/data/a.json"])
    ('tests/test_a.py',)
    """
    named = list(filter(is_test_name, tests))
    return tuple(f"./{name}" if name.startswith("-") else name for name in named or tests)  # no option


def is_test_name(path: str) -> bool:
    """Whether a file of this name is a test.

    >>> is_test_name("tests/test_app.py"), is_test_name("app.spec.ts"), is_test_name("contest.py")
    (True, True, False)
    """
    return _NAMED.fullmatch(posixpath.basename(path)) is not None


def rest_of(words: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """The command that runs all tests of the project but these, or all, where a command runs these alone and it is
    known how; else empty.

    >>> rest_of(["python3", "-m", "pytest", "-q", "tests/test_a.py"], ["tests/test_a.py"])
    ('python3', '-m', 'pytest', '-q', '--ignore=tests/test_a.py')
    >>> rest_of(["go", "test", "./a"], ["a/a_test.go"]), rest_of(["make", "test"], ["a_test.c"])
    (('go', 'test', './...'), ())
    """
    names = [posixpath.basename(word) for word in words]
    given = [word for word in words if word in tests]
    if "pytest" in names and given:
        return (*(word for word in words if word not in tests), *(f"--ignore={name}" for name in given))
    if names[:2] == ["go", "test"] and words[2:] and all(word.startswith("./") for word in words[2:]):
        return () if "./..." in words else (*words[:2], "./...")
    if names[:2] == ["cargo", "test"] and words[2:] and set(words[2::2]) == {"--test"}:
        return tuple(words[:2])
    return ()


class _Runner(NamedTuple):
    """Which files it runs, what must lie in the folder, and its words for these files."""

    suffixes: tuple[str, ...]
    is_there: Callable[[Path], bool]
    words: Callable[[Path, Sequence[str], str | None], list[str]]


def runner_of(folder: Path, tests: Sequence[str], path: str | None) -> tuple[str, ...] | None:
    """The command for these files, or for most of them if they are of several kinds; None if no command is known."""
    files = runnable(tests)
    found = [([name for name in files if name.endswith(runner.suffixes)], runner) for runner in _RUNNERS]
    fits = [(names, runner) for names, runner in found if names and runner.is_there(folder)]
    if not fits:
        return None
    names, runner = max(fits, key=lambda one: len(one[0]))  # the first of equals
    return tuple(runner.words(folder, names, path))


def _pytest(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    python = next((name for name in ("python3", "python") if shutil.which(name, path=path)), "python3")
    return [python, "-m", "pytest", "-q", *names]


def _go(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    return ["go", "test", *dict.fromkeys(f"./{posixpath.dirname(name)}".rstrip("/") for name in names)]


def _cargo(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    """Files of a folder `tests` by their names; those among the sources cannot be named."""
    targets = [PurePosixPath(name) for name in names]
    if any(target.parent.name != "tests" for target in targets):
        return ["cargo", "test"]
    return ["cargo", "test", *(word for target in targets for word in ("--test", target.stem))]


def _maven(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    classes = ",".join(dict.fromkeys(PurePosixPath(name).stem for name in names))
    lenient = ("-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false")  # modules that have none of them
    return [_program(folder, "mvnw", "mvn"), "-q", "-B", f"-Dtest={classes}", *lenient, "test"]


def _gradle(folder: Path, names: Sequence[str], path: str | None) -> list[str]:
    return [_program(folder, "gradlew", "gradle"), "-q", "test"]


def _program(folder: Path, own: str, other: str) -> str:
    return f"./{own}" if (folder / own).is_file() else other


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda folder: any((folder / name).is_file() for name in names)


def npm_test_script(folder: Path) -> str | None:
    """What `npm test` runs in a folder; None if there is no such script."""
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
    _Runner(_SCRIPTS, lambda folder: npm_test_script(folder) is not None, lambda *_: ["npm", "test"]),
    _Runner(_OF_JVM, _has("pom.xml"), _maven),
    _Runner(_OF_JVM, _has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"), _gradle),
)


def decides(name: str, tests: Sequence[str], known: bool) -> bool:
    """Whether a file of this name, beside such tests or above them, says what passing means. With a `known` runner
    nothing is installed: then this is all that files of projects say.

    >>> decides("conftest.py", ["tests/test_a.py"], False), decides("pyproject.toml", ["tests/test_a.py"], False)
    (True, False)
    """
    if any(test.endswith(".py") for test in tests) and (name in _OF_PYTEST or (known and name in _OF_PYTHON)):
        return True
    if any(test.endswith(_SCRIPTS) for test in tests) and (
        _OF_SCRIPTS.fullmatch(name) or (known and name == "package.json")
    ):
        return True
    return name.endswith("_test.go") and any(test.endswith("_test.go") for test in tests)
