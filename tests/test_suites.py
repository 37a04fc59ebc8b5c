"""Suites: experiments from a package that run by name and add their own sections to every report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from abreast import Experiment
from abreast.cli import main
from conftest import Done, Folder

ROOT = Path(__file__).parent.parent

TINY = """
import numpy as np

from abreast import Experiment
from abreast.errors import BadInput
from abreast.report.charts.drawing import Drawing, Picture
from abreast.report.sections import NamedTable, Section


def cases():
    return [{"id": f"c{n}", "input": f"question {n}", "expected": "yes"} for n in range(30)]


class Tiny:
    name = "tiny"
    summary = "Does it say yes?"
    epilog = "example: abreast run tiny --size 12"

    def arguments(self, parser):
        parser.add_argument("--size", metavar="N", type=int, default=30, help="how many questions")
        parser.add_argument("--kind", choices=("easy", "hard"), default="easy")
        parser.add_argument("--real", action="store_true", help="ask a model")
        parser.add_argument("--crash", action="store_true")
        parser.add_argument("--from-python", action="store_true")
        parser.add_argument("--no-viz", dest="no_pictures", action="store_true", help="the same as --no-pictures")
        parser.set_defaults(repeats=2)

    def experiment(self, args):
        if args.size < 1:
            raise BadInput(f"--size {args.size}: must be 1 or more", "--size 10")
        if args.crash:
            return {}["nothing"]
        if args.parallel is None:
            args.parallel = "3"
        real, simulated = {"target": "anthropic", "model": "some-model"}, {"target": "simulated", "cost_usd": 0.1}
        target, own = (real, {}) if args.real else (simulated, {"accuracy": 0.9})
        given = cases()[: args.size]
        return Experiment(
            name="tiny",
            cases=iter(given) if args.from_python else given,
            variants={"plain": target, "other": {**target, **own}},
            scorers=["exact"],
        )

    def when_refused(self, args):
        return "without a model: abreast run tiny"

    def sections(self, analysis):
        return SECTIONS(analysis)


def draw(width):
    drawing = Drawing(width, 40)
    drawing.text(0, 20, "drawn <b>here</b>")
    return drawing


def SECTIONS(analysis):
    rows = tuple((item.name, "in words", f"{item.ok:,}", "\\u2013") for item in analysis.variants)
    table = NamedTable("counts", "How many", ("variant", "how", "answers", "nothing"), rows, "all that came")
    wide = NamedTable("wide", "Many", ("row", *(f"column {n}" for n in range(30))), (("one", *(["12.5 %"] * 30)),))
    figures = (("plain", "50 %"),)
    picture = Picture("../shares", "Shares", "half and half", draw, "so much", ("variant", "share"), figures)
    data = {"mean": np.float32(0.5), "odd": np.float32("nan")}
    return [
        Section("yes", "Who says yes", ("Most say yes.",), (table, wide), (picture,), data),
        Section("plain", "No more than this", ("A sentence.",)),
    ]


SUITE = Tiny()
"""


@pytest.fixture
def suite(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder, and an installed package with the suite `tiny` and with one that cannot be loaded."""
    install(folder, "[abreast.suites]\ntiny = tiny_suite:SUITE\nlost = nowhere_at_all:SUITE\n", TINY)
    monkeypatch.syspath_prepend(str(folder.path / "site"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return folder


def install(folder: Folder, points: str, source: str) -> None:
    folder.write("site/tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    folder.write("site/tiny-1.0.dist-info/entry_points.txt", points)
    folder.write("site/tiny_suite.py", source)


def with_sections(folder: Folder, source: str) -> None:
    """Give the suite other sections, like a later version of its package."""
    folder.write("site/tiny_suite.py", f"{TINY}\n\ndef SECTIONS(analysis):\n    {source}\n")
    sys.modules.pop("tiny_suite", None)


def report(folder: Folder, form: str, *words: str) -> str:
    done = folder.abreast("report", "--format", form, *words)
    assert done.code == 0, done.output
    return done.out


def page(folder: Folder) -> str:
    """The latest page written."""
    done = folder.abreast("report", "--format", "html")
    assert done.code == 0, done.output
    return (folder.path / done.out.strip()).read_text(encoding="utf-8")


# By its name


def test_a_suite_runs_by_its_name_with_flags_before_or_after_it(suite: Folder) -> None:
    first = suite.abreast("run", "tiny", "--size", "12", "--json", "--quiet")
    assert first.code == 0, first.err
    assert (first.json[0]["planned"], first.json[0]["suite"]["name"]) == (48, "tiny")  # set_defaults(repeats=2)
    second = suite.abreast("run", "--size", "5", "--kind", "hard", "--repeats", "1", "--quiet", "--json", "tiny")
    assert second.json[0]["planned"] == 10
    assert (suite.path / "results.db").is_file()


def test_a_bare_flag_does_not_take_the_name_of_a_suite_as_its_value(suite: Folder) -> None:
    done = suite.abreast("run", "--parallel", "tiny", "--size", "5", "--json", "--quiet")
    assert done.json[0]["in_flight"]["asked"] == 2  # the variants of a block


def test_a_suite_may_set_defaults_of_common_flags(suite: Folder) -> None:
    assert "at most 3 trials in flight" in suite.abreast("check", "tiny").err
    assert "at most 5 trials in flight" in suite.abreast("check", "tiny", "--parallel", "5").err


def test_check_and_aa_accept_a_suite(suite: Folder) -> None:
    checked = suite.abreast("check", "tiny", "--size", "12")
    assert checked.code == 0, checked.err
    assert "12 cases × 2 variants × 2 repeats = 48 trials" in checked.err
    itself = suite.abreast("aa", "tiny", "--size", "12", "--quiet")
    assert itself.code == 0, itself.err
    assert "plain again vs plain" in itself.out
    assert "Who says yes" in itself.out


def test_help_lists_the_common_flags_and_those_of_the_suite(suite: Folder) -> None:
    done = suite.abreast("run", "tiny", "--help")
    assert done.code == 0
    for words in ("usage: abreast run tiny ", "Does it say yes?", "--trial-parallelism", "--size N", "--size 12"):
        assert words in done.out
    assert "SPEC" not in done.out
    assert "--size" not in suite.abreast("run", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tiny", "--wrong"), "error: abreast run tiny: unrecognized arguments: --wrong"),
        (("tiny", "--wrong", "3"), "error: abreast run tiny: unrecognized arguments: --wrong 3"),
        (("tiny", "--size", "many"), "error: abreast run tiny: argument --size: invalid int value: 'many'"),
        (("tiny", "--kind", "odd"), "error: abreast run tiny: argument --kind: invalid choice: 'odd'"),
        (("tiny", "--size", "0"), "error: --size 0: must be 1 or more"),
        (("tiny", "--crash"), "(tiny 1.0, tiny_suite:SUITE): experiment(args) failed: KeyError: 'nothing'"),
        (("lost",), 'error: suite "lost" (tiny 1.0, nowhere_at_all:SUITE): importing it failed: ModuleNotFoundError'),
        (("tinny",), 'error: tinny: no such file (did you mean "tiny"?)'),
        (("./tiny",), "error: tiny: no such file"),
        (("spec.yaml", "--label", "tiny", "--size", "3"), "error: abreast run: unrecognized arguments: --size 3"),
        (("spec.yaml", "--label", "lost"), "error: spec.yaml: no such file"),
        (("spec.yaml", "tiny"), "error: abreast run: unrecognized arguments: tiny"),
    ],
)
def test_errors_are_one_line(suite: Folder, words: tuple[str, ...], message: str) -> None:
    done = suite.abreast("run", *words)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) <= 2


def test_an_unknown_name_lists_the_suites(suite: Folder) -> None:
    done = suite.abreast("run", "whatever")
    assert "error: whatever: no such file" in done.err
    assert "or a suite: code-search, coding-agents, lost, " in done.err


def test_the_name_of_a_suite_wins_over_a_file_of_that_name(suite: Folder) -> None:
    suite.write("tiny", "name: file\n")
    assert suite.abreast("check", "tiny").code == 0
    assert 'unknown extension ""; a spec ends in .yaml, .yml, .toml, .json' in suite.abreast("check", "./tiny").err


def test_a_suite_cannot_redefine_an_existing_flag(suite: Folder) -> None:
    suite.write("site/tiny_suite.py", TINY.replace('"--size"', '"--limit"'))
    done = suite.abreast("run", "tiny")
    assert done.code == 2
    assert "arguments(parser) failed: ArgumentError: argument --limit: conflicting option string: --limit" in done.err


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("def arguments", "def flags", "it has no arguments"),
        ('name = "tiny"', 'name = "small"', 'it calls itself "small"'),
    ],
)
def test_an_invalid_suite_is_refused(suite: Folder, before: str, after: str, message: str) -> None:
    suite.write("site/tiny_suite.py", TINY.replace(before, after))
    done = suite.abreast("run", "tiny")
    assert (done.code, message in done.err) == (2, True), done.err


def test_the_list_of_suites_includes_those_that_cannot_be_loaded(suite: Folder) -> None:
    done = suite.abreast("suites", "--json")
    rows = {row["name"]: row for row in done.json}
    assert rows["tiny"] == {"name": "tiny", "summary": "Does it say yes?", "package": "tiny", "problem": None}
    assert rows["lost"]["summary"] is None
    assert "No module named 'nowhere_at_all'" in rows["lost"]["problem"]
    table = suite.abreast("suites")
    assert table.code == 0
    assert "Does it say yes?" in table.out
    assert 'warning: suite "lost"' in table.err


def test_shell_completion_includes_suites(suite: Folder) -> None:
    assert "-a tiny -d suite" in suite.abreast("completion", "fish").out
    script = suite.abreast("completion", "bash").out
    suite.write("tin.yaml", "")
    completion = "COMP_WORDS=(abreast run ti); COMP_CWORD=2; _abreast; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{completion}"], cwd=suite.path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["tiny", "tin.yaml"]


def test_an_unavailable_target_is_refused_with_the_hint_of_the_suite(suite: Folder) -> None:
    for command in ("run", "check"):
        done = suite.abreast(command, "tiny", "--real", "--yes")
        assert done.code == 4, done.err
        assert "ANTHROPIC_API_KEY" in done.err
        assert done.err.rstrip().endswith("; without a model: abreast run tiny")


def test_a_program_may_run_a_suite_like_the_command(suite: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: abreast run tiny ")


# Its runs


def test_a_stopped_run_resumes_by_its_name(suite: Folder) -> None:
    stopped = suite.abreast("run", "tiny", "--budget", "2", "--quiet")
    assert stopped.code == 3, stopped.err
    before = suite.sql("select count(*) as n from predictions")[0]["n"]
    assert 0 < before < 120
    done = suite.abreast("resume", "--budget", "100", "--quiet", "--json")
    assert done.code == 0, done.err
    assert (done.json[0]["executed"], done.json[0]["done_before"]) == (120 - before, before)
    assert done.json[0]["suite"]["sections"]["yes"] == {"mean": 0.5, "odd": None}


def test_a_run_whose_cases_exist_only_in_python_resumes_with_the_same_command(suite: Folder) -> None:
    words = ("run", "tiny", "--from-python", "--quiet", "--json", "--budget")
    assert suite.abreast(*words, "2").code == 3
    refused = suite.abreast("resume")
    assert refused.code == 2
    assert "run `abreast run tiny` with the same flags" in refused.err
    done = suite.abreast(*words, "100")
    assert done.code == 0, done.err
    assert done.json[0]["done_before"] > 0


def test_the_suite_is_not_part_of_any_cache_key(suite: Folder) -> None:
    """A spec that asks the same questions reuses the answers of a suite, with or without its sections."""
    suite.abreast("run", "tiny", "--quiet")
    suite.cases(30)
    suite.write(
        "same.yaml",
        """
        cases: cases.jsonl
        repeats: 2
        variants:
          plain: {target: simulated, cost_usd: 0.1}
          other: {target: simulated, cost_usd: 0.1, accuracy: 0.9}
        scorers: [exact]
        """,
    )
    done = suite.abreast("run", "same.yaml", "--json", "--quiet")
    assert (done.json[0]["reused"], done.json[0]["executed"], done.json[0]["suite"]) == (120, 0, None)


def test_a_spec_may_use_the_sections_of_a_suite(suite: Folder) -> None:
    suite.cases(12)
    suite.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {only: {target: simulated}}\nscorers: [exact]\nsuite: tiny\n",
    )
    done = suite.abreast("run", "spec.yaml", "--quiet")
    assert "Who says yes" in done.out


# Its sections


@pytest.fixture
def finished(suite: Folder) -> Folder:
    assert suite.abreast("run", "tiny", "--quiet").code == 0
    return suite


def test_the_terminal_shows_sentences_and_tables_after_the_variants(finished: Folder) -> None:
    text = report(finished, "terminal")
    for words in ("  Who says yes\n", "  Most say yes.\n", "  How many\n", "in words       60", "  all that came\n"):
        assert words in text
    assert text.index("score") < text.index("Who says yes") < text.index("A sentence.") < text.index("look at")
    assert "nothing" not in text  # a column of nothing
    assert "Shares" not in text


def test_a_table_wider_than_the_terminal_continues_below(finished: Folder) -> None:
    text = report(finished, "terminal")
    lines = [line for line in text.splitlines() if "column" in line or "12.5 %" in line]
    assert text.count("12.5 %") == 30
    assert max(map(len, lines)) <= 140


def test_markdown_has_a_heading_for_each_section(finished: Folder) -> None:
    text = report(finished, "markdown")
    for words in (
        "### Who says yes\n\nMost say yes.\n\n**How many**\n\n| variant | how | answers |\n",
        "all that came",
    ):
        assert words in text
    assert "### No more than this\n\nA sentence.\n" in text


def test_the_page_has_tables_and_pictures_with_their_figures_folded(finished: Folder) -> None:
    text = page(finished)
    start = text.index("Who says yes</h2>")
    assert text.index('id="variants"') < start < text.index('id="cases"')
    part = text[start : text.index("No more than this</h2>")]
    assert "<td>60</td>" in part
    assert part.count("drawn &lt;b&gt;here&lt;/b&gt;") == 2  # for a desk and for a telephone
    assert part.count("SIMULATED") == 2
    assert '<details class="plain"><summary>the figures as a table</summary>' in part
    assert "<td>50 %</td>" in part


def test_json_contains_the_data_of_the_sections(finished: Folder) -> None:
    suite_json = json.loads(report(finished, "json"))["suite"]
    assert suite_json == {"name": "tiny", "problem": None, "sections": {"yes": {"mean": 0.5, "odd": None}, "plain": {}}}


def test_pictures_of_a_suite_are_files_beside_the_others(finished: Folder) -> None:
    written = [Path(line) for line in report(finished, "svg").splitlines()]
    assert {path.parent for path in written} == {written[0].parent}
    (own,) = [path for path in written if path.name == "shares.svg"]
    assert "SIMULATED" in (finished.path / own).read_text(encoding="utf-8")


@pytest.mark.parametrize("flag", ["--no-pictures", "--no-viz"])
def test_a_run_without_pictures_has_none_of_any_kind(suite: Folder, flag: str) -> None:
    done = suite.abreast("run", "tiny", "--quiet", "--format", "all", flag)
    assert done.code == 0, done.err
    files = [path for path in (suite.path / "runs").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"report.html", "report.md", "report.json"}
    assert not [path for path in files if path.suffix in (".svg", ".png")]
    text = next(path for path in files if path.name == "report.html").read_text(encoding="utf-8")
    assert "<svg" not in text
    assert "Who says yes</h2>" in text


def test_a_page_without_pictures_has_segments_as_a_table(folder: Folder) -> None:
    folder.cases(30, "easy.jsonl", tags={"category": "easy"})
    hard = [{"id": f"h{n}", "input": f"hard {n}", "expected": "yes", "tags": {"category": "hard"}} for n in range(30)]
    folder.write("hard.jsonl", "".join(json.dumps(case) + "\n" for case in hard))
    folder.write(
        "spec.yaml",
        """
        cases: [easy.jsonl, hard.jsonl]
        scorers: [exact]
        variants: {a: {target: simulated, accuracy: 0.2}, b: {target: simulated}}
        """,
    )
    folder.abreast("run", "spec.yaml", "--quiet", "--no-pictures", "--output", "out")
    text = (folder.path / "out/report.html").read_text(encoding="utf-8")
    assert "category=hard" in text[text.index('id="segments"') : text.index('id="cases"')]


def test_requesting_only_pictures_without_pictures_is_refused(finished: Folder) -> None:
    done = finished.abreast("report", "--format", "svg", "--no-pictures")
    assert done.code == 2
    assert "--format svg has only pictures" in done.err


# What goes wrong


def everywhere(folder: Folder) -> dict[str, str]:
    return {
        "terminal": report(folder, "terminal"),
        "markdown": report(folder, "markdown"),
        "html": page(folder),
        "json": report(folder, "json", "--no-trials"),
    }


def test_a_report_without_its_suite_has_a_one_line_note(finished: Folder) -> None:
    finished.write("site/tiny-1.0.dist-info/entry_points.txt", "")
    for form, text in everywhere(finished).items():
        assert text.count("suite tiny is not installed: its sections are left out") == 1, form
        assert "Who says yes" not in text
    assert json.loads(report(finished, "json"))["suite"]["sections"] == {}
    assert finished.abreast("report", "--format", "svg").code == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('no luck')", "failed to create its sections: RuntimeError: no luck"),
        ("return None", "failed to create its sections: TypeError"),
        ("return ['text']", "TypeError: a section must be a Section, got str"),
        ("return [Section('a', 'A', (3,))]", "TypeError: expected text, got 3"),
        ("return [Section('a', 'A'), Section('a', 'B')]", "ValueError: two sections have the same name"),
        ("return [Section('a', 'A', data={'x': object()})]", "failed to create its sections: TypeError"),
        (
            "return [Section('a', 'A', (), (NamedTable('t', 'T', ('x', 'y'), (('1',),)),))]",
            "ValueError: table t: row 1 has 1 of 2 columns",
        ),
        (
            "return [Section('a', 'A', (), (), (Picture('p', 'P', '', lambda width: 1 / 0),))]",
            "failed to create its sections: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_failing_sections_are_one_sentence_in_a_complete_report(finished: Folder, source: str, message: str) -> None:
    with_sections(finished, source)
    for form, text in everywhere(finished).items():
        assert text.replace("&#39;", "'").count(message) == 1, form
        assert "vs plain" in text
    assert finished.abreast("report", "--format", "svg").code == 0


def test_hostile_text_in_sections_is_escaped(finished: Folder) -> None:
    evil = r"<script>alert(1)</script> \x1b[31m **a** | [bold]x[/bold] \u202e \ud800 line\nbreak"
    source = f"""evil = "{evil}"
    cell = NamedTable(evil, evil, (evil, "n"), ((evil, evil),), evil)
    shown = Picture("../../" + evil, evil, evil, draw, evil, (evil,), ((evil,),))
    return [Section(evil, evil, (evil,), (cell,), (shown,), {{evil: evil}})]"""
    with_sections(finished, source)
    text = everywhere(finished)
    for form in ("terminal", "markdown", "html"):
        assert "alert(1)" in text[form], form
        for secret in ("\x1b", "\u202e", "\ud800"):
            assert secret not in text[form], form
    assert "<script" not in text["html"] + text["markdown"]
    assert "[bold]x[/bold]" in text["terminal"]
    assert "\\*\\*a\\*\\* \\|" in text["markdown"]
    written = [finished.path / line for line in report(finished, "svg").splitlines()]
    assert {path.parent.name for path in written} == {"charts"}
    assert not any("<script" in path.read_text(encoding="utf-8") for path in written)
    ((_, data),) = json.loads(text["json"])["suite"]["sections"].items()
    assert next(iter(data.values())).startswith("<script>")


# Documentation


def documented(folder: Folder) -> None:
    """Install the suite in one file, as the documentation has it."""
    text = (ROOT / "docs/how-to/extending.md").read_text(encoding="utf-8")
    source = text.partition('```python title="politeness.py"\n')[2].partition("```")[0]
    folder.write("site/polite-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n")
    folder.write("site/polite-1.0.dist-info/entry_points.txt", "[abreast.suites]\npoliteness = politeness\n")
    (folder.path / "site/politeness.py").write_text(source, encoding="utf-8")


def test_the_suite_of_the_documentation_works(folder: Folder) -> None:
    documented(folder)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder.path / "site"), *sys.path])}
    environment.pop("ANTHROPIC_API_KEY", None)

    def abreast(*words: str) -> Done:
        return folder.command(*words, env=environment)

    done = abreast("run", "politeness", "--questions", "20", "--mock", "--quiet")
    assert done.code == 0, done.err
    assert "is answered at most length." in done.out
    refused = abreast("run", "politeness", "--yes")
    assert refused.code == 4
    assert "without a model: abreast run politeness --mock" in refused.err
    assert "example: abreast run politeness" in abreast("run", "politeness", "--help").out


# Files of results

FILES = """
from abreast.report.results import ResultFile

class Writing(Tiny):
    def experiment(self, args):
        made = super().experiment(args)
        made.spec = made.spec.model_copy(update={"output": None if args.kind == "hard" else "found"})
        return made

    def files(self, analysis, pictures):
        return MADE(analysis, pictures)


def MADE(analysis, pictures):
    name = analysis.rows.spec["output"]
    drawn = [ResultFile(f"{name}_x.svg", b"<svg/>")] if pictures else []
    return [ResultFile(f"{name}.txt", analysis.run["run"].encode()), *drawn]


SUITE = Writing()
"""


def with_files(folder: Folder, source: str = "") -> None:
    folder.write("site/tiny_suite.py", f"{TINY}{FILES}{source}")
    sys.modules.pop("tiny_suite", None)


def test_a_suite_writes_result_files_if_the_run_names_them(suite: Folder) -> None:
    with_files(suite)
    first = suite.abreast("run", "tiny", "--size", "3", "--quiet")
    assert "  results  found.txt and 1 picture" in first.out
    assert (suite.path / "found_x.svg").read_bytes() == b"<svg/>"
    run = (suite.path / "found.txt").read_text()
    assert (suite.path / "runs" / run / "found.txt").read_text() == run
    second = suite.abreast("run", "tiny", "--size", "4", "--quiet", "--no-pictures", "--json")
    assert [Path(path).name for path in second.json[0]["results"]] == ["found.txt"]
    assert (suite.path / "found.txt").read_text() == second.json[0]["run"] != run
    other = suite.abreast("run", "tiny", "--size", "4", "--kind", "hard", "--quiet", "--json")
    assert other.json[0]["results"] == []


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("return 1 / 0", "failed to create its result files: ZeroDivisionError"),
        ("return [ResultFile('../x.txt', b'')]", "is not a plain file name"),
        ("return ['x.txt']", "must be a ResultFile, got str"),
    ],
)
def test_result_files_that_fail_are_a_warning_and_the_verdict_is_kept(suite: Folder, statement: str, text: str) -> None:
    with_files(suite, f"\n\ndef MADE(analysis, pictures):\n    {statement}\n")
    done = suite.abreast("run", "tiny", "--size", "3", "--quiet")
    assert done.code == 0, done.output
    assert "warning: suite tiny failed to create its result files" in done.err
    assert text in done.err
    assert "other vs plain" in done.out


def test_result_files_are_written_from_python_too(suite: Folder) -> None:
    with_files(suite)
    experiment = Experiment(
        cases=[{"id": "c", "input": "?", "expected": "yes"}],
        variants={"plain": {"target": "simulated"}},
        scorers=["exact"],
        suite="tiny",
        output="found",
        base=suite.path,
    )
    result = experiment.run()
    assert (suite.path / "found.txt").read_text() == result.run
    assert result.write_files(suite.path / "there") == [
        suite.path / "there" / name for name in ("found.txt", "found_x.svg")
    ]


# Capabilities that a suite declares

MAKER = """
from abreast import Experiment
from abreast.output import echo
from abreast.suites import CaseMaker, Suite


class Maker(CaseMaker):
    summary = "make a riddle"
    details = "riddles are random"
    default_output = "riddles.jsonl"

    def arguments(self, group):
        group.add_argument("--hard", action="store_true", help="a hard one")

    def make(self, args):
        echo(f"hard: {args.hard}, yes: {args.yes}")
        return 0


class Riddles(Suite):
    name = "tiny"
    summary = "who solves riddles?"
    case_maker = Maker()

    def experiment(self, args):
        return Experiment(cases=[{"id": "c", "input": "?"}], variants={"a": {}}, target="simulated")


SUITE = Riddles()
"""


def test_a_suite_that_declares_a_case_maker_has_a_command_for_new_cases(suite: Folder) -> None:
    suite.write("site/tiny_suite.py", MAKER)
    text = suite.abreast("cases", "--help").out
    assert "new tiny" in text
    assert "make a riddle" in text
    assert "new tiny: riddles are random" in text
    assert "tiny: riddles.jsonl" in " ".join(text.split())
    assert suite.abreast("cases", "new", "tiny", "--hard", "--yes").out == "hard: True, yes: True\n"
    refused = suite.abreast("cases", "list", "tiny", "--hard")
    assert (refused.code, "--hard is for abreast cases new tiny" in refused.err) == (2, True)
    assert suite.abreast("cases", "list", "tiny", "--json").json[0]["id"] == "c"


def test_a_subclass_of_suite_needs_a_name_a_summary_and_an_experiment(suite: Folder) -> None:
    suite.write("site/tiny_suite.py", MAKER)
    done = suite.abreast("run", "tiny", "--quiet", "--json")
    assert (done.code, done.json[0]["suite"]["sections"]) == (0, {})
