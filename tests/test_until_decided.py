"""A run that stops when it is decided: by the rule, without partial cases, independent of the finishing order."""

from __future__ import annotations

import asyncio
import heapq
import json
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast import Experiment
from abreast.analyse.decision.sequential import UntilDecided
from abreast.analyse.decision.verdicts import DecisionRule
from abreast.execute.early_stopping import Decision
from abreast.execute.sources.trials import LEAD
from abreast.execute.state import RunState
from abreast.model import Case, Variant
from abreast.plan.plan import Plan
from abreast.spec.cases import load_cases
from abreast.spec.schema import Limits
from abreast.stats import watched
from conftest import Done, Folder
from test_durability import lines, until
from test_scheduler import Watch
from test_scheduler import plan_of as simulated_plan
from virtual import Memory, Rig, run

# -- the rule ----------------------------------------------------------------------------------------------------------


def plan_of(cases: int, variants: int = 2, repeats: int = 1, groups: Sequence[str | None] | None = None) -> Plan:
    table = load_cases(
        [Case(f"c{n}", f"q{n}", "yes", group=groups[n] if groups else None) for n in range(cases)], Path()
    )
    contenders = [Variant(f"v{n}", "simulated") for n in range(variants)]
    return Plan(table, contenders, [variant.name for variant in contenders], repeats, 0)


def decided(
    plan: Plan,
    scores: Sequence[float | None],
    order: Sequence[int],
    rule: DecisionRule | None = None,
    skipped: Collection[int] = (),
    **how: Any,
) -> Decision | None:
    """The decision if the trials end in this order."""
    rule = replace(rule or DecisionRule(), largest=plan.largest_group or 1)
    stop = UntilDecided(plan, "v0", "exact", rule, **how)
    for position in order:
        stop.observe(position, scores[position], position in skipped)
    return stop.decision


def in_turn(plan: Plan) -> list[int]:
    return [position for block in range(plan.blocks) for position in plan.dispatch(block)]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([0.0, 0.2]),
    st.floats(0.3, 0.9),
)
def test_the_order_in_which_trials_end_does_not_matter(
    seed: int, variants: int, repeats: int, grouped: bool, margin: float, better: float
) -> None:
    groups = [f"g{n // 3}" if n % 4 else None for n in range(90)] if grouped else None
    plan, chance = plan_of(90, variants, repeats, groups), random.Random(seed)
    scores = [
        None if chance.random() < 0.05 else float(chance.random() < (better if position % variants else 0.5))
        for position in range(len(plan))
    ]
    shuffled = in_turn(plan)
    chance.shuffle(shuffled)
    expected = decided(plan, scores, in_turn(plan), DecisionRule(margin))
    assert decided(plan, scores, shuffled, DecisionRule(margin)) == expected
    assert decided(plan, scores, range(len(plan)), DecisionRule(margin)) == expected


def completed(plan: Plan, seconds: Sequence[float], workers: int = 16) -> list[int]:
    """The order in which trials end if this many workers start them in turn."""
    free, ends = [0.0] * workers, []
    for position in in_turn(plan):
        end = heapq.heappop(free) + seconds[position]
        ends.append((end, position))
        heapq.heappush(free, end)
    return [position for _, position in sorted(ends)]


def test_slow_failures_do_not_make_a_variant_look_better() -> None:
    """No true difference, but failures of one side take ten times as long, so early finishers are not typical."""
    plan, chance = plan_of(200), np.random.default_rng(3)
    by_turn = by_end = 0
    for _ in range(150):
        right = chance.random(len(plan)) < 0.7
        slow = ~right & (np.arange(len(plan)) % 2 == 1)
        order = completed(plan, np.where(slow, 10.0, 1.0) * chance.uniform(0.8, 1.2, len(plan)))
        scores = right.astype(float).tolist()
        decision = decided(plan, scores, order)
        by_turn += decision is not None and decision.kind == "decided"
        ended = {position: at for at, position in enumerate(order)}
        cases = sorted(range(200), key=lambda case: max(ended[2 * case], ended[2 * case + 1]))
        differences = [scores[2 * case + 1] - scores[2 * case] for case in cases]
        by_end += any(look.low > 0 or look.high < 0 for look in watched(differences)[:-1])
    assert by_end / 150 > 0.09, "what looking at those that are finished would do"
    assert by_turn / 150 <= 0.05


def test_fewer_than_60_cases_are_never_decided_early() -> None:
    for cases, early in ((59, False), (60, True)):
        plan = plan_of(cases)
        scores = [float(position % 2) for position in range(len(plan))]
        assert (decided(plan, scores, in_turn(plan)) is not None) == early


def test_nothing_is_decided_before_the_minimum_number_of_cases() -> None:
    plan = plan_of(200)
    scores: list[float | None] = [float(position % 2) for position in range(len(plan))]
    decisions = [decided(plan, scores, in_turn(plan), min_cases=least) for least in (10, 30, 77)]
    assert [decision.cases for decision in decisions if decision] == [10, 30, 80], "at looks, which are ten cases apart"


def test_cases_that_cannot_be_compared_do_not_count() -> None:
    plan = plan_of(200)
    scores: list[float | None] = [float(position % 2) for position in range(len(plan))]
    for turn in range(0, 200, 2):  # every second case
        scores[2 * plan.case(turn)] = None
    decision = decided(plan, scores, in_turn(plan))
    assert decision is not None
    assert decision.cases == 60, "of which 30 are compared"


def test_one_trial_that_never_ends_holds_back_everything_after_it() -> None:
    plan = plan_of(200)
    scores = [float(position % 2) for position in range(len(plan))]
    order = in_turn(plan)
    assert decided(plan, scores, order[:38] + order[39:]) is None
    assert decided(plan, scores, order) is not None


def test_repeats_are_averaged_over_those_of_both_sides() -> None:
    plan = plan_of(100, repeats=2)
    scores: list[float | None] = [0.0] * len(plan)
    for case in range(100):
        scores[plan.position(case, 0, 1)] = 1.0  # a better one
        scores[plan.position(case, 1, 0)] = 1.0  # the baseline's second is right, and its pair is not there
        scores[plan.position(case, 1, 1)] = None
    skipped = [position for position, score in enumerate(scores) if score is None]
    decision = decided(plan, scores, in_turn(plan), skipped=skipped)
    assert decision is not None
    assert decision.reason == "decided: v1 is better than v0 after 30 of 100 cases"
    assert decided(plan, scores, in_turn(plan)) is None, "lost outcomes at their worst would change the word"


def test_cases_of_one_group_count_once() -> None:
    groups = [f"g{n // 10}" for n in range(300)]
    alone, together = plan_of(300), plan_of(300, groups=groups)
    scores = [float(position % 2) for position in range(600)]
    alone_decision, together_decision = (
        decided(alone, scores, in_turn(alone)),
        decided(together, scores, in_turn(together)),
    )
    assert alone_decision is not None
    assert together_decision is not None
    assert (alone_decision.cases, together_decision.cases > 90) == (30, True)


def test_several_variants_stop_when_each_is_settled_or_futile() -> None:
    plan, chance = plan_of(300, variants=3), random.Random(5)
    alike = [float(chance.random() < 0.5) for _ in range(300)]
    scores: list[float | None] = []
    for case in range(300):
        scores += [alike[case], 1.0 if alike[case] or case % 3 else 0.0, float(chance.random() < 0.5)]
    decision = decided(plan, scores, in_turn(plan))
    assert decision is not None
    assert decision.kind == "futile"
    assert decision.reason.startswith("futile: v1 is better than v0; the chance that the remaining ")
    assert " cases decide v2 is " in decision.reason
    for case in range(300):
        scores[3 * case + 2] = 0.0
    settled = decided(plan, scores, in_turn(plan))
    assert settled is not None
    assert settled.reason.startswith("decided: v1 is better than v0, v2 is worse than v0 after ")


def test_a_temporary_lead_does_not_stop_a_run() -> None:
    """One variant leads for 40 cases and then loses; the other is settled only after that."""
    plan = plan_of(300, variants=3)
    scores: list[float | None] = [None] * len(plan)
    for turn in range(300):
        leads = turn < 40
        for variant, score in enumerate([not leads, leads, 0]):
            scores[plan.position(plan.case(turn), 0, variant)] = float(score)
    decision = decided(plan, scores, in_turn(plan))
    assert decision is not None
    assert decision.reason.startswith("decided: v1 is worse than v0, v2 is worse than v0 after ")


# -- the scheduler -----------------------------------------------------------------------------------------------------


async def _decided_after(
    plan: Plan, targets: list[Any], limits: Limits, seconds: float, then_stop: bool = False
) -> tuple[Watch, int, RunState]:
    loop = asyncio.get_running_loop()
    watch, saved = Watch(), [0]
    never = SimpleNamespace(is_behind=lambda unjudged: False, is_decision_due=False)
    rig = Rig(plan, targets, limits, watch, Memory(), early_stopping=never)

    def decide() -> None:
        saved[0] = rig.trials.keep_begun_cases()
        if then_stop:
            rig.state.stop("test")

    loop.call_later(seconds, decide)
    await rig.run()
    return watch, saved[0], rig.state


def decided_after(plan: Plan, targets: list[Any], seconds: float, then_stop: bool = False, **limits: Any) -> Any:
    try:
        return run(_decided_after(plan, targets, Limits(**limits), seconds, then_stop))
    finally:
        plan.cases.close()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 20),
    st.floats(0.0, 12.0),
    st.sampled_from([{}, {"network": 0.3}, {"crash": 0.2, "network": 0.1}]),
)
def test_after_a_decision_every_begun_case_is_finished_and_no_other_is_started(
    variants: int, repeats: int, parallel: int, seconds: float, errors: dict[str, float]
) -> None:
    latency = {"low": 0.2, "high": 2.0}
    plan, targets = simulated_plan(60, [{"latency": latency, "errors": errors}] * variants, repeats)
    watch, saved, _ = decided_after(plan, targets, seconds, parallel=parallel, breaker=0)
    finished: dict[int, int] = {}
    for job, outcome in watch.finished_jobs:
        finished[job.case] = finished.get(job.case, 0) + 1
        assert job.attempt == 4 or outcome.failure is None or outcome.failure.kind == "crash", "retried as ever"
    assert set(finished.values()) <= {variants * repeats}
    assert {job.case for job in watch.starts} == set(finished)
    assert saved + len(watch.finished_jobs) == len(plan)


def test_a_stop_after_a_decision_ends_at_once() -> None:
    plan, targets = simulated_plan(60, [{"latency": 10.0}, {"latency": 10.0}], 2)
    watch, saved, scheduler = decided_after(plan, targets, 5.0, then_stop=True, parallel=3)
    assert scheduler.stopped == "test"
    assert len(watch.finished_jobs) == 3
    assert saved == 4 * 59 or saved == 4 * 58


def test_early_stopping_keeps_the_requested_number_in_flight() -> None:
    plan, targets = simulated_plan(400, [{"latency": {"low": 0.5, "high": 5.0}}] * 2, 1)
    watch, _, _ = decided_after(plan, targets, 1000.0, parallel=300)
    assert watch.most["all"] == 300


def test_a_quick_variant_does_not_run_ahead_of_a_slow_one() -> None:
    """Otherwise a decision would have to wait for all cases that the quick variant has begun."""
    plan, targets = simulated_plan(500, [{"latency": 0.01}, {"latency": 1.0}], 1)
    watch, saved, _ = decided_after(plan, targets, 10.0, per_variant=2, parallel=100)
    assert len({job.case for job in watch.starts}) <= 20 + 2 + LEAD + 2
    assert saved >= 2 * (500 - 60)


# -- through the front door --------------------------------------------------------------------------------------------


def spec(folder: Folder, cases: int, variants: dict[str, dict[str, Any]], **more: Any) -> str:
    extra = more.pop("extra", {})
    folder.cases(cases, **extra)
    contenders = {name: {"target": "simulated", **params} for name, params in variants.items()}
    content = {"name": "stops", "cases": "cases.jsonl", "variants": contenders, "scorers": ["exact"], **more}
    folder.write("spec.json", json.dumps(content))
    return "spec.json"


CLEAR = {"long": {"accuracy": 0.55, "cost_usd": 0.01}, "short": {"accuracy": 0.9, "cost_usd": 0.01}}
ALIKE = {"long": {"accuracy": 0.7}, "short": {"accuracy": 0.7}}


def the_run(folder: Folder, at: int = -1) -> dict[str, Any]:
    return dict(folder.abreast("runs", "--json").json[at])


def trials_by_case(folder: Folder, name: str) -> set[int]:
    """The number of rows of each case that has rows."""
    rows = folder.sql(f"select count(*) as n from predictions where run = '{name}' group by case_id")
    return {row["n"] for row in rows}


def stopped(folder: Folder, done: Done, per_case: int = 2) -> dict[str, Any]:
    """The row of a run that stopped early."""
    assert done.code == 0, done.output
    row = the_run(folder)
    assert row["status"] == "stopped_early", row
    assert trials_by_case(folder, row["run"]) == {per_case}, "no case in part"
    assert row["trials"] < row["planned"]
    return row


def test_a_clear_difference_stops_early_and_reports_the_savings(folder: Folder) -> None:
    done = folder.abreast("run", spec(folder, 300, CLEAR), "--until-decided", "--parallel", "4")
    row = stopped(folder, done)
    assert row["reason"].startswith("decided: short is better than long after ")
    saved = 600 - row["trials"]
    assert f" of 300 cases: {saved} trials were not needed (about ${saved * 0.01:.2f} saved)" in done.err
    assert f"abreast resume {row['run']}" in done.err
    assert f"{row['trials']}/{row['trials']}" in done.err, "progress reaches its end"
    assert "short is better than long by +" in done.out
    events = folder.sql("select detail from events where kind = 'decided'")
    (detail,) = [json.loads(event["detail"]) for event in events]
    assert (detail["planned"], detail["saved"], detail["outcome"]) == (300, saved, "decided")
    for words in (["runs"], ["show"], ["report", "--output", "there"], ["show", "--events"]):
        assert folder.abreast(*words).code == 0


def test_the_looks_of_a_run_can_be_reproduced_from_its_rows(folder: Folder) -> None:
    folder.abreast("run", spec(folder, 300, CLEAR, until_decided=True), "--parallel", "8", "--quiet")
    (event,) = folder.sql("select detail from events where kind = 'decided'")
    rows = folder.sql(
        "select t.variant, s.value from trials t join scores s using (run_id, position) order by t.block, t.variant"
    )
    differences = [second["value"] - first["value"] for first, second in zip(rows[::2], rows[1::2], strict=True)]
    looked = [look.n for look in watched(differences) if look.low > 0]
    assert max(30, looked[0]) == json.loads(event["detail"])["cases"]


@pytest.mark.parametrize("grouped", [False, True])
def test_the_report_states_the_decision_although_further_cases_were_finished(folder: Folder, grouped: bool) -> None:
    path = spec(folder, 200, {"long": {"accuracy": 0.6}, "short": {"accuracy": 0.8}}, limits={"parallel": 12})
    groups = [{"group": f"document {n // 2}"} if grouped else {} for n in range(200)]
    cases = [{"id": f"c{n}", "input": f"question {n}", "expected": "yes", **group} for n, group in enumerate(groups)]
    folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    decided_ones = 0
    for seed in range(6):
        words = ["--until-decided", "--fresh", "--quiet", "--json", "--seed", str(seed)]
        (row,) = folder.abreast("run", path, *words).json
        if (row["reason"] or "").startswith("decided"):
            decided_ones += 1
            assert f"short is {row['verdicts'][0]['verdict']} than long" in row["reason"]
    assert decided_ones >= 2


def test_json_says_that_it_stopped_early(folder: Folder) -> None:
    done = folder.abreast("run", spec(folder, 200, CLEAR), "--until-decided", "--json")
    (row,) = done.json
    assert row["status"] == "stopped_early"
    assert row["saved"] == 400 - row["executed_trials"]
    assert row["verdicts"][0]["verdict"] == "better"


def test_without_a_difference_a_run_gives_up_or_goes_to_the_end(folder: Folder) -> None:
    done = folder.abreast("run", spec(folder, 400, ALIKE), "--until-decided")
    row = stopped(folder, done)
    assert row["reason"].startswith("futile: the chance that the remaining ")
    assert "given up as futile after " in done.err
    assert "inconclusive: short vs long" in done.out


def test_a_margin_can_make_variants_equivalent(folder: Folder) -> None:
    done = folder.abreast("run", spec(folder, 600, ALIKE), "--until-decided", "--margin", "0.25")
    row = stopped(folder, done)
    assert row["reason"].startswith("decided: short is equivalent to long within ±0.25 after ")
    assert folder.abreast("show", "--json").json[0]["spec"]["margin"] == 0.25


def test_aa_gives_up_and_finds_nothing(folder: Folder) -> None:
    done = folder.abreast("aa", spec(folder, 400, ALIKE), "--until-decided", "--margin", "0.25")
    stopped(folder, done)


def test_fewer_than_60_cases_run_to_the_end_with_a_notice_before(folder: Folder) -> None:
    done = folder.abreast("run", spec(folder, 59, CLEAR), "--until-decided")
    assert "early stop: 59 cases are fewer than 60: the verdict comes at the end" in done.err
    assert (done.code, the_run(folder)["status"], the_run(folder)["trials"]) == (0, "complete", 118)


def test_early_stopping_works_with_repeats_groups_and_three_variants(folder: Folder) -> None:
    variants = {**CLEAR, "silent": {"accuracy": 0.05}}
    path = spec(folder, 240, variants, repeats=2, limits={"parallel": 16})
    cases = [
        {"id": f"c{n}", "input": f"question {n}", "expected": "yes", "group": f"document {n // 3}"} for n in range(240)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    row = stopped(folder, folder.abreast("run", path, "--until-decided"), per_case=6)
    assert "short is better than long" in row["reason"]
    assert "silent is worse than long" in row["reason"]


def test_begun_cases_are_retried_and_finished_despite_errors(folder: Folder) -> None:
    errors = {"errors": {"network": 0.1, "timeout": 0.05}, "latency": 0.001}
    variants = {name: {**params, **errors} for name, params in CLEAR.items()}
    path = spec(folder, 300, variants, limits={"parallel": 8, "breaker": 0})
    row = stopped(folder, folder.abreast("run", path, "--until-decided"))
    assert row["trials"] < 300, "those that wait for another attempt do not let all others be paid for"


def test_starts_wait_for_a_slow_scorer(folder: Folder) -> None:
    folder.write(
        "mine.py",
        "import time\ndef slow(answer, expected):\n    time.sleep(0.003)\n    return answer.text == expected\n",
    )
    path = spec(folder, 400, CLEAR, scorers=["python:mine:slow"], limits={"parallel": 4})
    row = stopped(folder, folder.abreast("run", path, "--until-decided"))
    (event,) = folder.sql("select detail from events where kind = 'decided'")
    assert row["trials"] <= 2 * json.loads(event["detail"])["cases"] + 64 + 4 * 4
    assert folder.sql("select count(*) as n from scores")[0]["n"] == row["trials"], "all are scored at the end"


def test_resume_continues_to_the_planned_number(folder: Folder) -> None:
    path = spec(folder, 150, CLEAR, until_decided=True)
    name = stopped(folder, folder.abreast("run", path))["run"]
    advice = f"abreast resume {name} --store results.db` to continue the one that stopped early"
    assert advice in folder.abreast("resume").err
    done = folder.abreast("resume", name)
    assert done.code == 0, done.err
    row = the_run(folder)
    assert (row["run"], row["status"], row["trials"], row["reason"]) == (name, "complete", 300, None)


def test_a_new_run_is_decided_by_reused_answers_before_any_cost(folder: Folder) -> None:
    path = spec(folder, 150, CLEAR)
    first = stopped(folder, folder.abreast("run", path, "--until-decided"))
    done = folder.abreast("run", path, "--until-decided", "--json")
    second = stopped(folder, done)
    assert done.json[0]["executed"] == 0
    assert second["run"] != first["run"]
    assert (second["trials"], second["reason"]) == (first["trials"], first["reason"])
    full = folder.abreast("run", path, "--json")
    assert (full.json[0]["status"], full.json[0]["executed"]) == ("complete", 300 - first["trials"])
    second = folder.abreast("run", path, "--until-decided", "--json")
    assert (second.json[0]["status"], second.json[0]["executed"]) == ("complete", 0), "all trials are stored already"


def test_stored_answers_are_rescored_before_any_cost(folder: Folder) -> None:
    folder.write("mine.py", "def right(answer, expected):\n    return answer.text == expected\n")
    assert folder.abreast("run", spec(folder, 150, CLEAR), "--until-decided").code == 0
    done = folder.abreast("run", spec(folder, 150, CLEAR, scorers=["python:mine:right"]), "--until-decided", "--json")
    stopped(folder, done)
    assert done.json[0]["executed"] == 0


def test_a_reused_baseline_costs_nothing_beyond_the_decision(folder: Folder) -> None:
    only = {"long": CLEAR["long"]}
    assert folder.abreast("run", spec(folder, 300, only)).code == 0
    done = folder.abreast("run", spec(folder, 300, CLEAR), "--until-decided", "--parallel", "4", "--json")
    assert (done.code, done.json[0]["status"]) == (0, "stopped_early")
    assert done.json[0]["executed"] < 150, "of the other one; what is taken over needs no pair"


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_a_killed_run_can_be_resumed_and_still_stops_early(folder: Folder, store: str) -> None:
    variants = {name: {**params, "latency": 0.02} for name, params in CLEAR.items()}
    path = spec(folder, 300, variants, store=store, limits={"parallel": 4})
    process = folder.start("run", path, "--until-decided", "--quiet", "--events", "events.jsonl")
    until(lambda: sum('"trial_stored"' in line for line in lines(folder.path / "events.jsonl")) >= 21, "rows", process)
    process.kill()
    process.communicate()
    done = folder.abreast("resume", "--store", store)
    assert done.code == 0, done.err
    (row,) = folder.abreast("runs", "--json", "--store", store).json
    assert row["status"] == "stopped_early"
    counts = folder.sql("select count(*) as n from predictions group by case_id", store)
    assert {row["n"] for row in counts} == {2}, "what the killed process began is finished too"


def test_a_begun_case_is_finished_even_if_the_run_is_decided_at_the_start(folder: Folder) -> None:
    """As after a kill between the decision and the last row."""
    variants = {name: {**params, "latency": 0.005} for name, params in CLEAR.items()}
    path = spec(folder, 300, variants, limits={"parallel": 8})
    first = stopped(folder, folder.abreast("run", path, "--until-decided"))
    last = "position = (select position from trials order by block desc limit 1)"
    assert folder.abreast("sql", "--write", "results.db", f"delete from trials where {last}").code == 0
    done = folder.abreast("resume", first["run"], "--until-decided", "--json")
    second = stopped(folder, done)
    assert done.json[0]["executed"] == 1
    assert (second["trials"], second["reason"]) == (first["trials"], first["reason"])


def test_early_stopping_in_python(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)
    experiment = Experiment(
        cases=[{"id": f"c{n}", "input": f"question {n}", "expected": "yes"} for n in range(200)],
        variants={"long": {"accuracy": 0.5}, "short": {"accuracy": 0.95}},
        target="simulated",
        scorers=["exact"],
    )
    result = experiment.run(until_decided=True, margin=0.05)
    assert (result.status, result.stopped) == ("stopped_early", "decided")
    assert result.decision is not None
    assert result.decision.cases < 200
    assert result.saved == 400 - len(result.rows())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("margin", 2, "margin must be a number above 0 and below 1"),
        ("margin", 0, "margin must be a number above 0 and below 1"),
        ("margin", "5 %", "margin must be a number above 0 and below 1"),
        ("min_cases", 5, "min_cases must be a whole number of at least 10"),
        ("until_decided", "sometimes", "until_decided must be true or false"),
    ],
)
def test_an_invalid_setting_is_refused_with_a_fix(folder: Folder, key: str, value: Any, message: str) -> None:
    done = folder.abreast("check", spec(folder, 60, CLEAR, **{key: value}))
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--margin", "0"], "--margin 0: must be above 0 and below 1"),
        (["--margin", "nan"], "--margin nan: must be above 0 and below 1"),
        (["--min-cases", "3"], "--min-cases 3: must be a whole number of at least 10"),
    ],
)
def test_an_invalid_option_is_refused(folder: Folder, words: list[str], message: str) -> None:
    done = folder.abreast("run", spec(folder, 60, CLEAR), "--until-decided", *words)
    assert done.code == 2
    assert message in done.err


def test_early_stopping_without_a_decision_is_refused(folder: Folder) -> None:
    alone = folder.abreast("run", spec(folder, 60, {"long": CLEAR["long"]}), "--until-decided")
    assert (alone.code, "one variant: there is nothing to decide" in alone.err) == (4, True)
    silent = folder.abreast("run", spec(folder, 60, CLEAR, scorers=[]), "--until-decided")
    assert (silent.code, "no scorer: nothing can be decided" in silent.err) == (4, True)


def test_the_option_changes_neither_the_plan_nor_the_reused_answers(folder: Folder) -> None:
    path = spec(folder, 60, ALIKE)
    assert folder.abreast("run", path).code == 0
    done = folder.abreast("run", path, "--until-decided", "--margin", "0.1", "--min-cases", "40", "--json")
    assert (done.json[0]["executed"], done.json[0]["status"]) == (0, "complete")


def test_a_margin_cannot_change_once_a_run_has_begun(folder: Folder) -> None:
    folder.cases(100)
    spec = "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {}, b: {errors: {network: 1.0}}}\nscorers: [exact]\n"
    folder.write("spec.yaml", spec + "limits: {retries: 0, breaker: 1}\n")
    assert folder.abreast("run", "spec.yaml", "--quiet", "--margin", "0.05").code == 3
    done = folder.abreast("run", "spec.yaml", "--quiet", "--margin", "0.3")
    assert done.code == 4
    assert "was started with a margin of 0.05 and is not finished; the decision rule of a run cannot change" in done.err
    assert "--margin cannot change in a started run" in folder.abreast("resume", "--margin", "0.3").err
    assert folder.abreast("report", "--json").json[0]["margin"] == 0.05


def test_a_run_decided_by_stored_answers_warms_nothing_up(folder: Folder) -> None:
    def experiment(**options: Any) -> Experiment:
        variants = {name: {"accuracy": value, "warmup": True} for name, value in (("bad", 0.0), ("good", 1.0))}
        cases = [{"id": f"c{n}", "input": f"q{n}", "expected": f"q{n}"} for n in range(300)]
        store = str(folder.path / "results.db")
        return Experiment(
            cases=cases, variants=variants, target="simulated", scorers=["exact"], store=store, name="e", **options
        )

    experiment().run(limit=150, parallel=8)
    result = experiment(until_decided=True).run(parallel=8)
    assert (result.status, result.executed) == ("stopped_early", 0)
    assert folder.sql("select count(distinct run_id) as runs from events where kind = 'warmup'") == [{"runs": 1}]
