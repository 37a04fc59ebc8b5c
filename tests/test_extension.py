"""Runs that extend earlier ones: earlier cases keep their order, and the final interval is used once."""

from __future__ import annotations

import json
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from abreast import Experiment
from abreast.analyse.rows import Rows
from abreast.store import open_store
from conftest import Folder
from test_durability import until

SPEC = """\
name: growing
cases: cases.jsonl
variants:
  plain: {target: simulated, accuracy: 0.6, cost_usd: 0.01}
  better: {target: simulated, accuracy: 0.7, cost_usd: 0.01}
scorers: [exact]
"""


def write_cases(folder: Folder, numbers: range | list[int], group_size: int = 0) -> None:
    """Write cases c0, c1, ...; `group_size` puts that many neighbours into one group."""
    lines = [
        {
            "id": f"c{n}",
            "input": f"question {n}",
            "expected": "yes",
            **({"group": f"g{n // group_size}"} if group_size else {}),
        }
        for n in numbers
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def run(folder: Folder, *words: str, code: int = 0) -> str:
    """Run the experiment; return the name of the run."""
    if not (folder.path / "experiment.yaml").exists():
        folder.write("experiment.yaml", SPEC)
    done = folder.abreast("run", "experiment.yaml", "--quiet", "--json", *words)
    assert done.code == code, done.output
    name: str = done.json[0]["run"]
    return name


STARTS = """
select c.id, t.variant, t.block, s.value from trials t join runs r using (run_id)
join cases c on c.digest = t.case_digest left join scores s using (run_id, position)
where r.run = '{}' order by t.block, t.variant
"""


def order(folder: Folder, name: str, store: str = "results.db") -> list[str]:
    """Cases in the order in which the run started them."""
    return list(dict.fromkeys(row["id"] for row in folder.sql(STARTS.format(name), store)))


def extends(folder: Folder, name: str) -> dict[str, Any] | None:
    report: dict[str, Any] | None = folder.abreast("show", name, "--json").json[0]["provenance"].get("extends")
    return report


def final_spent(folder: Folder, name: str) -> bool:
    with open_store(folder.path / "results.db") as store:
        return Rows(store, name).final_spent


# -- order -------------------------------------------------------------------------------------------------------------


def test_cases_keep_their_order_and_precede_new_ones_over_a_chain_of_runs(folder: Folder) -> None:
    orders = []
    for cases in (100, 200, 400):
        write_cases(folder, range(cases))
        orders.append(order(folder, run(folder)))
    first, second, third = orders
    assert third[:200] == second
    assert second[:100] == first
    assert first != sorted(first, key=lambda name: int(name[1:])), "shuffled"
    assert third[200:] != sorted(third[200:], key=lambda name: int(name[1:])), "new cases are shuffled too"


def test_the_order_and_the_answers_do_not_depend_on_parallelism(folder: Folder) -> None:
    rows = []
    for parallel in ("1", "8"):
        (folder.path / "results.db").unlink(missing_ok=True)
        for cases in (60, 120):
            write_cases(folder, range(cases))
            name = run(folder, "--parallel", parallel)
        rows.append(folder.sql(STARTS.format(name)))
    assert rows[0] == rows[1]


def test_the_position_of_new_cases_in_the_file_does_not_matter(folder: Folder) -> None:
    write_cases(folder, range(50, 100))
    first = order(folder, run(folder))
    write_cases(folder, range(100))
    assert order(folder, run(folder))[:50] == first


def test_cases_that_were_removed_from_the_file_drop_out(folder: Folder) -> None:
    write_cases(folder, range(100))
    first = order(folder, run(folder))
    write_cases(folder, [n for n in range(150) if n % 4])
    remaining = [name for name in first if int(name[1:]) % 4]
    second = run(folder)
    assert order(folder, second)[: len(remaining)] == remaining
    assert extends(folder, second) == {
        "run": folder.abreast("runs", "--json").json[0]["run"],
        "cases": 75,
        "added": 37,
        "spent_at": 100,
        "grown_groups": 0,
        "largest_group": None,
    }


def test_groups_stay_together_and_old_groups_come_first(folder: Folder) -> None:
    write_cases(folder, range(0, 90, 2), group_size=6)
    first = order(folder, run(folder))
    write_cases(folder, range(120), group_size=6)
    done = folder.abreast("run", "experiment.yaml")
    assert "15 groups of" in done.err
    assert "put new cases into new groups" in done.err
    second = order(folder, folder.abreast("runs", "--json").json[-1]["run"])
    groups = [name for name, _ in groupby(int(case[1:]) // 6 for case in second)]
    assert len(groups) == len(set(groups)) == 20, "no group is torn apart"
    assert groups[:15] == [name for name, _ in groupby(int(case[1:]) // 6 for case in first)]
    assert [case for case in second if case in first] == first
    for at in range(0, 90, 6):
        assert set(second[at : at + 3]) <= set(first), "earlier cases come first in their group"


def test_new_groups_give_a_note_and_no_warning(folder: Folder) -> None:
    write_cases(folder, range(90), group_size=6)
    run(folder)
    write_cases(folder, range(120), group_size=6)
    done = folder.abreast("check", "experiment.yaml", "--json")
    (actual,) = [row for row in done.json if row["check"] == "extension"]
    assert actual["level"] == "note"


def test_the_bound_on_the_size_of_groups_never_shrinks(folder: Folder) -> None:
    write_cases(folder, range(60), group_size=10)
    run(folder)
    write_cases(folder, [n for n in range(80) if n % 2], group_size=10)
    name = run(folder)
    with open_store(folder.path / "results.db") as store:
        assert Rows(store, name).largest_group == 10


# -- runs that stopped -------------------------------------------------------------------------------------------------


def extended(folder: Folder, first: int, second: int) -> tuple[str, list[str]]:
    """A run, more cases in the file, and the order in which a run that extends the first would start them."""
    write_cases(folder, range(first))
    name = run(folder)
    write_cases(folder, range(second))
    shutil.copy(folder.path / "results.db", folder.path / "control.db")
    expected = order(folder, run(folder, "--store", "control.db"), "control.db")
    (folder.path / "control.db").unlink()
    return name, expected


def interrupted(folder: Folder) -> tuple[str, str, list[str]]:
    """A run of 100 cases, one that extends it to 200 and stopped, and the order it would have had uninterrupted."""
    first, expected = extended(folder, 100, 200)
    return first, run(folder, "--budget", "0.5", code=3), expected


@pytest.mark.parametrize("how", ["resume", "run"])
def test_a_stopped_run_continues_in_the_same_order(folder: Folder, how: str) -> None:
    _, second, expected = interrupted(folder)
    assert len(order(folder, second)) < 200
    words = ("resume", second) if how == "resume" else ("run", "experiment.yaml")
    done = folder.abreast(*words, "--budget", "9", "--json", "--quiet")
    assert (done.code, done.json[0]["run"]) == (0, second)
    assert order(folder, second) == expected


def test_a_killed_run_continues_in_the_same_order(folder: Folder) -> None:
    folder.write("experiment.yaml", SPEC.replace("cost_usd: 0.01", "latency: 0.005"))
    _, expected = extended(folder, 40, 120)
    process = folder.start("run", "experiment.yaml", "--quiet")
    rows = "SELECT COUNT(*) FROM trials t JOIN runs r USING (run_id) WHERE r.planned_trials = 240"
    with open_store(folder.path / "results.db") as store:
        until(lambda: store.rows(rows)[0][0] > 100, "some new cases are stored", process)
    process.kill()
    process.communicate()
    done = folder.abreast("resume", "--json", "--quiet")
    assert done.code == 0
    assert done.json[0]["executed"] > 0
    assert order(folder, done.json[0]["run"]) == expected


def test_the_order_survives_the_deletion_of_the_extended_run(folder: Folder) -> None:
    first, second, expected = interrupted(folder)
    assert folder.abreast("delete", first, "--yes").code == 0
    assert folder.abreast("resume", second, "--budget", "9").code == 0
    assert order(folder, second) == expected
    assert final_spent(folder, second)


def test_extending_a_killed_run_keeps_its_gapless_prefix_of_cases(folder: Folder) -> None:
    write_cases(folder, range(100))
    first = run(folder)
    before = order(folder, first)
    kill = "update runs set status = 'incomplete'; delete from trials where block = 40 and variant = 1"
    assert folder.abreast("sql", "--write", "results.db", kill).code == 0
    write_cases(folder, range(200))
    second = run(folder)
    actual = order(folder, second)
    assert actual[:40] == before[:40]
    assert actual[40:100] != before[40:]
    assert (extends(folder, second) or {})["cases"] == 40
    assert not final_spent(folder, second), "no final interval was shown"


def test_an_extended_run_can_be_decided_by_reused_answers(folder: Folder) -> None:
    folder.write("experiment.yaml", SPEC.replace("0.7", "0.99"))
    write_cases(folder, range(100))
    run(folder)
    write_cases(folder, range(200))
    done = folder.abreast("run", "experiment.yaml", "--until-decided", "--json", "--quiet")
    (actual,) = done.json
    assert (actual["status"], actual["executed"]) == ("stopped_early", 0)
    assert actual["verdicts"][0]["verdict"] == "better"


def test_a_run_that_stopped_early_has_not_used_the_final_interval(folder: Folder) -> None:
    folder.write("experiment.yaml", SPEC.replace("0.7", "0.99"))
    write_cases(folder, range(300))
    first = run(folder, "--until-decided")
    before = order(folder, first)
    write_cases(folder, range(400))
    second = run(folder)
    assert order(folder, second)[: len(before)] == before
    assert not final_spent(folder, second)
    assert "the confidence sequence continues" in folder.abreast("report", second).out


# -- which run is extended ---------------------------------------------------------------------------------------------


def test_check_run_and_report_say_what_is_extended_and_what_decides(folder: Folder) -> None:
    write_cases(folder, range(100))
    first = run(folder)
    write_cases(folder, range(200))
    rule = "the final interval is spent, so only the confidence sequence decides"
    for command in ("check", "run"):
        assert f"this run extends {first} by 100 cases; {rule}" in folder.abreast(command, "experiment.yaml").err
    for form in ("terminal", "markdown"):
        assert f"extends {first} (100 cases): {rule}" in folder.abreast("report", "--format", form).out
    page = folder.abreast("report", "--format", "html").out.strip()
    assert f"extends {first} (100 cases): {rule}" in (folder.path / page).read_text(encoding="utf-8")
    report = folder.abreast("report", "--format", "json").json
    assert report["provenance"]["extends"]["run"] == first
    assert f"extends {first} (100 cases): {rule}" in report["summary"]


def test_rerunning_the_same_cases_keeps_order_and_rule(folder: Folder) -> None:
    for cases in (60, 120):
        write_cases(folder, range(cases))
        name = run(folder)
    rerun = run(folder)
    assert order(folder, rerun) == order(folder, name)
    assert extends(folder, rerun) == extends(folder, name)


def test_reordering_the_lines_of_the_case_file_keeps_order_and_rule(folder: Folder) -> None:
    for cases in (60, 120):
        write_cases(folder, range(cases))
        name = run(folder)
    write_cases(folder, list(reversed(range(120))))
    rerun = run(folder)
    assert order(folder, rerun) == order(folder, name)
    assert extends(folder, rerun) == extends(folder, name)


@pytest.mark.parametrize("numbers", [range(60), range(59, -1, -1)])
def test_rerunning_the_same_cases_extends_nothing(folder: Folder, numbers: range) -> None:
    write_cases(folder, range(60))
    run(folder)
    write_cases(folder, numbers)
    assert extends(folder, run(folder)) is None


def test_a_run_of_a_few_cases_in_between_does_not_hide_the_larger_one(folder: Folder) -> None:
    write_cases(folder, range(100))
    first = run(folder)
    assert f"repeats 10 cases of {first}" in folder.abreast("run", "experiment.yaml", "--limit", "10").err
    write_cases(folder, range(200))
    assert (extends(folder, run(folder)) or {})["run"] == first


def test_a_first_try_with_five_cases_spends_nothing(folder: Folder) -> None:
    write_cases(folder, range(100))
    five = order(folder, run(folder, "--limit", "5"))
    name = run(folder)
    assert order(folder, name)[:5] == five
    assert not final_spent(folder, name)


def test_six_cases_can_decide_and_spend_the_final_interval(folder: Folder) -> None:
    write_cases(folder, range(100))
    run(folder, "--limit", "6")
    assert final_spent(folder, run(folder))


def test_debug_and_fresh_runs_extend_nothing(folder: Folder) -> None:
    write_cases(folder, range(60))
    run(folder)
    write_cases(folder, range(120))
    assert extends(folder, run(folder, "--debug")) is None
    fresh = run(folder, "--fresh")
    assert extends(folder, fresh) is None
    write_cases(folder, range(180))
    assert (extends(folder, run(folder)) or {})["run"] == fresh


def test_debug_runs_are_not_extended(folder: Folder) -> None:
    write_cases(folder, range(60))
    run(folder, "--debug", "30")
    assert extends(folder, run(folder)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: growing", "name: another"),
        ("accuracy: 0.7", "accuracy: 0.8"),
        ("better:", "other:"),
        ("scorers: [exact]", "scorers: [exact]\nbaseline: better"),
        ("scorers: [exact]", "scorers: [text]"),
    ],
)
def test_other_variants_baselines_and_scores_make_another_experiment(folder: Folder, before: str, after: str) -> None:
    write_cases(folder, range(60))
    run(folder)
    write_cases(folder, range(120))
    folder.write("experiment.yaml", SPEC.replace(before, after))
    assert extends(folder, run(folder)) is None


def test_python_experiments_extend_too(tmp_path: Path) -> None:
    names = []
    for number in (60, 120):
        cases = [{"id": f"c{n}", "input": f"question {n}", "expected": "yes"} for n in range(number)]
        experiment = Experiment(
            cases=cases,
            variants={"plain": {"accuracy": 0.6}, "better": {"accuracy": 0.7}},
            target="simulated",
            scorers=["exact"],
            base=tmp_path,
        )
        result = experiment.run()
        names.append(result.run)
    assert f"extends {names[0]} (60 cases)" in str(result.verdict)


# -- groups ------------------------------------------------------------------------------------------------------------


def test_the_size_of_the_largest_group_is_stored_with_the_run(folder: Folder) -> None:
    write_cases(folder, range(7))
    ungrouped = run(folder)
    write_cases(folder, range(7), group_size=3)
    grouped = run(folder)
    with open_store(folder.path / "results.db") as store:
        assert Rows(store, ungrouped).largest_group == 1
        assert Rows(store, grouped).largest_group == 3


def test_for_older_runs_the_largest_group_is_counted_among_cases_with_rows(folder: Folder) -> None:
    write_cases(folder, range(7), group_size=3)
    name = run(folder)
    remove = "update runs set provenance = json_remove(provenance, '$.largest_group')"
    assert folder.abreast("sql", "--write", "results.db", remove).code == 0
    with open_store(folder.path / "results.db") as store:
        assert Rows(store, name).largest_group == 3
