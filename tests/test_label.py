"""Human labels: a blind random sample, stored beside the judge's scores, corrects a judged verdict."""

from __future__ import annotations

import contextlib
import csv
import os
import pty
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ABREAST, Folder

MODULE = """\
import json, re

def answer(case, word="plain", fails="", hostile=False):
    if case.id in fails.split():
        raise ValueError("no idea")
    return f"{word} answer to {case.input}" + ("\\x1b[2J\\u202e" if hostile else "")

def number(prompt):
    return int(re.search(r"question (\\d+)", prompt)[1])

def said(score):
    return json.dumps({"overall": {"justification": "so it is", "score": score}})

def flatters(case):
    good = number(case.input) % 10 < (8 if "better answer" in case.input else 5)
    return said(5 if good else 1)

def dimensions(case):
    one = {"justification": "seen", "score": 5 if "better answer" in case.input else 2}
    return json.dumps({"truth": one, "tone": one})

def prefers(case):
    mark = re.search(r"with the mark (\\w+)", case.input)[1]
    first = re.search(rf"^\\[{mark} first answer begins\\]\\n(.*?)$", case.input, re.M)[1]
    return json.dumps({"overall": {"justification": "x", "preferred": "first" if "better" in first else "second"}})
"""


def run_judged(
    folder: Folder,
    judge: str = "target: python:mine:flatters, rubric: Is it good",
    cases: int = 40,
    plain: str = "",
    better: str = "",
    top: str = "",
) -> str:
    """Run two variants with a judge that favours one of them; return the name of the run."""
    folder.write("mine.py", MODULE)
    folder.cases(cases)
    folder.write(
        "experiment.yaml",
        f"name: judged\ncases: cases.jsonl\ntarget: python:mine:answer\n{top}"
        f"variants:\n  alpha: {{word: plain{plain}}}\n  omega: {{word: better{better}}}\n"
        f"scorers:\n  - judge: {{{judge}}}\n",
    )
    done = folder.abreast("run", "experiment.yaml", "--json")
    assert done.code == 0, done.err
    return str(done.json[0]["run"] if isinstance(done.json, list) else done.json["run"])


def sheet(folder: Folder, name: str = "labels.csv") -> list[dict[str, str]]:
    with (folder.path / name).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write_sheet(folder: Folder, rows: list[dict[str, str]], name: str = "filled.csv") -> str:
    with (folder.path / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return name


def question(row: dict[str, str]) -> int:
    return int(row["task"].removeprefix("question "))


def human(row: dict[str, str]) -> str:
    """The label of a person who sees no difference between the variants except in every tenth case."""
    number = question(row)
    if number % 10 == 9:
        return "5" if "better" in row["answer"] else "1"
    return "5" if number % 10 < 5 else "1"


def label_all(folder: Folder, *words: str, by: Callable[[dict[str, str]], str] = human, most: int | None = None) -> Any:
    """Label the sample with a sheet."""
    assert folder.abreast("label", "--export", "labels.csv", *words).code == 0
    rows = [{**row, "label": by(row)} for row in sheet(folder)][:most]
    return folder.abreast("label", "--import", write_sheet(folder, rows), *words)


def verdict(folder: Folder) -> dict[str, Any]:
    done = folder.abreast("report", "--json")
    assert done.code == 0, done.err
    report = done.json[0] if isinstance(done.json, list) else done.json
    item: dict[str, Any] = report["verdicts"][0]
    return item


# -- the verdict -------------------------------------------------------------------------------------------------------


def test_a_judged_verdict_without_labels_says_so_in_every_format(folder: Folder) -> None:
    run = run_judged(folder)
    line = f"uncalibrated judge: no human labels; label answers: abreast label {run} --sample 60"
    for form in ("terminal", "markdown"):
        out = " ".join(folder.abreast("report", "--format", form).out.replace("\\", "").split())
        assert line in out, out
    assert folder.abreast("report", "--format", "html", "--output", "page").code == 0
    pages = [*folder.path.glob("page*/**/*.html"), *folder.path.glob("page*.html"), *folder.path.glob("page")]
    assert any(line in path.read_text() for path in pages if path.is_file())
    judged_verdict = verdict(folder)
    assert judged_verdict["calibration"]["labels"] == 0
    assert judged_verdict["calibration"]["corrected"] is False
    assert f"abreast label {run} --store results.db --sample 60" in folder.abreast("validate").out


def test_a_verdict_by_another_scorer_has_no_calibration(simulated: Folder) -> None:
    assert simulated.abreast("run", "experiment.yaml").code == 0
    assert verdict(simulated)["calibration"] is None
    assert "uncalibrated" not in simulated.abreast("report").out
    done = simulated.abreast("label", "--export", "labels.csv")
    assert done.code == 2
    assert "no score comes from a judge" in done.err


def test_labels_from_a_sheet_correct_the_verdict(folder: Folder) -> None:
    run_judged(folder, cases=200)
    before = verdict(folder)
    assert before["verdict"] == "better"  # by the judge's favour alone
    assert before["effect"] == pytest.approx(0.3)
    scores = folder.sql("select * from scores order by seq")
    done = label_all(folder)
    assert done.code == 0, done.err
    assert "60 of 60 cases labelled" in done.out
    after = verdict(folder)
    calibration = after["calibration"]
    assert calibration["corrected"]
    assert calibration["labels"] == 60
    assert 0 <= calibration["lambda"] <= 1
    assert after["effect"] == pytest.approx(calibration["variant_score"] - calibration["baseline_score"])
    assert after["interval"][0] <= after["effect"] <= after["interval"][1]
    assert after["interval"][0] <= 0.1 <= after["interval"][1] < 0.3
    assert after["level"] == 0.95
    report = " ".join(folder.abreast("report").out.split())
    assert f"corrected by 60 human labels (λ = {calibration['lambda']:.2f})" in report
    assert "corrected scores (estimates): alpha" in report
    assert "uncalibrated" not in report
    assert "no problems found" in folder.abreast("validate").out
    assert folder.sql("select * from scores where name <> 'human' order by seq") == scores


def test_agreement_is_reported_overall_and_by_variant(folder: Folder) -> None:
    run_judged(folder, cases=100)
    label_all(folder, "--sample", "100")
    calibration = verdict(folder)["calibration"]
    assert calibration["agreement"] == {
        "rate": 0.8,
        "kappa": pytest.approx((0.8 - 0.515) / (1 - 0.515)),
        "answers": 200,
    }
    assert calibration["baseline_agreement"]["rate"] == 1.0
    assert calibration["variant_agreement"]["rate"] == 0.6
    assert "judge and humans agree on 80%" in folder.abreast("report").out


def test_too_few_labels_do_not_correct_the_verdict_and_the_report_says_how_many_are_missing(folder: Folder) -> None:
    run_judged(folder, cases=100)
    before = verdict(folder)
    label_all(folder, most=30)
    after = verdict(folder)
    assert after["calibration"]["labels"] == 15
    assert (after["verdict"], after["interval"]) == (before["verdict"], before["interval"])
    report = " ".join(folder.abreast("report").out.split())
    assert "uncalibrated judge: 15 cases are labelled, 5 more are needed" in report


def test_a_look_before_the_sample_is_labelled_has_a_wider_interval(folder: Folder) -> None:
    run_judged(folder, cases=100)
    done = label_all(folder, most=80)
    assert "40 of 60 cases labelled" in done.out
    assert "points" not in done.out  # no verdict is shown on the way
    assert verdict(folder)["level"] == pytest.approx(0.9836, abs=1e-4)
    assert "20 of 60 sampled cases are not labelled yet" in folder.abreast("report").out
    folder.abreast("label", "--export", "labels.csv")
    rows = sheet(folder)
    assert sum(bool(row["label"]) for row in rows) == 80
    folder.abreast("label", "--import", write_sheet(folder, [{**row, "label": human(row)} for row in rows]))
    assert verdict(folder)["level"] == 0.95


def test_the_report_says_how_many_labels_would_decide(folder: Folder) -> None:
    run_judged(folder, cases=150)

    def noisy(row: dict[str, str]) -> str:
        good = question(row) * 3 % 10 < 7 if "better" in row["answer"] else question(row) * 7 % 10 < 5
        return "5" if good else "1"

    label_all(folder, "--sample", "25", "--seed", "4", by=noisy)
    labelled = verdict(folder)
    assert labelled["verdict"] == "inconclusive"
    needed = labelled["calibration"]["labels_needed"]
    assert 25 < needed <= 150
    assert f"about {needed} labels would decide" in " ".join(folder.abreast("report").out.split())


def test_comparing_runs_says_that_the_judge_is_not_calibrated(folder: Folder) -> None:
    run = run_judged(folder)
    folder.write(
        "experiment.yaml", (folder.path / "experiment.yaml").read_text().replace("word: better", "word: other")
    )
    assert folder.abreast("run", "experiment.yaml").code == 0
    assert "uncalibrated judge" in folder.abreast("compare", run, "latest", "--variant", "omega").out


# -- the sample --------------------------------------------------------------------------------------------------------


def test_a_sheet_is_blind(folder: Folder) -> None:
    run_judged(folder, plain=", hostile: true")
    assert folder.abreast("label", "--export", "labels.csv").code == 0
    text = (folder.path / "labels.csv").read_text(encoding="utf-8-sig")
    rows = sheet(folder)
    assert len(rows) == 80
    assert not {"alpha", "omega", "\x1b", "\u202e"} & set(re.findall(r"\w+|[^\w\s]", text))
    assert {row["label"] for row in rows} == {""}
    firsts = ["better" in rows[at]["answer"] for at in range(0, 80, 2)]
    assert 8 < sum(firsts) < 32  # in random order
    assert all(rows[at]["case"] == rows[at + 1]["case"] for at in range(0, 80, 2))  # both arms together


def test_an_answer_that_looks_like_a_formula_is_escaped_in_a_sheet(folder: Folder) -> None:
    run_judged(folder, plain="", better="")
    folder.write("mine.py", MODULE.replace('return f"{word}', 'return f"=HYPERLINK(1) {word}'))
    assert folder.rerun("run", "experiment.yaml", "--fresh").code == 0
    folder.abreast("label", "--export", "labels.csv")
    assert all(row["answer"].startswith("'=HYPERLINK") for row in sheet(folder))


def test_a_larger_sample_contains_the_smaller(folder: Folder) -> None:
    run_judged(folder, cases=60)
    label_all(folder, "--sample", "20", "--seed", "5")
    small = {row["id"] for row in sheet(folder)}
    assert folder.abreast("label", "--sample", "40", "--export", "labels.csv").code == 0
    rows = sheet(folder)
    assert len(rows) == 80
    assert small < {row["id"] for row in rows}
    assert [bool(row["label"]) for row in rows] == [True] * 40 + [False] * 40
    assert verdict(folder)["calibration"]["sample_enlarged"]
    assert "the sample was enlarged" in folder.abreast("report").out
    refused = folder.abreast("label", "--seed", "6", "--json")
    assert refused.code == 2
    assert "drawn with seed 5, not 6" in refused.err
    assert "cannot" not in refused.err
    assert "can grow but not shrink" in folder.abreast("label", "--sample", "10", "--json").err


def test_the_sample_does_not_depend_on_scores(folder: Folder) -> None:
    def sampled() -> list[str]:
        folder.abreast("label", "--sample", "20", "--seed", "1", "--export", "labels.csv")
        return [row["task"] for row in sheet(folder)]

    run_judged(folder, cases=60)
    first = sampled()
    run_judged(folder, judge="target: python:mine:flatters, rubric: Something else", cases=60, better=", hostile: true")
    assert sampled() == first


# -- sheets that are wrong ---------------------------------------------------------------------------------------------


def test_bad_rows_are_named_by_line_and_nothing_is_imported(folder: Folder) -> None:
    run_judged(folder)
    folder.abreast("label", "--export", "labels.csv")
    rows = [{**row, "label": "5"} for row in sheet(folder)]
    rows[3]["label"], rows[5]["id"], rows[7]["label"] = "9", "nobody", "good"
    done = folder.abreast("label", "--import", write_sheet(folder, rows))
    assert done.code == 2
    for line in ('filled.csv:5: label "9" is not a number from 1', 'filled.csv:7: no answer "nobody"', "filled.csv:9"):
        assert line in done.err
    assert "nothing was imported" in done.err
    assert folder.sql("select count(*) as n from scores where name = 'human'") == [{"n": 0}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "not valid UTF-8"),
        (b"", "no column id, label"),
        (b"id,grade\nx,1\n", "no column label"),
        (b"id,label\nnobody,1\n", 'broken.csv:2: no answer "nobody"'),
        (b'id,label\n"abc,3\n', "unexpected end of data"),
        (b"label,id\n3\n", 'broken.csv:2: no answer ""'),
        (b"id,label,label\nx,1,2\n", "column label occurs more than once"),
    ],
)
def test_a_file_that_is_not_a_sheet_is_refused(folder: Folder, content: bytes, message: str) -> None:
    run_judged(folder, cases=4)
    folder.write("broken.csv", content)
    done = folder.abreast("label", "--import", "broken.csv")
    assert done.code == 2
    assert message in done.err


def test_importing_the_same_sheet_again_changes_nothing(folder: Folder) -> None:
    run_judged(folder)
    assert "80 labels imported" in label_all(folder).out
    stored = folder.sql("select * from scores order by seq")
    assert "no new labels" in folder.abreast("label", "--import", "filled.csv").out
    assert folder.sql("select * from scores order by seq") == stored


def test_a_label_that_changes_is_kept_aside(folder: Folder) -> None:
    run_judged(folder, cases=4)
    label_all(folder)
    label_all(folder, "--by", "Ada", by=lambda row: "3")
    assert folder.sql("select distinct value from scores where name = 'human'") == [{"value": 0.5}]
    assert folder.sql("select count(*) as n from old_scores where name = 'human'") == [{"n": 8}]


def test_a_sheet_from_a_spreadsheet_with_semicolons_and_decimal_commas_is_read(folder: Folder) -> None:
    run_judged(folder, cases=4)
    folder.abreast("label", "--export", "labels.csv")
    rows = "".join(f"{row['id']};2,5\r\n" for row in sheet(folder))
    folder.write("filled.csv", f"\ufeffid;label\r\n{rows}")
    assert "8 labels imported" in folder.abreast("label", "--import", "filled.csv").out
    assert folder.sql("select distinct value from scores where name = 'human'") == [{"value": 0.375}]


def test_labelling_needs_a_terminal_or_a_sheet(folder: Folder) -> None:
    run_judged(folder, cases=4)
    done = folder.command("label", stdin=subprocess.DEVNULL)
    assert done.code == 2
    assert "not a terminal" in done.err
    assert "--export labels.csv" in done.err
    assert folder.abreast("label", "--export", "a.csv", "--import", "b.csv").code == 2
    assert folder.abreast("label", "--sample", "0", "--json").code == 2
    assert folder.abreast("label", "--scorer", "exact", "--json").code == 2


# -- what is labelled --------------------------------------------------------------------------------------------------


def test_failures_of_a_variant_count_as_0_without_a_label(folder: Folder) -> None:
    run_judged(folder, cases=30, plain=", fails: c0 c1 c2", better=", fails: c1 c3")
    done = label_all(folder, by=lambda row: "5")
    assert len(sheet(folder)) == 55
    assert "30 of 30 cases labelled" in done.out
    labelled = verdict(folder)
    assert labelled["calibration"]["labels"] == 30
    assert labelled["calibration"]["baseline_score"] == pytest.approx(27 / 30)
    assert labelled["calibration"]["variant_score"] == pytest.approx(28 / 30)


def test_every_repeat_of_a_sampled_case_is_labelled(folder: Folder) -> None:
    run_judged(folder, cases=24, top="repeats: 2\n")
    done = label_all(folder, "--sample", "22", most=4 * 21 + 2)
    assert len(sheet(folder)) == 88
    assert "21 of 22 cases labelled" in done.out
    assert verdict(folder)["calibration"]["labels"] == 21


def test_each_dimension_is_labelled_and_their_mean_corrects_the_verdict(folder: Folder) -> None:
    run_judged(folder, "target: python:mine:dimensions, rubric: {truth: is it true, tone: is it kind}", cases=24)
    folder.abreast("label", "--export", "labels.csv")
    rows = [{**row, "label_truth": "5", "label_tone": "3"} for row in sheet(folder)]
    assert folder.abreast("label", "--import", write_sheet(folder, rows)).code == 0
    columns = "score_human, score_human_judge_truth, score_human_judge_tone"
    assert folder.sql(f"select distinct {columns} from predictions") == [
        {"score_human": 0.75, "score_human_judge_truth": 1.0, "score_human_judge_tone": 0.5}
    ]
    labelled = verdict(folder)
    assert labelled["effect"] == pytest.approx(0)
    assert labelled["verdict"] == "inconclusive"


def test_one_dimension_can_be_labelled_alone(folder: Folder) -> None:
    run_judged(folder, "target: python:mine:dimensions, rubric: {truth: is it true, tone: is it kind}", cases=24)
    done = label_all(folder, "--scorer", "judge_tone", by=lambda row: "4")
    assert done.code == 0, done.err
    calibrations = {row["metric"]: row["calibration"] for row in folder.abreast("report", "--json").json[0]["verdicts"]}
    assert calibrations["judge_tone"]["corrected"]
    assert not calibrations["judge"]["corrected"]


def test_in_pairs_people_are_asked_which_answer_is_better(folder: Folder) -> None:
    judge = "target: python:mine:prefers, rubric: Is it good, pairwise: true"
    run_judged(folder, judge, cases=40, plain=", fails: c3", better=", fails: c7")
    assert verdict(folder)["verdict"] == "better"

    def tie_or_plain(row: dict[str, str]) -> str:
        return "t" if question(row) % 2 else "1" if "plain" in row["answer_1"] else "2"

    done = label_all(folder, by=tie_or_plain)
    assert len(sheet(folder)) == 38
    assert "40 of 40 cases labelled" in done.out
    labelled = verdict(folder)
    assert labelled["verdict"] == "worse"
    assert labelled["effect"] == pytest.approx((-0.5 * 20 + 1.0 - 0.5) / 40)


# -- beside other commands ---------------------------------------------------------------------------------------------


def test_labels_are_not_an_extra_score_in_a_report(folder: Folder) -> None:
    run_judged(folder, cases=30)
    before = folder.abreast("report", "--json").json[0]
    label_all(folder)
    after = folder.abreast("report", "--json").json[0]
    assert [row["metric"] for row in after["verdicts"]] == [row["metric"] for row in before["verdicts"]]
    assert after["variants"] == before["variants"]
    assert folder.abreast("check", "experiment.yaml").out.count("human") == 0


def test_rescoring_keeps_labels_and_a_judge_added_later_can_be_labelled(folder: Folder) -> None:
    folder.write("mine.py", MODULE)
    folder.cases(24)
    head = "name: late\ncases: cases.jsonl\ntarget: python:mine:answer\nvariants:\n  a: {}\n  b: {word: better}\n"
    folder.write("experiment.yaml", f"{head}scorers: [exact]\n")
    assert folder.abreast("run", "experiment.yaml").code == 0
    judge = "judge: {target: python:mine:flatters, rubric: Is it good}"
    folder.write("experiment.yaml", f"{head}scorers:\n  - {judge}\n  - exact\n")
    assert folder.abreast("rescore").code == 0
    assert label_all(folder).code == 0
    before = folder.sql("select position, value from scores where name = 'human' order by position")
    assert len(before) == 48
    folder.write("experiment.yaml", f"{head}scorers:\n  - {judge.replace('good', 'fine')}\n")
    assert folder.abreast("rescore").code == 0
    assert folder.sql("select position, value from scores where name = 'human' order by position") == before
    assert verdict(folder)["calibration"]["corrected"]


@pytest.mark.parametrize("store", ["copy.db", "copy.duckdb"])
def test_labels_go_with_their_run(folder: Folder, store: str) -> None:
    run = run_judged(folder, cases=24)
    assert folder.abreast("merge", "results.db", "--into", store).code == 0
    assert label_all(folder, "--store", "results.db").code == 0
    assert folder.abreast("merge", "results.db", "--into", store).code == 0
    (labelled,) = folder.sql("select count(score_human) as n from predictions", store)
    assert labelled["n"] == 48
    done = folder.abreast("report", "--json", "--store", store)
    assert done.json[0]["verdicts"][0]["calibration"]["labels"] == 24
    assert folder.abreast("delete", run, "--store", store, "--yes").code == 0
    assert folder.sql("select count(*) as n from scores", store) == [{"n": 0}]


def test_when_two_samples_are_merged_the_earlier_one_counts(folder: Folder) -> None:
    run_judged(folder, cases=24)
    shutil.copy(folder.path / "results.db", folder.path / "other.db")
    first, second = ("--store", "results.db"), ("--store", "other.db")
    assert folder.abreast("label", "--export", "one.csv", "--sample", "12", "--seed", "3", *first).code == 0
    assert folder.abreast("label", "--export", "two.csv", "--sample", "12", "--seed", "4", *second).code == 0
    assert folder.abreast("merge", "results.db", "--into", "other.db").code == 0
    assert folder.abreast("label", "--export", "merged.csv", *second).code == 0
    assert [row["task"] for row in sheet(folder, "merged.csv")] == [row["task"] for row in sheet(folder, "one.csv")]


def test_a_duckdb_store_is_labelled_like_any_other(folder: Folder) -> None:
    run_judged(folder, cases=24, top="store: results.duckdb\n")
    assert label_all(folder).code == 0
    (row,) = folder.sql("select count(score_human) as n, avg(score_human) as mean from predictions", "results.duckdb")
    assert row["n"] == 48
    assert verdict(folder)["calibration"]["corrected"]


def test_the_name_human_is_reserved(folder: Folder) -> None:
    folder.cases(2)
    scorers = "scorers: [{exact: {name: human}}]"
    folder.write("experiment.yaml", f"cases: cases.jsonl\ntarget: simulated\nvariants: {{a: {{}}}}\n{scorers}\n")
    done = folder.abreast("check", "experiment.yaml")
    assert done.code == 2
    assert "reserved for human labels" in done.err


# -- on a terminal -----------------------------------------------------------------------------------------------------


class Terminal:
    """`abreast label` on a pseudo-terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*ABREAST, "label", *words], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.screen = ""

    def until(self, words: str) -> str:
        """Read the output up to and including these words."""
        start = len(self.screen)
        while words not in self.screen[start:]:
            assert select.select([self._ours], [], [], 60)[0], f"{words!r} never came:\n{self.screen[start:]}"
            try:
                self.screen += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # the other side is closed
                raise AssertionError(f"{words!r} never came:\n{self.screen[start:]}") from None
        return self.screen[start:]

    def type(self, words: str) -> None:
        os.write(self._ours, f"{words}\n".encode())

    def interrupt(self) -> int:
        """Press Ctrl-C until it works: a signal that arrives just before a read takes effect with the next one."""
        while self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        return self.end()

    def end(self) -> int:
        code = self.process.wait(60)
        try:
            while chunk := os.read(self._ours, 65536):
                self.screen += chunk.decode(errors="replace")
        except OSError:
            pass
        os.close(self._ours)
        return code


PROMPT = "(best): "


def values(folder: Folder) -> list[float | None]:
    return [row["value"] for row in folder.sql("select value from scores where name = 'human' order by seq")]


def test_a_session_on_a_terminal_is_blind_and_can_be_continued(folder: Folder) -> None:
    run_judged(folder, cases=3, better=", hostile: true")
    session = Terminal(folder.path, "--by", "Ada")
    screen = session.until(PROMPT)
    assert "case 1 of 3" in screen
    assert "answer 1" in screen
    assert "answer 2" in screen
    assert "Is it good" in screen
    assert not re.search("alpha|omega|so it is|\x1b\\[2J|\u202e", screen)
    session.type("6")
    assert "type a number from 1 (worst) to 5 (best)" in session.until(PROMPT)
    session.type("4")
    assert "answer 2, 1 (worst)" in session.until(PROMPT)
    session.type("1")
    session.until(PROMPT)
    session.type("u")
    assert "answer 2, 1 (worst)" in session.until(PROMPT)
    session.type("2")
    assert "case 2 of 3" in session.until(PROMPT)
    session.type("q")
    assert session.end() == 0
    assert "1 of 3 cases labelled" in session.screen
    assert "to continue: abreast label" in session.screen
    assert values(folder) == [0.75, 0.25]

    second = Terminal(folder.path)
    assert "case 2 of 3" in second.until(PROMPT)
    for word in ("5", "s", "5"):
        second.type(word)
        second.until(PROMPT)
    second.type("1")
    assert second.end() == 0
    assert "2 of 3 cases labelled, 1 skipped" in second.screen
    assert "uncalibrated judge: 2 cases are labelled, 18 more are needed" in " ".join(second.screen.split())
    by = folder.sql(
        "select count(*) as n from scores where name = 'human' and explanation like '%by Ada at 20%seed 0%'"
    )
    assert by == [{"n": 2}]


def test_an_interrupted_session_keeps_what_was_entered(folder: Folder) -> None:
    run_judged(folder, cases=2)
    session = Terminal(folder.path)
    session.until(PROMPT)
    session.type("5")
    session.until(PROMPT)
    assert session.interrupt() == 130
    assert "0 of 2 cases labelled" in session.screen
    assert values(folder) == [1.0]
    second = Terminal(folder.path)
    assert "answer 2, 1 (worst)" in second.until(PROMPT)
    second.type("q")
    assert second.end() == 0
