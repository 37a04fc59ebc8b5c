"""Random runs of every kind, analysed by the product and by `naive.py`: the results must agree."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import naive
from abreast import Answer, Case, Experiment
from abreast.analyse.compare import compare
from abreast.analyse.run import Analysis, analyse
from abreast.errors import Skipped, Transient
from abreast.report.formats import catalogue, json_report
from abreast.stats import cost_per_correct, latency_ratio, pass_at_k, pass_hat_k
from abreast.store import Store, open_store

_SCRIPT: dict[tuple[str, str], list[tuple[str, float | None]]] = {}  # answers and their costs


def scripted(case: Case, side: str) -> Answer:
    """The next answer of the script."""
    word, cost = _SCRIPT[case.id, side].pop()
    if word == "crash":
        raise ValueError("broken")
    if word == "network":
        raise Transient("the line is down")
    if word == "skip":
        raise Skipped("does not apply")
    return Answer(word, cost_usd=cost, cost_basis="unknown" if cost is None else "reported")


def points(text: str) -> float | None:
    return None if text == "none" else float(text)


def brief(text: str) -> float:
    return 1.0 if len(text) < 4 else 0.25


class Shape:
    """The shape of a run; everything else follows from the seed."""

    def __init__(self, seed: int, cases: int, variants: int, repeats: int) -> None:
        self.chance = chance = random.Random(seed)
        self.cases, self.variants, self.repeats = cases, [f"v{n}" for n in range(variants)], repeats
        self.words = chance.choice(
            [["0", "1"], ["0", "1"], ["0", "0.25", "0.5", "1"], [f"{n / 13:.4f}" for n in range(13)]]
        )
        self.lean = [chance.choice([0.0, 0.0, 0.2, 0.6]) for _ in self.variants]
        self.trouble = chance.choice(
            [{}, {}, {"crash": 0.1}, {"network": 0.1, "skip": 0.05, "none": 0.1, "crash": 0.1}]
        )
        self.group_size = chance.choice([0, 0, 0, 1, 3, 9])
        self.weight: Any = chance.choice(["case", "case", "group"])
        self.margin = chance.choice([None, None, 0.1, 0.4])
        self.costs = chance.choice(["known", "unknown", "partly"])
        self.seed = chance.randrange(100)
        self.gaps = chance.choice([0.0, 0.0, 0.0, 0.01, 0.2])
        self.several = chance.random() < 0.3

    def word(self, variant: int) -> str:
        for trouble, share in self.trouble.items():
            if self.chance.random() < share:
                return trouble
        return self.words[-1] if self.chance.random() < self.lean[variant] else self.chance.choice(self.words)

    def cost(self) -> float | None:
        is_known = {"known": True, "unknown": False, "partly": self.chance.random() < 0.9}[self.costs]
        return round(self.chance.random(), 3) if is_known else None

    def case(self, number: int) -> Case:
        tags = {"kind": self.chance.choice(["easy", "hard", "ünï"]), "even": str(number % 2 == 0)}
        if self.chance.random() < 0.3:
            del tags["kind"]
        group = f"g{number // self.group_size}" if self.group_size and self.chance.random() < 0.9 else None
        return Case(f"c{number}", f"question {number}", tags=tags, group=group)


def executed(shape: Shape, path: Path, run: int = 1) -> None:
    """Run an experiment of this shape, then delete some rows as if it had been killed."""
    for number in range(shape.cases):
        for index, side in enumerate(shape.variants):
            _SCRIPT[f"c{number}", side] = [(shape.word(index), shape.cost()) for _ in range(shape.repeats)]
    experiment = Experiment(
        cases=[shape.case(number) for number in range(shape.cases)],
        variants={side: {"side": side} for side in shape.variants},
        target=scripted,
        baseline=shape.chance.choice(shape.variants),
        scorers=[points, brief] if shape.several else [points],
        repeats=shape.repeats,
        margin=shape.margin,
        weight=shape.weight,
        seed=shape.seed,
        limits={"retries": 0, "breaker": 0, "parallel": 3},
        store=path,
    )
    experiment.run(fresh=True)
    rows = shape.cases * len(shape.variants) * shape.repeats
    missing = [position for position in range(rows) if shape.chance.random() < shape.gaps]
    if missing:
        with open_store(path) as store, store.change() as connection:
            for position in missing:
                if position % 2:
                    connection.execute("DELETE FROM trials WHERE run_id = ? AND position = ?", (run, position))
                else:
                    connection.execute(
                        "UPDATE trials SET status = 'cancelled', error_kind = 'cancelled', error_blame = 'unknown' "
                        "WHERE run_id = ? AND position = ?",
                        (run, position),
                    )


def read(store: Store, metric: str, name: str = "latest") -> naive.Run:
    """Read the rows of a run from the store."""
    record = store.run(name)
    run_id = record["run_id"]
    spec = json.loads(record["spec"])
    names = [row[0] for row in store.rows("SELECT name FROM variants WHERE run_id = ? ORDER BY variant", (run_id,))]
    per_case = len(names) * spec["repeats"]
    run = naive.Run(
        names,
        spec["repeats"],
        record["planned_trials"] // per_case,
        names.index(record["baseline"]),
        spec.get("margin") or 0.0,
        {},
        {},
        {},
        {},
        spec["weight"],
    )
    rows = store.dicts(
        "SELECT t.*, c.id, c.tags, c.case_group FROM trials t JOIN cases c ON c.digest = t.case_digest "
        "WHERE t.run_id = ?",
        (run_id,),
    )
    for row in rows:
        case = row["position"] // per_case
        run.trials[case, row["variant"], row["repeat"]] = row
        run.tags[case], run.groups[case] = json.loads(row["tags"]), row["case_group"]
    sizes = Counter(group for group in run.groups.values() if group is not None)
    stored_size = json.loads(record["provenance"]).get("largest_group")
    run.largest_group = stored_size or max(sizes.values(), default=1)
    planned = dict(store.rows("SELECT id, case_group FROM cases"))
    run.planned_groups = [planned.get(f"c{case}") for case in range(run.planned_cases)]
    scores = store.rows("SELECT position, value FROM scores WHERE run_id = ? AND name = ?", (run_id, metric))
    for position, value in scores:
        block, variant = divmod(position, len(names))
        run.scores[block // spec["repeats"], variant, block % spec["repeats"]] = value
    return run


def approx(value: Any, tolerance: float = 1e-6) -> Any:
    return pytest.approx(value, abs=tolerance)


def check_verdicts(store: Store, analysis: Analysis, all_pairs: bool) -> None:
    content = json.loads(catalogue.text(catalogue.ReportRequest(analysis), "json"))
    metrics = list(dict.fromkeys(row["metric"] for row in content["verdicts"]))
    for metric in metrics:
        run = read(store, metric)
        others = [index for index in range(len(run.variants)) if index != run.baseline]
        questions = [(run.baseline, index) for index in others]
        questions += list(combinations(others, 2)) if all_pairs else []
        rows = [row for row in content["verdicts"] if row["metric"] == metric]
        expected = naive.decide(run, questions)
        assert len(rows) == len(questions)
        for row, question in zip(rows, questions, strict=True):
            data, decided = expected[question]
            assert (row["baseline"], row["variant"]) == tuple(run.variants[index] for index in question)
            if decided is None:
                assert (row["effect"], row["interval"], row["verdict"]) == (None, None, "no comparison")
                assert (row["p"], row["wins"], row["losses"], row["ties"]) == (None, 0, 0, 0)
                continue
            check_counts(row, run, data)
            effect = naive.estimate(naive.units_of(run, data.cases, data.differences))
            assert row["effect"] == approx(effect)
            assert row["scores"]["variant"] - row["scores"]["baseline"] == approx(effect)
            is_sampled = row["population"] == "these cases"  # the oracle counts all rearrangements
            assert row["p"] == approx(decided.p, 0.02 if is_sampled else 1e-5)
            if is_sampled and abs(decided.p - (1 - decided.level)) < 0.02:
                continue  # the sample may decide otherwise
            assert row["verdict"] == decided.word
            assert (row["interval"] is None) == (decided.level == 1)
            if row["interval"]:
                assert row["interval"] == [approx(decided.low), approx(decided.high)]
                assert decided.low <= effect <= decided.high
                assert row["level"] == approx(decided.level)
        ps = [row["p"] for row in rows if row["p"] is not None]
        assert [row["p_adjusted"] for row in rows if row["p"] is not None] == [approx(p) for p in naive.holm(ps)]


def check_counts(row: dict[str, Any], run: naive.Run, data: naive.Compared) -> None:
    """Check that each planned case is counted exactly once."""
    assert row["cases"] == len(data.differences) == row["wins"] + row["losses"] + row["ties"]
    assert row["wins"] == sum(value > 0 for value in data.differences)
    assert row["losses"] == sum(value < 0 for value in data.differences)
    assert Counter(row["dropped"]) == data.dropped
    assert row["dropped_cases"] == sum(data.dropped.values())
    assert row["waiting_cases"] == naive.complete(run) - len(naive.counted(run))
    assert row["not_run_cases"] == run.planned_cases - naive.complete(run)
    total = row["cases"] + row["dropped_cases"] + row["waiting_cases"] + row["not_run_cases"]
    assert total == row["planned_cases"] == run.planned_cases
    assert row["repeats_left_out"] == data.repeats_left_out
    bounds = naive.bounds(run, data)
    assert row["bounds"] == (None if bounds is None else [approx(end) for end in bounds])


def check_variants(store: Store, analysis: Analysis) -> None:
    run, content = read(store, "points"), json_report.report(analysis)
    assert sum(row["trials"] for row in content["variants"].values()) == content["executed_trials"]
    for index, name in enumerate(run.variants):
        row, own_trials = content["variants"][name], {key: t for key, t in run.trials.items() if key[1] == index}
        statuses = Counter(trial["status"] for trial in own_trials.values())
        assert row["trials"] == len(own_trials) - statuses["cancelled"]
        assert row["trials"] == row["ok"] + sum(row["errors"].values()) + row["skipped"]
        assert sum(row["errors_by_blame"].values()) == sum(row["errors"].values()) == statuses["error"]
        assert row["unscored"] == sum(t["status"] == "ok" and run.score(key) is None for key, t in own_trials.items())
        accuracy = naive.accuracy(run, index)
        assert row["accuracy"] == (None if accuracy is None else approx(accuracy))
        assert row["all_failed"] == (not statuses["ok"] and statuses["error"] > 0)
        by_case: defaultdict[int, list[float]] = defaultdict(list)
        for key in own_trials:
            if (score := run.score(key)) is not None:
                by_case[key[0]].append(score)
        cases, means = scores_in_tables(run, index)
        if not means:
            assert "points" not in row["scores"]
            continue
        score = row["scores"]["points"]
        low, high = score["interval"]
        assert score["mean"] == approx(naive.estimate(naive.units_of(run, cases, means)))
        assert 0 <= low <= score["mean"] + 1e-9
        assert score["mean"] - 1e-9 <= high <= 1
        check_repeats(row, run.repeats, [scores for scores in by_case.values() if len(scores) == run.repeats])


def scores_in_tables(run: naive.Run, variant: int) -> tuple[list[int], list[float]]:
    """The cases whose scores the tables show for a variant (those it is compared on), with their means."""
    others = [index for index in range(len(run.variants)) if index != run.baseline]
    partners = others if variant == run.baseline else [run.baseline]
    cases, means = [], []
    for case in naive.counted(run) if others else sorted({case for case, _, _ in run.trials}):
        scores = []
        for repeat in range(run.repeats):
            keys = [(case, index, repeat) for index in partners]
            if (case, variant, repeat) in run.trials and (own := run.score((case, variant, repeat))) is not None:
                scores += [own] if not others or any(run.score(key) is not None for key in keys) else []
        if scores:
            cases.append(case)
            means.append(sum(scores) / len(scores))
    return cases, means


def check_repeats(row: dict[str, Any], repeats: int, scores_by_case: list[list[float]]) -> None:
    if repeats == 1 or not scores_by_case:
        assert (row["pass_at_k"], row["consistent"]) == ({}, None)
        return
    assert row["consistent"] == approx(sum(len(set(scores)) == 1 for scores in scores_by_case) / len(scores_by_case))
    if any(score not in (0, 1) for scores in scores_by_case for score in scores):
        assert row["pass_at_k"] == row["pass_hat_k"] == {}
        return
    for k in range(1, repeats + 1):
        right = [int(sum(scores)) for scores in scores_by_case]
        assert row["pass_at_k"][str(k)] == approx(sum(pass_at_k(repeats, c, k) for c in right) / len(scores_by_case))
        assert row["pass_hat_k"][str(k)] == approx(sum(pass_hat_k(repeats, c, k) for c in right) / len(scores_by_case))


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def check_prices_and_times(store: Store, analysis: Analysis) -> None:
    run = read(store, "points")
    answered: defaultdict[int, list[float | None]] = defaultdict(list)
    for (_, index, _), trial in run.trials.items():
        if trial["status"] == "ok":
            answered[index].append(trial["cost_usd"])
    for item in analysis.comparisons:
        question = [run.variants.index(name) for name in (item.baseline, item.variant)]
        times, prices = [], []
        timed_groups, priced_groups = [], []
        for case in naive.counted(run):
            group = run.groups[case] or f"only {case}"
            mean_pairs = []
            both = [[run.trials[case, index, repeat] for index in question] for repeat in range(run.repeats)]
            timed = [pair for pair in both if all(row["status"] == "ok" and row["service_s"] > 0 for row in pair)]
            sides = [mean([pair[at]["service_s"] for pair in timed]) for at in (0, 1)]
            for index in question:
                rows = [run.trials[case, index, repeat] for repeat in range(run.repeats)]
                costs = answered[index]
                known_costs = [cost for cost in costs if cost is not None]
                cost_and_score = []
                for repeat, row in enumerate(rows):
                    score, cost = run.score((case, index, repeat)), row["cost_usd"]
                    if row["status"] == "error" and row["error_blame"] == "variant" and cost is None and known_costs:
                        cost = sum(known_costs) / len(known_costs)
                    if score is not None and cost is not None and len(known_costs) == len(costs):
                        cost_and_score.append((cost, score))
                mean_pairs.append([mean([pair[at] for pair in cost_and_score]) for at in (0, 1)])
            if None not in sides:
                times.append(sides)
                timed_groups.append(group)
            if all(value is not None for side in mean_pairs for value in side):
                prices.append([*mean_pairs[0], *mean_pairs[1]])
                priced_groups.append(group)
        latency, cost = item.pairs.latency, item.pairs.cost
        assert (latency is None) == (not times)
        if latency:
            expected = latency_ratio(*zip(*times, strict=True), groups=timed_groups)  # type: ignore[misc]
            assert (latency.estimate, latency.n) == (approx(expected.estimate), expected.n)
            assert (latency.low, latency.high) == (approx(expected.low), approx(expected.high))
        assert (cost is None) == (not prices)
        if cost:
            expected_price = cost_per_correct(*zip(*prices, strict=True), groups=priced_groups)  # type: ignore[arg-type]
            assert (cost.a.estimate, cost.b.estimate) == (
                approx(expected_price.a.estimate),
                approx(expected_price.b.estimate),
            )
            assert (cost.b.low, cost.b.high) == (approx(expected_price.b.low), approx(expected_price.b.high))
            assert (cost.ratio is None) == (expected_price.ratio is None)


def check_segments(store: Store, analysis: Analysis) -> None:
    run = read(store, "points")
    expected = []
    for item in analysis.comparisons:
        data = naive.compared(run, *(run.variants.index(name) for name in (item.baseline, item.variant)))
        values = sorted({(tag, value) for case in data.cases for tag, value in run.tags[case].items()})
        for tag, value in values:
            among = [(c, d) for c, d in zip(data.cases, data.differences, strict=True) if run.tags[c].get(tag) == value]
            if not 10 <= len(among) < len(data.cases):
                continue
            ends = naive.final(run, [case for case, _ in among], [difference for _, difference in among], 0.95)
            tagged = sum(run.tags[case].get(tag) == value for case in naive.counted(run))
            expected.append((item.variant, tag, value, len(among), tagged - len(among), ends))
    qs = naive.benjamini_hochberg([ends[2] for *_, ends in expected])
    assert len(analysis.segments) == len(expected)
    for segment, (variant, tag, value, cases, dropped, (low, high, p)), q in zip(
        analysis.segments, expected, qs, strict=True
    ):
        assert (segment.variant, segment.tag, segment.value, segment.cases, segment.dropped) == (
            variant,
            tag,
            value,
            cases,
            dropped,
        )
        assert (segment.estimate.low, segment.estimate.high) == (approx(low), approx(high))
        assert (segment.estimate.p, segment.q) == (approx(p, 1e-5), approx(q, 1e-4))
        if segment.word != "inconclusive":
            assert q <= 0.05 + 1e-4
            assert low > 0 if segment.word == "better" else high < 0


def check_words(analysis: Analysis) -> None:
    """Check that every format states the same results, and that none prints `nan`."""
    for item in analysis.comparisons:
        result = item.verdict
        if result.interval is None:
            continue
        assert result.interval.low <= result.interval.estimate <= result.interval.high
        word = result.demoted or result.word
        assert (result.interval.low > 0) == (word == "better")
        assert (result.interval.high < 0) == (word == "worse")
    summary = json_report.report(analysis)["summary"]
    request = catalogue.ReportRequest(analysis)
    terminal = " ".join(catalogue.text(request, "terminal").split())
    for line in summary:
        assert " ".join(line.split()) in terminal
    for form in ("markdown", "junit", "csv"):
        text = catalogue.text(request, form)
        assert "nan" not in text
        for item in analysis.comparisons:
            counts = f"{item.verdict.wins} win"
            assert form == "csv" or not item.cases or counts in text


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],  # a seed does not shrink
)
@given(
    st.integers(0, 2**32),
    st.one_of(st.integers(1, 5), st.integers(6, 30), st.integers(55, 80)),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
)
@pytest.mark.heavy
def test_the_analysis_finds_what_the_rules_say(seed: int, cases: int, variants: int, repeats: int, pairs: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        executed(Shape(seed, cases, variants, repeats), path)
        with open_store(path) as store:
            analysis = analyse(store, "latest", all_pairs=pairs)
            check_verdicts(store, analysis, pairs)
            check_variants(store, analysis)
            check_prices_and_times(store, analysis)
            check_segments(store, analysis)
            check_words(analysis)


def check_across(store: Store, names: list[str]) -> None:
    """Check comparisons of two runs in both directions: each case is counted once, and differences match the rows."""
    comparisons = {item.second.variant: item for item in compare([store], names, None, 0.0)}
    reverse = {item.second.variant: item for item in compare([store], names[::-1], None, 0.0)}
    runs = [read(store, "points", name) for name in names]
    ids = [{row["id"]: case for (case, _, _), row in run.trials.items()} for run in runs]
    counted_cases = [set(naive.counted(run)) for run in runs]
    assert set(comparisons) == set(reverse) == set(runs[0].variants) & set(runs[1].variants)
    for name, item in comparisons.items():
        expected = []
        for case_id in set(ids[0]) & set(ids[1]):
            cases = [positions[case_id] for positions in ids]
            if not all(case in done for case, done in zip(cases, counted_cases, strict=True)):
                assert case_id in item.match.unfinished
                continue
            both = []
            for repeat in range(min(run.repeats for run in runs)):
                scores = [
                    run.score((case, run.variants.index(name), repeat)) for run, case in zip(runs, cases, strict=True)
                ]
                if None not in scores:
                    both.append(scores[1] - scores[0])  # type: ignore[operator]
            if both:
                expected.append(sum(both) / len(both))
        match, pairs = item.match, item.comparison.pairs
        assert sorted(pairs.differences.tolist()) == approx(sorted(expected))
        assert set(match.only_first) == set(ids[0]) - set(ids[1])
        assert set(match.only_second) == set(ids[1]) - set(ids[0])
        assert len(pairs.cases) + pairs.dropped + len(match.unfinished) == len(set(ids[0]) & set(ids[1]))
        forward, backward = item.comparison.verdict, reverse[name].comparison.verdict
        assert {forward.word, backward.word} in ({"better", "worse"}, {"inconclusive"}, {"no comparison"})
        assert (forward.wins, forward.losses, forward.ties) == (backward.losses, backward.wins, backward.ties)
        assert forward.p == approx(backward.p)
        if forward.interval and backward.interval:
            assert (forward.interval.low, forward.interval.high) == (
                approx(-backward.interval.high),
                approx(-backward.interval.low),
            )


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=2, max_size=2), st.data())
def test_runs_are_compared_as_the_rules_say(seed: int, cases: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        for number, count in enumerate(cases):
            shape = Shape(seed + number, count, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
            shape.group_size *= 1 - number  # if both runs have groups, those of the first count
            shape.weight = "case" if seed % 2 else "group"
            executed(shape, path, number + 1)
        with open_store(path) as store:
            check_across(store, [row["run"] for row in store.runs()])
