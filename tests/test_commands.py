"""The commands, each through the front door."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from conftest import ABREAST, Folder

SAME = "case_id, variant, repeat, status, error_kind, error_blame, error, score, score_exact, answer, prompt, attempts"


def outcome_rows(folder: Folder) -> list[dict[str, Any]]:
    """What must not depend on how a run was executed."""
    return folder.sql(
        f"select {SAME} from predictions where run = (select run from runs order by run_id desc limit 1) "
        "order by case_id, variant, repeat"
    )


@pytest.mark.parametrize(
    "flags",
    [
        ["--parallel"],
        ["--parallel", "1"],
        ["--parallel", "7"],
        ["--parallel", "10000"],
        ["--parallel", "auto"],
        ["--trial-parallelism", "3"],
        ["--parallel", "--trial-parallelism", "4"],
        ["--parallel", "3", "--trial-parallelism", "9"],
    ],
)
def test_results_are_identical_for_any_parallelism(simulated: Folder, flags: list[str]) -> None:
    spec = (simulated.path / "experiment.yaml").read_text()
    noisy = spec.replace(
        "accuracy: 0.9", "accuracy: 0.9, errors: {network: 0.2, crash: 0.1}, latency: {low: 0, high: 0.003}"
    )
    simulated.write("experiment.yaml", noisy.replace("plain", "'plain'"))
    once = simulated.abreast("run", "experiment.yaml", "--repeats", "2", "--fresh")
    alone = outcome_rows(simulated)
    done = simulated.abreast("run", "experiment.yaml", "--repeats", "2", "--fresh", *flags)
    assert done.code in (0, 3), done.err
    assert outcome_rows(simulated) == alone
    assert len(alone) == 160
    assert verdict_of(done.out) == verdict_of(once.out)


def verdict_of(text: str) -> str:
    found = re.search(r"^  (?:better|worse|inconclusive):.*$", text, re.M)
    assert found, text
    return found[0]


def test_parallel_does_not_swallow_the_spec(simulated: Folder) -> None:
    done = simulated.abreast("run", "--parallel", "experiment.yaml")
    assert done.code == 0
    assert "1 block at once, all variants of each together" in done.err
    done = simulated.abreast("run", "--parallel", "4", "experiment.yaml")
    assert "at most 4 trials in flight" in done.err


@pytest.mark.parametrize("word", ["0", "-3"])
def test_no_parallelism_at_all_means_one_with_a_note(simulated: Folder, word: str) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--parallel", word)
    assert done.code == 0
    assert f"parallel {word} means 1" in done.err
    assert simulated.sql("select max(in_flight) m from predictions")[0]["m"] == 1


def test_a_wrong_value_of_parallel_is_bad_input(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--parallel=many")
    assert done.code == 2
    assert "whole number or auto" in done.err


def test_the_verdict_comes_first_and_the_report_is_where_it_says(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml")
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    assert lines[0] == "SIMULATED · no model was called"
    assert re.match(
        r"better: better against plain: \+\d+\.\d points \(95 % interval .*\); \d+ wins, \d+ losses", lines[1]
    )
    report = re.search(r"report +(\S+)", done.out)
    assert report
    page = (simulated.path / report[1]).read_text(encoding="utf-8")
    assert "better against plain" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_report_is_never_overwritten(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    first = simulated.abreast("report", "--format", "html").out.strip()
    second = simulated.abreast("report", "--format", "html").out.strip()
    assert first != second
    assert Path(first if Path(first).is_absolute() else simulated.path / first).exists()


def test_progress_goes_to_standard_error_and_json_alone_to_standard_output(simulated: Folder) -> None:
    done = simulated.command("run", "experiment.yaml", "--json")
    assert done.code == 0
    (found,) = json.loads(done.out)
    assert found["status"] == "complete"
    assert found["executed"] == 80
    assert "80/80" in done.err


def test_quiet_says_only_the_verdict(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--quiet")
    assert done.err == ""
    assert "better against plain" in done.out


def test_verbose_says_which_trial_starts_and_ends_one_whole_line_each(simulated: Folder) -> None:
    done = simulated.command("run", "experiment.yaml", "--verbose", "--parallel", "16", "--repeats", "2")
    lines = [line for line in done.err.splitlines() if line.startswith(("start", "end"))]
    assert len(lines) == 320
    assert all(
        re.fullmatch(
            r"start  c\d+ (plain|better)( repeat 1)?|end    c\d+ (plain|better)( repeat 1)?: ok \(\d+\.\d\d s\)", line
        )
        for line in lines
    )


def test_events_are_json_lines_of_everything(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--events", "events.jsonl")
    events = [json.loads(line) for line in (simulated.path / "events.jsonl").read_text().splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    for kind in ("trial_started", "trial_finished", "trial_stored"):
        assert kinds.count(kind) == 80
    assert {"case_id", "variant", "repeat", "at"} <= set(events[1])


def test_a_dry_run_shows_one_request_per_variant_and_writes_nothing(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--dry-run")
    assert done.code == 0
    assert done.out.count("--- plain") == 1
    assert done.out.count("--- better") == 1
    assert "80 trials would be executed; nothing was sent" in done.out
    assert sorted(path.name for path in simulated.path.iterdir()) == ["cases.jsonl", "experiment.yaml"]


def test_check_executes_nothing(simulated: Folder) -> None:
    done = simulated.abreast("check", "experiment.yaml")
    assert done.code == 0
    assert "80 trials to execute" in done.err
    assert not (simulated.path / "results.db").exists()
    findings = simulated.abreast("check", "experiment.yaml", "--json").json
    assert {"check", "level", "message", "fix"} == set(findings[0])


def test_strict_makes_warnings_failures(simulated: Folder) -> None:
    simulated.cases(3)
    done = simulated.abreast("run", "experiment.yaml", "--strict")
    assert done.code == 4
    assert "power" in done.err
    assert not (simulated.path / "results.db").exists()
    assert simulated.abreast("run", "experiment.yaml", "--strict", "--force").code == 0


def test_debug_runs_a_few_cases_marks_the_run_and_delete_removes_it(simulated: Folder) -> None:
    assert simulated.abreast("run", "experiment.yaml", "--debug").code == 0
    assert simulated.abreast("run", "experiment.yaml", "--debug", "3").code == 0
    simulated.abreast("run", "experiment.yaml")
    runs = simulated.abreast("runs", "--json").json
    assert [(run["debug"], run["trials"]) for run in runs] == [(True, 20), (True, 6), (False, 80)]
    refused = simulated.command("delete", "--debug", stdin=subprocess.DEVNULL)
    assert refused.code == 2
    assert "--yes" in refused.err
    done = simulated.abreast("delete", "--debug", "--yes")
    assert "26 trials" in done.out
    assert [run["debug"] for run in simulated.abreast("runs", "--json").json] == [False]


def test_delete_removes_every_row_of_a_run_and_no_other(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    simulated.abreast("run", "experiment.yaml", "--fresh")
    first, second = [run["run"] for run in simulated.abreast("runs", "--json").json]
    done = simulated.command("delete", "results.db", first, stdin=subprocess.DEVNULL)
    assert done.code == 0, done.err
    for table in ("trials", "payloads", "scores", "variants", "attempts", "events"):
        assert (
            simulated.sql(f"select count(*) n from {table} where run_id not in (select run_id from runs)")[0]["n"] == 0
        )
    assert simulated.sql("select distinct run from predictions") == [{"run": second}]
    assert simulated.abreast("delete", "no-such-run").code == 2


def test_listings_take_json(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    for words in (["runs"], ["show"], ["show", "latest", "c1"], ["logs", "--limit", "2"], ["cache", "stats"]):
        found = simulated.abreast(*words, "--json").json
        assert isinstance(found, list)
        assert isinstance(found[0], dict)


def test_show_and_logs_tell_one_trial_whole(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    shown = simulated.abreast("show", "latest", "c7").out
    assert "question 7" in shown
    assert "--- plain" in shown
    logged = simulated.abreast("logs", "--case", "c7", "--variant", "plain")
    assert logged.out.count("===") == 1
    assert "score_exact" in logged.out
    assert simulated.abreast("show", "latest", "c700").code == 2
    assert 'did you mean "c' in simulated.abreast("show", "latest", "c700").err


def test_a_run_is_known_by_the_start_of_its_name(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    name = simulated.abreast("runs", "--json").json[0]["run"]
    assert simulated.abreast("show", name[:-2], "--json").json[0]["run"] == name
    assert simulated.abreast("show", "zebra").code == 2


def test_sql_is_read_only_unless_told_otherwise(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    done = simulated.abreast("sql", "results.db", "update runs set label = 'x'")
    assert done.code == 2
    assert "--write" in done.err
    assert simulated.abreast("sql", "--write", "results.db", "update runs set label = 'x'").code == 0
    assert simulated.sql("select label from runs") == [{"label": "x"}]
    assert simulated.abreast("sql", "results.db", "select nonsense").code == 2


def test_the_store_is_found_by_name_environment_or_being_the_only_one(
    simulated: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no store in this folder" in simulated.abreast("runs").err
    simulated.abreast("run", "experiment.yaml")
    assert simulated.abreast("runs").code == 0
    simulated.abreast("run", "experiment.yaml", "--store", "other.db")
    assert "several stores" in simulated.abreast("runs").err
    monkeypatch.setenv("ABREAST_STORE", "other.db")
    assert len(simulated.abreast("runs", "--json").json) == 1
    assert simulated.abreast("runs", "--store", "missing.db").code == 2


def test_export_gives_the_same_rows_in_every_format(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    rows = list(csv.DictReader(io.StringIO(simulated.abreast("export").out)))
    lines = [json.loads(line) for line in simulated.abreast("export", "--format", "jsonl").out.splitlines()]
    assert simulated.abreast("export", "--format", "parquet", "--output", "rows.parquet").code == 0
    with duckdb.connect() as connection:
        frame = connection.read_parquet(str(simulated.path / "rows.parquet"))
        columns, count = frame.columns, len(frame.fetchall())
    assert len(rows) == len(lines) == count == 80
    assert set(rows[0]) == set(lines[0]) == set(columns)
    assert {"params_accuracy", "score_exact"} <= set(columns)
    assert simulated.abreast("export", "--format", "parquet").code == 2


def test_rescore_scores_stored_answers_and_runs_nothing(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    started = simulated.sql("select sum(started_at) s from trials")
    done = simulated.abreast("rescore", "--scorer", "contains")
    assert "scored 80 answers; nothing was run again" in done.out
    assert simulated.sql("select count(score_contains) n, count(score_exact) m from predictions") == [
        {"n": 80, "m": 80}
    ]
    spec = (simulated.path / "experiment.yaml").read_text()
    simulated.write("experiment.yaml", spec.replace("[exact]", "[{regex: {pattern: '.'}}]"))
    simulated.abreast("rescore")
    assert simulated.sql("select avg(score) s from predictions") == [{"s": 1.0}]
    simulated.write("experiment.yaml", spec.replace("[exact]", "[{regex: {pattern: 'never ever'}}]"))
    simulated.abreast("rescore")
    assert simulated.sql("select avg(score) s from predictions") == [{"s": 0.0}]
    assert simulated.sql("select count(*) n from old_scores where name = 'regex' and value = 1.0") == [{"n": 80}]
    assert simulated.sql("select sum(started_at) s from trials") == started


def test_a_scorer_that_crashes_spoils_no_answer_and_can_be_mended(folder: Folder) -> None:
    folder.cases(12)
    folder.write("judge.py", "def grade(case, answer):\n    raise ValueError('oops')\n")
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {}, b: {}}\nscorers: ['python:judge:grade']\n",
    )
    done = folder.command("run", "spec.yaml")
    assert done.code == 1
    assert "no answer could be scored" in done.err
    assert "unscored" in done.out
    assert folder.sql("select count(*) n, count(answer) a, count(score) s from predictions") == [
        {"n": 24, "a": 24, "s": 0}
    ]
    folder.write("judge.py", "def grade(case, answer):\n    return answer.text == case.expected\n")
    assert folder.command("rescore").code == 0
    assert folder.sql("select count(score) s, avg(score) m from predictions") == [{"s": 24, "m": 1.0}]


def test_the_baseline_against_itself_finds_nothing(simulated: Folder) -> None:
    done = simulated.abreast("aa", "experiment.yaml")
    assert done.code == 0
    assert "as it must be" in done.err
    rows = simulated.sql(
        "select variant, group_concat(answer, '|') a from (select * from predictions order by case_id) group by variant"
    )
    assert len(rows) == 2
    assert rows[0]["a"] != rows[1]["a"], "the twins answer for themselves"


def test_the_self_test_finds_a_set_up_that_favours_one_side(folder: Folder) -> None:
    folder.cases(40)
    folder.write(
        "sticky.py",
        """
        seen = {}
        def predict(case):  # remembers the first answer: whoever comes second profits
            seen[case.id] = seen.get(case.id, 0) + 1
            return "yes" if seen[case.id] > 1 else "no"
        """,
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:sticky:predict}}\nscorers: [exact]\n")
    spec = folder.path / "spec.yaml"
    assert folder.command("aa", str(spec)).code == 0, "in random order neither side profits"


def test_a_run_in_which_every_trial_fails_is_not_a_success(folder: Folder) -> None:
    folder.cases(12)
    folder.write("broken.py", "def predict(case):\n    return undefined\n")
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:broken:predict}}\nscorers: [exact]\n")
    done = folder.command("run", "spec.yaml")
    assert done.code == 1
    assert "no trial gave an answer" in done.err
    assert "NameError" in folder.abreast("logs").out


def test_infrastructure_failures_leave_the_run_incomplete_and_resume_executes_just_those(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "flaky.py",
        """
        import pathlib
        from abreast.errors import Transient
        def predict(case):
            with open("calls.txt", "a") as file:
                file.write(case.id + "\\n")
            if case.id in ("c3", "c5") and not pathlib.Path("mended").exists():
                raise Transient("gone")
            return "yes"
        """,
    )
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: python:flaky:predict}}\nscorers: [exact]\nlimits: {retries: 0}\n",
    )
    done = folder.command("run", "spec.yaml")
    assert done.code == 3
    assert "2 trials failed by infrastructure" in done.err
    assert "abreast resume" in done.err
    (folder.path / "mended").touch()
    assert folder.command("resume").code == 0
    calls = (folder.path / "calls.txt").read_text().split()
    assert sorted(calls) == sorted([f"c{n}" for n in range(12)] + ["c3", "c5"])
    assert folder.sql("select status, count(*) n from predictions group by status") == [{"status": "ok", "n": 12}]
    assert folder.command("resume").code == 2, "there is nothing to go on with"


def test_failures_of_a_variant_are_executed_again_only_on_purpose_and_the_report_says_so(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "moody.py",
        """
        import pathlib
        def predict(case):
            if case.id == "c3" and not pathlib.Path("mended").exists():
                raise ValueError("not today")
            return "yes"
        """,
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:moody:predict}}\nscorers: [exact]\n")
    assert folder.command("run", "spec.yaml").code == 0
    (folder.path / "mended").touch()
    again = folder.command("run", "spec.yaml")
    assert "executing 0" in again.err
    assert "1 crash (its)" in again.out
    done = folder.command("run", "spec.yaml", "--retry-failed")
    assert "reusing 11 answers" in done.err
    assert "executed again on purpose (--retry-failed)" in done.out
    assert folder.sql(
        "select status, count(*) n from predictions where run = (select max(run) from runs "
        "where run_id = (select max(run_id) from runs)) group by status"
    ) == [{"status": "ok", "n": 12}]


def test_a_reader_that_goes_away_does_not_end_a_run(simulated: Folder) -> None:
    script = " ".join([*ABREAST, "run", "experiment.yaml", "2>&1", ">/dev/null", "|", "head", "-n", "1"])
    subprocess.run(["bash", "-c", script], cwd=simulated.path, capture_output=True, text=True, check=True)
    assert simulated.sql("select count(*) n from predictions") == [{"n": 80}]


def test_init_writes_an_experiment_that_runs(folder: Folder) -> None:
    done = folder.abreast("init", "function")
    assert "next: abreast run experiment.yaml" in done.out
    assert folder.command("run", "experiment.yaml").code == 0
    again = folder.abreast("init", "function")
    assert again.code == 2
    assert "is there already" in again.err


def test_the_demo_needs_nothing(folder: Folder) -> None:
    done = folder.command("demo", "--folder", "here")
    assert done.code == 0, done.err
    assert "better: with_units against plain" in done.out
    assert "SIMULATED" in done.out
    assert folder.sql("select count(*) n from predictions", "here/results.db") == [{"n": 320}]


def test_help_names_every_command_and_every_command_has_help(folder: Folder) -> None:
    overview = folder.abreast("--help").out
    for name in re.findall(r"^  ([a-z-]+)  ", overview, re.M):
        done = folder.abreast(name, "--help")
        assert done.code == 0
        assert f"usage: abreast {name}" in done.out
    assert folder.abreast().out == overview
    assert folder.abreast("rnu").code == 2
    assert 'did you mean "run"' in folder.abreast("rnu").err
    assert re.match(r"abreast \d", folder.abreast("--version").out)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from abreast.cli import main; main(['--help']); "
        "heavy = {'numpy', 'pydantic', 'rich', 'duckdb', 'apsw', 'asyncio', 'scipy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_flags(folder: Folder, shell: str) -> None:
    script = folder.abreast("completion", shell).out
    assert "rescore" in script
    assert "trial-parallelism" in script


def test_bash_takes_the_completion(folder: Folder) -> None:
    script = folder.abreast("completion", "bash").out
    asked = "COMP_WORDS=(abreast run --tri); COMP_CWORD=2; _abreast; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", script + "\n" + asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "--trial-parallelism"


def test_a_closed_pipe_is_no_traceback(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--repeats", "20")
    script = " ".join([*ABREAST, "export", "--format", "jsonl", "|", "head", "-n", "1"])
    done = subprocess.run(["bash", "-c", script], cwd=simulated.path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_text_of_a_model_cannot_command_the_terminal_or_the_page(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "hostile.py",
        "def predict(case, evil):\n    return '\\x1b[31m<script>alert(1)</script>' if evil else 'yes'\n",
    )
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        target: python:hostile:predict
        variants: {a: {evil: false}, b: {evil: true}}
        scorers: [exact]
        """,
    )
    done = folder.command("run", "spec.yaml")
    assert done.code == 0, done.err
    for words in (["logs"], ["show", "latest", "c1"], ["sql", "results.db", "select answer from predictions"]):
        assert "\x1b" not in folder.abreast(*words).out
    page = next(folder.path.glob("runs/*/report.html")).read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
