"""The estimate before a run: from earlier trials, from declared values, or unknown."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import Any

import pytest

from abreast import Experiment, Options
from abreast.execute.listener import ConcurrencyStats
from abreast.experiment.preparation import estimate_run
from abreast.model import Failure, Outcome
from abreast.preflight.checks.cost import dollars
from conftest import ABREAST, Folder

PAID = """
import json
def predict(case, price=0.01, **_):
    return {"prediction": "yes", "cost_usd": price, "input_tokens": 100, "output_tokens": 20}
"""


def spec(folder: Folder, more: str = "", variants: str = "{a: {price: 0.01}, b: {price: 0.03}}") -> None:
    folder.write(
        "spec.yaml",
        f"cases: cases.jsonl\ntarget: python:paid:predict\nvariants: {variants}\nscorers: [exact]\n{more}",
    )


@pytest.fixture
def paid(folder: Folder) -> Folder:
    """A folder with a function that reports its cost, and ten cases."""
    folder.write("paid.py", PAID)
    folder.cases(10)
    spec(folder)
    return folder


def numbers(folder: Folder, *flags: str) -> dict[str, Any]:
    done = folder.abreast("check", "spec.yaml", "--json", *flags)
    rows: list[dict[str, Any]] = [row for row in done.json if row["check"] == "estimate"]
    return rows[0]


def test_unknown_values_are_called_unknown(paid: Folder) -> None:
    estimate = numbers(paid)
    assert (estimate["trials"], estimate["done"]) == (20, 0)
    assert estimate["cost_usd"] is None
    assert estimate["seconds"] is None
    assert estimate["output_tokens"] is None
    assert estimate["input_tokens"] == pytest.approx(20 * len("question 0") / 4)
    stderr = paid.abreast("check", "spec.yaml").err
    assert "about 50 tokens in (from the size of the prompts)" in stderr
    assert "cost and time unknown: no earlier trials of a and b" in stderr
    assert "$0" not in stderr


def test_earlier_trials_of_the_same_variant_take_precedence(paid: Folder) -> None:
    assert paid.abreast("run", "spec.yaml", "--limit", "4").code == 0
    estimate = numbers(paid)
    assert (estimate["trials"], estimate["done"]) == (12, 8)
    assert estimate["cost_usd"] == pytest.approx(6 * 0.01 + 6 * 0.03)
    assert estimate["input_tokens"] == pytest.approx(1200)
    assert estimate["output_tokens"] == pytest.approx(240)
    assert estimate["seconds"] is not None
    assert [variant["basis"] for variant in estimate["variants"]] == ["variant", "variant"]
    stderr = paid.abreast("check", "spec.yaml").err
    assert "12 trials to execute · about 1,200 tokens in, 240 out · $0.24" in stderr
    assert "(from 8 earlier trials)" in stderr
    assert numbers(paid, "--fresh")["cost_usd"] == pytest.approx(0.4)


def test_trials_of_the_same_target_come_second(paid: Folder) -> None:
    assert paid.abreast("run", "spec.yaml", "--limit", "4").code == 0
    spec(paid, variants="{a: {price: 0.01}, c: {price: 0.07}}")
    estimate = numbers(paid)
    assert estimate["trials"] == 16
    assert [(variant["variant"], variant["basis"], variant["seen"]) for variant in estimate["variants"]] == [
        ("a", "variant", 4),
        ("c", "target", 8),
    ]
    assert estimate["cost_usd"] == pytest.approx(6 * 0.01 + 10 * 0.02)
    stderr = paid.abreast("check", "spec.yaml").err
    assert "a from 4 earlier trials; c from 8 earlier trials of the same target" in stderr


def test_a_function_that_reports_no_cost_is_not_free(paid: Folder) -> None:
    paid.write("paid.py", 'def predict(case, price=0):\n    return "yes"\n')
    assert paid.abreast("run", "spec.yaml", "--limit", "4").code == 0
    estimate = numbers(paid)
    assert estimate["cost_usd"] is None
    assert estimate["input_tokens"] is None
    assert "cost unknown: the earlier trials of a and b did not report it" in paid.abreast("check", "spec.yaml").err


def test_the_simulator_is_estimated_by_its_settings(folder: Folder) -> None:
    folder.cases(100)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nscorers: [exact]\nlimits: {parallel: 4}\n"
        "variants: {a: {latency: 2, cost_usd: 0.5}, b: {latency: {low: 1, high: 3}, cost_usd: 1, output_tokens: 50}}\n",
    )
    estimate = numbers(folder)
    assert estimate["cost_usd"] == pytest.approx(150)
    assert estimate["seconds"] == pytest.approx(100.0)
    assert estimate["in_flight"] == 4
    assert estimate["output_tokens"] == pytest.approx(100 * 1 + 100 * 50)
    assert [variant["basis"] for variant in estimate["variants"]] == ["declared", "declared"]


def test_a_simulator_without_a_price_leaves_nothing_unknown(paid: Folder) -> None:
    paid.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated}}\n")
    done = paid.abreast("run", "spec.yaml", "--dry-run")
    assert "✓ estimate: 10 trials to execute" in done.err
    assert "unknown" not in done.err
    assert "$" not in done.err
    assert numbers(paid)["cost_usd"] is None
    variants = "{a: {target: simulated}, b: {target: 'python:paid:predict'}}"
    paid.write("spec.yaml", f"cases: cases.jsonl\nvariants: {variants}\n")
    assert "cost and time unknown: no earlier trials of b" in paid.abreast("check", "spec.yaml").err
    assert paid.abreast("run", "spec.yaml", "--limit", "2").code == 0
    assert numbers(paid)["cost_usd"] == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ("{}", 200.0),
        ("{parallel: 10}", 20.0),
        ("{parallel: variants}", 100.0),
        ("{parallel: variants, trial_parallelism: 5}", 20.0),
        ("{trial_parallelism: 5}", 40.0),
        ("{parallel: 1000}", 1.0),
        ("{parallel: 1000, per_variant: 4}", 25.0),
        ("{parallel: auto}", 10.0),
        ("{parallel: {min: 1, start: 40, max: 64}}", 5.0),
        ("{parallel: 50, targets: {simulated: {parallel: 2}}}", 100.0),
        ("{parallel: 50, requests_per_minute: 60}", 199.0),
        ("{parallel: 50, requests_per_second: 2}", 99.5),
    ],
)
def test_the_slowest_limit_decides_the_time(folder: Folder, limits: str, seconds: float) -> None:
    folder.cases(100)
    folder.write(
        "spec.yaml",
        f"cases: cases.jsonl\ntarget: simulated\nparams: {{latency: 1}}\nvariants: {{a: {{}}, b: {{}}}}\n"
        f"limits: {limits}\n",
    )
    assert numbers(folder)["seconds"] == pytest.approx(seconds)


def test_a_run_of_more_than_a_day_is_noted(folder: Folder) -> None:
    folder.cases(100)
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated, latency: 3600}}\n")
    estimate = numbers(folder)
    assert estimate["level"] == "note"
    assert "4 days, one at a time" in estimate["message"]
    assert "more than a day" in estimate["message"]


def test_a_transform_is_not_run_for_an_estimate(paid: Folder) -> None:
    paid.write("paid.py", PAID + "def change(value):\n    raise SystemExit('it was run')\n")
    spec(paid, variants="{a: {transform: 'python:paid:change'}}")
    estimate = numbers(paid)
    assert estimate["input_tokens"] == pytest.approx(25)
    assert "from the size of the inputs before their transform" in estimate["message"]


QUICK = (
    PAID
    + """
from abreast.errors import Skipped
def change(value, times=10, most=100):
    if int(value.split()[1]) >= most:
        raise Skipped(f"more than {most} points")
    return value * times
change.quick = True
"""
)


@pytest.mark.parametrize("transform", ["'python:paid:change'", "{from: python:paid:change, times: 10}"])
def test_a_transform_that_says_it_is_quick_is_run_for_an_estimate(paid: Folder, transform: str) -> None:
    paid.write("paid.py", QUICK)
    spec(paid, variants=f"{{a: {{transform: {transform}}}}}")
    estimate = numbers(paid)
    assert estimate["input_tokens"] == pytest.approx(250)
    assert "(from the size of the prompts)" in estimate["message"]


def test_skipped_trials_cost_nothing(paid: Folder) -> None:
    paid.write("paid.py", QUICK)
    variant = "{a: {target: simulated, latency: 2, cost_usd: 0.5, transform: {from: python:paid:change, most: %d}}}"
    for most, trials in ((100, 10), (4, 4), (0, 0)):
        spec(paid, variants=variant % most)
        estimate = numbers(paid)
        values = (estimate["input_tokens"], estimate["cost_usd"], estimate["seconds"])
        assert values == pytest.approx((25 * trials, 0.5 * trials, 2.0 * trials))
    spec(paid, variants="{a: {transform: {from: python:paid:change, most: 4}}}", more="expects: {seconds: 5}\n")
    estimate = numbers(paid)
    assert (estimate["input_tokens"], estimate["seconds"]) == pytest.approx((100, 20.0))
    assert estimate["cost_usd"] is None, "an unknown cost does not become 0 because other trials are skipped"


def test_expects_of_the_spec_applies_without_earlier_trials(paid: Folder) -> None:
    spec(paid, "expects: {seconds: 3.5, output_tokens: 150}\nlimits: {parallel: 2}\n")
    estimate = numbers(paid)
    assert (estimate["seconds"], estimate["output_tokens"]) == pytest.approx((35.0, 3000))
    assert estimate["cost_usd"] is None
    assert [variant["expected"] for variant in estimate["variants"]] == [["seconds", "output_tokens"]] * 2
    basis = "(from the size of the prompts, seconds and tokens out as the spec expects) · cost unknown"
    assert basis in estimate["message"]
    assert paid.abreast("run", "spec.yaml", "--limit", "4").code == 0
    estimate = numbers(paid)
    assert (estimate["output_tokens"], estimate["cost_usd"]) == pytest.approx((240, 0.24))
    assert estimate["seconds"] < 12
    assert "expects" not in estimate["message"]


def test_expects_does_not_affect_reuse(paid: Folder) -> None:
    for seconds in (1, 2):
        spec(paid, f"expects: {{seconds: {seconds}}}\n")
        done = paid.abreast("run", "spec.yaml", "--json")
        assert done.json[0]["executed"] == (20 if seconds == 1 else 0)


def test_the_estimate_names_values_taken_from_expects(paid: Folder) -> None:
    paid.write("paid.py", 'def predict(case, price=0):\n    return "yes"\n')
    spec(paid, "expects: {seconds: 100, output_tokens: 7}\n")
    assert paid.abreast("run", "spec.yaml", "--limit", "4").code == 0
    estimate = numbers(paid)
    assert estimate["output_tokens"] == pytest.approx(12 * 7)
    assert estimate["seconds"] < 100, "that was measured"
    assert "(from 8 earlier trials, tokens out as the spec expects)" in estimate["message"]


def test_a_simulator_declares_its_use(folder: Folder) -> None:
    folder.cases(10)
    text = (
        "cases: cases.jsonl\nvariants: {a: {target: simulated, latency: 1}}\nexpects: {seconds: 9, output_tokens: 9}\n"
    )
    folder.write("spec.yaml", text)
    assert (numbers(folder)["seconds"], numbers(folder)["output_tokens"]) == pytest.approx((10.0, 10))


API = """
cases: cases.jsonl
target: anthropic
params: {{model: mine, prompt: "{long}"{params}}}
variants: {{a: {{}}, b: {{}}}}
prices: {{mine: {{input: 100, output: 1000}}}}
expects: {expects}
"""


def test_prices_and_expects_give_dollars_before_the_first_run(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "never sent")
    folder.cases(100)

    def estimate_of(expects: str = "{seconds: 2, output_tokens: 150}", params: str = "") -> dict[str, Any]:
        folder.write("spec.yaml", API.format(long="x" * 4000, expects=expects, params=params))
        return numbers(folder)

    estimate = estimate_of()
    assert (estimate["input_tokens"], estimate["output_tokens"]) == pytest.approx((200_000, 30_000))
    assert (estimate["cost_usd"], estimate["seconds"]) == pytest.approx((20 + 30, 400.0))
    assert estimate["level"] == "pass"
    words = "$50.00 · 7 min, one at a time (from the size of the prompts, seconds and tokens out as the spec expects)"
    assert words in estimate["message"]
    refused = folder.abreast("run", "spec.yaml", "--force")  # without a connection to the provider
    assert refused.code == 4, refused.output
    assert "this will cost about $50.00 (200 trials)" in refused.err
    assert not (folder.path / "results.db").exists()
    assert estimate_of(params=f", system: {'y' * 4000}")["cost_usd"] == pytest.approx(40 + 30), "it is sent each time"
    assert estimate_of("{seconds: 2}")["cost_usd"] is None
    assert estimate_of(params=", images: ['{{ input }}']")["cost_usd"] is None, "the tokens of images are unknown"


def test_expects_is_part_of_the_stored_spec(paid: Folder) -> None:
    spec(paid, "expects: {seconds: 3.5}\n")
    assert paid.abreast("run", "spec.yaml", "--limit", "1").code == 0
    stored = paid.sql("select spec from runs")[0]["spec"]
    assert json.loads(stored)["expects"] == {"seconds": 3.5}
    experiment = Experiment(cases="cases.jsonl", variants={"a": {"target": "simulated"}}, expects={"seconds": 2})
    assert experiment.spec.expects.seconds == 2


@pytest.mark.parametrize(
    ("expects", "message"),
    [
        ("{seconds: -1}", "spec.yaml:5: expects.seconds must be seconds of at least 0, got -1"),
        ("{seconds: fast}", 'expects.seconds must be seconds of at least 0, got "fast"'),
        ("{output_tokens: .inf}", "expects.output_tokens is infinite"),
        ("{output_token: 3}", 'unknown key "output_token" in expects (did you mean "output_tokens"?)'),
        ("3", "expects must be a mapping such as {seconds: 3.5, output_tokens: 150}, got 3"),
    ],
)
def test_invalid_expects_is_refused(paid: Folder, expects: str, message: str) -> None:
    spec(paid, f"expects: {expects}\n")
    done = paid.abreast("check", "spec.yaml")
    assert done.code == 2
    assert message in done.err


def test_the_text_of_a_template_counts(paid: Folder) -> None:
    spec(paid, variants="{a: {prompt: '{{ input }} and forty characters more than there were'}}")
    assert numbers(paid)["input_tokens"] == pytest.approx(
        10 * len("question 0 and forty characters more than there were") / 4
    )
    spec(paid, variants="{a: {prompt: '{{ nothing_of_this_name }}'}}")
    assert numbers(paid)["input_tokens"] is None, "a request that cannot be made has no size, and check goes on"


def test_a_million_trials_are_estimated_from_a_few(folder: Folder) -> None:
    rendered: list[str] = []

    def cases() -> Any:
        return ({"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(50_000))

    experiment = Experiment(cases=cases, variants={"a": {"accuracy": 1.0}}, target="simulated", repeats=20)
    prepared = experiment.prepare(Options(store=folder.path / "results.db"))
    try:
        assert prepared.estimate.trials == 1_000_000
        target, request = prepared.setup.targets[0], prepared.setup.targets[0].request
        target.request = lambda trial: rendered.append(trial.case.id) or request(trial)  # type: ignore[method-assign]
        estimate_run(prepared.setup, None, None, [])
        assert 0 < len(rendered) <= 50
        assert int(rendered[-1]) > 49_000, "spread over the plan"
    finally:
        prepared.close()


def test_nothing_to_execute_is_reported(paid: Folder) -> None:
    assert paid.abreast("run", "spec.yaml").code == 0
    assert "nothing to execute" in paid.abreast("check", "spec.yaml").err


def test_more_than_the_budget_is_a_warning_and_the_budget_holds(paid: Folder) -> None:
    assert paid.abreast("run", "spec.yaml", "--limit", "2").code == 0
    spec(paid, "limits: {budget_usd: 0.16}\n")
    done = paid.abreast("run", "spec.yaml")
    assert "! estimate: 16 trials to execute" in done.err
    assert "the budget is $0.16: about 8 of 16 trials fit" in done.err
    assert done.code == 3
    second = paid.abreast("check", "spec.yaml")
    assert "already spent" in second.err, "earlier spending of the resumed run counts"


def test_the_share_of_the_quota_and_its_remainder_are_reported(paid: Folder, monkeypatch: Any) -> None:
    state = paid.path / "state"
    monkeypatch.setenv("ABREAST_STATE", str(state))
    spec(paid, "limits: {quota: 50/5h}\n")
    assert "needs 20 of 50 in 5 h (40%), 50 left now" in paid.abreast("check", "spec.yaml").err
    assert not state.exists(), "a check creates nothing"
    assert paid.abreast("run", "spec.yaml").code == 0
    assert "needs 20 of 50 in 5 h (40%), 30 left now" in paid.abreast("check", "spec.yaml", "--fresh").err
    paid.cases(40)
    short = paid.abreast("check", "spec.yaml", "--fresh")
    assert "needs 80 of 50 in 5 h (160%), 30 left now\n" in short.err
    assert "help: let the run pause" in short.err
    assert numbers(paid, "--fresh")["quotas"] == [
        {"target": "python:paid:predict", "needed": 80, "most": 50, "window_s": 18000.0, "used": 20}
    ]


# -- asking --------------------------------------------------------------------------------------------------------


@pytest.fixture
def expensive(paid: Folder) -> Folder:
    """Two dollars per trial, known from one trial; then forty more cases."""
    spec(paid, variants="{a: {price: 2}}")
    assert paid.abreast("run", "spec.yaml", "--limit", "1").code == 0
    (paid.path / "results.db").rename(paid.path / "known.db")
    paid.cases(41)
    return paid


def test_high_costs_are_refused_without_a_terminal(expensive: Folder) -> None:
    done = expensive.abreast("run", "spec.yaml", "--store", "known.db")
    assert done.code == 4
    assert "this will cost about $80.00 (40 trials), more than limits.ask_above_usd ($5.00)" in done.err
    assert "--yes" in done.err
    assert len(expensive.abreast("runs", "--store", "known.db", "--json").json) == 1, "no run was begun"
    assert expensive.abreast("aa", "spec.yaml", "--store", "known.db").code == 4
    assert expensive.abreast("check", "spec.yaml", "--store", "known.db").code == 0, "a check spends nothing"
    assert expensive.abreast("run", "spec.yaml", "--store", "known.db", "--dry-run").code == 0
    assert expensive.abreast("run", "spec.yaml", "--store", "known.db", "--yes").code == 0


def test_a_budget_below_the_threshold_needs_no_confirmation(expensive: Folder) -> None:
    assert expensive.abreast("run", "spec.yaml", "--store", "known.db", "--budget", "4").code == 3
    more = expensive.abreast("resume", "--store", "known.db", "--budget", "30")
    assert more.code == 4
    assert re_dollars(more.err) == ["$76.00", "$26.00"]


def re_dollars(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if "this will cost" in line)
    return [word.strip(",") for word in line.split("more than")[0].split() if word.startswith("$")]


def test_the_threshold_is_the_users_own(expensive: Folder) -> None:
    spec(expensive, "limits: {ask_above_usd: 100}\n", "{a: {price: 2}}")
    assert expensive.abreast("run", "spec.yaml", "--store", "known.db").code == 0
    spec(expensive, "limits: {ask_above_usd: -1}\n", "{a: {price: 2}}")
    assert "ask_above_usd must be dollars of at least 0" in expensive.abreast("run", "spec.yaml").err


def test_a_simulated_run_never_asks(folder: Folder) -> None:
    folder.cases(10)
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated, cost_usd: 1000}}\n")
    assert folder.abreast("run", "spec.yaml").code == 0


@pytest.mark.parametrize(("typed", "code", "runs"), [("y\n", 0, 2), ("\n", 4, 1), ("no\n", 4, 1)])
def test_high_costs_need_confirmation_on_a_terminal(expensive: Folder, typed: str, code: int, runs: int) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        done = subprocess.run(
            [*ABREAST, "run", "spec.yaml", "--store", "known.db", "--json"],
            cwd=expensive.path,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "this will cost about $80.00 (40 trials): continue? [y/N]" in done.stderr
    assert len(expensive.abreast("runs", "--store", "known.db", "--json").json) == runs
    if code == 0:
        assert json.loads(done.stdout)[0]["executed"] == 40, "the question is not on standard output"
    else:
        assert "nothing was executed" in done.stderr


def test_unknown_costs_need_no_confirmation(paid: Folder) -> None:
    assert paid.abreast("run", "spec.yaml").code == 0


def test_small_amounts_are_not_rounded_to_nothing() -> None:
    assert [dollars(amount) for amount in (0.0, 0.0004, 0.03, 0.5, 1234.5)] == [
        "$0.00",
        "$0.0004",
        "$0.03",
        "$0.50",
        "$1,234.50",
    ]


# -- in flight -----------------------------------------------------------------------------------------------------


def test_the_mean_in_flight_is_weighted_by_time() -> None:
    now = [10.0]
    flying = ConcurrencyStats(lambda: now[0])
    job: Any = None
    assert (flying.mean, flying.most) == (0.0, 0)
    for _ in range(4):
        flying.started(job, 0)
    for at in (11.0, 12.0, 13.0, 14.0):
        now[0] = at
        flying.finished(job, Outcome("ok"))
    assert flying.mean == pytest.approx(2.5)
    now[0] = 16.0
    flying.started(job, 0)
    now[0] = 18.0
    flying.retried(job, Failure("network", "infrastructure", "gone"), 1.0)
    assert flying.mean == pytest.approx((10 + 2) / 8), "a pause counts, and so does an attempt that failed"
    assert flying.most == 4


def test_the_number_in_flight_is_reported_after_a_run(folder: Folder) -> None:
    folder.cases(40)
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated, latency: 0.05}}\n")
    done = folder.abreast("run", "spec.yaml", "--parallel", "8")
    assert "in flight: 8 requested, " in done.err
    assert "on average, 8 at most" in done.err
    estimate = folder.abreast("run", "spec.yaml", "--parallel", "8", "--fresh", "--json").json[0]["in_flight"]
    assert (estimate["asked"], estimate["most"]) == (8, 8)
    assert 4 < estimate["mean"] <= 8
    events = [
        event["detail"] for event in folder.abreast("show", "--events", "--json").json if event["kind"] == "in_flight"
    ]
    assert events[0]["most"] == 8
    auto = folder.abreast("run", "spec.yaml", "--parallel", "auto", "--fresh")
    assert "in flight: auto, " in auto.err
    second = folder.abreast("run", "spec.yaml")
    assert "in flight: " not in second.err, "nothing was executed"
