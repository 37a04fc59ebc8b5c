"""`Experiment` in Python: the result as objects, the user's own loop, progress, logging, and mistakes."""

from __future__ import annotations

import asyncio
import gc
import html
import inspect
import logging
import re
import signal
import subprocess
import sys
import textwrap
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from abreast import Case, Experiment, Options, Result
from abreast.errors import BadInput
from abreast.execute.job import Job
from abreast.execute.listener import Listener

CASES = [Case(f"c{number}", {"x": number}, expected=str(number)) for number in range(40)]


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABREAST_STORE", raising=False)
    monkeypatch.chdir(tmp_path)


def right_from(case: Case, first: int = 0) -> str:
    return str(case.input["x"]) if case.input["x"] >= first else "wrong"


async def slow(case: Case, delay: float = 0.02) -> str:
    await asyncio.sleep(delay)
    return str(case.input["x"])


def sleepy(case: Case, delay: float = 0.02) -> str:
    time.sleep(delay)
    return str(case.input["x"])


def experiment(target: Any = right_from, variants: Any = None, **more: Any) -> Experiment:
    variants = variants or {"half": {"first": 20}, "all": {}}
    return Experiment(**{"cases": CASES, "target": target, "variants": variants, "scorers": ["exact"], **more})


# -- the result ------------------------------------------------------------------------------------------------------


def test_a_verdict_has_a_word_and_an_effect_and_prints_as_a_sentence() -> None:
    result = experiment().run()
    verdict = result.verdict
    assert (verdict.word, verdict.variant, verdict.baseline) == ("better", "all", "half")
    assert verdict.effect == 0.5
    assert verdict.interval is not None
    low, high = verdict.interval
    assert low == verdict.interval.low < verdict.effect < high
    assert (verdict.wins, verdict.losses, verdict.ties, verdict.cases) == (20, 0, 20, 40)
    assert str(verdict).startswith("all is better than half: +50.0 points (95 % interval")
    assert str(verdict) in "\n".join(line.strip() for line in result.report("markdown").splitlines())
    assert result.verdicts == {"all": verdict}


def test_with_several_verdicts_the_word_is_the_first_and_the_text_has_all() -> None:
    result = experiment(variants={"half": {"first": 20}, "all": {}, "few": {"first": 30}}).run()
    assert result.verdict.variant == "all"
    assert {name: item.word for name, item in result.verdicts.items()} == {"all": "better", "few": "worse"}
    assert "few is worse than half" in str(result.verdict)
    assert "few" not in str(result.verdicts["all"])


@pytest.mark.parametrize("more", [{"variants": {"only": {}}}, {"scorers": []}])
def test_without_a_comparison_the_verdict_says_why(more: dict[str, Any]) -> None:
    verdict = experiment(**more).run().verdict
    assert (verdict.word, verdict.effect, verdict.interval) == ("no comparison", None, None)
    assert verdict.reason in ("there is only one variant", "there is no scorer")
    assert str(verdict)


def test_a_verdict_used_as_text_raises_with_a_fix() -> None:
    verdict = experiment().run().verdict
    with pytest.warns(UserWarning, match="verdict.word == 'better'"):
        assert verdict != "better"
    with pytest.raises(AttributeError, match=r"use str\(verdict\)\.splitlines"):
        _ = verdict.splitlines  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match='did you mean "interval"'):
        _ = verdict.intervall  # type: ignore[attr-defined]


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_rows_are_a_data_frame_in_plan_order(store: str) -> None:
    result = experiment(store=store, repeats=2).run(parallel=8)
    frame, rows = result.to_df(), result.rows()
    columns = ["case_id", "variant", "repeat", "score"]
    assert frame[columns].to_dict("records") == [{name: row[name] for name in columns} for row in rows]
    assert set(frame.columns) == set(rows[0])
    assert result.to_df(library="polars")["case_id"].to_list() == [row["case_id"] for row in rows]


def test_in_a_notebook_foreign_names_and_messages_are_escaped() -> None:
    hostile = "<img src=x onerror=alert(1)>"

    def fails(case: Case) -> str:
        raise ValueError(f"</p><script>alert('$x$')</script>{hostile}")

    page = experiment(target=None, variants={hostile: {"target": fails}, "b": {"target": fails}}).run()._repr_html_()
    assert "<img" not in page
    assert "<script" not in page
    assert html.escape(hostile) in page
    assert "$" not in page, "a notebook would render it as a formula"
    assert "no trial gave an answer" in page
    assert "<td>b</td>" in page


def test_in_a_notebook_a_simulated_result_is_marked() -> None:
    page = experiment("simulated", {"a": {"accuracy": 0.5}, "b": {"accuracy": 1.0}}).run()._repr_html_()
    assert "SIMULATED" in page


# -- the loop of a user ------------------------------------------------------------------------------------------------


def test_arun_works_on_the_callers_loop_and_leaves_it_and_its_signals_alone() -> None:
    loops, handlers, turns = set(), set(), 0

    async def target(case: Case) -> str:
        loops.add(asyncio.get_running_loop())
        handlers.add(signal.getsignal(signal.SIGTERM))
        return await slow(case)

    async def main() -> Result:
        nonlocal turns

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        counting = asyncio.create_task(count())
        handlers.add(signal.getsignal(signal.SIGTERM))
        loops.add(asyncio.get_running_loop())
        try:
            return await experiment(target, {"a": {}, "b": {}}).arun(parallel=4)
        finally:
            counting.cancel()

    result = asyncio.run(main())
    assert (result.status, result.executed, len(loops), len(handlers)) == ("complete", 80, 1, 1)
    assert turns > 10


def test_run_works_inside_a_running_loop() -> None:
    async def main() -> Result:
        return experiment(slow, {"a": {}, "b": {"delay": 0.0}}).run(parallel=8)

    assert asyncio.run(main()).executed == 80


class CancelAfter(Listener):
    """Cancels a task as soon as this many trials are stored."""

    def __init__(self, trials: int) -> None:
        self.trials = trials
        self.task: asyncio.Task[Result] | None = None

    def stored(self, jobs: Sequence[Job]) -> None:
        self.trials -= len(jobs)
        if self.trials <= 0 and self.task is not None:
            self.task.cancel()


@pytest.mark.parametrize("target", [slow, sleepy])
def test_a_cancelled_run_keeps_finished_trials_and_can_be_resumed(target: Any) -> None:
    def new_experiment() -> Experiment:
        return experiment(target, {"a": {"delay": 0.01}, "b": {"delay": 0.02}})

    async def cancelled() -> None:
        listener = CancelAfter(20)
        listener.task = asyncio.create_task(new_experiment().arun(parallel=2, listeners=[listener]))
        await listener.task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    result = asyncio.run(new_experiment().arun(parallel=20))
    assert result.status == "complete"
    assert 20 <= result.done_before < 30
    assert result.done_before + result.executed == 80
    assert {row["status"] for row in result.rows()} == {"ok"}


def test_a_run_that_is_cancelled_before_it_begins_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.create_task(experiment(slow, {"a": {}}).arun())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert not (tmp_path / "results.db").exists()


def test_runs_at_the_same_time_in_one_loop_do_not_disturb_each_other() -> None:
    async def main() -> list[Result]:
        short = experiment(slow, {"a": {}}, store="short.db").arun(parallel=20)
        long = experiment(slow, {"a": {"delay": 0.05}}, store="long.db").arun(parallel=10)
        return await asyncio.gather(long, short)

    before = gc.get_threshold()
    assert [result.executed for result in asyncio.run(main())] == [40, 40]
    assert gc.get_threshold() == before


def test_ctrl_c_in_a_script_with_its_own_loop_stores_what_is_finished(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import asyncio
        from abreast import Experiment

        async def slow(case):
            print("started", flush=True)
            await asyncio.sleep(0.05)
            return case.input

        async def main():
            cases = [{"id": str(number), "input": "yes", "expected": "yes"} for number in range(60)]
            result = await Experiment(cases=cases, target=slow, variants={"a": {}}, scorers=["exact"]).arun()
            print("done before", result.done_before, result.status)

        asyncio.run(main())
        """)
    )
    process = subprocess.Popen([sys.executable, "script.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    output = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    (line,) = [line for line in output.splitlines() if line.startswith("done before")]
    assert line.endswith("complete")
    assert 3 <= int(line.split()[2]) < 60


# -- progress and logging ----------------------------------------------------------------------------------------------


def test_a_run_prints_nothing_without_progress(capsys: pytest.CaptureFixture[str]) -> None:
    experiment().run()
    assert capsys.readouterr() == ("", "")
    experiment().run(progress=True, fresh=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "80/80" in err


@dataclass
class Cell:
    """Output that a kernel would show below a cell; replaces IPython, which is not a dependency."""

    contents: list[str]

    def update(self, content: dict[str, str], raw: bool) -> None:
        assert raw
        self.contents.append(content["text/plain"])


def test_in_a_notebook_progress_is_one_line_that_is_updated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = Cell([])

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Cell:
        assert display_id
        cell.update(content, raw)
        return cell

    shell = types.SimpleNamespace(kernel=object())
    ipython, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    experiment(slow, {"a": {}, "b": {}}).run(parallel=2, progress=True)
    assert cell.contents[0].startswith("0/80")
    assert cell.contents[-1].startswith("80/80")
    assert 3 <= len(cell.contents) < 40, "updated a few times a second, not for each trial"
    assert capsys.readouterr() == ("", "")


def test_the_run_is_logged_without_adding_a_handler(caplog: pytest.LogCaptureFixture) -> None:
    def fails_once(case: Case) -> str:
        if case.id == "c7":
            raise ValueError("seven\nis too many")
        return str(case.input["x"])

    with caplog.at_level(logging.INFO, logger="abreast"):
        result = experiment(fails_once, {"a": {}}).run()
    messages = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "abreast"]
    assert ("INFO", f"{result.run}: started, 40 of 40 trials left") in messages
    assert messages[-1] == ("INFO", f"{result.run}: complete, 40 trials executed")
    assert ("INFO", "c7 a: error: crash: ValueError: seven is too many") in messages
    assert not logging.getLogger("abreast").handlers


def test_without_logging_a_run_in_which_everything_failed_prints_why(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        from abreast import Experiment

        def predict(item):
            return item["question"]

        cases = [{"id": str(number), "input": {"question": "?"}, "expected": "yes"} for number in range(4)]
        Experiment(cases=cases, target=predict, variants={"a": {}, "b": {}}, scorers=["exact"]).run()
        """)
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=True)
    assert "no trial gave an answer: 8 failed (8 crash); first error: crash: TypeError: " in done.stderr
    assert "write case.input['question']" in done.stderr
    assert "script.py:5 in predict" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_stopped_run_warns_and_says_how_to_resume(caplog: pytest.LogCaptureFixture) -> None:
    def fails(case: Case) -> str:
        raise ValueError("broken")

    experiment(fails, {"a": {}, "b": {}}).run()
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "stopped: variant" in message
    assert "trials not run" in message
    assert "run the experiment again" in message


# -- mistakes ----------------------------------------------------------------------------------------------------------


def takes_item(item: Any) -> str:
    return str(item["x"])


def takes_text(text: Any) -> str:
    return str(text.x)


def asks_for_expected(item: Any) -> str:
    return str(item["expected"])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (takes_item, "write case.input['x']"),
        (takes_text, "write case.input['x']"),
        (asks_for_expected, "write case.expected"),
        (lambda text: text.lower(), "the function is called with the whole case"),
        (lambda case: None, "the function returned None"),
        (lambda case: object(), "return text, a number, a list or a dict"),
    ],
)
def test_a_function_that_mistakes_the_case_for_its_input_gets_a_hint(target: Callable[..., Any], message: str) -> None:
    assert message in str(experiment(target, {"a": {}, "b": {}}).run(limit=4).verdict)


@dataclass(frozen=True)
class Params:
    style: str = "brief"


def test_a_function_with_a_dataclass_that_mistakes_the_input_for_the_case_gets_a_hint() -> None:
    def predict(item: Any, params: Params) -> Any:
        return item.input

    result = experiment(predict, {"a": Params()}).run(limit=2)
    assert "the function receives case.input, not the case" in str(result.verdict)


def two_parameters(item: Any, params: Any) -> str:
    return ""


def misspelt(case: Case, styel: str = "") -> str:
    return ""


@pytest.mark.parametrize(
    ("target", "fix"),
    [
        (lambda: "", r"write def function\(case, style\)"),
        (two_parameters, r"write def two_parameters\(case, style\), or a dataclass of parameters"),
        (misspelt, 'did you mean "styel"'),
    ],
)
def test_a_function_with_wrong_parameters_is_refused_with_the_right_signature(target: Any, fix: str) -> None:
    with pytest.raises(BadInput, match="cannot be called with these parameters") as caught:
        experiment(target, {"a": {"style": "brief"}}).run()
    (note,) = caught.value.__notes__  # shown by a traceback below the message
    assert note == caught.value.fix
    assert re.search(fix, note)


def gives_text(text: str) -> Any:
    return "yes"


def gives_nothing(text: str) -> Any:
    return None


@pytest.mark.parametrize(
    ("scorer", "returned"), [(gives_text, "'yes', which is not a number"), (gives_nothing, "no score but None")]
)
def test_a_scorer_that_returns_no_score_is_explained_in_the_verdict(
    scorer: Any, returned: str, caplog: pytest.LogCaptureFixture
) -> None:
    verdict = experiment(scorers=[scorer]).run().verdict
    assert f"no answer could be scored: gave {returned}; a scorer returns True, False, a number" in str(verdict)
    assert "no answer could be scored" in caplog.text


def test_a_scorer_that_takes_expected_needs_a_case_that_has_it() -> None:
    def same(text: str, expected: Any) -> bool:
        return bool(text == expected)

    def nothing_expected(text: str, expected: Any = None) -> bool:
        return expected is None

    cases = [Case("one", {"x": 1}), Case("two", {"x": 2})]
    with pytest.raises(BadInput, match='no case has "expected"'):
        experiment(cases=cases, scorers=[same]).run()
    with pytest.raises(BadInput, match='"expected" is missing'):
        experiment(cases=cases).run()
    assert experiment(cases=[*cases, Case("three", {"x": 3}, "3")], scorers=[same]).run().status == "complete"
    assert experiment(cases=cases, scorers=[nothing_expected]).run().status == "complete"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scorers": "exact"}, r"scorers must be a list such as \[exact\]"),
        ({"cases": ["What is 2 + 2"]}, "no such file"),
    ],
)
def test_a_string_instead_of_a_list_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        experiment(**change).run()


@pytest.mark.parametrize(
    ("name", "instead"),
    [("df", r"result\.to_df\(\)"), ("winner", r"result\.verdict\.word"), ("score", r"result\.analysis\.variants")],
)
def test_a_wrong_attribute_of_a_result_names_the_right_one(name: str, instead: str) -> None:
    result = experiment().run(limit=2)
    with pytest.raises(AttributeError, match=instead):
        getattr(result, name)
    with pytest.raises(AttributeError, match='did you mean "status"'):
        _ = result.statsu  # type: ignore[attr-defined]


# -- options -----------------------------------------------------------------------------------------------------------


def test_the_options_of_a_run_are_parameters_with_types() -> None:
    names = [item.name for item in fields(Options)]
    for method in (Experiment.run, Experiment.arun, Experiment.check):
        parameters = inspect.signature(method).parameters
        assert [name for name in parameters if name not in ("self", "options")] == names
        assert parameters["parallel"].annotation == "int | str | Mapping[str, int] | None"


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match='did you mean "parallel"'):
        experiment().run(paralel=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match='did you mean "budget_usd"'):
        asyncio.run(experiment().arun(budget=4))  # type: ignore[call-arg]


def test_a_single_name_is_accepted_as_a_list() -> None:
    result = experiment().run(variant="all", case="c3", parallel=2)
    assert [(row["case_id"], row["variant"]) for row in result.rows()] == [("c3", "all")]
