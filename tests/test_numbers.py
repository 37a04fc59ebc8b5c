"""The suite `numbers`: every series decides its query, and the wording of an answer does not change its score."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from abreast.errors import BadInput, Skipped
from abreast.model import Answer, Case
from abreast.suites.numbers import conditions
from abreast.suites.numbers.cases import cases
from abreast.suites.numbers.dataset import anomalies, series
from abreast.suites.numbers.dataset.queries import QUERIES
from abreast.suites.numbers.dataset.series import PERTURBATIONS
from abreast.suites.numbers.dataset.tasks import TASKS
from abreast.suites.numbers.scoring import score

ALL = list(cases())


def case(query: str, expected: Any, **columns: list[Any]) -> Case:
    """A hand-made case with this query about these columns."""
    data = columns or {"value": [1.0, 2.0, 3.0]}
    size = max(map(len, data.values()))
    case_input = {
        "query": query,
        "question": QUERIES[query].question,
        "columns": data,
        "size": size,
        "source": "here",
    }
    return Case(query, case_input, expected)


def marks(query: str, expected: Any, text: str, **columns: list[Any]) -> float | None:
    return score(case(query, expected, **columns), Answer(text))["correct"]


# -- data -------------------------------------------------------------------------------------------------------------


def test_thirty_trials_of_each_task_are_180_cases_and_five_are_their_beginning() -> None:
    assert len(ALL) == 180
    assert {task: sum(item["tags"]["task"] == task for item in ALL) for task in TASKS} == dict.fromkeys(TASKS, 30)
    quick = [item for item in ALL if int(item["id"][-3:]) < 5]
    assert list(cases(trials=5)) == quick
    assert list(cases(trials=5, tasks=["scaling", "trend"])) == [
        item for item in quick if item["tags"]["task"] in ("trend", "scaling")
    ]


def test_every_trial_is_a_new_series_and_another_seed_draws_others() -> None:
    series_texts = [json.dumps(item["input"]["columns"]) for item in ALL if item["input"]["source"] != "flat_line"]
    assert len(set(series_texts)) == len(series_texts)
    others = [json.dumps(item["input"]["columns"]) for item in cases(trials=3, seed=7)]
    assert not set(series_texts) & set(others)
    assert json.dumps(list(cases(trials=3, seed=7))) == json.dumps(list(cases(trials=3, seed=7)))


def test_queries_are_balanced_to_within_one_in_any_prefix_of_a_task() -> None:
    for name, task in TASKS.items():
        queries = [item["input"]["query"] for item in ALL if item["tags"]["task"] == name]
        for length in range(1, 31):
            counts = [queries[:length].count(query) for query in task.queries]
            assert max(counts) - min(counts) <= 1


def test_every_query_and_every_generator_is_drawn() -> None:
    many = list(cases(trials=150, tasks=[task for task in TASKS if task != "scaling"]))
    assert {item["input"]["query"] for item in many} == set(QUERIES)
    sources = {item["input"]["source"].partition(",")[0] for item in many} | {"wide_normal"}
    assert sources == set(series.GENERATORS)
    assert {item["input"]["source"].partition(", ")[2] for item in many} >= {"clean", "spike", "drop", "level shift"}


def by_hand(query: str, columns: dict[str, list[float | None]]) -> Any:
    """The same figures computed independently: with the standard library or a formula written out."""
    first = columns.get("close") or next(iter(columns.values()))
    values = [item for item in first if item is not None]
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    at = [index for index, item in enumerate(first) if item is not None]
    slope, intercept = statistics.linear_regression(at, values)
    ordered = sorted(values)

    def quantile(share: float) -> float:
        position = share * (len(ordered) - 1)
        low = math.floor(position)
        return ordered[low] + (position - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])

    moments = [sum((item - mean) ** power for item in values) / len(values) for power in (2, 3)]
    figures = {
        "mean": mean,
        "median": statistics.median(values),
        "std": spread,
        "min": ordered[0],
        "max": ordered[-1],
        "p25": quantile(0.25),
        "p75": quantile(0.75),
        "p95": quantile(0.95),
        "iqr": quantile(0.75) - quantile(0.25),
        "range": ordered[-1] - ordered[0],
        "skewness": moments[1] / moments[0] ** 1.5 if moments[0] else None,
        "count": len(values),
        "slope": slope,
        "forecast": intercept + slope * (len(first) + 9),
        "z_of_max": (ordered[-1] - mean) / spread if spread else None,
        "variation": 100 * spread / mean,
        "range_percent": 100 * (ordered[-1] - ordered[0]) / mean,
        "normalised_max": ordered[-1] / mean,
    }
    if "volume" in columns:
        opened = next(item for item in columns["open"] if item is not None)
        figures["return_percent"] = 100 * (values[-1] - opened) / opened
        days = [(c, v) for c, v in zip(first, columns["volume"], strict=True) if c is not None and v is not None]
        figures["vwap"] = sum(c * v for c, v in days) / sum(v for _, v in days)
        highest, fall = 0.0, 0.0
        for item in values:
            highest = max(highest, item)
            fall = max(fall, 100 * (highest - item) / highest)
        figures["drawdown"] = fall
    if "bid" in columns:
        present = {name: [item for item in column if item is not None] for name, column in columns.items()}
        bid, ask = max(present["bid"]), min(present["ask"])
        figures["spread_percent"] = 200 * (ask - bid) / (ask + bid)
        more, less = sum(present["bid_size"]), sum(present["ask_size"])
        figures["imbalance"] = 100 * (more - less) / (more + less)
    if "gold" in columns:
        prices_by_asset = [[item for item in column if item is not None] for column in columns.values()]
        figures["portfolio_return"] = 100 * (sum(prices[-1] / prices[0] for prices in prices_by_asset) / 3 - 1)
    if "humidity" in columns:
        pairs = zip(columns["temperature"], columns["humidity"], strict=True)
        figures["humid_mean"] = statistics.fmean([t for t, h in pairs if t is not None and h is not None and h > 60])
    return figures[query]


def test_every_truth_is_computed_from_the_displayed_numbers() -> None:
    for item in [*ALL, *cases(trials=4, robustness=True)]:
        query = QUERIES[item["input"]["query"]]
        if query.kind == "number" and query.name != "anomalies":
            columns = json.loads(json.dumps(item["input"]["columns"]))
            assert item["expected"] == pytest.approx(by_hand(query.name, columns), rel=1e-6, abs=1e-6), item["id"]


def test_every_case_has_a_truth_and_every_class_can_be_answered() -> None:
    for item in ALL:
        query = QUERIES[item["input"]["query"]]
        assert item["expected"] is not None
        if query.kind == "class":
            assert item["expected"] in item["input"]["choices"]


def test_classes_are_balanced_enough_that_no_constant_answer_wins() -> None:
    many = list(cases(trials=200, tasks=["statistical", "trend", "anomaly", "comparative"]))
    for query in ("strength", "shape"):
        answers = [item["expected"] for item in many if item["input"]["query"] == query]
        assert set(answers) == set(QUERIES[query].choices), query
        assert max(answers.count(answer) for answer in set(answers)) < 0.6 * len(answers), query
    for query in ("direction", "presence", "type", "higher_mean", "more_volatile", "stronger_trend", "correlation"):
        answers = [item["expected"] for item in many if item["input"]["query"] == query]
        most = max(answers.count(answer) for answer in set(answers)) / len(answers)
        assert most < 0.7, (query, most)


def test_the_inserted_events_are_nearly_always_exactly_those_found() -> None:
    missed = found_in_clean = drawn = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        base = ("uniform", "rising", "falling", "seasonal", "sensor")[seed % 5]
        kinds: tuple[anomalies.Kind, ...] = ("spike", "drop", "level shift")
        plain = series.GENERATORS[base](random, 200)
        assert isinstance(plain, np.ndarray)
        changed, events = anomalies.put(random, plain, kinds[seed // 5 % 3])
        drawn += 1
        missed += anomalies.find(changed) != events
        found_in_clean += bool(anomalies.find(plain))
    assert missed <= drawn * 0.01  # those are drawn again
    assert found_in_clean <= drawn * 0.01


def test_an_anomaly_case_has_exactly_the_inserted_events() -> None:
    for item in cases(trials=60, tasks=["anomaly"]):
        values = np.array(item["input"]["columns"]["value"], dtype=float)
        kind = item["input"]["source"].partition(", ")[2]
        assert {event.kind for event in anomalies.find(values)} == (set() if kind == "clean" else {kind})


def test_the_count_of_anomalies_counts_events_and_not_points() -> None:
    values = np.tile([10.0, 11.0, 12.0, 11.0], 50)
    values[100:] += 60
    assert QUERIES["anomalies"].truth({"value": values}) == 1
    assert QUERIES["locations"].truth({"value": values}) == [100]
    assert QUERIES["type"].truth({"value": values}) == "level shift"


def test_a_query_that_the_numbers_do_not_decide_has_no_truth() -> None:
    flat = np.full(60, 5.0)
    assert QUERIES["skewness"].truth({"value": flat}) is None
    assert QUERIES["direction"].truth({"value": flat}) == "flat"
    assert QUERIES["slope"].truth({"value": flat}) is None
    assert QUERIES["higher_mean"].truth({"A": flat, "B": flat}) is None
    assert QUERIES["locations"].truth({"value": flat}) is None
    assert QUERIES["vwap"].truth({"value": flat}) is None


def test_generators_do_what_their_names_say() -> None:
    random = np.random.default_rng(3)
    large = 20_000
    assert stats.kstest(series.normal(random, large), "norm", args=(50, 10)).pvalue > 1e-4
    assert stats.kstest(series.uniform(random, large), "uniform", args=(0, 100)).pvalue > 1e-4
    assert stats.kstest(series.exponential(random, large), "expon", args=(0, 10)).pvalue > 1e-4
    steps = np.diff(series.random_walk(random, large))
    assert stats.kstest(steps, "norm").pvalue > 1e-4
    for correlation in (-0.95, 0.0, 0.95):
        columns = series.pair(random, large, correlation)
        assert abs(np.corrcoef(columns["A"], columns["B"])[0, 1] - correlation) < 0.03
    days = series.ohlcv(random, 500)
    assert (days["low"] <= np.minimum(days["open"], days["close"])).all()
    assert (days["high"] >= np.maximum(days["open"], days["close"])).all()
    assert np.isnan(series.gappy_sensor(random, 100)).sum() == 5
    assert np.ptp(series.flat_line(random, 50)) == 0


def test_a_limit_of_points_applies_to_every_series_and_does_not_change_the_number_of_cases() -> None:
    limited = list(cases(max_data_size=150))
    assert len(limited) == 180
    assert max(item["input"]["size"] for item in limited) <= 150
    assert max(item["input"]["size"] for item in ALL) == 10_000


def test_an_unknown_task_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BadInput, match=r"trand.*did you mean.*trend"):
        list(cases(tasks=["trand"]))


# -- perturbations and recordings ------------------------------------------------------------------------------------


def test_every_case_is_perturbed_in_eight_ways_each_with_its_own_truth() -> None:
    items = list(cases(trials=5, robustness=True))
    assert len(PERTURBATIONS) == 8
    plain = {item["id"]: item for item in cases(trials=5)}
    kinds = [item["tags"]["perturbation"] for item in items]
    assert set(kinds) == {"none", *PERTURBATIONS}
    assert kinds.count("none") == 30
    assert min(kinds.count(kind) for kind in PERTURBATIONS) >= 20  # where the query still has an answer
    for item in items:
        assert item["expected"] is not None
        if item["tags"]["perturbation"] == "none":  # the same question as without, so that its answer is reused
            assert item["input"] == plain[item["id"]]["input"]
        else:
            assert item["group"] in plain
            assert item["input"]["columns"] != plain[item["group"]]["input"]["columns"]


def test_a_perturbed_anomaly_case_has_the_original_and_the_inserted_events() -> None:
    """Neighbours of an outlier are not anomalies, and a change of level keeps its position."""
    looked_at, changed = 0, set()
    for seed in range(6):
        plain: dict[str, Any] = {}
        for item in cases(trials=8, tasks=["anomaly"], seed=seed, robustness=True):
            values = conditions.columns_of(item["input"])["value"]
            kind = item["tags"]["perturbation"]
            plain.setdefault(item["group"], values)
            before = plain[item["group"]]
            events = {event.position for event in anomalies.find(before) if event.position < len(values)}
            events -= set(np.flatnonzero(~np.isfinite(values)).tolist())
            if kind == "outliers":
                events |= set(np.flatnonzero(np.abs(values - before) > np.std(before)).tolist())
            answer = {
                "anomalies": len(events),
                "presence": "yes" if events else "no",
                "locations": sorted(events),
            }
            if item["input"]["query"] in answer:
                assert item["expected"] == answer[item["input"]["query"]], (seed, item["id"])
                looked_at += 1
                changed.add(kind)
    assert looked_at > 150
    assert changed == {"none", *PERTURBATIONS}


def test_a_missing_price_drops_only_its_own_term_from_a_figure() -> None:
    days: dict[str, list[Any]] = {
        "open": [100.0, 101.0, 105.0, 98.0],
        "high": [102.0, 106.0, 107.0, None],
        "low": [None, 100.0, 97.0, 96.0],
        "close": [101.0, 105.0, None, 97.0],
        "volume": [10, 20, 30, 40],
    }
    columns = conditions.columns_of({"columns": days})
    assert QUERIES["return_percent"].truth(columns) == pytest.approx(-3.0)
    assert QUERIES["vwap"].truth(columns) == pytest.approx((101 * 10 + 105 * 20 + 97 * 40) / 70)
    assert QUERIES["drawdown"].truth(columns) == pytest.approx(100 * (105 - 97) / 105)


def write_recording(folder: Path, values: list[Any], name: str = "machine.csv") -> Path:
    path = folder / name
    lines = [f"2014-04-{1 + at // 1440:02d} {at // 60 % 24:02d}:{at % 60:02d}:00,{v}" for at, v in enumerate(values)]
    path.write_text("\n".join(["timestamp,value", *lines]) + "\n")
    return path


def test_recordings_are_cut_into_windows_and_their_marks_are_the_truth(tmp_path: Path) -> None:
    values = [round(20 + math.sin(at / 9), 3) for at in range(600)]
    path = write_recording(tmp_path, values)
    marked = tmp_path / "labels.json"
    stamps = [f"2014-04-01 {at // 60:02d}:{at % 60:02d}:00.000000" for at in (150, 300, 450)]
    marked.write_text(json.dumps({"elsewhere/machine.csv": [], "machine.csv": stamps}))
    items = list(cases(trials=12, series=[str(path)], labels=str(marked)))
    assert {item["tags"]["task"] for item in items} == set(TASKS)
    for item in items:
        if item["input"]["query"] == "locations":
            window = item["input"]["columns"]["value"]
            start = next(at for at in range(600) if [round(v, 3) for v in values[at : at + len(window)]] == window)
            assert item["expected"] == [at - start for at in (150, 300, 450) if start <= at < start + len(window)]
    unmarked = {item["tags"]["task"] for item in cases(trials=2, series=[str(path)])}
    assert unmarked == set(TASKS) - {"anomaly"}


def labelled(folder: Path, marks: Any, **flags: Any) -> list[dict[str, Any]]:
    """Cases of the anomaly task from a 600-minute recording with these labels."""
    path = write_recording(folder, [round(20 + math.sin(at / 9), 3) for at in range(600)])
    labels = folder / "labels.json"
    labels.write_text(json.dumps(marks))
    return list(cases(tasks=["anomaly"], series=[str(path)], labels=str(labels), **flags))


def test_marked_anomalies_are_not_asked_for_by_our_own_definition(tmp_path: Path) -> None:
    for item in labelled(tmp_path, {"machine.csv": ["2014-04-01 05:00:00"]}, trials=9):
        assert "robust standard deviations" not in item["input"]["question"]
        assert "has marked" in item["input"]["question"]


def test_labelled_recordings_get_no_extra_outliers(tmp_path: Path) -> None:
    items = labelled(tmp_path, {"machine.csv": ["2014-04-01 05:00:00"]}, trials=9, robustness=True)
    kinds = {item["tags"]["perturbation"] for item in items}
    assert kinds == {"none", *PERTURBATIONS} - {"outliers", "reorder"}
    for item in items:
        if item["input"]["query"] == "locations":
            assert all(item["input"]["columns"]["value"][at] is not None for at in item["expected"])


def test_a_labelled_time_window_is_clipped_to_the_series_and_counts_once(tmp_path: Path) -> None:
    values = [round(at / 7 % 3 + at / 1000, 3) for at in range(3000)]
    path = write_recording(tmp_path, values)
    labels = tmp_path / "labels.json"
    marked = [(700, 1000), (2000, 2080)]  # as in NAB: a tenth of the recording is inside of windows
    stamps = [[f"2014-04-{1 + at // 1440:02d} {at // 60 % 24:02d}:{at % 60:02d}:00" for at in mark] for mark in marked]
    labels.write_text(json.dumps({"machine.csv": stamps}))
    items = list(cases(trials=60, tasks=["anomaly"], series=[str(path)], labels=str(labels)))
    clipped = 0
    for item in items:
        window = item["input"]["columns"]["value"]
        start = next(at for at in range(3000) if values[at : at + len(window)] == window)
        end = start + len(window) - 1
        inside = [[max(a, start) - start, min(b, end) - start] for a, b in marked if a <= end and b >= start]
        clipped += any(a < start or b > end for a, b in marked if a <= end and b >= start)
        truth = {"presence": "yes" if inside else "no", "anomalies": len(inside), "locations": inside}
        assert item["expected"] == truth[item["input"]["query"]]
    assert clipped > 10
    answers = [item["expected"] for item in items if item["input"]["query"] == "presence"]
    assert 0.3 < answers.count("yes") / len(answers) < 0.7
    assert {item["input"]["query"] for item in items} == {"presence", "anomalies", "locations"}
    entry = next(item for item in items if item["input"]["query"] == "locations")
    (first, last), *_ = entry["expected"]
    located_case = Case("c", entry["input"], [[first, last]])
    assert score(located_case, Answer(f"Answer: {(first + last) // 2}"))["correct"] == 1.0
    assert score(located_case, Answer(f"Answer: {first}, {last}"))["correct"] == 1.0  # twice in the same
    assert score(located_case, Answer(f"Answer: {last + 2}"))["correct"] == 0.0
    assert score(located_case, Answer(f"Answer: {last + 2}"))["delayed"] == 1.0
    assert score(located_case, Answer("", [[first, last]]))["correct"] == 1.0


@pytest.mark.parametrize(
    ("text", "exact", "delayed"),
    [
        ("12, 45, 80", 1.0, 1.0),
        ("14, 45, 77", 1 / 3, 1.0),
        ("16, 45, 80", 2 / 3, 2 / 3),
        ("12, 13, 45, 80", 6 / 7, 6 / 7),  # the same one twice
        ("none", 0.0, 0.0),
    ],
)
def test_positions_score_their_f1_exactly_and_with_a_delay_of_three(text: str, exact: float, delayed: float) -> None:
    scores = score(case("locations", [12, 45, 80]), Answer(f"Answer: {text}"))
    assert scores["correct"] == pytest.approx(exact)
    assert scores["delayed"] == pytest.approx(delayed)
    assert score(case("mean", 2.0), Answer("2"))["delayed"] is None


def test_anomalies_lie_anywhere_and_not_on_a_grid() -> None:
    at = [
        position
        for item in cases(trials=80, tasks=["anomaly"])
        if item["input"]["query"] == "locations"
        for position in item["expected"]
    ]
    assert len({position % 12 for position in at}) > 8


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"machine.cvs": ["2014-04-01 05:00:00"]}, "names none of the recordings"),
        ({"machine.csv": ["01.04.2014 05:00"]}, "matches no line of"),
        ({"machine.csv": [["2015-01-01", "2015-02-01"]]}, "matches no line of"),
    ],
)
def test_labels_that_mark_nothing_are_refused_instead_of_meaning_a_clean_series(
    tmp_path: Path, marks: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        labelled(tmp_path, marks)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("timestamp,value\n2014-04-01,1e300\n", ":2: '1e300' is too large"),
        ("a,b\n1,2\n", "no header with timestamp and value"),
        ("timestamp,value\n2014-04-01,x\n", ":2: 'x' is not a number"),
        ("timestamp,value\n2014-04-01\n", ":2: '2014-04-01' has no value"),
        ("timestamp,value\n2014-04-01,1\n", "has 1 values, but at least 50 are needed"),
        ("", "no header"),
    ],
)
def test_a_recording_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(BadInput) as error:
        list(cases(series=[str(path)]))
    assert message in error.value.message


def test_labels_without_recordings_and_missing_files_are_refused(tmp_path: Path) -> None:
    labels = tmp_path / "labels.json"
    labels.write_text("{}")
    with pytest.raises(BadInput, match="--labels needs recordings"):
        list(cases(labels=str(labels)))
    with pytest.raises(BadInput, match="cannot be read"):
        list(cases(series=[str(tmp_path / "none.csv")]))
    with pytest.raises(BadInput, match=r"no \*.csv"):
        list(cases(series=[str(tmp_path)]))


# -- conditions -------------------------------------------------------------------------------------------------------


def test_the_raw_condition_shows_every_number_of_every_column() -> None:
    for item in ALL:
        if item["input"]["size"] <= 1000:
            data = conditions.raw(item["input"])["data"]
            for numbers in item["input"]["columns"].values():
                assert ", ".join("null" if number is None else repr(number) for number in numbers) in data


def test_no_condition_reveals_the_query_or_the_source_of_the_series() -> None:
    for item in ALL[::7]:
        for condition in (conditions.raw, conditions.semantic_frame, conditions.summary_statistics):
            assert set(condition(item["input"])) <= {"data", "question", "choices"}


def test_both_series_of_a_pair_are_described_in_every_condition() -> None:
    pair = next(item for item in ALL if item["tags"]["task"] == "comparative")["input"]
    assert "Series A:" in conditions.raw(pair)["data"]
    assert "Series B:" in conditions.raw(pair)["data"]
    for condition in (conditions.semantic_frame, conditions.summary_statistics):
        assert "\nA: " in condition(pair)["data"]
        assert "\nB: " in condition(pair)["data"]


def test_raw_numbers_beyond_the_limit_are_skipped_with_the_reason() -> None:
    long = next(item for item in ALL if item["input"]["size"] == 10_000)["input"]
    with pytest.raises(Skipped, match="10,000 points, and raw numbers are skipped above 5,000"):
        conditions.raw(long, skip_above=5000)
    assert conditions.raw(long, skip_above=10_000)["data"]


def test_the_summary_contains_the_figures_it_names() -> None:
    case_input = case("mean", 2.5, value=[1.0, 2.0, 3.0, 4.0]).input
    message = conditions.summary_statistics(case_input)["data"]
    for part in ("count 4", "mean 2.5", "std 1.29099", "min 1", "median 2.5", "max 4", "slope 1", "no anomalies"):
        assert part in message
    spiky = case("mean", 0, value=[*([1.0, 2.0, 1.5, 1.2] * 5), 99.0]).input
    assert "anomalies at position 20 (99)" in conditions.summary_statistics(spiky)["data"]
    flat = case("mean", 5, value=[5.0, 5.0, 5.0]).input
    assert "slope 0" in conditions.summary_statistics(flat)["data"]


def test_a_user_transform_gets_a_list_or_a_mapping_of_lists() -> None:
    received: list[Any] = []

    def own(numbers: Any) -> str:
        received.append(numbers)
        return "so many"

    assert conditions.described(case("mean", 2, value=[1.0, None]).input, own)["data"] == "so many"
    conditions.described(case("higher_mean", "A", A=[1.0], B=[2.0]).input, own)
    assert received == [[1.0, None], {"A": [1.0], "B": [2.0]}]
    with pytest.raises(Exception, match="must return text, got int"):
        conditions.described(case("mean", 2).input, lambda _numbers: 5)  # type: ignore[arg-type,return-value]


# -- scoring ----------------------------------------------------------------------------------------------------------

FORM = "Answer: {}\nConfidence: 87 %\nReasoning: Looking at all 100 values, series A starts at 12 and ends at 99."


@pytest.mark.parametrize("template", ["{}", FORM, FORM.replace("Answer: {}", "**Answer:** **{}**"), "Answer: {}."])
def test_the_truth_is_right_in_any_wording(template: str) -> None:
    for item in ALL:
        if item["input"]["size"] <= 1000:
            right = item["expected"]
            text = ", ".join(map(str, right)) if isinstance(right, list) else str(right)
            scores = score(Case(item["id"], item["input"], right), Answer(template.format(text)))
            assert scores["correct"] == 1.0, (item["id"], text, scores)


@pytest.mark.parametrize(
    ("query", "expected", "text", "worth"),
    [
        ("higher_mean", "B", "series B has a higher mean", 1),
        ("higher_mean", "A", "series B has a higher mean", 0),
        ("higher_mean", "B", "Series B has a higher mean than series A.", 1),
        ("higher_mean", "A", "Series B has a higher mean than series A.", 0),
        ("higher_mean", "B", "Answer: B (a higher mean than A)", 1),
        ("higher_mean", "A", "Answer: A\nReasoning: B is lower", 1),
        ("higher_mean", "A", "Reasoning: B is lower than A\nAnswer: A", 1),
        ("direction", "rising", "not falling; rising", 1),
        ("direction", "falling", "not falling; rising", 0),
        ("direction", "falling", "**Falling**", 1),
        ("direction", "flat", "Answer: no trend", 1),
        ("direction", "rising", "The trend is upward", 1),
        ("direction", "rising", "It is neither falling nor flat but rising.", 1),
        ("p95", 66.2, "The 95th percentile is 66.2", 1),
        ("p95", 95.0, "The 95th percentile is 66.2", 0),
        ("p25", 25.0, "The 25th percentile is 40.1", 0),
        ("mean", 1234.0, "1,234", 1),
        ("mean", 1.0, "1,234", 0),
        ("mean", 1200.0, "approximately 1.2e3", 1),
        ("mean", 1.2, "approximately 1.2e3", 0),
        ("mean", 50.0, "**Answer:** 50.4", 1),
        ("mean", 50.0, "**Answer:** 50.6", 0),
        ("mean", -3.5, "Answer: −3.5", 1),
        ("mean", 12.0, "Answer: between 10 and 14", 0),
        ("mean", 50.0, "Confidence: 50 %\nAnswer: 61\nReasoning: 50 values lie above it", 0),
        ("mean", 61.0, "Confidence: 50 %\nAnswer: 61\nReasoning: 50 values lie above it", 1),
        ("mean", 50.0, "I cannot tell.", 0),
        ("slope", 0.5, "Answer: 0.42", 1),
        ("slope", 0.5, "Answer: 0.39", 0),
        ("forecast", 100.0, "Answer: 104.9", 1),
        ("forecast", 100.0, "Answer: 105.2", 0),
        ("variation", 20.4, "Answer: 20.4 %", 1),
        ("skewness", 0.0, "Answer: 0.01", 1),
        # a percentage only where one is asked for
        ("variation", 20.4, "Answer: 0.204", 0),
        ("variation", 0.204, "Answer: 20.4 %", 0),
        ("normalised_max", 0.8, "Answer: 80 %", 0),
        ("mean", 95.0, "I am 95 % sure that it is 61.", 0),
        ("mean", 61.0, "I am 95 % sure that it is 61.", 1),
        ("mean", 95.0, "Confidence: 95 %", 0),
        ("mean", 50.0, "I cannot be exact, but the mean is about 50.", 1),
        ("mean", 2.0, "(1 + 2 + 3) / 3 = 6 / 3 = 2\n\nConfidence: 99 %\nAnswer: 2", 1),
        ("shape", "right-skewed", "Positively skewed, not normal", 1),
        ("shape", "symmetric", "Positively skewed, not normal", 0),
        ("shape", "symmetric", "Answer: normal", 1),
        ("anomalies", 3, "Answer: 3", 1),
        ("anomalies", 3, "There are three: 3", 1),
        ("anomalies", 3, "Answer: 2", 0),
        ("anomalies", 0, "Answer: 0", 1),
        ("presence", "no", "Answer: No\nReasoning: there are no anomalies present", 1),
        ("presence", "yes", "Yes, there are anomalies.", 1),
        ("presence", "yes", "Answer: no", 0),
        ("type", "level shift", "Answer: a step change", 1),
        ("type", "drop", "Answer: downward spikes", 1),
        ("correlation", "none", "Answer: not correlated", 1),
        ("correlation", "positive", "Answer: strongly positive", 1),
        ("strength", "weak", "Answer: **weak**", 1),
        # the reasoning speaks of "the answer" too
        ("mean", 51.2, "Answer: 51.2\nConfidence: 90 %\nReasoning: The answer is based on all 100 values.", 1),
        ("mean", 100.0, "Answer: 51.2\nConfidence: 90 %\nReasoning: The answer is based on all 100 values.", 0),
        ("direction", "rising", "Answer: rising\nConfidence: 90 %\nReasoning: The answer is clear: not falling.", 1),
        ("higher_mean", "B", "**Answer:** b\n**Reasoning:** The answer was found by adding A and B.", 1),
        ("mean", 51.2, "Answer: 51.2, Confidence: 90 %, Reasoning: The answer is based on 100 values", 1),
        ("mean", -3.5, "# Answer\n-3.5\n# Confidence\n85 %", 1),
        ("direction", "rising", '{"answer": "rising", "reasoning": "the answer is not falling"}', 1),
        ("mean", 51.2, "Answer: <51.2>\nConfidence: <90 %>\nReasoning: <summed>", 1),
        ("mean", 51.2, "So the answer is 51.2.", 1),
        # answers that report no anomalies
        ("anomalies", 0, "Answer: None\nConfidence: 90 %\nReasoning: Nothing stands out.", 1),
        ("anomalies", 0, "There are no anomalies.", 1),
        ("anomalies", 3, "Answer: Three", 1),
        ("anomalies", 2, "Answer: None", 0),
        ("presence", "no", "Answer: No anomalies detected", 1),
        ("presence", "yes", "Answer: No anomalies detected", 0),
        ("presence", "no", "Answer: no (all values lie close to their neighbours)", 1),
        ("direction", "flat", "Answer: no clear trend", 1),
        ("correlation", "none", "Answer: no significant correlation", 1),
        ("strength", "moderate", "Answer: moderately strong", 1),
        ("strength", "strong", "Answer: moderately strong", 0),
        ("type", "level shift", "Answer: level_shift", 1),
    ],
)
def test_each_wording_gets_the_expected_score(query: str, expected: Any, text: str, worth: int) -> None:
    assert marks(query, expected, text) == worth


@pytest.mark.parametrize(
    ("text", "f1"),
    [
        ("12, 45, 80", 1.0),
        ("80, 12 and 45", 1.0),
        ("[45, 80, 12]", 1.0),
        ("Answer: positions 12, 45, and 80\nConfidence: 90 %", 1.0),
        ("3 anomalies, at 12 (value 99.5), 45 (value 101.2) and 80 (value 12.0)", 1.0),
        ("**Answer:** 12,45,80", 1.0),
        ("Answer: 12, 45", 0.8),
        ("Answer: 12", 0.5),
        ("Answer: 13, 46, 81", 0.0),
        ("Answer: none", 0.0),
        ("", 0.0),
        ("Answer: 12, 45, 80\nConfidence: 90 %\nReasoning: The answer is 3 points beyond 7 deviations.", 1.0),
        ("Answer: 12, 45, 80; the values at these positions are 99 and 101", 1.0),
        ("Answer: 12, 45, 80, counting from 0", 1.0),
        ("Answer: position 12: 99.5, position 45: 101, position 80: -20", 1.0),
        ("Answer: 12th, 45th and 80th", 1.0),
        ("Answer: 12.0, 45.0, 80.0", 1.0),
        ("Answer:\n1. 12\n2. 45\n3. 80\nConfidence: 90 %", 1.0),
        ('{"answer": "12, 45, 80", "confidence": 90}', 1.0),
        ('{"answer": ["12", 45.0, 80, "n/a", null]}', 1.0),
        ("(12, 45, 80)", 1.0),
        ("Answer: 12 is a spike at 9 deviations", 0.5),
        ("[012, 45,, 80]", 1.0),
        (f"[{'9' * 5000}]", 0.0),
    ],
)
def test_positions_score_their_f1_in_any_order(text: str, f1: float) -> None:
    assert marks("locations", [12, 45, 80], text) == pytest.approx(f1)


def test_closeness_falls_with_the_relative_error_and_never_below_zero() -> None:
    closeness = [score(case("mean", 50.0), Answer(text))["closeness"] for text in ("50", "55", "25", "200", "none")]
    assert closeness == pytest.approx([1.0, 0.9, 0.5, 0.0, 0.0])


@pytest.mark.parametrize(
    ("query", "right", "text", "grounded"),
    [
        ("mean", 31.2, "31.2", 1.0),  # right
        ("mean", 31.2, "31.7", 1.0),  # within twice the tolerance
        ("mean", 31.2, "33", 0.0),
        ("mean", 31.2, "56", 0.0),  # a value of the data, not the mean
        ("max", 56, "40", 1.0),  # a value of the data, where one is asked for
        ("max", 56, "40.1", 0.0),
        ("mean", 31.2, "17.81", 1.0),  # the standard deviation, with four digits
        ("mean", 31.2, "18", 0.0),  # too short to be recognised
        ("mean", 31.2, "Answer: 18\nReasoning: that is the standard deviation", 1.0),
        ("mean", 31.2, "Answer: 18\nReasoning: that is the median", 0.0),
        ("mean", 31.2, "1000", 0.0),
        ("mean", 31.2, "no idea", None),  # no number, none invented
        ("direction", "rising", "rising", None),
    ],
)
def test_a_number_is_grounded_only_if_near_the_truth_copied_or_another_statistic(
    query: str, right: Any, text: str, grounded: float | None
) -> None:
    numbers = [10.0, 20.0, 30.0, 40.0, 56.0]
    assert score(case(query, right, value=numbers), Answer(text))["grounded"] == grounded


def test_a_wrong_number_is_judged_in_every_case() -> None:
    for item in [*ALL, *cases(trials=3, robustness=True)]:
        if QUERIES[item["input"]["query"]].kind == "number":
            scores = score(Case(item["id"], item["input"], item["expected"]), Answer("Answer: -987654321.123"))
            assert (scores["correct"], scores["closeness"], scores["grounded"]) == (0.0, 0.0, 0.0), item["id"]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_any_text_gets_scores_between_0_and_1(text: str) -> None:
    pairs = case("locations", [3]), case("mean", 2.0), case("direction", "flat"), case("higher_mean", "A")
    for item in pairs:
        scores = score(item, Answer(text))
        assert all(value is None or 0 <= value <= 1 for key, value in scores.items() if key != "explanation")
