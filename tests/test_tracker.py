"""Users with their own loop: tracked values are stored unchanged, whatever else the program does."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import math
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
import zoneinfo
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast import Reader, Tracker
from abreast.errors import BadInput, StoreError
from conftest import Done, Folder

ENGINES = ("sqlite", "duckdb")


@dataclass(frozen=True)
class Inner:
    depth: int = 2


@dataclass(frozen=True)
class Params:
    model_name: str
    embedding_dim: int = 768
    inner: Inner = field(default_factory=Inner)


class Settings(pydantic.BaseModel):
    rate: float = 0.5


def predict(item: dict[str, Any], params: Params, top_k: int = 3) -> dict[str, Any]:
    if item.get("broken"):
        raise ValueError("no such label")
    return {"prediction": item["text"].upper(), "confidence": 0.9, "correct": True, "found": [1, 2]}


@pytest.fixture
def workdir(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(folder.path)
    return folder


def script(folder: Folder, text: str, *words: str, name: str = "script.py", code: int = 0) -> Done:
    """Run a user program in a separate process."""
    path = folder.write(name, text)
    done = subprocess.run(
        [sys.executable, path.name, *words], cwd=folder.path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == code, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


# -- a row per call ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_call_is_a_row_with_its_arguments_and_results(workdir: Folder, engine: str) -> None:
    tracker = Tracker(db="benchmark.db", engine=engine, params={"experiment_id": "e1"})
    returned = tracker.track(predict, args=[{"text": "a", "id": 7}, Params("bert")], kwargs={"top_k": 5})
    assert returned == {"prediction": "A", "confidence": 0.9, "correct": True, "found": [1, 2]}
    (row,) = Reader("benchmark.db", table="predictions").to_df().to_dict("records")
    expected = {
        "prediction": "A",
        "confidence": 0.9,
        "correct": True,
        "found": [1, 2],
        "item_text": "a",
        "item_id": 7,
        "params_model_name": "bert",
        "params_embedding_dim": 768,
        "params_inner_depth": 2,
        "top_k": 5,
        "experiment_id": "e1",
        "function_name": "predict",
        "track_id": tracker.track_id,
        "error": None,
        "cache": None,
    }
    assert {key: row[key] for key in expected} == expected
    assert row["function_time"] >= 0
    assert abs(datetime.datetime.fromisoformat(row["timestamp"] + "+00:00").timestamp() - time.time()) < 60
    assert re.fullmatch(r"[a-z]+-[a-z]+-\d{4}", tracker.track_id)


def test_every_kind_of_argument_has_named_columns(workdir: Folder) -> None:
    def many(plain: Any, model: Settings, *rest: Any, frame: Any = None, **more: Any) -> int:
        return 42

    tracker = Tracker("results.db")
    assert tracker.track(many, [1.5, Settings(rate=0.1), 8, 9], {"frame": np.zeros((3, 2)), "extra": "x"}) == 42
    assert tracker.track(many, [None, Settings()], {"extra": {"a": 1}}) == 42
    first, second = tracker.to_df().to_dict("records")
    assert (first["plain"], first["model_rate"], first["rest"], first["extra"]) == (1.5, 0.1, [8, 9], "x")
    assert first["frame"] == "ndarray 3×2 float64"
    assert first["function_result"] == 42
    assert (math.isnan(second["plain"]), second["extra_a"]) == (True, 1)


def test_a_function_that_raises_is_a_row_with_its_error(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    result = tracker.track(predict, args=[{"text": "a", "broken": True}, Params("bert")])
    assert result == {"error": "ValueError: no such label"}
    tracker.track(predict, args=[{"text": "a"}, Params("bert")])
    with pytest.raises(ValueError, match="no such label"):
        tracker.track(predict, args=[{"broken": True}, Params("bert")], raise_on_error=True)
    with pytest.raises(ZeroDivisionError):
        Tracker("results.db", raise_on_error=True).track(lambda: 1 / 0)
    with pytest.raises(KeyboardInterrupt):
        tracker.track(_interrupted)
    rows = workdir.sql("select error, params_model_name, traceback from predictions order by timestamp")
    assert [row["error"] for row in rows] == [
        "ValueError: no such label",
        None,
        "ValueError: no such label",
        "ZeroDivisionError: division by zero",
        "KeyboardInterrupt",
    ]
    assert "in predict" in rows[0]["traceback"]
    assert "tracker.py" not in rows[0]["traceback"].replace(Path(__file__).name, "")
    assert rows[2]["params_model_name"] == "bert"
    assert workdir.sql("select count(*) as n from predictions where error is null") == [{"n": 1}]


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_an_empty_error_is_none(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    tracker.track(lambda: {"error": "", "prediction": 1})
    tracker.track(lambda: {"error": None, "prediction": 1})
    assert workdir.sql("select count(*) as n from predictions where error is null") == [{"n": 2}]


def test_a_call_with_wrong_arguments_is_stored_with_its_error(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    assert "missing 1 required" in tracker.track(predict, args=[{"text": "a"}])["error"]
    assert workdir.sql("select item_text from predictions") == [{"item_text": "a"}]


def test_async_and_decorated_functions_are_tracked(workdir: Folder) -> None:
    tracker = Tracker("results.db", cache="cache")

    async def ask(question: str) -> dict[str, str]:
        await asyncio.sleep(0)
        if question == "bad":
            raise RuntimeError("no")
        return {"prediction": question * 2}

    @tracker.wrap
    def double(x: int) -> int:
        return 2 * x

    @tracker.wrap(params={"wrapped": True})
    def triple(x: int) -> int:
        """Three times."""
        return 3 * x

    async def main() -> list[Any]:
        return await asyncio.gather(*(tracker.track(ask, args=[word]) for word in ("a", "bad", "a")))

    assert asyncio.run(main()) == [{"prediction": "aa"}, {"error": "RuntimeError: no"}, {"prediction": "aa"}]
    assert asyncio.run(main())[0] == {"prediction": "aa"}
    assert (double(4), triple(x=2), triple.__doc__) == (8, 6, "Three times.")
    assert workdir.sql("select function_name, x, wrapped from predictions where x is not null order by x") == [
        {"function_name": "triple", "x": 2, "wrapped": 1},
        {"function_name": "double", "x": 4, "wrapped": None},
    ]
    assert workdir.sql("select count(cache) as hits from predictions where question = 'a'") == [{"hits": 2}]


def test_resources_of_a_call_are_measured_on_request(workdir: Folder) -> None:
    def work() -> int:
        block = bytearray(60_000_000)
        until = time.process_time() + 0.06
        while time.process_time() < until:
            block[-1] = 1
        return len(block)

    tracker = Tracker("results.db", resources=True)
    tracker.track(work)
    (row,) = tracker.to_df().to_dict("records")
    assert row["cpu_s"] >= 0.06
    assert row["memory_peak_mb"] > 60


def test_every_row_has_the_commit_of_the_code(workdir: Folder) -> None:
    def git(*words: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
        return subprocess.run(["git", *author, *words], capture_output=True, text=True, check=True).stdout.strip()

    Tracker("before.db").log({"x": 1})
    assert Reader("before.db").to_df()["code_commit"].isna().all()
    git("init", "-q")
    workdir.write("model.py", "x = 1\n")
    git("add", "model.py")
    git("commit", "-qm", "first")
    program = "from abreast import Tracker\nTracker('results.db').log({'x': 1})\n"
    script(workdir, program)
    workdir.write("model.py", "x = 2\n")
    script(workdir, program)
    rows = Reader("results.db").to_df().to_dict("records")
    assert [row["code_commit"] for row in rows] == [git("rev-parse", "--short", "HEAD")] * 2
    assert [row["code_dirty"] for row in rows] == [False, True]


# -- rows of any form ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_may_have_any_name(workdir: Folder, engine: str) -> None:
    names = [
        "order",
        "group",
        "größe",
        "数",
        "Mixed",
        "mixed",
        "MIXED",
        "with space",
        'a"b',
        "a'b",
        "select",
        "a.b",
        "%",
    ]
    names += ["seq", "rowid", "row_id", "track_id", "", " ", "x" * 500, "{error}", "?1"]
    tracker = Tracker("results.db", engine=engine)
    tracker.log({name: number for number, name in enumerate(names)})
    tracker.track(lambda: {name: number for number, name in enumerate(names)})
    for row in Reader("results.db").to_df().to_dict("records"):
        stored = {**row, **row["more_columns"]}
        for number, name in enumerate(names):
            assert stored[f"result_{name}" if name in ("row_id", "track_id") else name] == number, name
        assert row["track_id"] == tracker.track_id
    assert workdir.sql('select "order" + "group" as n, "größe" as g from predictions limit 1') == [{"n": 1, "g": 2}]
    tracker.flush()


class Colour(enum.Enum):
    RED = "red"


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_VALUES = {
    "boolean": st.booleans(),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "large": st.integers(2**63, 2**200),
    "real": st.floats(allow_nan=False),
    "text": st.text(st.characters(exclude_categories=["Cs"])),
    "blob": st.binary(),
    "datetime": st.datetimes(),
    "list": st.lists(_JSON, min_size=1, max_size=3),
    "dict": st.dictionaries(st.text(max_size=5), _JSON, min_size=1, max_size=3),
}


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({}, optional={name: values | st.none() for name, values in _VALUES.items()}), min_size=1
    ),
    engine=st.sampled_from(ENGINES),
)
def test_values_keep_their_types(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], engine: str
) -> None:
    db = tmp_path_factory.mktemp("values") / "results.db"
    Tracker(db, engine).log_batch(rows)
    frame = Reader(db).to_df()
    for name in {name for row in rows for name in row}:
        logged, read = [row.get(name) for row in rows], list(frame[name])
        for before, after in zip(logged, read, strict=True):
            if before is None:
                assert pd.isna(after)
            else:
                assert before == after, name
                assert isinstance(after, type(before) | np.bool_ | np.integer | np.floating | pd.Timestamp)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_keeps_values_of_other_types(workdir: Folder, engine: str) -> None:
    tracker = Tracker("results.db", engine=engine, table="mixed")
    values: list[Any] = [True, 3, 2.5, "text", {"a": 1}, None, 10**30, b"\x00\xff", Colour.RED, np.float32(1.5)]
    for value in values:
        tracker.log({"x": value})
        tracker.flush()
    values = list(Reader("results.db", table="mixed").to_df()["x"])
    assert values[:4] == [1, 3, 2.5, "text"]
    assert values[4:6] == ['{"a":1}', None]
    assert values[6:] == [str(10**30), b"\x00\xff", "red", 1.5]
    assert workdir.sql("select count(*) as n from mixed where x is not null") == [{"n": 9}]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "table",
    ["default", "runs", "events", "metrics", "Trials", "tracked_metrics", "db.mine", "größe", "batch", "tables"],
)
def test_a_table_may_have_any_name(workdir: Folder, engine: str, table: str) -> None:
    tracker = Tracker("results.db", engine=engine)
    tracker.log({"x": 1}, table=table)
    Tracker("results.db", table=table).log({"x": 2})
    assert list(Reader("results.db", table=table).to_df()["x"]) == [1, 2]
    assert workdir.abreast("runs", "--store", "results.db").code == 0
    assert workdir.sql("select 1 as n") == [{"n": 1}]
    listed = Reader("results.db").tables()
    assert table.removeprefix("db.") in listed
    assert {"predictions", "metrics"} <= set(listed)


def test_keys_beyond_the_column_limit_are_kept(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    tracker.log({f"k{number}": number for number in range(2_500)})
    (row,) = Reader("results.db").to_df().to_dict("records")
    assert {**row, **row["more_columns"]}["k2499"] == 2499
    assert row["k7"] == 7


def test_bad_input_is_refused_with_a_message(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    bad: list[tuple[Callable[[], Any], str]] = [
        (lambda: tracker.track("predict"), "is not a function"),
        (lambda: tracker.track(predict, args="ab"), "args must be a list"),
        (lambda: tracker.track(predict, args=5), "args must be a list"),
        (lambda: tracker.track(predict, kwargs=[1]), "kwargs: must be a dictionary"),
        (lambda: tracker.log([1]), "log: must be a dictionary"),  # type: ignore[arg-type]
        (lambda: Tracker("results.db", table=""), "invalid table name"),
        (lambda: Tracker("results.db", engine="oracle"), 'unknown store engine "oracle"'),
        (lambda: Tracker("results.db", engine="duckdb"), "this is a SQLite store"),
        (lambda: Reader(":memory:"), "only a Tracker can use it"),
        (lambda: Tracker("results.db", track_id=""), "track_id"),
        (lambda: Reader("results.db", table="predictons").to_df(), "predictions"),
        (lambda: Reader("results.db").where(nothing=1), 'no column "nothing"'),
        (lambda: Reader("results.db").where("x >"), "predictions: "),
        (lambda: Reader("results.db").where("x > ?"), "predictions: "),
    ]
    tracker.log({"x": 1})
    for call, message in bad:
        with pytest.raises(BadInput, match=re.escape(message)):
            call()
    with pytest.raises(StoreError, match="no such store"):
        Reader("missing.db").to_df()
    workdir.write("other.db", b"SQLite format 3\0" + b"\0" * 84)
    with pytest.raises(StoreError):
        Tracker("other.db")
    assert len(tracker) == 1


def test_a_batch_is_stored_atomically(workdir: Folder) -> None:
    tracker = Tracker("results.db", params={"p": 1})
    with pytest.raises(BadInput):
        tracker.log_batch([{"x": 1}, "not a dictionary"])  # type: ignore[list-item]
    assert tracker.log_batch([]) == []
    rows = tracker.log_batch([{"x": 1}, {"y": 2}])
    assert [row["p"] for row in rows] == [1, 1]
    assert workdir.sql("select x, y from predictions") == [{"x": 1, "y": None}, {"x": None, "y": 2}]


class Unruly:
    """Raises on every access."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class UnrulyError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_objects_that_raise_on_access_lose_no_row(workdir: Folder) -> None:
    def fail() -> None:
        raise UnrulyError

    circle: list[Any] = []
    circle.append(circle)
    tracker = Tracker("results.db", cache="cache")
    odd = [Unruly(), [Unruly()], circle, 10**5000, pd.Timestamp("2020-01-01", tz="UTC"), pd.NaT, "a\ud800b", "a\0b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in odd:
            assert tracker.track(lambda x: {"result": x}, args=[value])["result"] is value or value == value
            tracker.log({"x": value, Unruly(): 1})  # type: ignore[dict-item]
    assert tracker.track(fail) == {"error": "UnrulyError: <UnrulyError>"}
    for error in (np.array([1.0, 2.0]), pd.NA):
        assert "error" in tracker.track(lambda error: {"error": error}, args=[error])
    assert len(Reader("results.db").to_df()) == 2 * len(odd) + 3


def test_an_async_call_of_an_object_or_a_lambda_is_awaited(workdir: Folder) -> None:
    class Client:
        async def __call__(self, x: int) -> dict[str, int]:
            return {"y": x}

    async def main() -> list[Any]:
        client = Client()
        calls: list[Any] = [client, client, lambda x: client(x), lambda x: client(x)]
        return [await tracker.track(call, args=[4]) for call in calls]

    tracker = Tracker("results.db", cache="cache")
    assert asyncio.run(main()) == [{"y": 4}] * 4
    assert Reader("results.db").to_df()["y"].tolist() == [4] * 4


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_or_another_process_may_exceed_the_column_limit(workdir: Folder, engine: str) -> None:
    Tracker("results.db", engine).log_batch([{f"k{row}_{key}": key for key in range(100)} for row in range(19)])
    for start in ("m", "n"):
        program = (
            f"from abreast import Tracker; Tracker('results.db').log({{f'{start}{{key}}': key for key in range(99)}})"
        )
        script(workdir, program)
    last = Reader("results.db").to_df().to_dict("records")[-1]
    assert {**last, **last["more_columns"]}["n98"] == 98


@pytest.mark.parametrize("engine", ENGINES)
def test_changes_by_sql_do_not_stop_a_tracker(workdir: Folder, engine: str) -> None:
    with Tracker("results.db", engine, table="mine") as tracker:
        tracker.log_batch([{"x": 1, "f": 0.5, "ok": True}, {"x": 2}])
    assert (
        workdir.abreast("sql", "--write", "results.db", "update mine set x = 'one', f = 'half' where x = 1").code == 0
    )
    insert = "insert into mine (row_id, track_id, ok) values ('r', 't', 'maybe')"
    assert workdir.abreast("sql", "--write", "results.db", insert).code == 0
    for number in (3, 4):
        tracker.log({"x": number})
        tracker.flush()
    values = [str(row["x"]) for row in workdir.sql("select x from mine order by seq")]
    assert values == ["one", "2", "None", "3", "4"]
    assert list(Reader("results.db", table="mine").to_df()["x"])[::4] == ["one", 4]


def test_a_dropped_table_is_recreated(workdir: Folder) -> None:
    tracker = Tracker("results.db", table="mine")
    tracker.log({"x": 1, "old": 1})
    assert workdir.abreast("sql", "--write", "results.db", "drop table mine").code == 0
    assert "mine" not in Reader("results.db").tables()
    tracker.log({"x": 2})
    assert Reader("results.db", table="mine").to_df()["x"].tolist() == [2]
    assert tracker.delete(tracker.track_id) == 1


def test_hundreds_of_tables_can_be_tracked(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    for number in range(510):
        tracker.log({"x": 1}, table=f"t{number}")
    assert Tracker("results.db").delete(tracker.track_id) == 510


# -- many at a time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_with_a_tracker_per_call_lose_nothing(workdir: Folder, engine: str) -> None:
    barrier = threading.Barrier(8)

    def predict_item(number: int) -> Any:
        if number < 8:
            barrier.wait()  # all of them meet a store that is not there yet
        tracker = Tracker("benchmark.db", engine=engine, cache="cache", table="predictions")
        return tracker.track(lambda item: {"prediction": item, f"key_{item % 13}": item}, args=[number])

    with ThreadPoolExecutor(8) as pool:
        returned = list(pool.map(predict_item, range(400)))
    assert [row["prediction"] for row in returned] == list(range(400))
    frame = Reader("benchmark.db").to_df()
    assert sorted(frame["prediction"]) == list(range(400))
    assert frame["track_id"].nunique() == 400
    assert frame["error"].isna().all()
    assert frame["key_5"].count() == len([n for n in range(400) if n % 13 == 5])


PROCESSES = """
    import sys
    from multiprocessing import get_context
    from abreast import Tracker

    ENGINE = sys.argv[1]

    def work(item):
        return {"prediction": item, f"key_{item % 11}": item}

    def one(item):
        return Tracker(db="benchmark.db", engine=ENGINE, table="predictions", cache="cache").track(work, args=[item])

    if __name__ == "__main__":
        context = get_context(sys.argv[2])
        if sys.argv[2] == "fork":
            Tracker(db="benchmark.db", engine=ENGINE, table="predictions").log({"before": 1})
        with context.Pool(4) as pool:
            found = pool.map(one, range(200), chunksize=5)
        assert [each["prediction"] for each in found] == list(range(200)), found
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
@pytest.mark.parametrize("engine", ENGINES)
def test_processes_with_a_tracker_per_call_lose_nothing(workdir: Folder, engine: str, method: str) -> None:
    script(workdir, PROCESSES, engine, method)
    frame = Reader("benchmark.db").to_df()
    assert sorted(frame["prediction"].dropna()) == list(range(200))
    assert frame["track_id"].nunique() == 200 + (method == "fork")
    assert workdir.sql("select count(*) as n from db.predictions where key_3 is not null", "benchmark.db") == [
        {"n": len([n for n in range(200) if n % 11 == 3])}
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_can_be_read_at_once_from_another_process(workdir: Folder, engine: str) -> None:
    tracker = Tracker("benchmark.db", engine=engine)
    for number in range(2):
        tracker.log({"x": number})
        by_reader = script(workdir, "from abreast import Reader\nprint(list(Reader('benchmark.db').to_df()['x']))")
        assert by_reader.out.strip() == str(list(range(number + 1)))
        by_sql = workdir.command("sql", "--json", "benchmark.db", "select x from db.predictions")
        assert [row["x"] for row in by_sql.json] == list(range(number + 1))


def test_any_duckdb_client_reads_the_file_without_an_extension(workdir: Folder) -> None:
    script(
        workdir,
        """
        from abreast import Tracker
        with Tracker("benchmark.db", engine="duckdb") as tracker:
            for number in range(10):
                tracker.track(lambda x: {"y": x / 2, "ok": x > 3, "name": str(x)}, args=[number])
        """,
    )
    with duckdb.connect("benchmark.db", read_only=True) as client:
        client.execute("SET autoinstall_known_extensions = false")
        rows = client.execute("SELECT x, y, ok, name, error, status FROM predictions ORDER BY x").fetchall()
    assert rows[0] == (0, 0.0, False, "0", None, "ok")
    assert len(rows) == 10
    script(workdir, "from abreast import Tracker\nTracker('benchmark.db').log({'x': 'ten', 'new': 1})")
    with duckdb.connect("benchmark.db", read_only=True) as client:
        assert client.execute("SELECT count(*), count(x), sum(new) FROM predictions").fetchall() == [(11, 11, 1)]


def test_an_open_duckdb_file_does_not_delay_trackers(workdir: Folder) -> None:
    Tracker("benchmark.duckdb").log({"x": 1})
    Tracker("benchmark.duckdb").flush()
    with duckdb.connect("benchmark.duckdb", read_only=True):
        script(workdir, "from abreast import Tracker\nTracker('benchmark.duckdb').log({'x': 2})")
        assert list(Reader("benchmark.duckdb").to_df()["x"]) == [1, 2]
    assert workdir.sql("select count(*) as n from predictions", "benchmark.duckdb") == [{"n": 2}]


KILLED = """
    import sys, time
    from abreast import Tracker

    def slow(item):
        with open("executed", "a") as file:
            file.write(f"{item}\\n")
        time.sleep(0.02)
        return {"prediction": item}

    from concurrent.futures import ThreadPoolExecutor
    def one(item):
        return Tracker("benchmark.db", engine=sys.argv[1], cache="cache").track(slow, args=[item])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(200)))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_after_a_kill_only_calls_in_flight_run_again(workdir: Folder, engine: str) -> None:
    path = workdir.write("script.py", KILLED)
    process = subprocess.Popen([sys.executable, path.name, engine], cwd=workdir.path)
    executed = workdir.path / "executed"
    while not executed.is_file() or len(executed.read_text().split()) < 60:
        time.sleep(0.01)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = executed.read_text().split()
    stored = set(Reader("benchmark.db").to_df()["prediction"])
    assert len(before) - len(stored) <= 4
    script(workdir, KILLED, engine)
    repeated = [item for item in executed.read_text().split()[len(before) :] if item in set(before)]
    assert len(repeated) <= 4
    assert set(Reader("benchmark.db").to_df()["prediction"]) == set(range(200))


def test_a_store_that_is_removed_is_recreated(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    tracker.log({"x": 1})
    tracker.flush()
    for path in workdir.path.glob("results.db*"):
        path.unlink()
    tracker.log({"x": 2})
    Tracker("results.db").log({"x": 3})
    assert list(Reader("results.db").to_df()["x"]) == [2, 3]


# -- a store under way ---------------------------------------------------------------------------------------------


def test_a_program_may_change_its_working_directory(workdir: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker, reader = Tracker("results.db", cache="cache"), Reader("results.db")
    tracker.track(_square, args=[2])
    (workdir.path / "other").mkdir()
    monkeypatch.chdir(workdir.path / "other")
    tracker.track(_square, args=[2])
    tracker.flush()
    assert list(Path().iterdir()) == []
    assert reader.to_df()["cache"].notna().tolist() == [False, True]
    (workdir.path / "other").rmdir()  # and be left without any
    tracker.log({"x": 3})
    with pytest.raises(StoreError, match="no longer exists"):
        Tracker("results.db")
    assert len(reader) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_forked_child_may_use_an_inherited_tracker_and_outlive_its_parent(workdir: Folder, engine: str) -> None:
    script(
        workdir,
        """
        import os, sys, threading
        from multiprocessing import get_context
        from abreast import Tracker

        def work(x):
            return {"y": x}

        def one(x):
            return tracker.track(work, args=[x])

        def write(stop):
            while not stop.is_set():
                tracker.log({"meanwhile": 1})

        tracker = Tracker("results.db", sys.argv[1], cache="cache")
        tracker.log({"x": -1})
        if __name__ == "__main__":
            stop = threading.Event()
            thread = threading.Thread(target=write, args=[stop])
            thread.start()  # in the middle of a write, as far as possible
            with get_context("fork").Pool(3) as pool:
                assert len(pool.map(one, range(60))) == 60
            stop.set()
            thread.join()
            ready, go = os.pipe(), os.pipe()
            if os.fork() == 0:
                tracker.log({"x": 60})
                os.close(go[1])
                os.write(ready[1], b"1")
                os.read(go[0], 1)  # until the parent is no more
                tracker.log({"x": 61})
                tracker.flush()
                open("done", "w").close()
                os._exit(0)
            os.read(ready[0], 1)
        """,
        engine,
    )
    deadline = time.monotonic() + 30
    while not (workdir.path / "done").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert sorted(Reader("results.db").to_df()["x"].dropna()) == list(range(-1, 62))


def test_a_tracker_can_be_sent_to_another_process(workdir: Folder) -> None:
    tracker = Tracker("results.db", cache="cache", params={"p": 1})
    copy = pickle.loads(pickle.dumps(tracker))
    copy.track(_square, args=[3])
    assert (copy.track_id, len(tracker)) == (tracker.track_id, 1)


def test_another_copy_of_sqlite_in_the_process_loses_no_rows(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    for number in range(4):
        tracker.log({"x": number})
        with contextlib.closing(sqlite3.connect("results.db")) as other:  # takes itself for the last, and tidies up
            assert other.execute("select count(*) from predictions").fetchall() == [(number + 1,)]
    assert workdir.sql("select count(*) as n from predictions") == [{"n": 4}]
    assert workdir.sql("pragma integrity_check") == [{"integrity_check": "ok"}]


def test_a_reader_does_not_release_the_locks_of_its_process(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    tracker.log({"x": 1})
    probe = """
        import fcntl, os
        try:
            fcntl.lockf(os.open("results.db", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        except OSError:
            print("locked")
    """
    assert script(workdir, probe).out == "locked\n"
    assert len(Reader("results.db")) == 1
    assert script(workdir, probe).out == "locked\n"


def test_a_store_removed_under_several_processes_is_recreated_by_all(workdir: Folder) -> None:
    program = """
        import sys
        from abreast import Tracker
        tracker = Tracker("results.db")
        tracker.log({"x": 0})
        print("ready", flush=True)
        for line in sys.stdin:
            tracker.log({"x": int(line)})
            print("done", flush=True)
    """
    path = workdir.write("script.py", program)
    others = [
        subprocess.Popen([sys.executable, path.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]

    def send(process: subprocess.Popen[str], number: int | None) -> None:
        assert process.stdin
        assert process.stdout
        if number is not None:
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
        assert process.stdout.readline()

    for process in others:
        send(process, None)
    for path in workdir.path.glob("results.db*"):
        path.unlink()
    for number in range(1, 5):  # in turn: the second process closes the store that the first has recreated
        send(others[number % 2], number)
    for process in others:
        process.communicate()
    assert sorted(Reader("results.db").to_df()["x"]) == [1, 2, 3, 4]


def test_a_store_may_be_a_symlink(workdir: Folder) -> None:
    Tracker("results.db").log({"x": 1})
    Path("link.db").symlink_to("results.db")
    with Tracker("link.db") as tracker:
        tracker.log({"x": 2})
    assert list(Reader("results.db").to_df()["x"]) == [1, 2]


def test_a_store_that_is_moved_has_all_its_rows(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    tracker.log({"x": 1})
    Path("results.db").rename("archive.db")
    tracker.log({"x": 2})
    assert list(Reader("archive.db").to_df()["x"]) == [1]
    assert list(Reader("results.db").to_df()["x"]) == [2]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_written_at_exit_are_kept(workdir: Folder, engine: str) -> None:
    script(
        workdir,
        """
        import atexit, os, sys, threading
        atexit.register(lambda: tracker.log({"last": 1}))  # before abreast: it is called after all of its own
        from abreast import Tracker

        def work():
            while True:
                tracker.log({"x": 1})
                os.write(told, b".")
                some.set()

        tracker = Tracker("results.db", sys.argv[1])
        told = os.open("told", os.O_CREAT | os.O_WRONLY)
        some = threading.Event()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        some.wait()
        """,
        engine,
    )
    frame = Reader("results.db").to_df()
    assert (frame["x"].count() >= (workdir.path / "told").stat().st_size > 0, frame["last"].count()) == (True, 1)


def test_a_signal_handler_may_log(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    handled: list[int] = []

    def handle(*_: object) -> None:
        tracker.log({f"handled_{len(handled) % 40}": 1})
        handled.append(1)
        signal.setitimer(signal.ITIMER_REAL, 0.001)

    tracker.log({})
    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        for number in range(400):
            tracker.log({f"x_{number % 40}": 1})  # in the middle of which it comes
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(Reader("results.db")) == 401 + len(handled)


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reader_finds_rows_by_their_values(workdir: Folder, engine: str) -> None:
    first = Tracker("results.db", engine=engine)
    first.log_batch([{"x": number, "even": number % 2 == 0, "order": str(number)} for number in range(10)])
    last = Tracker("results.db", params={"order": "99"})
    last.log({"x": 10})
    reader = Reader(db="results.db")
    assert (reader.engine, len(reader)) == (engine, 11)
    assert list(reader.head(2)["x"]) == [0, 1]
    assert list(reader.tail(2)["x"]) == [9, 10]
    assert list(reader.latest()["x"]) == [10]
    assert list(reader.to_df(track_id=first.track_id)["x"]) == list(range(10))
    assert list(reader.where(x=3)["order"]) == ["3"]
    assert list(reader.where("x > ?", 7, even=True)["x"]) == [8]
    assert list(reader.where(x=[1, 2, 50])["x"]) == [1, 2]
    assert list(reader.where(even=None)["x"]) == [10]
    assert reader.dtypes["even"] == "boolean"
    assert reader.to_df()["x"].dtype == np.int64
    assert str(reader.to_df()["even"].dtype) == "boolean"
    assert reader.to_df(library="polars")["x"].to_list() == list(range(11))
    assert len(first) == 10
    assert last.latest["order"] == "99"


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_runs_and_loops_share_a_table(simulated: Folder, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.chdir(simulated.path)
    store = f"results.{'db' if engine == 'sqlite' else 'duckdb'}"
    assert simulated.abreast("run", "experiment.yaml", "--store", store, "--quiet").code == 0
    before = simulated.sql("select variant, n_predictions, accuracy from metrics order by variant", store)
    tracker = Tracker(store)
    tracker.track(lambda x: {"score": 0.5, "answer": "yes", "mine": [x]}, args=[1])
    tracker.track(_interrupted_by, args=[ValueError("no")])
    Tracker(store, table="metrics").log({"accuracy": 0.25, "variant": "loop", "n_predictions": 2, "note": "by hand"})
    rows = simulated.sql(
        "select run, status, score, answer, mine, x, error from predictions where track_id is not null", store
    )
    assert [row["status"] for row in rows] == ["ok", "error"]
    assert (rows[0]["run"], rows[0]["score"], rows[0]["answer"]) == (tracker.track_id, 0.5, "yes")
    assert simulated.sql("select count(*) as n from predictions where run <> ''", store) == [{"n": 82}]
    assert simulated.sql("select avg(score) as s from predictions where mine is not null", store) == [{"s": 0.5}]
    after = simulated.sql(
        "select variant, n_predictions, accuracy from metrics where source = 'derived' order by 1", store
    )
    assert after == before
    logged = simulated.sql("select run, variant, segment, accuracy, note from metrics where source = 'logged'", store)
    assert [(row["variant"], row["segment"], row["accuracy"], row["note"]) for row in logged] == [
        ("loop", "all", 0.25, "by hand")
    ]
    reader = Reader(store)
    ((run,),) = {tuple(row.values()) for row in simulated.sql("select run from runs", store)}
    assert [len(reader.to_df()), len(reader.to_df(track_id=run)), reader.count(tracker.track_id)] == [82, 80, 2]
    assert set(reader.latest()["run"]) == {tracker.track_id}
    assert Reader(store).where(variant="better")["score"].mean() == pytest.approx(0.9, abs=0.15)
    rerun = simulated.abreast("run", "experiment.yaml", "--store", store, "--json", "--quiet", "--fresh")
    assert rerun.code == 0


def _interrupted_by(error: Exception) -> None:
    raise error


def test_rows_are_deleted_with_their_cached_results(workdir: Folder) -> None:
    tracker = Tracker("results.db", cache="cache")
    other = Tracker("results.db", cache="cache")
    tracker.track(_square, args=[3])
    other.track(_square, args=[4])
    tracker.log({"x": 1}, table="notes")
    assert len(list(Reader.scan_cache("cache"))) == 2
    assert tracker.delete(tracker.track_id) == 2
    assert tracker.delete("nobody-knows-0000") == 0
    assert [done["cache"] for _, done in Reader.scan_cache("cache")] == [other.track_id]
    assert (
        workdir.abreast("sql", "results.db", f"DELETE FROM db.predictions WHERE track_id = '{other.track_id}'").code
        == 0
    )
    assert len(Reader("results.db")) == 0
    assert Tracker("results.db", cache="cache").track(_square, args=[4]) == {"y": 16}
    assert workdir.sql("select cache from predictions") == [{"cache": None}]


def _square(x: int) -> dict[str, int]:
    return {"y": x * x}


def test_rows_of_a_run_are_not_deleted_through_the_view(simulated: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(simulated.path)
    assert simulated.abreast("run", "experiment.yaml", "--quiet").code == 0
    Tracker("results.db").log({"x": 1})
    done = simulated.abreast("sql", "results.db", "delete from predictions")
    assert "cannot delete single rows of a run" in done.err
    assert simulated.sql("select count(*) as n from predictions") == [{"n": 81}]
    assert simulated.abreast("sql", "results.db", "delete from predictions where x = 1").code == 0
    assert simulated.sql("select count(*) as n from predictions") == [{"n": 80}]
    refused = simulated.abreast("sql", "results.db", "delete from trials")
    assert "--write" in refused.err


@pytest.mark.parametrize("engine", ENGINES)
def test_deletions_and_changes_reach_the_duckdb_file(workdir: Folder, engine: str) -> None:
    with Tracker("results.db", engine=engine, table="mine") as tracker:
        tracker.log_batch([{"x": number} for number in range(5)])
    assert workdir.abreast("sql", "results.db", "delete from mine where x < 2").code == 0
    assert workdir.abreast("sql", "--write", "results.db", "update mine set x = 40 where x = 4").code == 0
    assert [row["x"] for row in workdir.sql("select x from mine order by x")] == [2, 3, 40]
    assert sorted(Reader("results.db", table="mine").to_df()["x"]) == [2, 3, 40]


# -- the cache -----------------------------------------------------------------------------------------------------

CACHED = """
    import sys
    from dataclasses import dataclass
    import numpy as np
    import pandas as pd
    from abreast import Tracker

    @dataclass(frozen=True)
    class Params:
        model: str
        rate: float = 0.5

    def work(value, params=None, factor=FACTOR):
        with open("executed", "a") as file:
            file.write(f"{type(value).__name__}\\n")
        return {"prediction": BODY}

    tracker = Tracker("benchmark.db", engine="sqlite", cache="cache")
    for value in ["text", 1.5, {"b": [1, {"x": 2}], "a": None}, [1, "2", 3.0], Params("bert"),
                  np.arange(6).reshape(2, 3), pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]}),
                  (1, 2), {3, 1}, None, b"bytes"]:
        tracker.track(work, args=[value, Params("bert")])
"""


def test_the_same_call_in_a_new_process_is_a_cache_hit(workdir: Folder) -> None:
    program = CACHED.replace("FACTOR", "2").replace("BODY", "str(value)")
    executed = workdir.path / "executed"
    script(workdir, program)
    assert len(executed.read_text().split()) == 11
    script(workdir, program)
    script(workdir, program.replace('{"b": [1, {"x": 2}], "a": None}', '{"a": None, "b": [1, {"x": 2}]}'))
    assert len(executed.read_text().split()) == 11
    rows = Reader("benchmark.db").to_df().to_dict("records")
    first, hits = rows[:11], rows[11:]
    assert [row["cache"] for row in first] == [None] * 11
    assert [row["cache"] for row in hits] == [first[0]["track_id"]] * 22
    assert [row["cache_row"] for row in hits] == [row["row_id"] for row in first] * 2
    for row in rows:
        assert row["params_model"] == "bert"
        assert row["factor"] == 2
    assert [row["prediction"] for row in hits[:11]] == [row["prediction"] for row in first]
    script(
        workdir,
        program.replace("1.5,", "2.5,").replace("[1.0, 2.0]", "[1.0, 2.5]").replace("arange(6)", "arange(1, 7)"),
    )
    assert executed.read_text().split()[11:] == ["float", "ndarray", "DataFrame"]


def test_another_source_default_or_closure_is_a_cache_miss(workdir: Folder) -> None:
    program = CACHED.replace("FACTOR", "2").replace("BODY", "str(value)")
    executed = workdir.path / "executed"
    script(workdir, program)
    script(workdir, program.replace("factor=2", "factor=3"))
    assert len(executed.read_text().split()) == 22
    script(workdir, program.replace("str(value)", "repr(value)"))
    assert len(executed.read_text().split()) == 33
    script(workdir, program.replace("rate: float = 0.5", "rate: float = 0.7"))
    assert len(executed.read_text().split()) == 44
    script(workdir, program)
    assert len(executed.read_text().split()) == 44


FACTOR = 3


def test_a_changed_closure_default_or_global_is_a_cache_miss(workdir: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("results.db", cache="cache")

    def make(factor: int) -> Callable[[int], dict[str, int]]:
        def times(x: int) -> dict[str, int]:
            return {"y": x * factor}

        return times

    assert [tracker.track(make(factor), args=[5])["y"] for factor in (2, 3, 2)] == [10, 15, 10]
    state = {"factor": 2}

    def by_state(x: int, extra: Any = ()) -> dict[str, int]:
        return {"y": x * state["factor"] * FACTOR + len(extra)}

    results = [tracker.track(by_state, args=[1])["y"]]
    state["factor"] = 5
    results.append(tracker.track(by_state, args=[1])["y"])
    monkeypatch.setitem(globals(), "FACTOR", 7)
    results.append(tracker.track(by_state, args=[1])["y"])
    by_state.__defaults__ = ([1],)
    results.append(tracker.track(by_state, args=[1])["y"])
    assert results == [6, 15, 35, 36]
    assert workdir.sql("select count(cache) as hits from predictions") == [{"hits": 1}]


class Scale:
    def __init__(self) -> None:
        self.by = 2


SCALE = Scale()


def _scaled(x: int) -> int:
    return x * SCALE.by * FACTOR


def test_a_change_in_an_indirect_reference_is_a_cache_miss(workdir: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("results.db", cache="cache")
    scale = Scale()

    def work(x: int) -> dict[str, int]:
        def inner() -> int:
            return _scaled(x) + scale.by

        return {"y": inner()}

    results = [tracker.track(work, args=[1])["y"]]
    monkeypatch.setattr(SCALE, "by", 10)
    results.append(tracker.track(work, args=[1])["y"])
    monkeypatch.setitem(globals(), "FACTOR", 7)
    results.append(tracker.track(work, args=[1])["y"])
    scale.by = 5
    results.append(tracker.track(work, args=[1])["y"])
    for by in (20, 30):  # the second may lie where the first lay
        monkeypatch.setitem(globals(), "SCALE", None)
        monkeypatch.setitem(globals(), "SCALE", Scale())
        SCALE.by = by
        results.append(tracker.track(work, args=[1])["y"])
    assert results == [8, 32, 72, 75, 145, 215]


class Base(pydantic.BaseModel):
    a: int = 1


class Sub(Base):
    b: int = 1


class Holder(pydantic.BaseModel):
    inner: Base
    hidden: int = pydantic.Field(0, exclude=True)


class Words(list[str]):
    language = "en"


def test_arguments_with_the_same_text_but_different_content_are_cache_misses(workdir: Folder) -> None:
    words = Words(["a"])
    words.language = "de"
    params = Params("m")
    object.__setattr__(params, "note", 1)
    zone = datetime.timezone(datetime.timedelta(hours=1))
    moments = [
        datetime.datetime(2020, 1, 1, tzinfo=timezone) for timezone in (zone, zoneinfo.ZoneInfo("Europe/Berlin"))
    ]
    pairs = [
        (Holder(inner=Sub(b=1)), Holder(inner=Sub(b=2))),
        (Holder(inner=Base(), hidden=1), Holder(inner=Base(), hidden=2)),
        (Words(["a"]), words),
        (Words(["b"]), ["b"]),
        (Params("m"), params),
        (b"a", bytearray(b"a")),
        (np.float64(1.0), 1.0),
        (1, True),
        ((1,), [1]),
        moments,
    ]
    tracker = Tracker("results.db", cache="cache")
    for pair in pairs:
        for value in pair:
            tracker.track(lambda x: {}, args=[value])
    assert Reader("results.db").to_df()["cache"].isna().all()


def test_errors_are_never_cached_and_cache_force_ignores_the_cache(workdir: Folder) -> None:
    def moody(x: int) -> dict[str, Any]:
        word = Path("mood").read_text()
        if word == "raises":
            raise TimeoutError("slow")
        return {"error": "timeout"} if word == "bad" else {"prediction": word}

    tracker = Tracker("results.db", cache="cache")
    results = []
    for word in ("raises", "bad", "good", "better"):
        workdir.write("mood", word)
        results.append(tracker.track(moody, args=[1]))
    assert results == [
        {"error": "TimeoutError: slow"},
        {"error": "timeout"},
        {"prediction": "good"},
        {"prediction": "good"},
    ]
    assert tracker.track(moody, args=[1], cache_force=True) == {"prediction": "better"}
    assert tracker.track(moody, args=[1]) == {"prediction": "better"}


def test_an_object_is_compared_by_content_not_by_text(workdir: Folder) -> None:
    class Query:
        def __init__(self, text: str) -> None:
            self.text = text

        def __repr__(self) -> str:
            return "Query"

    tracker = Tracker("results.db", cache="cache")
    results = [tracker.track(lambda query: {"y": query.text}, args=[Query(word)])["y"] for word in ("a", "b", "a")]
    assert results == ["a", "b", "a"]


def test_calls_that_cannot_be_cached_run_every_time_and_warn_once(workdir: Folder) -> None:
    tracker = Tracker("results.db", cache="cache")
    lock = threading.Lock()
    with pytest.warns(UserWarning, match="cannot be cached"):
        assert callable(tracker.track(lambda x: lambda: x, args=[1]))
    assert tracker.track(lambda a: {"y": 1}, args=[lock]) == {"y": 1}
    assert len(Reader("results.db")) == 2


def test_a_cache_can_be_read_by_key(workdir: Folder) -> None:
    tracker = Tracker("results.db", cache="cache")
    tracker.track(_square, args=[3])
    ((key, entry),) = Reader.scan_cache("cache")
    assert key.startswith("test_tracker._square:")
    assert entry["result"] == {"y": 9}
    assert Reader.read_cache("cache", key) == entry
    assert Reader.read_cache("cache", "nothing") is None
    assert Reader.read_cache("nowhere", key) is None


def test_a_cache_is_shared_between_stores(workdir: Folder) -> None:
    Tracker("one.db", cache="cache").track(_square, args=[3])
    Tracker("two.db", cache="cache").track(_square, args=[3])
    assert Reader("two.db").to_df()["cache"].notna().all()
    assert Reader("two.db").to_df()["x"].tolist() == [3]
