"""Results of single tests: how a command is made to report them, and how its report is read.

pytest writes JUnit XML, `go test -json` a line for each event, jest and vitest a JSON document, and cargo prints a line
for each test. A command of another kind has its exit code and no more.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from abreast.targets.workspace.files.directories import seen_from

Status = Literal["passed", "failed", "skipped"]
Results = dict[str, Status]
"""The status of each test by its name."""

Reporter = Literal["", "go", "cargo", "jest", "vitest"]
"""What a command is besides pytest, which is told by a variable and may be started by any command."""

LARGEST_REPORT = 50_000_000  # bytes
_SEVERITY: Mapping[Status, int] = {"skipped": 0, "passed": 1, "failed": 2}
_PYTEST_OPTIONS = ("--continue-on-collection-errors", "--maxfail=0", "-o", "junit_logging=no")
_CARGO_LINE = re.compile(r"test (.+?)(?: - should panic)? \.\.\. (?:.*\b)?(ok|FAILED|ignored)\b")
_SCRIPT_PARTS = re.compile(r"&&|\|\||;|\|")


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A command that reports single tests: its words, and further variables of its environment."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


def reporter_of(words: Sequence[str], test_script: str | None) -> Reporter:
    """What a command runs. `test_script` is what `npm test` means.

    >>> reporter_of(["go", "test", "./..."], None), reporter_of(["npm", "test"], "tsc && jest")
    ('go', 'jest')
    """
    names = [posixpath.basename(word) for word in words]
    if names[:2] == ["go", "test"]:
        return "go"
    if names[:1] == ["cargo"] and "test" in names[1:3]:
        return "cargo"
    if names[:2] == ["npm", "test"] and test_script:
        names = _SCRIPT_PARTS.split(test_script)[-1].split()  # further words of `npm test` go to the last command
    elif names[:1] == ["npx"]:
        names = names[1:]
    first = posixpath.basename(names[0]) if names else ""
    return "jest" if first == "jest" else "vitest" if first == "vitest" else ""


def runs_pytest(words: Sequence[str]) -> bool:
    """Whether a command names pytest."""
    return any(posixpath.basename(word) in ("pytest", "py.test") for word in words)


def instrument(words: Sequence[str], reporter: Reporter, reports: Path, environment: Mapping[str, str]) -> Instrumented:
    """The command with what makes it report single tests into a folder."""
    given = environment.get("PYTEST_ADDOPTS", "")
    options = shlex.join([*_PYTEST_OPTIONS, f"--junitxml={reports / 'pytest.xml'}"])
    return Instrumented(
        tuple(_reporting(list(words), reporter, reports)), {"PYTEST_ADDOPTS": f"{given} {options}".strip()}
    )


def _reporting(words: list[str], reporter: Reporter, reports: Path) -> list[str]:
    if reporter == "go":
        return words if "-json" in words else [*words[:2], "-json", *words[2:]]
    if reporter == "cargo":
        at = words.index("test") + 1
        return words if "--no-fail-fast" in words else [*words[:at], "--no-fail-fast", *words[at:]]
    report = reports / "scripts.json"
    options = {
        "jest": ["--json", f"--outputFile={report}"],
        "vitest": ["--reporter=default", "--reporter=json", f"--outputFile.json={report}"],
    }.get(reporter, [])
    separator = ["--"] if options and words[0].endswith("npm") and "--" not in words else []
    return [*words, *separator, *options]


def read_results(reporter: Reporter, reports: Path, stdout: Path, folder: Path) -> Results | None:
    """What a command reported that was run in `folder`; None if it reported no single test."""
    found = parse_junit(_content(reports / "pytest.xml"))
    if not found and reporter in ("go", "cargo"):
        found = (parse_go if reporter == "go" else parse_cargo)(_content(stdout))
    elif not found and reporter:
        found = parse_jest(_content(reports / "scripts.json"), folder)
    return found or None


def readable_output(reporter: Reporter, output: str) -> str:
    """What a person reads of what a command printed."""
    if reporter != "go":
        return output
    events = [(_json(line), line) for line in output.splitlines()]
    shown = (str(event.get("Output", "")) if isinstance(event, dict) else f"{line}\n" for event, line in events)
    return "".join(shown).strip()


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_REPORT).decode("utf-8", "replace")
    except OSError:
        return ""


def _merged(pairs: Iterable[tuple[str, Status]]) -> Results:
    """Of tests of the same name the worst counts."""
    found: Results = {}
    for name, status in pairs:
        before = found.get(name, status)
        found[name] = max(before, status, key=_SEVERITY.__getitem__)
    return found


def parse_junit(text: str) -> Results:
    """Read JUnit XML, as pytest writes it.

    >>> parse_junit('<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>')
    {'a::b': 'passed'}
    """
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace")) if text.strip() else None
    except (ElementTree.ParseError, ValueError, RecursionError):
        return {}
    return {} if root is None else _merged(_junit_cases(root))


def _junit_cases(root: ElementTree.Element) -> Iterator[tuple[str, Status]]:
    for case in root.iter("testcase"):
        parts = (case.get("classname"), case.get("name"))
        children = {child.tag for child in case}
        status: Status = (
            "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
        )
        yield "::".join(part for part in parts if part), status


_GO: Mapping[Any, Status] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def parse_go(text: str) -> Results:
    """Read the events of `go test -json`.

    >>> parse_go('{"Action": "pass", "Package": "a", "Test": "TestB"}')
    {'a::TestB': 'passed'}
    """
    events = (_json(line) for line in text.splitlines() if line.startswith("{"))
    return _merged(
        (f"{event.get('Package', '')}::{event['Test']}", _GO[event["Action"]])
        for event in events
        if isinstance(event, dict) and event.get("Test") and _is_known(event.get("Action"), _GO)
    )


_JEST: Mapping[Any, Status] = {
    "passed": "passed",
    "failed": "failed",
    **dict.fromkeys(("pending", "skipped", "todo", "disabled"), "skipped"),
}


def parse_jest(text: str, folder: Path) -> Results:
    """Read the JSON document of jest and vitest, with files as they are seen from a folder."""
    document = _json(text)
    files = document.get("testResults") if isinstance(document, dict) else None
    return _merged(_jest_tests(files if isinstance(files, list) else [], folder))


def _jest_tests(files: list[Any], folder: Path) -> Iterator[tuple[str, Status]]:
    for file in files:
        tests = file.get("assertionResults") if isinstance(file, dict) else None
        for test in tests if isinstance(tests, list) else []:
            if isinstance(test, dict) and _is_known(test.get("status"), _JEST):
                name = seen_from(folder, str(file.get("name", "")))
                yield f"{name}::{test.get('fullName') or test.get('title') or ''}", _JEST[test["status"]]


_CARGO: Mapping[str, Status] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def parse_cargo(text: str) -> Results:
    """Read what `cargo test` prints.

    >>> parse_cargo("running 2 tests\\ntest a::b ... ok\\ntest c ... FAILED\\n")
    {'a::b': 'passed', 'c': 'failed'}
    """
    matches = (_CARGO_LINE.match(line) for line in text.splitlines())
    return _merged((match[1], _CARGO[match[2]]) for match in matches if match)


def _is_known(value: Any, known: Mapping[Any, Status]) -> bool:
    return isinstance(value, str) and value in known


def _json(text: str) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return None
