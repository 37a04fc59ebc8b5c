"""Make commands report the results of individual tests, and read their reports.

pytest writes JUnit XML, `go test -json` one line per event, jest and vitest a JSON document, and cargo prints one line
per test. Other commands have only their exit code.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from abreast.targets.untrusted_json import mapping, mappings, parsed
from abreast.targets.workspace.files.directories import relative_paths

Status = Literal["passed", "failed", "skipped"]
Results = dict[str, Status]
"""The status of each test by name."""

Reporter = Literal["", "go", "cargo", "jest", "vitest"]
"""The kind of a command. pytest is not included: it is configured by a variable, whatever command starts it."""

LARGEST_REPORT = 50_000_000  # bytes
_SEVERITY: Mapping[Status, int] = {"skipped": 0, "passed": 1, "failed": 2}
_PYTEST_OPTIONS = ("--continue-on-collection-errors", "--maxfail=0", "-o", "junit_logging=no")
_CARGO_LINE = re.compile(r"test (.+?)(?: - should panic)? \.\.\. (?:.*\b)?(ok|FAILED|ignored)\b")
_SCRIPT_PARTS = re.compile(r"&&|\|\||;|\|")


def reporter_of(words: Sequence[str], test_script: str | None) -> Reporter:
    """Return the reporter of a command; `test_script` is what `npm test` runs.

    >>> reporter_of(["go", "test", "./..."], None), reporter_of(["npm", "test"], "tsc && jest")
    ('go', 'jest')
    """
    names = [posixpath.basename(word) for word in words]
    if names[:2] == ["go", "test"]:
        return "go"
    if names[:1] == ["cargo"] and "test" in names[1:3]:
        return "cargo"
    if names[:2] == ["npm", "test"] and test_script:
        names = _SCRIPT_PARTS.split(test_script)[-1].split()  # arguments of `npm test` go to the last command
    elif names[:1] == ["npx"]:
        names = names[1:]
    first = posixpath.basename(names[0]) if names else ""
    return "jest" if first == "jest" else "vitest" if first == "vitest" else ""


def runs_pytest(words: Sequence[str]) -> bool:
    return any(posixpath.basename(word) in ("pytest", "py.test") for word in words)


def pytest_variables(reports: Path, environment: Mapping[str, str]) -> dict[str, str]:
    options = shlex.join([*_PYTEST_OPTIONS, f"--junitxml={reports / 'pytest.xml'}"])
    return {"PYTEST_ADDOPTS": f"{environment.get('PYTEST_ADDOPTS', '')} {options}".strip()}


def instrument(words: list[str], reporter: Reporter, reports: Path) -> list[str]:
    """Add the options that make a command report individual tests into a folder."""
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
    """Read the report of a command run in `folder`; None if it reported no individual tests."""
    results = parse_junit(_content(reports / "pytest.xml"))
    if not results and reporter in ("go", "cargo"):
        results = (parse_go if reporter == "go" else parse_cargo)(_content(stdout))
    elif not results and reporter:
        results = parse_jest(_content(reports / "scripts.json"), folder)
    return results or None


def readable_output(reporter: Reporter, output: str) -> str:
    if reporter != "go":
        return output
    events = [(parsed(line), line) for line in output.splitlines()]
    texts = (str(event.get("Output", "")) if isinstance(event, dict) else f"{line}\n" for event, line in events)
    return "".join(texts).strip()


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_REPORT).decode("utf-8", "replace")
    except OSError:
        return ""


def _merge_results(pairs: Iterable[tuple[str, Status]]) -> Results:
    """Collect results; of tests with the same name, the worst counts."""
    results: Results = {}
    for name, status in pairs:
        results[name] = max(results.get(name, status), status, key=_SEVERITY.__getitem__)
    return results


def parse_junit(text: str) -> Results:
    """Read JUnit XML, as pytest writes it.

    >>> parse_junit('<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>')
    {'a::b': 'passed'}
    """
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace")) if text.strip() else None
    except (ElementTree.ParseError, ValueError, RecursionError):
        return {}
    return {} if root is None else _merge_results(_junit_cases(root))


def _junit_cases(root: ElementTree.Element) -> Iterator[tuple[str, Status]]:
    for case in root.iter("testcase"):
        parts = (case.get("classname"), case.get("name"))
        children = {child.tag for child in case}
        is_bad, is_skipped = bool(children & {"failure", "error"}), "skipped" in children
        yield "::".join(filter(None, parts)), "failed" if is_bad else "skipped" if is_skipped else "passed"


_GO_STATUS: Mapping[str, Status] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def parse_go(text: str) -> Results:
    """Read the events of `go test -json`.

    >>> parse_go('{"Action": "pass", "Package": "a", "Test": "TestB"}')
    {'a::TestB': 'passed'}
    """
    events = (mapping(parsed(line)) for line in text.splitlines() if line.startswith("{"))
    return _merge_results(
        (f"{event.get('Package', '')}::{event['Test']}", status)
        for event in events
        if event.get("Test") and (status := _GO_STATUS.get(str(event.get("Action"))))
    )


_JEST_STATUS: Mapping[str, Status] = {
    "passed": "passed",
    "failed": "failed",
    **dict.fromkeys(("pending", "skipped", "todo", "disabled"), "skipped"),
}


def parse_jest(text: str, folder: Path) -> Results:
    return _merge_results(
        (
            f"{relative_paths(folder, str(file.get('name', '')))}::{test.get('fullName') or test.get('title') or ''}",
            status,
        )
        for file in mappings(mapping(parsed(text)).get("testResults"))
        for test in mappings(file.get("assertionResults"))
        if (status := _JEST_STATUS.get(str(test.get("status"))))
    )


_CARGO_STATUS: Mapping[str, Status] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def parse_cargo(text: str) -> Results:
    """Read what `cargo test` prints.

    >>> parse_cargo("running 2 tests\\ntest a::b ... ok\\ntest c ... FAILED\\n")
    {'a::b': 'passed', 'c': 'failed'}
    """
    matches = (_CARGO_LINE.match(line) for line in text.splitlines())
    return _merge_results((match[1], _CARGO_STATUS[match[2]]) for match in matches if match)
