"""The report for GitHub Actions, and the exit policy for inconclusive verdicts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.report.formats.github import collapsible, inert
from abreast.report.formats.github_commands import command, write_outputs
from abreast.report.formats.markdown import safe
from conftest import Done, Folder
from scripted import pairs, scripted


@pytest.fixture
def job(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder that is the workspace of a workflow."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder.path / "summary"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(folder.path / "outputs"))
    return folder


def read_outputs(path: Path) -> dict[str, str]:
    """The outputs as the runner reads them."""
    lines, outputs = iter(path.read_bytes().decode().split("\n")), {}
    for line in lines:
        if line:
            name, delimiter = line.split("<<")
            value: list[str] = []
            for following in lines:
                if following == delimiter:
                    break
                value.append(following)
            outputs[name] = "\n".join(value)
    return outputs


def annotations(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("::")]


OUTCOMES = [
    (pairs(20, 0, 5), "", "better", "notice"),
    (pairs(0, 20, 5), "", "worse", "warning"),
    (pairs(5, 5, 10), "", "inconclusive", "notice"),
    (pairs(3, 3, 194), "margin: 0.1", "equivalent", "notice"),
    (pairs(12, 4, 50), "margin: 0.1", "not_worse", "notice"),
    ([{"a": ["yes"], "b": ["skip"]}] * 12, "", "no_comparison", "warning"),
]


@pytest.mark.parametrize(("cases", "more", "outcome", "level"), OUTCOMES, ids=[item[2] for item in OUTCOMES])
def test_a_run_sets_its_outcome(
    job: Folder, cases: list[dict[str, object]], more: str, outcome: str, level: str
) -> None:
    done = scripted(job, cases, "--format", "github", "--output", "reports", more=more)
    outputs = read_outputs(job.path / "outputs")
    assert outputs["outcome"] == outcome, outputs
    assert outputs["run"] == job.sql("select run from runs")[0]["run"]
    (annotation,) = annotations(done)
    assert annotation.startswith(f"::{level} title=abreast%3A {outcome.replace('_', ' ')},file=spec.yaml::")
    summary = (job.path / "summary").read_text()
    assert f": {outcome.replace('_', ' ')}\n" in summary
    assert (job.path / "reports" / "github.md").read_text() in summary


def test_the_summary_has_the_verdict_the_table_and_the_changed_cases(job: Folder) -> None:
    scripted(job, pairs(9, 2, 9), "--quiet")
    done = job.abreast("report", "--format", "github", "--fail-if", "score < 0.99")
    assert done.code == 1
    text = (job.path / "summary").read_text()
    assert text.strip() == done.out.strip()
    assert text.index("score of b is 0.9") < text.index("+35.0 points") < text.index("| variant |")
    assert "<details><summary>11 cases changed: 9 better, 2 worse</summary>" in text
    assert text.index("| c9 | 1 | 0 | worse |") < text.index("| c0 | 0 | 1 | better |")
    assert text.count("<details>") == text.count("</details>") == 2
    assert annotations(done)[0].startswith("::error title=requirement not met,file=spec.yaml::score < 0.99: score of b")


def test_a_comparison_of_runs_is_reported_for_the_later_run(job: Folder) -> None:
    scripted(job, pairs(0, 0, 20), "--quiet", "--label", "main")
    job.write("scripted_target.py", (job.path / "scripted_target.py").read_text().replace("def answer(", "def other("))
    job.write("scripted_target.py", "def answer(case, side):\n    return 'no' if side == 'b' else 'yes'\n")
    assert job.rerun("run", "spec.yaml", "--quiet", "--label", "pull-1").code == 0
    done = job.abreast("compare", "--format", "github", "--fail-if", "worse", "--output", "compare.md")
    assert done.code == 1
    outputs = read_outputs(job.path / "outputs")
    assert outputs["outcome"] == "worse"
    assert outputs["run"] == job.sql("select run from runs where label = 'pull-1'")[0]["run"]
    summary = (job.path / "summary").read_text()
    assert re.search(r"## ❌ pull-1 \(.+\) against main \(.+\): worse\n", summary)
    assert summary.strip() == (job.path / "compare.md").read_text().strip()
    assert "20 cases changed: 0 better, 20 worse" in summary
    assert [line.split(" ")[0] for line in annotations(done)] == ["::error", "::warning", "::notice"]


def test_many_variants_give_few_annotations_the_worst_first(job: Folder) -> None:
    names = [f"v{number}" for number in range(14)]
    cases = [{name: ["no" if name == "v13" else "yes"] for name in names}] * 20
    done = scripted(job, cases, "--format", "github", variants=names)
    lines = annotations(done)
    assert lines[0].startswith("::warning title=abreast%3A worse")
    assert len(lines) == 11
    outputs = read_outputs(job.path / "outputs")
    assert outputs["outcome"] == "worse"
    assert outputs["verdict"].startswith("v13 is worse than v0")


def test_a_summary_that_is_too_long_is_cut_between_sections(job: Folder) -> None:
    names = [f"{number}-{'x' * 180}" for number in range(120)]
    scripted(job, [{name: ["yes"] for name in names}], "--quiet", variants=names)
    text = job.abreast("report", "--format", "github").out
    assert len(text.encode()) < 65_536
    assert text.endswith("The rest is too long for a summary; see `abreast report`.\n")
    assert text.count("<details>") == text.count("</details>")


def test_a_summary_is_measured_with_what_keeps_it_from_mentioning(job: Folder) -> None:
    names = [f"{number}-{'@x#1' * 40}" for number in range(40)]
    scripted(job, [{name: ["yes"] for name in names}], "--quiet", variants=names)
    text = job.abreast("report", "--format", "github").out
    assert len(text) < 65_000
    assert text.endswith("The rest is too long for a summary; see `abreast report`.\n")


def test_variants_of_one_run_are_named_in_the_title(job: Folder) -> None:
    scripted(job, pairs(9, 2, 9), "--quiet")
    assert "## ✅ b against a: better\n" in job.abreast("compare", "latest:a", "latest:b", "--format", "github").out


def test_a_summary_that_cannot_be_written_costs_only_itself(job: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(job.path / "missing" / "summary"))
    done = scripted(job, pairs(20, 0), "--format", "github")
    assert done.code == 0
    assert "::warning::cannot write the job summary" in done.err


ANYTHING = st.text(st.characters(codec="utf-8") | st.sampled_from("\r\n\t:%,]#[@<>`|\\"), max_size=60)


@given(ANYTHING, ANYTHING)
def test_text_cannot_leave_its_workflow_command(message: str, title: str) -> None:
    line = command("notice", message, title=title or "t")
    assert not set(line) & {"\r", "\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"}
    head, _, data = line[2:].partition("::")
    assert head.startswith("notice title=")
    assert "," not in head
    assert ":" not in head
    assert "%0A" in data or "\n" not in message


@given(ANYTHING)
def test_outputs_are_read_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    path = tmp_path_factory.getbasetemp() / "outputs"
    path.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_OUTPUT", str(path))
        write_outputs(first=value, second="2")
    assert read_outputs(path) == {"first": value, "second": "2"}


@given(ANYTHING)
def test_text_becomes_no_mention_reference_or_link(text: str) -> None:
    markdown = inert(safe(f"x {text} @octocat #12 https://a.b"))
    assert not re.search(r"@\w|(?<![&])#\d|https?://|##\[", markdown, re.I)
    assert "<" not in markdown


@given(ANYTHING)
def test_a_title_stays_in_its_line(text: str) -> None:
    first = collapsible(f"a\n\n{text}\r\n# b", "content").split("\n\n")[0]
    assert first.startswith("<details><summary>a ")
    assert first.endswith("# b</summary>")
    assert len(first.splitlines()) == 1


def test_inconclusive_verdicts_have_a_policy_of_their_own(folder: Folder) -> None:
    cases = pairs(5, 5, 10, cost={"a": 0.01, "b": 0.02})
    assert scripted(folder, cases, "--quiet").code == 0
    done = folder.abreast("report", "--on-inconclusive", "fail")
    assert done.code == 1
    missing = re.search(r"to detect 10 points it needs (\d+) more cases, about \$([\d.]+)", done.err)
    assert missing is not None, done.err
    assert float(missing[2]) == pytest.approx(int(missing[1]) * 0.03, abs=0.01)
    assert f"this run compares 20; {missing[1]} more would cost about ${missing[2]}" in done.out
    assert folder.abreast("report", "--fail-if", "not better").code == 1
    assert folder.abreast("report", "--fail-if", "not better", "--on-inconclusive", "pass").code == 0
    assert folder.abreast("run", "spec.yaml", "--quiet", "--on-inconclusive", "fail").code == 1
    assert folder.abreast("compare", "latest:a", "latest:b", "--on-inconclusive", "fail").code == 1
    done = folder.abreast("report", "--fail-if", "inconclusive", "--on-inconclusive", "pass")
    assert done.code == 2
    assert "--on-inconclusive pass contradicts --fail-if inconclusive" in done.err


def test_repeats_that_are_missing_have_a_price_too(folder: Folder) -> None:
    case = {"a": ["yes", "no", "yes", "no"], "b": ["yes", "yes", "no", "yes"], "cost": {"a": 1, "b": 1}}
    scripted(folder, [case] * 3, "--quiet", repeats=4)
    done = folder.abreast("report", "--on-inconclusive", "fail")
    missing = re.search(r"it needs (\d+) more repeats, about \$([\d,.]+)", done.err)
    assert missing is not None, done.err
    assert float(missing[2].replace(",", "")) == pytest.approx(int(missing[1]) * 3 * 2)


def test_requirements_in_a_spec_are_checked_by_every_command_that_ends_with_a_verdict(folder: Folder) -> None:
    done = scripted(folder, pairs(0, 20), "--quiet", more="fail_if: [worse]")
    assert done.code == 1
    assert "requirement not met: b is worse than a" in done.err
    done = folder.abreast("report", "--fail-if", "worse", "--fail-if", "score < 0.5")
    assert done.code == 1
    assert done.err.count("requirement not met") == 2
    assert folder.abreast("aa", "spec.yaml", "--quiet").code == 0
    folder.write("wrong.yaml", "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {}}\nfail_if: [slow]\n")
    done = folder.abreast("run", "wrong.yaml")
    assert done.code == 2
    assert '"slow": not understood' in done.err
