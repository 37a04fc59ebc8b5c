"""The report as JUnit XML, for CI systems that display test results.

The suite `verdict` has a test for each comparison, which fails if the variant is worse and is an error if there is no
comparison, and a failed test for each unmet requirement (`--fail-if`). Each variant is a suite with a test for each
trial: errors are errors, scores below 0.5 are failures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from abreast.analyse.run import Analysis
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.words.verdict_sentence import SIMULATED, failure, sentence

PASSED = 0.5  # a lower score is a failed test
OUTCOMES = {"worse": "failure", "regression": "failure", "requirement": "failure", "no comparison": "error"}


class JUnit(ReportFormat):
    file_name = "junit.xml"

    def pieces(self, request: ReportRequest) -> list[str]:
        analysis = request.analysis
        root = ElementTree.Element("testsuites", name=clean(analysis.run["experiment"]))
        _verdicts(root, analysis, request.unmet)
        for index in range(len(analysis.variants) if request.trials else 0):
            _trials(root, analysis, index)
        return [finished(root)]


def finished(root: ElementTree.Element) -> str:
    """Return the document as text, with the counts of its tests."""
    for suite in root:
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(suite.findall("testcase"))))
    for kind in ("tests", "failures", "errors", "skipped"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _refer(ElementTree.tostring(root, encoding="unicode")) + "\n"


def _refer(document: str) -> str:
    """Replace unprintable characters by references.

    >>> _refer("<a>\\x9b</a>")
    '<a>&#x9b;</a>'
    """
    unprintable = {char for char in set(document) if not char.isprintable() and char not in "\n\t"}
    return document.translate({ord(char): f"&#x{ord(char):x};" for char in unprintable}) if unprintable else document


def _suite(root: ElementTree.Element, analysis: Analysis, name: str) -> ElementTree.Element:
    suite = ElementTree.SubElement(root, "testsuite", name=clean(name))
    facts = {"run": analysis.run["run"], "status": analysis.run["status"]}
    facts |= {"simulated": SIMULATED} if analysis.simulated else {}
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in facts.items():
        ElementTree.SubElement(properties, "property", name=key, value=clean(str(value)))
    return suite


def _verdicts(root: ElementTree.Element, analysis: Analysis, unmet: Sequence[str]) -> None:
    suite = _suite(root, analysis, "verdict")
    classname = clean(f"{analysis.run['experiment']}.verdict")
    for item in analysis.comparisons:
        test = add_test(suite, classname, f"{item.variant} against {item.baseline}")
        add_outcome(test, item.verdict.word, sentence(item))
        if item.verdict.word not in OUTCOMES:
            ElementTree.SubElement(test, "system-out").text = clean(sentence(item))
    add_requirements(suite, classname, unmet)


def add_test(suite: ElementTree.Element, classname: str, name: str, seconds: str = "0") -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=classname, name=clean(name), time=seconds)


def add_outcome(test: ElementTree.Element, word: str, message: str) -> None:
    """Mark a test as failed or as an error; other verdicts pass."""
    if word in OUTCOMES:
        ElementTree.SubElement(test, OUTCOMES[word], message=clean(message), type=word)


def add_requirements(suite: ElementTree.Element, classname: str, unmet: Sequence[str]) -> None:
    for line in unmet:
        add_outcome(add_test(suite, classname, line.split(": ")[0]), "requirement", line)


def _trials(root: ElementTree.Element, analysis: Analysis, index: int) -> None:
    rows = analysis.rows
    suite = _suite(root, analysis, rows.variants[index])
    classname = clean(f"{analysis.run['experiment']}.{rows.variants[index]}")
    trials = rows.store.queries.scored_trials(rows.run_id, index, rows.primary)
    for case_id, repeat, status, kind, blame, error, seconds, value, explanation in trials:
        name = f"{case_id} [{repeat}]" if rows.repeats > 1 else case_id
        test = add_test(suite, classname, name, f"{max(0.0, seconds or 0.0):.3f}")
        if status == "error":
            row = {"status": status, "error_kind": kind, "error_blame": blame, "error": error}
            ElementTree.SubElement(test, "error", message=clean(failure(row)), type=clean(kind or "error"))
        elif status != "ok":
            ElementTree.SubElement(test, "skipped", message=clean(error or status))
        elif value is not None and value < PASSED:
            message = f"score {value:.3g}" + (f": {explanation}" if explanation else "")
            ElementTree.SubElement(test, "failure", message=clean(message), type="score")
        elif value is None and rows.primary:
            ElementTree.SubElement(test, "error", message=clean(explanation or "not scored"), type="unscored")


def clean(words: str) -> str:
    """Replace characters that XML does not allow."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", words)
