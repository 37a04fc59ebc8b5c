"""A benchmark with its own loop, from validation and debugging to the two tables."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic
import pytest

from abreast import (
    Reader,
    Tracker,
    check_data_committed,
    pre_experiment_validation,
    validate_schema_before_experiment,
)
from abreast.errors import BadInput
from conftest import Done, Folder

BENCHMARK = """
    from dataclasses import dataclass
    from abreast import Reader, Tracker

    @dataclass(frozen=True)
    class BenchmarkParams:
        model_name: str
        embedding_dim: int

    def run_single_prediction(item, params):
        with open("executed", "a") as file:
            file.write(f"{params.model_name} {item['id']}\\n")
        if item["id"] % 10 == 9 or params.model_name == "broken":
            raise TimeoutError("no answer")
        right = item["id"] % 3 != 0 or params.model_name == "roberta-base"
        return {
            "prediction": item["label"] if right else "?",
            "ground_truth": item["label"],
            "latency": 0.01 * item["id"],
            "confidence": 0.5,
        }

    dataset = [{"id": number, "label": "ab"[number % 2]} for number in range(40)]
"""


@pytest.fixture
def workdir(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(folder.path)
    folder.write("benchmark.py", BENCHMARK)
    return folder


def script(workdir: Folder, text: str, *words: str) -> Done:
    path = workdir.write("script.py", text)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, path.name, *words], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def git(*words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *author, *words], capture_output=True, text=True, check=True).stdout.strip()


# -- the loops -----------------------------------------------------------------------------------------------------


def test_threads_can_track_into_duckdb(workdir: Folder) -> None:
    text = """
        from concurrent.futures import ThreadPoolExecutor
        from functools import partial
        from benchmark import *

        def run_with_tracker(item, params):
            tracker = Tracker(db="benchmark.db", engine="duckdb", cache="cache_dir", table="predictions")
            return tracker.track(run_single_prediction, args=[item, params])

        params = BenchmarkParams(model_name="bert-base", embedding_dim=768)
        with ThreadPoolExecutor(max_workers=4) as pool:
            results = list(pool.map(partial(run_with_tracker, params=params), dataset))
        print(len(results), sum("error" in result for result in results))
    """
    assert script(workdir, text).out.split() == ["40", "4"]
    assert script(workdir, text).out.split() == ["40", "4"]
    assert len((workdir.path / "executed").read_text().splitlines()) == 44
    frame = Reader(db="benchmark.db", table="predictions").to_df()
    assert len(frame) == 80
    assert frame["cache"].notna().sum() == 36
    assert set(frame["params_embedding_dim"]) == {768}
    assert set(frame["item_id"]) == set(range(40))


def test_processes_can_track_into_sqlite(workdir: Folder) -> None:
    text = """
        from functools import partial
        from multiprocessing import Pool
        from benchmark import *

        def run_with_tracker(item, params):
            tracker = Tracker(db="benchmark.db", engine="sqlite", cache="cache_dir", table="predictions")
            return tracker.track(run_single_prediction, args=[item, params])

        if __name__ == "__main__":
            params = BenchmarkParams(model_name="bert-base", embedding_dim=768)
            with Pool(processes=4) as pool:
                results = pool.map(partial(run_with_tracker, params=params), dataset)
            print(len(results), sum("error" in result for result in results))
    """
    assert script(workdir, text).out.split() == ["40", "4"]
    assert script(workdir, text).out.split() == ["40", "4"]
    assert len((workdir.path / "executed").read_text().splitlines()) == 44
    assert len(Reader(db="benchmark.db", table="predictions").to_df()) == 80


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_full_benchmark_fills_both_tables(workdir: Folder, engine: str) -> None:
    text = """
        import sys
        from benchmark import *

        for name in ("bert-base", "roberta-base", "broken"):
            params = BenchmarkParams(model_name=name, embedding_dim=768)
            predictions_tracker = Tracker(
                db="benchmark.db", engine=sys.argv[1], cache="cache_dir", table="predictions",
                params={"experiment_id": f"exp-{name}"},
            )
            metrics_tracker = Tracker(
                db="benchmark.db", engine=sys.argv[1], table="metrics", params={"experiment_id": f"exp-{name}"}
            )
            results = [predictions_tracker.track(run_single_prediction, args=[item, params]) for item in dataset]
            successful = [result for result in results if result.get("error") is None]
            if successful:
                right = sum(result["prediction"] == result["ground_truth"] for result in successful)
                metrics_tracker.log({
                    "model_name": params.model_name,
                    "accuracy": right / len(successful),
                    "avg_latency": sum(result["latency"] for result in successful) / len(successful),
                    "n_predictions": len(dataset),
                    "n_successful": len(successful),
                    "n_failed": len(results) - len(successful),
                })
            print(name, f"{right / len(successful):.4f}" if successful else "N/A (all failed)")
    """
    first = script(workdir, text, engine).out
    assert "broken N/A (all failed)" in first
    assert script(workdir, text, engine).out == first
    metrics = workdir.sql("select experiment_id, accuracy, n_failed, source from metrics order by 1, 2", "benchmark.db")
    assert [row["n_failed"] for row in metrics] == [4] * 4
    assert {row["source"] for row in metrics} == {"logged"}
    by_model = (
        "select params_model_name as model, avg(case when prediction = ground_truth then 1.0 else 0 end) as accuracy, "
        "count(cache) as cached from db.predictions where error is null group by 1 order by 1"
    )
    rows = workdir.sql(by_model, "benchmark.db")
    assert [(row["model"], row["cached"]) for row in rows] == [("bert-base", 36), ("roberta-base", 36)]
    assert rows[0]["accuracy"] == pytest.approx(metrics[0]["accuracy"])


def test_rows_of_a_debug_run_can_be_inspected_and_deleted(workdir: Folder) -> None:
    text = """
        import subprocess
        from benchmark import *

        predictions_tracker = Tracker(db="benchmark.db", table="predictions", cache="cache_dir")
        params = BenchmarkParams("bert-base", 768)
        for item in dataset[:4]:
            result = predictions_tracker.track(run_single_prediction, args=[item, params])
        reader = Reader(db="benchmark.db", table="predictions")
        print(reader.to_df().tail())
        for tid in reader.to_df()["track_id"].unique():
            subprocess.run(["abreast", "delete", "benchmark.db", tid, "--yes"], check=True)
        print(len(reader.to_df()), "left")
    """
    assert "0 left" in script(workdir, text).out
    script(workdir, text)
    executed = (workdir.path / "executed").read_text().splitlines()
    assert len(executed) == 8, "what is cached goes with its rows"


# -- the check before --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Params:
    model_name: str = "bert"
    lr: float = 0.1
    top_k: int = 3


@dataclass(frozen=True)
class Renamed:
    model_name: str = "bert"
    learning_rate: float = 0.1
    top_k: int = 3


@dataclass(frozen=True)
class Other:
    model_name: str = "bert"
    lr: float = 0.1
    top_p: float = 0.5


@dataclass(frozen=True)
class Nested:
    inner: Params = field(default_factory=Params)


class Model(pydantic.BaseModel):
    model_name: str = "bert"
    lr: float = 0.1
    top_k: int = 3


def filled(params: Any = Params(), **result: Any) -> Tracker:  # noqa: B008
    tracker = Tracker("benchmark.db")
    tracker.track(lambda item, params: {"prediction": 1, **result}, args=[{"id": 1}, params])
    return tracker


def test_a_renamed_parameter_stops_the_experiment_and_the_printed_command_fixes_it(
    workdir: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate_schema_before_experiment("benchmark.db", "predictions", Params)
    assert "first experiment" in capsys.readouterr().out
    assert not (workdir.path / "benchmark.db").exists()
    filled()
    assert validate_schema_before_experiment("benchmark.db", "predictions", Params)
    assert validate_schema_before_experiment("benchmark.db", "predictions", Model)
    assert validate_schema_before_experiment("benchmark.db", "predictions", Other), "top_p is not top_k"
    assert "removed: top_k" in capsys.readouterr().out
    assert not validate_schema_before_experiment("benchmark.db", "predictions", Renamed)
    output = capsys.readouterr().out
    assert "params_lr seems to be params_learning_rate" in output
    command = output.split("→ abreast ")[1].split()
    assert workdir.abreast(*command, "--yes").code == 0
    assert validate_schema_before_experiment("benchmark.db", "predictions", Renamed)
    filled(Renamed())
    assert workdir.sql("select params_learning_rate as lr from predictions", "benchmark.db") == [{"lr": 0.1}] * 2
    with pytest.raises(BadInput, match="neither a dataclass nor"):
        validate_schema_before_experiment("benchmark.db", "predictions", int)


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_column_is_renamed_even_if_new_rows_have_the_new_name(workdir: Folder, engine: str) -> None:
    tracker = Tracker("benchmark.db", engine=engine, table="mine")
    tracker.log_batch([{"lr": 0.5}, {"rate": 1}])
    assert workdir.abreast("rename", "--yes", "benchmark.db", "lr", "rate", "--table", "mine").code == 0
    assert list(Reader("benchmark.db", table="mine").to_df()["rate"]) == [0.5, 1.0]
    tracker.log_batch([{"lr": 0.7, "rate": 2}])
    refused = workdir.abreast("rename", "--yes", "benchmark.db", "lr", "rate", "--table", "mine")
    assert (refused.code, "would be lost" in refused.err) == (2, True)
    assert workdir.sql("select lr, rate from mine where lr is not null", "benchmark.db") == [{"lr": 0.7, "rate": 2}]
    assert workdir.abreast("rename", "--yes", "benchmark.db", "nothing", "rate", "--table", "mine").code == 2
    assert workdir.abreast("rename", "--yes", "benchmark.db", "track_id", "who", "--table", "mine").code == 2


def test_the_check_before_an_experiment_reports_changes_and_columns(
    workdir: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pre_experiment_validation("benchmark.db", "predictions", "metrics", Params)
    assert not (workdir.path / "benchmark.db").exists()
    git("init", "-q")
    git("add", "benchmark.py")
    git("commit", "-qm", "one")
    script(workdir, "from benchmark import *\nTracker('benchmark.db', table='metrics').log({'accuracy': 1.0})")
    capsys.readouterr()
    assert pre_experiment_validation("benchmark.db", params_dataclass=Params)
    assert "same commit as the last experiment" in capsys.readouterr().out
    workdir.write("benchmark.py", BENCHMARK + "    more = 1\n")
    git("commit", "-qam", "two")
    workdir.write("benchmark.py", BENCHMARK + "    more = 2\n")
    filled(confidence=0.5)
    questions: list[str] = []

    def answer(question: str) -> bool:
        questions.append(question)
        return question.startswith("continue")

    assert pre_experiment_validation("benchmark.db", params_dataclass=Params, ask=answer)
    output = capsys.readouterr().out
    assert "the code changed since the last experiment" in output
    assert "benchmark.py  +1 −0" in output
    assert "not committed on main: benchmark.py" in output
    assert "not kept: raw_response, tokens, cost" in output
    assert [question.split()[0:2] for question in questions] == [
        ["continue", "with"],
        ["add", "fields"],
        ["add", "aggregations"],
    ]
    assert not pre_experiment_validation("benchmark.db", params_dataclass=Params, ask=lambda _: False)
    assert not pre_experiment_validation("benchmark.db", params_dataclass=Params, ask=lambda _: True)
    assert "try it on a few items" in capsys.readouterr().out
    frame = Reader("benchmark.db", table="validations").to_df()
    assert list(frame["passed"]) == [True, True, False, False]
    assert list(frame["answer_code"])[1:] == [True, False, True]


def test_on_a_terminal_it_asks_and_no_is_the_default(workdir: Folder) -> None:
    git("init", "-q")
    git("add", "benchmark.py")
    git("commit", "-qm", "one")
    script(workdir, "from benchmark import *\nTracker('benchmark.db', table='metrics').log({'accuracy': 1.0})")
    git("commit", "-q", "--allow-empty", "-m", "two")
    workdir.write(
        "ask.py", "from abreast import pre_experiment_validation as check\nprint('answer', check('benchmark.db'))\n"
    )
    for typed, expected in (("\n", "answer False"), ("y\nn\n", "answer True")):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "ask.py"], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        os.close(slave)
        os.write(master, typed.encode())
        out, _ = process.communicate(timeout=60)
        os.close(master)
        assert "continue with code changes? [y/N]" in out
        assert expected in out


def test_data_that_differs_from_its_version_is_reported(workdir: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_data_committed()
    git("init", "-q")
    workdir.write("data.csv", "a,b\n1,2\n")
    assert not check_data_committed("data.csv")
    assert "git add data.csv" in capsys.readouterr().out
    git("add", "data.csv")
    git("commit", "-qm", "data")
    assert check_data_committed("data.csv")
    workdir.write("large.csv", "1\n")
    workdir.write("large.csv.dvc", "outs:\n- md5: b026324c6904b2a9cb4b88d6d61c81d1\n  hash: md5\n  path: large.csv\n")
    git("add", "large.csv.dvc")
    git("commit", "-qm", "large")
    assert check_data_committed()
    assert "matches DVC (b026324)" in capsys.readouterr().out
    workdir.write("large.csv", "2\n")
    assert not check_data_committed()
    assert "dvc add large.csv" in capsys.readouterr().out
    (workdir.path / "large.csv").unlink()
    assert not check_data_committed("large.csv")
    assert not check_data_committed("nowhere.csv")
