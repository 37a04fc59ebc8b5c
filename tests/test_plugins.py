"""Targets, scorers and suites from other packages: what works, and the messages for their authors."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import abreast
from conftest import Done, Folder
from packages import install, install_project
from test_docs import blocks

DOCS = Path(__file__).parent.parent / "docs/how-to/extending.md"

TARGET = """
from abreast import Answer, Request
from abreast.targets import Target

class Service(Target):
    name = "service"
    version = "1"

    def __init__(self, variant, seed, shared):
        pass

    def request(self, trial):
        return Request(str(trial.case.input), trial.case.input, {})

    async def answer(self, trial, request, attempt, workers):
        return Answer("yes")

    async def close(self):
        pass
"""
SCORER = """
from abreast import Score
from abreast.scorers import Scorer

class Mine(Scorer):
    version = "1"
    needs_expected = True

    def __init__(self, name, settings):
        self.columns = ("mine",)

    def score(self, case, answer):
        return (Score("mine", 0.5),)
"""
SPEC = """\
cases: cases.jsonl
variants: {a: {target: TARGET}, b: {target: TARGET}}
scorers: [SCORER]
"""


@pytest.fixture
def site(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder in which packages under `site` are installed."""
    folder.cases(12)
    (folder.path / "site").mkdir()
    monkeypatch.syspath_prepend(str(folder.path / "site"))
    return folder


def run_with(folder: Folder, kind: str, source: str, value: str, command: str = "run", name: str = "thing") -> Done:
    """Run an experiment with a target or scorer of a package `acme 1.0`, the entry point `thing = plug:VALUE`."""
    folder.write("site/plug.py", source)
    install(folder, "acme", {f"abreast.{kind}s": {name: f"plug:{value}"}})
    chosen = {"TARGET": "simulated", "SCORER": "exact", kind.upper(): name}
    text = SPEC
    for key, word in chosen.items():
        text = text.replace(key, word)
    folder.write("spec.yaml", text)
    sys.modules.pop("plug", None)
    return folder.rerun(command, "spec.yaml", "--yes")


def refused(folder: Folder, done: Done, kind: str, value: str, message: str) -> None:
    """The message names the package, the entry point and the page; nothing was executed."""
    assert done.code == 2, done.output
    assert f'{kind} "thing" (acme 1.0, plug:{value}): ' in done.err
    assert message in done.err
    assert f'see docs/how-to/extending.md, "A {kind} of your own"' in done.err
    assert f"## A {kind} of your own" in DOCS.read_text(encoding="utf-8")
    assert not (folder.path / "results.db").exists(), "nothing may have been executed"


def test_the_package_of_the_documentation_works(site: Folder) -> None:
    for _, name, content in blocks(DOCS):
        if name.startswith("courtesy/") or name in ("manners.yaml", "blunt.json", "polite.json"):
            site.write(name.replace("courtesy/courtesy/", "site/courtesy/"), content)
    install_project(site, (site.path / "courtesy/pyproject.toml").read_text(), "site")
    assert site.abreast("check", "manners.yaml").code == 0
    done = site.abreast("run", "manners.yaml")
    assert done.code == 0, done.output
    rows = site.sql("select variant, answer, score_courtesy from predictions order by variant, answer")
    assert [tuple(row.values()) for row in rows] == [
        ("blunt", "Bread!", 0.0),
        ("blunt", "Help!", 0.0),
        ("polite", "Bread, please.", 1.0),
        ("polite", "Please help me.", 1.0),
    ]
    site.write("manners.yaml", (site.path / "manners.yaml").read_text().replace("[please]", "please"))
    done = site.abreast("run", "manners.yaml")
    assert (done.code, "words must be a list, got 'please'" in done.err) == (2, True)


def test_a_target_and_a_scorer_need_only_the_abstract_methods_of_their_base_class(site: Folder) -> None:
    answers = "    async def answer(self, trial, request, attempt, workers):\n        return Answer('yes')\n"
    header = (
        "from abreast import Answer, Score\nfrom abreast.targets import Target\nfrom abreast.scorers import Scorer\n"
    )
    site.write(
        "site/plug.py",
        f"{header}class Least(Target):\n    name, version = 'least', '1'\n"
        f"    def __init__(self, variant, seed, shared):\n        pass\n{answers}",
    )
    site.write(
        "site/grading.py",
        f"{header}class Always(Scorer):\n    columns, version = ('always',), '1'\n"
        "    def __init__(self, name, settings):\n        pass\n"
        "    def score(self, case, answer):\n        return (Score('always', 1.0),)\n",
    )
    install(site, "acme", {"abreast.targets": {"least": "plug:Least"}, "abreast.scorers": {"always": "grading:Always"}})
    site.write("spec.yaml", SPEC.replace("TARGET", "least").replace("SCORER", "always"))
    done = site.rerun("run", "spec.yaml", "--yes")
    assert done.code == 0, done.output
    assert site.sql("select count(*) n from predictions where score_always = 1.0") == [{"n": 24}]


def test_everything_a_plugin_author_needs_is_public() -> None:
    for name in ("Answer", "Case", "Request", "Score", "Scorer", "Target", "Trial", "Usage", "Variant"):
        assert name in abreast.__all__
        assert isinstance(getattr(abreast, name), type)


@pytest.mark.parametrize(
    ("value", "old", "new", "message"),
    [
        ("Service", "", "", ""),
        ("Absent", "", "", "importing it failed: AttributeError"),
        (
            "Service",
            "class Service",
            "1 / 0\nclass Service",
            "importing it failed: ZeroDivisionError: division by zero",
        ),
        ("Service", "class Service", "import nothing_such\nclass Service", "No module named 'nothing_such'"),
        ("Service", "class Service", "import sys; sys.exit(3)\nclass Service", "importing it failed: SystemExit: 3"),
        ("Service", "class Service", "class Service(", "importing it failed: SyntaxError"),
        (
            "name",
            "class Service",
            "name = 'x'\nclass Service",
            "a class or function that makes a target, got the str 'x'",
        ),
        ("build", "", "def build():\n    return Service", "called as (variant, seed, shared), got build()"),
        ("build", "", "def build(*_):\n    return Service", "attributes of abreast.Target, got the class Service"),
        ("build", "", "def build(*_):\n    return lambda case: 'yes'", "of abreast.Target, got the function <lambda>"),
        ("build", "", "def build(*_):\n    pass", "of abreast.Target, got None"),
        (
            "build",
            "",
            "async def build(*_):\n    return Service(*_)",
            "must not be async",
        ),
        ("build", "", "def build(case, style, n):\n    return 'yes'", "of abreast.Target, got the str 'yes'"),
        (
            "Service",
            "(self, variant, seed, shared)",
            "(self, variant)",
            "called as (variant, seed, shared), got Service(",
        ),
        (
            "Service",
            "        pass\n\n    def request",
            "        raise KeyError('no')\n\n    def request",
            "failed: KeyError: 'no'",
        ),
        ("Service", "async def answer", "async def reply", "Can't instantiate abstract class Service"),
        ("Service", 'version = "1"', "version = 1", "Service.version must be text that changes whenever an answer"),
        ("Service", '    version = "1"\n', "", "Service has no version: it must be text"),
        ("Service", '    name = "service"\n', "    name = ''\n", "Service.name must be text, got the str ''"),
        ("Service", 'version = "1"', 'version = "1"; sees = "all"', 'Service.sees must be "input", "case" or "truth"'),
        (
            "Service",
            'version = "1"',
            'version = "1"; simulated = 0',
            "Service.simulated must be True or False, got the int 0",
        ),
        ("Service", 'version = "1"', 'version = "1"; warmup = "yes"', "Service.warmup must be True or False"),
        ("Service", "async def answer", "def answer", "answer(trial, request, attempt, workers) must be async"),
        ("Service", "def request", "async def request", "Service.request(trial) must not be async"),
        ("Service", "async def close", "def close", "Service.close() must be async"),
        (
            "Service",
            "(self, trial, request, attempt, workers)",
            "(self, case)",
            "called as (trial, request, attempt, workers)",
        ),
        ("Service", "def request(self, trial)", "def request(self)", "called as (trial), got request()"),
        (
            "Service",
            "return Request(str(trial.case.input), trial.case.input, {})",
            "return 'text'",
            "request() must return an abreast.Request, got the str 'text'",
        ),
        (
            "Service",
            "Request(str(trial.case.input)",
            "Request(5",
            "the prompt of a Request must be text, got the int 5",
        ),
        (
            "Service",
            "async def close",
            "def problems(self):\n        return 'none'\n\n    async def close",
            "problems() must return a list of abreast.targets.Problem, got the str 'none'",
        ),
        (
            "Service",
            "async def close",
            "def notes(self):\n        return 1 / 0\n\n    async def close",
            "notes() failed: ZeroDivisionError",
        ),
        (
            "Service",
            "async def close",
            "def notes(self, x):\n        return []\n\n    async def close",
            "notes is a method of a target, called as ()",
        ),
        (
            "Service",
            "async def close",
            "def expects(self, trial, request):\n        return 5\n\n    async def close",
            "expects() must return an abreast.targets.Expected, got the int 5",
        ),
        (
            "Service",
            "async def close",
            "@property\n    def warmup(self):\n        raise OSError('gone')\n\n    async def close",
            "reading its attributes failed: OSError: gone",
        ),
    ],
)
def test_an_invalid_target_is_refused_before_the_run(
    site: Folder, value: str, old: str, new: str, message: str
) -> None:
    source = TARGET.replace(old, new, 1) if old else f"{TARGET}\n{new}"
    assert old in TARGET
    done = run_with(site, "target", source, value)
    if not message:
        assert done.code == 0, done.output
        return
    refused(site, done, "target", value, message)


def test_an_invalid_return_value_of_a_target_is_a_crash_with_the_reason(site: Folder) -> None:
    done = run_with(site, "target", TARGET.replace('Answer("yes")', '"yes"'), "Service")
    assert done.code == 3, done.output
    (row,) = site.sql("select distinct error_kind, error_blame, error from predictions where error is not null")
    assert row["error_kind"] == "crash"
    assert (
        'target "thing" (acme 1.0, plug:Service): answer() must return an abreast.Answer, got the str' in row["error"]
    )


def test_a_request_that_fails_for_one_case_is_a_failure_of_that_trial(site: Folder) -> None:
    broken = "if trial.case.id == 'c3':\n            raise KeyError('c3')\n        return Request("
    done = run_with(site, "target", TARGET.replace("return Request(", broken), "Service")
    assert done.code == 0, done.output
    (row,) = site.sql("select distinct case_id, error from predictions where error is not null")
    assert row["case_id"] == "c3"
    assert "request() failed: KeyError: 'c3'" in row["error"]


def test_a_target_that_fails_to_close_costs_no_result(site: Folder) -> None:
    done = run_with(
        site,
        "target",
        TARGET.replace("        pass\n", "        raise OSError('gone')\n").replace(
            "shared):\n        raise OSError('gone')", "shared):\n        pass"
        ),
        "Service",
    )
    assert done.code == 0, done.output
    assert "close() failed: OSError: gone" in done.err
    assert site.sql("select count(*) n from predictions where score is not null") == [{"n": 24}]


@pytest.mark.parametrize(
    ("value", "old", "new", "message"),
    [
        ("Mine", "", "", ""),
        ("Absent", "", "", "importing it failed: AttributeError"),
        ("grade", "", "def grade(case, answer):\n    return 1.0", "attributes of abreast.Scorer, got the float 1.0"),
        ("grade", "", "def grade(case):\n    return 1.0", "called as (name, settings), got grade(case)"),
        ("grade", "", "def grade(*_):\n    return Mine", "of abreast.Scorer, got the class Mine"),
        ("grade", "", "def grade(*_):\n    return grade", "of abreast.Scorer, got the function grade"),
        ("grade", "", "grade = Mine('a', {})", "a class or function that makes a scorer, got an object of type Mine"),
        ("Mine", "def score", "def grade", "Can't instantiate abstract class Mine"),
        ("Mine", "def score", "async def score", "Mine.score(case, answer) must not be async"),
        ("Mine", "(self, case, answer)", "(self, text)", "score is a method of a scorer, called as (case, answer)"),
        ("Mine", '("mine",)', '"mine"', "Mine.columns must be a tuple of names"),
        ("Mine", '("mine",)', "()", "Mine.columns must be a tuple of names"),
        ("Mine", '("mine",)', '("My Score",)', "Mine.columns must be a tuple of names"),
        ("Mine", 'self.columns = ("mine",)', "pass", "Mine has no columns"),
        ("Mine", 'version = "1"', "version = None", "Mine.version must be text that changes"),
        ("Mine", "needs_expected = True", "needs_expected = 1", "Mine.needs_expected must be True or False"),
        (
            "Mine",
            "def score",
            "def flaw(self, expected):\n        return 'bad'\n\n    def score",
            "flaw() must return what is wrong and how to fix it, two texts, or None, got the str 'bad'",
        ),
        (
            "Mine",
            "def score",
            "def flaw(self, expected):\n        1 / 0\n\n    def score",
            "flaw() failed: ZeroDivisionError",
        ),
        ("Mine", "self.columns", "1 / 0; self.columns", "failed: ZeroDivisionError"),
    ],
)
def test_an_invalid_scorer_is_refused_before_the_run(
    site: Folder, value: str, old: str, new: str, message: str
) -> None:
    source = SCORER.replace(old, new, 1) if old else f"{SCORER}\n{new}"
    assert old in SCORER
    done = run_with(site, "scorer", source, value)
    if not message:
        assert done.code == 0, done.output
        return
    refused(site, done, "scorer", value, message)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("None", "score() must return a tuple of abreast.Score, got None"),
        ("'good'", "score() must return a tuple of abreast.Score, got the str 'good'"),
        ("0.5", "score() must return a tuple of abreast.Score, got the float 0.5"),
        ("(0.5,)", "score() must return a tuple of abreast.Score"),
        ("()", "score() gave no score for this column"),
        ("(Score('other', 1.0),)", "score() gave no score for this column, but for other"),
        ("(Score('mine', float('nan')),)", "gave nan, which is not between 0 and 1"),
        ("(Score('mine', 7),)", "gave 7, which is not between 0 and 1"),
        ("(Score('mine', 'high'),)", "which is not a number"),
        ("1 / 0", "crashed: ZeroDivisionError"),
        ("exit(4)", "crashed: SystemExit"),
    ],
)
def test_an_invalid_score_is_empty_with_the_reason_and_the_answer_is_kept(
    site: Folder, returned: str, reason: str
) -> None:
    done = run_with(site, "scorer", SCORER.replace('(Score("mine", 0.5),)', returned), "Mine")
    assert done.code == 1, done.output
    (row,) = site.sql("select distinct value, explanation from scores")
    assert row["value"] is None
    assert reason in row["explanation"]
    assert site.sql("select count(*) n from predictions where status = 'ok'") == [{"n": 24}]


@pytest.mark.parametrize(("kind", "source", "name"), [("target", TARGET, "openai"), ("scorer", SCORER, "exact")])
def test_the_name_of_a_built_in_is_refused(site: Folder, kind: str, source: str, name: str) -> None:
    done = run_with(site, kind, source, "Service" if kind == "target" else "Mine", name=name)
    assert done.code == 2
    assert f'{kind} "{name}" (acme 1.0, plug:' in done.err
    assert f'"{name}" is the name of a built-in {kind}' in done.err


@pytest.mark.parametrize(("kind", "source", "value"), [("target", TARGET, "Service"), ("scorer", SCORER, "Mine")])
def test_two_packages_with_one_name_are_refused(site: Folder, kind: str, source: str, value: str) -> None:
    install(site, "rival", {f"abreast.{kind}s": {"thing": "elsewhere:Other"}})
    done = run_with(site, kind, source, value)
    assert done.code == 2
    assert f'{kind} "thing" is registered by ' in done.err
    assert {"acme 1.0", "rival 1.0"} <= set(done.err.split("registered by ")[1].splitlines()[0].split(" and by "))


SUITE = """
from abreast import Experiment

class Suite:
    name = "thing"
    summary = "What is it?"

    def arguments(self, parser):
        pass

    def experiment(self, args):
        cases = [{"id": f"c{n}", "input": "?", "expected": "yes"} for n in range(12)]
        return Experiment(cases=cases, variants={"a": {}, "b": {}}, target="simulated", scorers=["exact"])

SUITE = Suite()
"""


@pytest.mark.parametrize(
    ("value", "old", "new", "message"),
    [
        ("SUITE", "", "", ""),
        ("Suite", "", "", "must be a module or an object, such as SUITE = MySuite(), got the class Suite"),
        (
            "SUITE",
            "SUITE = Suite()",
            "SUITE = None",
            "it has no name and no summary and no arguments and no experiment",
        ),
        ("SUITE", "SUITE = Suite()", "def SUITE(args):\n    pass", "it has no name and no summary"),
        ("SUITE", '"What is it?"', "5", "summary must be text, got the int 5"),
        ("SUITE", "def experiment(self, args)", "def experiment(self)", "called as (args), got experiment()"),
        ("SUITE", "def experiment", "async def experiment", "experiment must be a plain function"),
        ("SUITE", "return Experiment(", "return dict(", "experiment(args) must return an abreast.Experiment, got"),
        ("SUITE", "cases = [", "cases = 1 / 0, [", "experiment(args) failed: ZeroDivisionError"),
        ("SUITE", "cases = [", "exit(5); cases = [", "experiment(args) failed: SystemExit: 5"),
        (
            "SUITE",
            "        pass\n",
            "        parser.add_argument('--limit')\n",
            "arguments(parser) failed: ArgumentError",
        ),
        (
            "SUITE",
            'summary = "What is it?"',
            "@property\n    def summary(self):\n        raise OSError('gone')",
            "reading its attributes failed: OSError: gone",
        ),
    ],
)
def test_an_invalid_suite_is_refused_before_the_run(site: Folder, value: str, old: str, new: str, message: str) -> None:
    assert old in SUITE
    site.write("site/plug.py", SUITE.replace(old, new, 1))
    install(site, "acme", {"abreast.suites": {"thing": f"plug:{value}"}})
    sys.modules.pop("plug", None)
    done = site.rerun("run", "thing")
    if not message:
        assert done.code == 0, done.output
        return
    refused(site, done, "suite", value, message)
    assert site.abreast("suites").code == 0


def test_a_suite_that_crashes_on_a_file_is_skipped(site: Folder) -> None:
    reads = "    def reads(self, data):\n        return 1 / 0\n\n    def experiment"
    site.write("site/plug.py", SUITE.replace("    def experiment", reads))
    install(site, "acme", {"abreast.suites": {"thing": "plug:SUITE"}})
    site.write("settings.json", "{}")
    assert site.abreast("run", "settings.json").code == 2


# -- functions that a spec or a script names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "changes", "code", "message"),
    [
        ("def made():\n    return 5", {"cases": "python:mine:made"}, 2, "python:mine:made"),
        ("def made():\n    1 / 0", {"cases": "python:mine:made"}, 2, "ZeroDivisionError"),
        ("def made():\n    raise SystemExit(3)", {"cases": "python:mine:made"}, 2, "SystemExit"),
        ("async def made():\n    return []", {"cases": "python:mine:made"}, 2, "python:mine:made"),
        ("def made():\n    yield {'id': 1}\n    yield 'x'", {"cases": "python:mine:made"}, 2, "python:mine:made"),
        ("def made(n):\n    return []", {"cases": "python:mine:made"}, 2, "python:mine:made"),
        ("def cut(a, b):\n    return a", {"transform": "python:mine:cut"}, 2, "cut(a, b)"),
        ("async def cut(a):\n    return a", {"transform": "python:mine:cut"}, 2, "async"),
        ("def grade(a, b, c):\n    return 1", {"scorers": ["python:mine:grade"]}, 2, "cannot be called"),
        ("class Grade:\n    pass", {"scorers": ["python:mine:Grade"]}, 2, "is a class, not a function"),
        (
            "def ask(case, style):\n    return 1",
            {"target": "python:mine:ask"},
            2,
            "cannot be called with these parameters",
        ),
        ("def ask():\n    return 1", {"target": "python:mine:ask"}, 2, "cannot be called with these parameters"),
        ("ask = 5", {"target": "python:mine:ask"}, 2, "is not a function but an int"),
    ],
)
def test_an_unusable_function_in_a_spec_is_refused_before_the_run(
    site: Folder, source: str, changes: dict[str, Any], code: int, message: str
) -> None:
    site.write("mine.py", f"{source}\n")
    variant = {"target": changes.pop("target", "simulated")}
    variant |= {"transform": changes.pop("transform")} if "transform" in changes else {}
    spec = {"cases": "cases.jsonl", "variants": {"a": variant, "b": variant}, "scorers": ["exact"], **changes}
    site.write("spec.yaml", json.dumps(spec))
    done = site.rerun("run", "spec.yaml", "--yes")
    assert (done.code, message in done.err) == (code, True), done.output
    assert not (site.path / "results.db").exists()


# Report formats

FORMAT = """
from abreast.report.formats.catalogue import ReportFormat

class OneLine(ReportFormat):
    file_name = "verdict.txt"

    def pieces(self, request):
        yield request.analysis.run["experiment"]
        yield f": {request.analysis.comparisons[0].verdict.word}\\n"
"""


def with_format(folder: Folder, source: str, value: str) -> Folder:
    """A folder with a run, and a package `acme` with the format `one-line`."""
    folder.write("spec.yaml", SPEC.replace("TARGET", "simulated").replace("SCORER", "exact"))
    folder.write("site/plug.py", source)
    install(folder, "acme", {"abreast.formats": {"one-line": f"plug:{value}"}})
    sys.modules.pop("plug", None)
    return folder


def test_a_report_format_from_a_package_is_written_and_printed_like_the_others(site: Folder) -> None:
    with_format(site, FORMAT, "OneLine")
    done = site.abreast("run", "spec.yaml", "--quiet", "--format", "one-line,json")
    assert done.code == 0, done.output
    (written,) = site.path.glob("runs/*/verdict.txt")
    assert written.read_text() == "spec: inconclusive\n"
    assert site.abreast("report", "--format", "one-line").out == "spec: inconclusive\n"
    assert "verdict.txt" in site.abreast("report", "--format", "all", "--no-pictures").out


def test_an_invalid_report_format_is_refused_before_the_run(site: Folder) -> None:
    with_format(site, "def nothing():\n    return 1\n", "nothing")
    done = site.abreast("run", "spec.yaml", "--quiet", "--format", "one-line")
    assert (done.code, 'format "one-line" (acme 1.0, plug:nothing)' in done.err) == (2, True), done.err
    assert not (site.path / "results.db").exists()
    assert 'did you mean "one-line"?' in site.abreast("report", "--format", "onelin").err


# -- limits --------------------------------------------------------------------------------------------------------


def test_a_limit_from_a_package_applies_to_every_run(site: Folder) -> None:
    page = DOCS.read_text(encoding="utf-8")
    source = page[page.index("class OneAtATime") :].split("```")[0]
    site.write("site/plug.py", f"from abreast.execute.limits.base import Limit\n\n\n{source}")
    install(site, "acme", {"abreast.limits": {"one-at-a-time": "plug:build"}})
    sys.modules.pop("plug", None)
    site.write("spec.yaml", SPEC.replace("TARGET", "simulated, latency: 0.01").replace("SCORER", "exact"))
    done = site.abreast("run", "spec.yaml", "--parallel", "8")
    assert done.code == 0, done.output
    assert "in flight: 8 requested" in done.err
    assert "1 at most" in done.err


@pytest.mark.parametrize("source", ["def build(context):\n    return [1]\n", "def build(context):\n    return 1\n"])
def test_an_invalid_limit_is_refused_with_its_package_before_the_run(site: Folder, source: str) -> None:
    site.write("site/plug.py", source)
    install(site, "acme", {"abreast.limits": {"odd": "plug:build"}})
    sys.modules.pop("plug", None)
    site.write("spec.yaml", SPEC.replace("TARGET", "simulated").replace("SCORER", "exact"))
    done = site.abreast("run", "spec.yaml")
    assert done.code == 2
    assert 'limit "odd" (acme 1.0, plug:build)' in done.err
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("abreast-writer")]


def test_a_scorer_may_use_the_name_check_for_anything(site: Folder) -> None:
    source = SCORER.replace("    def score", "    def check(self, text):\n        return text\n\n    def score")
    site.write("site/plug.py", source)
    install(site, "acme", {"abreast.scorers": {"mine": "plug:Mine"}})
    sys.modules.pop("plug", None)
    site.write("spec.yaml", SPEC.replace("TARGET", "simulated").replace("SCORER", "mine"))
    assert site.abreast("run", "spec.yaml", "--quiet").code == 0


def test_an_answer_may_be_an_object_with_an_async_call(site: Folder) -> None:
    source = TARGET.replace(
        "        pass\n\n    def request", "        self.answer = Retried(self.answer)\n\n    def request", 1
    )
    retried = """
class Retried:
    def __init__(self, function):
        self.function = function

    async def __call__(self, *arguments):
        return await self.function(*arguments)
"""
    site.write("site/plug.py", source + retried)
    install(site, "acme", {"abreast.targets": {"service": "plug:Service"}})
    sys.modules.pop("plug", None)
    site.write("spec.yaml", SPEC.replace("TARGET", "service").replace("SCORER", "exact"))
    done = site.abreast("run", "spec.yaml", "--quiet")
    assert done.code == 0, done.err
