"""The report of the suite `numbers`: figures that can be checked by hand, and no crash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from abreast.analyse.run import analyse
from abreast.experiment.facade import Experiment
from abreast.report.charts.drawing import NARROW, WIDE, Picture
from abreast.report.sections import NamedTable, Section
from abreast.store import open_store
from abreast.suites.numbers.cases import cases
from abreast.suites.numbers.report.sections import sections
from conftest import Folder

SCORER = {
    "python:abreast.suites.numbers.scoring:score": {"name": "numbers", "columns": ["correct", "closeness", "grounded"]}
}
MODEL = """\
from abreast import Answer, Usage
from abreast.errors import Skipped


def say(case, who):
    '''What the case has for this variant: an answer and the tokens in that it took; nothing is skipped.'''
    said = case.input["says"].get(who)
    if said is None:
        raise Skipped("too long")
    text, tokens = said
    if text == "crash":
        raise RuntimeError("out of order")
    return Answer(text, usage=Usage(tokens, None if tokens is None else 10))
"""
VALUES = [1, 2, 3, 4, 100]  # their mean is 22
EXPECTED = {"mean": 22, "direction": "rising", "presence": "yes"}
Reply = dict[str, tuple[str, int | None]]


def case(query: str, reply: Reply, task: str = "statistical", size: int = 100, **more: str) -> dict[str, Any]:
    """A case of the suite with the reply of each variant; `more` are tags and the group."""
    group = more.pop("group", None)
    cases = {"query": query, "question": "?", "size": size, "columns": {"value": VALUES}, "says": reply}
    tags = {"task": task, "size": str(size), "difficulty": "medium", **more}
    return {"input": cases, "expected": EXPECTED[query], "tags": tags} | ({"group": group} if group else {})


Run = Callable[..., dict[str, Section]]


@pytest.fixture
def run(folder: Folder) -> Run:
    """A function that runs cases for real and returns the sections of the report by name."""
    folder.write("model.py", MODEL)

    def report(cases: list[dict[str, Any]], names: tuple[str, ...] = ("a", "b"), **more: Any) -> dict[str, Section]:
        for number, item in enumerate(cases):
            item["id"] = f"c{number}"
        given = {"scorers": [SCORER], "baseline": names[0], **more}
        variants = {name: {"target": "python:model:say", "who": name} for name in names}
        Experiment(name="numbers", cases=cases, variants=variants, store="rows.db", base=folder.path, **given).run()
        return last_sections(folder.path / "rows.db")

    return report


def last_sections(store: Path) -> dict[str, Section]:
    """The sections of the last run, after checking each: plain JSON, complete tables, pictures that can be drawn."""
    report_sections = sections(analyse(open_store(store), "latest"))
    for section in report_sections:
        json.dumps(section.data, allow_nan=False)
        for table in section.tables:
            assert all(len(row) == len(table.head) for row in table.rows), table
        for picture in section.pictures:
            sound(picture)
    return {section.name: section for section in report_sections}


def sound(picture: Picture) -> None:
    assert picture.alternative
    assert all(len(row) == len(picture.head) for row in picture.rows)
    for width in (WIDE, NARROW):
        drawing = picture.draw(width)
        svg = ElementTree.fromstring(drawing.file("t", "", "a", ""))
        assert drawing.height > 0
        for text in svg.iter("{http://www.w3.org/2000/svg}text"):
            assert -24 <= float(text.get("x", "0")) <= width + 24, (picture.name, width, text.text)


def table(section: Section, name: str) -> list[dict[str, str]]:
    (entry,) = [item for item in section.tables if item.name == name]
    return rows(entry)


def rows(entry: NamedTable | Picture) -> list[dict[str, str]]:
    return [dict(zip(entry.head, row, strict=True)) for row in entry.rows]


def picture(section: Section, name: str) -> Picture:
    (entry,) = [item for item in section.pictures if item.name == name]
    return entry


def names(section: Section) -> list[str]:
    return [item.name for item in section.pictures]


def variants(section: Section) -> dict[str, Any]:
    return {item["name"]: item for item in section.data["variants"]}


def test_compression_is_the_ratio_of_the_sums_over_the_cases_that_both_answered(run: Run) -> None:
    parts = run(
        [
            case("mean", {"a": ("22", 1000), "b": ("22", 100)}),
            case("mean", {"a": ("22", 3000), "b": ("22", 200)}),
            case("mean", {"a": ("22", 9000)}),  # b has none
            case("mean", {"b": ("22", 7000)}),
        ]
    )["figures"]
    ratio = variants(parts)["b"]["compression"]
    assert ratio["estimate"] == pytest.approx(4000 / 300)
    assert variants(parts)["a"]["compression"] is None
    # (1000 − r·100) / 150 = −2.22 and (3000 − r·200) / 150 = 2.22: deviation 3.14, error 2.22, and t of one degree 12.7
    assert ratio["interval"] == [0.0, pytest.approx(4000 / 300 + 12.706 * 2.2222, rel=1e-3)]
    assert parts.sentences[0] == "b: 13.3 × fewer input tokens than a (95 % interval 0.0 … 41.6), counted by the target"


def test_a_variant_that_takes_more_tokens_is_reported(run: Run) -> None:
    dear = [case("mean", {"a": ("22", 100 + at), "b": ("22", 200 + 2 * at)}) for at in range(3)]
    assert run(dear)["figures"].sentences[0].startswith("b: 2.0 × as many input tokens as a (95 % interval 2.0 … 2.0)")
    same = [case("mean", {"a": ("22", 100 + at), "b": ("22", 100 + at)}) for at in range(3)]
    assert run(same)["figures"].sentences[0].startswith("b: about as many input tokens as a")


def test_numeric_errors_are_counted_by_class_and_invented_numbers_are_hallucinations(run: Run) -> None:
    answers = [
        "22",
        "22.66",
        "24",
        "40",
        "70",
        "no idea",
        "3",
    ]  # off by 0, 3, 9, 82, 218 %; none; 3 is the median, unnamed
    parts = run([case("mean", {"a": (text, 5), "b": ("22", 5)}) for text in answers])["figures"]
    mine = variants(parts)["a"]
    assert list(mine["errors"].values()) == [1, 1, 1, 2, 2]
    assert mine["median_error"] == pytest.approx(18 / 22)  # 40 against 22
    assert mine["hallucinated"]["trials"] == 6  # who names no number invents none
    assert mine["hallucinated"]["mean"] == pytest.approx(5 / 6)
    assert mine["accuracy"]["mean"] == pytest.approx(1 / 7)
    assert "hallucinated numbers: a 5 of 6 (83 %), b 0 of 7 (0 %)" in parts.sentences
    distances = rows(picture(parts, "error-distribution"))
    assert [row["a"] for row in distances] == ["1 (14 %)", "1 (14 %)", "1 (14 %)", "2 (29 %)", "2 (29 %)"]


def test_right_answers_per_1000_tokens_count_only_trials_with_known_tokens(run: Run) -> None:
    replies: list[Reply] = [{"a": ("22", 90)}, {"a": ("1", 190)}, {"a": ("22", None)}]
    (mine,) = run([case("mean", item) for item in replies], ("a",))["figures"].data["variants"]
    assert mine["right_per_1000_tokens"] == pytest.approx(1000 * 1 / (100 + 200))
    assert (mine["tokens_in"], mine["tokens_out"]) == (140, 10)


def test_context_utilisation_is_right_answers_per_token_against_the_baseline_on_the_same_cases(run: Run) -> None:
    parts = run(
        [
            case("mean", {"a": ("22", 390), "b": ("22", 90)}),
            case("mean", {"a": ("1", 390), "b": ("22", 90)}),
            case("mean", {"b": ("1", 990)}),  # a has none
        ]
    )["figures"]
    assert variants(parts)["b"]["context_utilisation"] == pytest.approx((2 / 200) / (1 / 800))
    assert variants(parts)["a"]["context_utilisation"] is None
    assert table(parts, "variants")[1]["right per 1,000 tokens"].endswith("(8.0 ×)")


def test_a_confusion_matrix_counts_answers_by_the_right_class(run: Run) -> None:
    answers = ["rising", "rising", "falling", "hard to say"]
    parts = run([case("direction", {"a": (text, 5), "b": ("rising", 5)}, "trend") for text in answers])["breakdown"]
    entry, other = parts.data["confusions"]
    assert (entry["query"], entry["variant"], entry["classes"]) == ("direction", "a", ("rising", "falling", "flat"))
    assert entry["answers"] == ("rising", "falling", "flat", "(none read)")
    assert entry["counts"] == [[2, 1, 0, 1], [0] * 4, [0] * 4]
    assert other["counts"][0] == [4, 0, 0, 0]
    drawn = picture(parts, "confusion-direction")
    assert "a: 2 of 4 right; 1 × falling where rising is right" in drawn.alternative
    assert rows(drawn)[0] == {
        "variant": "a",
        "right": "rising",
        "answered rising": "2",
        "answered falling": "1",
        "answered flat": "0",
        "answered (none read)": "1",
    }


def test_accuracy_is_broken_down_by_task_size_and_difficulty(run: Run) -> None:
    parts = run(
        [
            case("mean", {"a": ("22", 5), "b": ("22", 5)}),
            case("mean", {"a": ("1", 5), "b": ("22", 5)}, size=1000, difficulty="hard"),
            case("presence", {"a": ("no", 5), "b": ("yes", 5)}, "anomaly"),
        ]
    )["breakdown"]
    assert table(parts, "accuracy-by-task") == [
        {"task": "statistical", "a": "50.0 % (2)", "b": "100.0 % (2)"},
        {"task": "anomaly", "a": "0.0 % (1)", "b": "100.0 % (1)"},
    ]
    assert table(parts, "accuracy-by-size")[1] == {"points": "1,000", "a": "0.0 % (1)", "b": "100.0 % (1)"}
    assert [row["difficulty"] for row in table(parts, "accuracy-by-difficulty")] == ["medium", "hard"]
    assert parts.data["by_size"]["1000"]["b"]["trials"] == 1
    assert names(parts) == ["accuracy-by-task", "accuracy-by-size", "confusion-presence"]


def test_a_skipped_baseline_is_not_a_wrong_answer(run: Run) -> None:
    long = [case("mean", {"b": ("22", 5)}, "scaling", 10_000) for _ in range(2)]
    short = [case("mean", {"a": ("22", 5), "b": ("22", 5)}, "scaling") for _ in range(3)]
    parts = run(long + short)
    assert variants(parts["figures"])["a"]["accuracy"] == {
        "mean": 1.0,
        "interval": [pytest.approx(0.4385, abs=1e-3), 1.0],
        "trials": 3,
    }
    assert variants(parts["figures"])["a"]["skipped"] == 2
    assert "skipped, and not counted as wrong: a 2 trials" in parts["figures"].sentences
    assert table(parts["breakdown"], "accuracy-by-size")[1]["a"] == "–"
    assert parts["breakdown"].data["by_size"]["10000"]["a"] == {"mean": None, "interval": None, "trials": 0}


def test_a_degradation_compares_each_perturbed_case_with_its_own_group(run: Run) -> None:
    """b is right in g0 to g2 and wrong in g3; under noise it is right in g0 only, and g3 has no such case."""
    cases = []
    for group, clean, noisy in (("g0", "22", "22"), ("g1", "22", "1"), ("g2", "22", "1"), ("g3", "1", None)):
        cases.append(case("mean", {"a": ("22", 5), "b": (clean, 5)}, group=group, perturbation="none"))
        if noisy is not None:
            cases.append(case("mean", {"a": ("22", 5), "b": (noisy, 5)}, group=group, perturbation="noise"))
    parts = run(cases)["robustness"]
    by = {(item["variant"], item["perturbation"]): item for item in parts.data["perturbations"]}
    assert by["b", "none"]["accuracy"]["mean"] == 0.75
    assert by["b", "none"]["change"] is None
    assert by["b", "noise"]["accuracy"] == {
        "mean": pytest.approx(1 / 3),
        "interval": [0.0, pytest.approx(1.0)],
        "trials": 3,
    }
    assert by["b", "noise"]["change"]["estimate"] == pytest.approx(-2 / 3)
    low, high = by["b", "noise"]["change"]["interval"]
    assert low < -2 / 3 < high
    assert by["b", "outliers"]["accuracy"]["mean"] is None
    assert parts.sentences[0] == "a: no perturbation makes it worse"
    assert parts.sentences[1].startswith("b: degrades most under noise: −66.7 points (95 % interval −")
    assert table(parts, "perturbations")[1]["b"].startswith("33.3 % (3), −66.7 (")
    assert [row["perturbation"] for row in rows(picture(parts, "robustness"))] == ["unperturbed", "noise"]


def test_no_change_in_a_few_cases_still_has_an_interval(run: Run) -> None:
    cases = [
        case("mean", {"a": ("22", 5)}, group=f"g{group}", perturbation=kind)
        for group in range(4)
        for kind in ("none", "scaling")
    ]
    (change,) = [item["change"] for item in run(cases, ("a",))["robustness"].data["perturbations"] if item["change"]]
    assert change["estimate"] == 0.0
    assert change["interval"][0] < -0.1 < 0.1 < change["interval"][1]


def test_cases_without_perturbations_have_no_section_about_them(run: Run) -> None:
    parts = run([case("mean", {"a": ("22", 5), "b": ("22", 5)})])
    assert list(parts) == ["figures", "breakdown"]
    assert names(parts["figures"]) == ["token-reduction", "pareto", "error-distribution"]


def test_a_run_with_one_variant_has_no_comparison(run: Run) -> None:
    parts = run([case("mean", {"a": ("22", 5)}), case("presence", {"a": ("yes", 5)}, "anomaly")], ("a",))
    assert parts["figures"].sentences == ("hallucinated numbers: a 0 of 1 (0 %)",)
    assert "pareto" not in names(parts["figures"])
    assert table(parts["breakdown"], "accuracy-by-task")[0] == {"task": "statistical", "a": "100.0 % (1)"}


def test_without_token_counts_no_token_figures_are_reported(run: Run) -> None:
    parts = run([case("mean", {"a": ("22", None), "b": ("22", None)})])["figures"]
    assert names(parts) == ["error-distribution"]
    mine = variants(parts)["b"]
    assert [mine[name] for name in ("tokens_in", "tokens_out", "compression", "right_per_1000_tokens")] == [None] * 4


def test_a_variant_that_always_failed_has_no_accuracy(run: Run) -> None:
    parts = run([case("mean", {"a": ("22", 5), "b": ("crash", 5)}) for _ in range(4)])
    assert [row["accuracy"] for row in table(parts["figures"], "variants")] == [
        "100.0 % (51.0 … 100.0)",
        "N/A (all failed)",
    ]
    assert variants(parts["figures"])["b"]["accuracy"] == {"mean": None, "interval": None, "trials": 0}
    both = run([case("mean", {"a": ("crash", 5), "b": ("crash", 6)}) for _ in range(4)])
    assert both["figures"].pictures == ()
    assert "breakdown" not in both


def test_hostile_variant_names_are_drawn_and_escaped(run: Run) -> None:
    hostile = (
        "</text><script>alert(1)</script>",
        "&<b>",
        "a very long name " * 6,
        "短い",
        *(f"v{at}" for at in range(5)),
    )
    reply: Reply = {name: ("22", 100 + at) for at, name in enumerate(hostile)}
    yes: Reply = dict.fromkeys(hostile, ("yes", 7))
    cases = [case("mean", reply), case("mean", reply, size=1000), case("presence", yes, "anomaly")]
    perturbed = [
        case("mean", reply, group="c0", perturbation="noise"),
        case("mean", reply, group="c1", perturbation="none"),
    ]
    parts = run(cases + perturbed, hostile)
    drawn = [item for section in parts.values() for item in section.pictures]
    assert {"pareto", "robustness", "confusion-presence"} <= {item.name for item in drawn}
    for item in drawn:
        assert "<script" not in item.inline("mark")


def test_a_run_of_other_cases_without_a_scorer_has_no_sections(folder: Folder) -> None:
    folder.cases(3)
    Experiment(
        name="other", cases="cases.jsonl", variants={"a": {"target": "simulated"}}, base=folder.path, store="rows.db"
    ).run()
    parts = last_sections(folder.path / "rows.db")
    assert table(parts["figures"], "variants")[0]["accuracy"] == "–"
    assert "breakdown" not in parts


def test_a_run_without_rows_has_no_sections(run: Run, folder: Folder) -> None:
    run([case("mean", {"a": ("22", 5), "b": ("22", 5)})])
    with sqlite3.connect(folder.path / "rows.db") as store:
        store.execute("DELETE FROM scores")
        store.execute("DELETE FROM trials")
    parts = last_sections(folder.path / "rows.db")
    assert [item.pictures for item in parts.values()] == [()]
    assert parts["figures"].sentences == ()
    assert [row["accuracy"] for row in table(parts["figures"], "variants")] == ["–", "–"]


def test_every_format_of_a_report_has_the_sections_and_a_simulated_run_estimates_its_tokens(folder: Folder) -> None:
    params = {"prompt": "{{ data }} {{ question }}", "target": "simulated"}
    conditions = "python:abreast.suites.numbers.conditions"
    Experiment(
        name="numbers",
        suite="numbers",
        cases=list(cases(trials=3, max_data_size=100)),
        variants={
            "baseline": {**params, "transform": f"{conditions}:raw", "accuracy": 0.7},
            "summary": {**params, "transform": f"{conditions}:summary_statistics", "accuracy": 0.9},
        },
        scorers=[SCORER],
        baseline="baseline",
        base=folder.path,
        store="results.db",
    ).run()
    section = last_sections(folder.path / "results.db")["figures"]
    assert section.sentences[0].startswith("summary: ")
    assert section.sentences[0].endswith(", estimated from characters")
    assert section.data["tokens_counted"] == "from characters"
    beginning = section.sentences[0].split(" (")[0]
    for form in ("terminal", "markdown", "html"):
        written = folder.abreast("report", "--store", "results.db", "--format", form, "--output", "out").out.strip()
        text = (folder.path / written).read_text(encoding="utf-8")
        assert beginning in " ".join(text.split()), form
    json_sections = folder.abreast("report", "--store", "results.db", "--json").json[0]["suite"]["sections"]
    assert json_sections["figures"]["variants"][0]["name"] == "baseline"
    assert list(json_sections) == ["figures", "breakdown"]
