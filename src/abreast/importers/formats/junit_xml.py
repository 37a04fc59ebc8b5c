"""JUnit XML, as test runners and our own reports write it: each test is a case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.parsers import expat

from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, failure_from_message
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Case, Score
from abreast.sizes import excerpt

ROOTS = ("testsuites", "testsuite")
_ROOT = re.compile(rb"<\s*(?!\?|!)([\w:.-]+)")
_RAISED = re.compile(
    r"(?!AssertionError)(?:\w+\.)*\w+(?:Error|Exception|Timeout|Expired)\b"
)  # at the start of a message
LONGEST_OUTPUT = 100_000  # characters of an answer

Element = ElementTree.Element


class JUnitXml(LogFormat):
    name = "junit"
    title = "JUnit XML"
    error_rule = (
        "a failed test scores 0; an <error>, or a failure by an exception other than an assertion, is infrastructure "
        "if its message names a rate limit, the network, a key or a server; other <error>s count for neither side"
    )

    def recognises(self, log: LogFile) -> bool:
        root = _ROOT.search(log.head) if log.kind == "xml" else None
        return root is not None and root[1].decode() in ROOTS

    def header(self, log: LogFile) -> LogHeader:
        names: list[str] = []
        created_at, tool = None, "JUnit"
        for event, element in _elements(log):
            if event == "start" and element.tag in ROOTS:
                names.append(element.get("name") or "")
                created_at = created_at or _seconds(element.get("timestamp"))
            elif element.tag == "testcase":
                break
        if "pytest" in names:
            tool, names = "pytest", []
        task = next(filter(None, names), "") or "tests"
        return LogHeader(tool=tool, task=task, created_at=created_at, variants={log.path.stem: {}}, primary="passed")

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        (variant,) = header.variants
        ambiguous = _in_several_suites(log)
        for test, suite in _tests(log):
            name = _name(test)
            yield _trial(test, f"{suite}::{name}" if suite and name in ambiguous else name, variant, suite)


def _tests(log: LogFile) -> Iterator[tuple[Element, str]]:
    """Yield the tests with the names of their suites; empty if they have none."""
    suites: list[Element] = []
    for event, element in _elements(log):
        if element.tag == "testsuite":
            if event == "start":
                suites.append(element)
            else:
                suites.pop()
        elif element.tag == "testcase" and event == "end":
            yield element, (suites[-1].get("name") or "") if suites else ""
            for suite in suites[-1:]:
                del suite[:]  # a file may have millions of tests


def _in_several_suites(log: LogFile) -> set[str]:
    """Return the names of tests that occur in several suites, where each is a separate test, not a repeat."""
    first: dict[str, str] = {}
    return {name for test, suite in _tests(log) if first.setdefault(name := _name(test), suite) != suite}


def _name(test: Element) -> str:
    classname, name = test.get("classname"), test.get("name") or "unnamed"
    return f"{classname}::{name}" if classname else name


def _trial(test: Element, name: str, variant: str, suite: str) -> LoggedTrial:
    failed, broken, skipped = (test.find(tag) for tag in ("failure", "error", "skipped"))
    failure = None if broken is None else failure_from_message(_message(broken))
    if failed is not None and failure is None and _RAISED.match(_message(failed)):
        raised = failure_from_message(_message(failed))
        failure = raised if raised.blame == "infrastructure" else None
    return LoggedTrial(
        case=Case(name, None, tags={"suite": suite} if suite else {}),
        variant=variant,
        answer=Answer(_output(test)) if failure is None else None,
        failure=failure,
        skipped=None if skipped is None else _message(skipped),
        scores=[Score("passed", float(failed is None), "" if failed is None else _message(failed))],
        latency_s=_number(test.get("time")),
    )


def _message(element: Element) -> str:
    """Return the message of a failure, error or skip, else the first line of its text, else its type."""
    text = (element.text or "").strip()
    return element.get("message") or text.partition("\n")[0] or element.get("type") or element.tag


def _output(test: Element) -> str:
    """Return the test's output, and where it failed."""
    texts = [
        element.text for element in test if element.tag in ("failure", "system-out", "system-err") and element.text
    ]
    return excerpt("\n".join(text.strip() for text in texts), LONGEST_OUTPUT)


def _elements(log: LogFile) -> Iterator[tuple[str, Element]]:
    """Yield the start and end of each element, without its namespace."""
    if b"<!DOCTYPE" in log.head or b"<!ENTITY" in log.head:
        raise log.error("a DOCTYPE is not allowed in JUnit XML", "remove it if you trust the file")
    with log.open() as file:
        try:
            for event, element in ElementTree.iterparse(file, ("start", "end")):
                element.tag = element.tag.rpartition("}")[2]
                yield event, element
        except ElementTree.ParseError as error:
            line, column = error.position
            what = expat.ErrorString(error.code)
            cut = what in (expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN)
            problem = f"not valid XML at line {line:,}, column {column:,} ({what})"
            fix = "copy it again from its source"
            raise log.error(f"the file is truncated: {problem}" if cut else problem, fix if cut else "") from None


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def _seconds(text: str | None) -> float | None:
    """Convert a time to seconds since 1970; times without a zone are in UTC."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
