"""The scorer `human`: people give the score, after the run."""

from __future__ import annotations

import pytest

from abreast.analyse.run import Analysis, analyse
from abreast.experiment.labels.answer_labels import AnswerLabels
from abreast.store import open_store
from conftest import Folder
from view_server import live_page

SPEC = """\
cases: cases.jsonl
variants:
  plain: {target: simulated, accuracy: 0.4}
  better: {target: simulated, accuracy: 0.9}
scorers: [SCORERS]
"""


def execute(folder: Folder, scorers: str, cases: int = 24) -> None:
    folder.cases(cases)
    folder.write("spec.yaml", SPEC.replace("SCORERS", scorers))
    done = folder.abreast("run", "spec.yaml", "--yes")
    assert done.code == 0, done.err


def label(folder: Folder, by_score: str = "exact", only: str = "") -> None:
    """Label every answer, or those of one variant, as another scorer scored it."""
    with open_store(folder.path / "results.db") as store:
        run = store.run("latest")
        labels = AnswerLabels(store, run["run"])
        query = "SELECT position, value FROM scores WHERE run_id = ? AND name = ?"
        variants = [variant.name for variant in store.queries.variants(run["run_id"])]
        for position, value in store.rows(query, (run["run_id"], by_score)):
            if only and variants[position % len(variants)] != only:
                continue
            labels.record(position, "right" if value == 1.0 else "wrong", "ann", is_blind=True)


def analysed(folder: Folder) -> Analysis:
    with open_store(folder.path / "results.db") as store:
        return analyse(store, "latest")


def test_a_run_whose_score_people_give_is_complete_before_anybody_labels_it(folder: Folder) -> None:
    execute(folder, "human", cases=3)
    done = folder.abreast("report")
    assert "no answer is labelled yet" in done.out
    assert analysed(folder).run["status"] == "complete"
    again = folder.abreast("run", "spec.yaml", "--yes")
    assert again.code == 0
    assert "abreast view results.db --run" in again.err


def test_labels_decide_as_any_other_score_does(folder: Folder) -> None:
    execute(folder, "exact, human")
    label(folder)
    analysis = analysed(folder)
    (by_code,), (by_people,) = analysis.comparisons, analysis.further
    assert by_people.metric == "human"
    assert by_people.verdict == by_code.verdict
    assert by_code.verdict.word == "better"


def test_labels_are_the_primary_score_if_the_spec_says_so(folder: Folder) -> None:
    execute(folder, "human, exact")
    label(folder)
    analysis = analysed(folder)
    assert analysis.score_name == "human"
    assert analysis.comparisons[0].verdict == analysis.further[0].verdict
    report = folder.abreast("report", "--format", "markdown").out
    assert "better is better than plain" in report


def test_an_answer_about_which_a_person_is_unsure_has_no_score(folder: Folder) -> None:
    execute(folder, "human, exact", cases=12)
    label(folder)
    with open_store(folder.path / "results.db") as store:
        AnswerLabels(store, "latest").record(0, "unsure", "ann", is_blind=True)
    (item,) = analysed(folder).comparisons
    assert item.cases == 11
    assert sum(summary.unscored for summary in analysed(folder).variants) == 1


def test_labels_of_a_finished_run_become_a_score_by_rescore(folder: Folder) -> None:
    execute(folder, "exact")
    label(folder)
    assert "human" not in analysed(folder).rows.scores
    done = folder.abreast("rescore", "latest", "--scorer", "human")
    assert done.code == 0, done.err
    scores = analysed(folder).rows.scores
    assert scores["human"].tolist() == scores["exact"].tolist()


def test_labels_of_one_variant_only_wait_for_those_of_the_other(folder: Folder) -> None:
    execute(folder, "human, exact", cases=6)
    label(folder, only="plain")
    again = folder.abreast("run", "spec.yaml", "--yes")
    assert again.code == 0, again.output
    assert "abreast view results.db --run" in again.err


def test_validate_reads_labels_as_scores(folder: Folder) -> None:
    execute(folder, "human, exact", cases=12)
    assert "score_human has no value" in folder.abreast("validate").out
    label(folder)
    assert "score_human has no value" not in folder.abreast("validate").out


def test_a_run_that_stops_early_cannot_wait_for_people(folder: Folder) -> None:
    folder.cases(3)
    folder.write("spec.yaml", SPEC.replace("SCORERS", "human") + "until_decided: true\n")
    done = folder.abreast("check", "spec.yaml")
    assert done.code == 2
    assert "until_decided: people label the answers after the run" in done.err


@pytest.mark.parametrize("scorers", ["{human: {name: me}}", "human, human", "{exact: {name: human}}"])
def test_there_is_one_human_score(folder: Folder, scorers: str) -> None:
    folder.cases(3)
    folder.write("spec.yaml", SPEC.replace("SCORERS", scorers))
    assert folder.abreast("check", "spec.yaml").code == 2


def test_the_grid_of_the_live_page_shows_labels_as_scores(folder: Folder) -> None:
    execute(folder, "human, exact", cases=4)
    label(folder)
    with live_page(folder.path / "results.db") as page:
        run = page.get("/runs/latest").headers["Location"]
        by_people, by_code = (page.get(f"{run}/cases.csv?score={score}").text for score in ("human", "exact"))
    assert by_people == by_code
    assert by_people.count("1.0") >= 4
