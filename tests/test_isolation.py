"""Nothing is lost when Python's own `sqlite3` uses the store in the same process, and one file is always complete."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.conftest import Done, Folder

ENGINES = ("results.db", "results.duckdb")


def run_script(folder: Folder, text: str, *words: str, timeout: float = 100) -> Done:
    path = folder.write("script.py", text)
    done = subprocess.run(
        [sys.executable, path.name, *words], cwd=folder.path, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def write_experiment(folder: Folder, cases: int, parallel: int) -> None:
    """Two variants of the function `answer` in target.py."""
    folder.cases(cases)
    folder.write(
        "experiment.yaml",
        f"""
        cases: cases.jsonl
        target: python:target:answer
        variants: {{a: {{}}, b: {{}}}}
        scorers: [exact]
        limits: {{parallel: {parallel}}}
        """,
    )


def rows_in_copy(folder: Folder, store: str, query: str) -> list[tuple[Any, ...]]:
    """The rows in a copy of the one file, read without abreast."""
    copy = folder.path / "elsewhere" / store
    copy.parent.mkdir(exist_ok=True)
    shutil.copyfile(folder.path / store, copy)
    connection: Any = duckdb.connect(str(copy)) if store.endswith(".duckdb") else sqlite3.connect(copy)
    with contextlib.closing(connection):
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    copy.unlink()
    return rows


# -- another SQLite library in the same process --------------------------------------------------------------------

HAMMER = """
    import json, sqlite3, sys, threading, time
    import pandas, sqlalchemy
    from abreast import Reader, Tracker

    calls, store = int(sys.argv[1]), "results.db"
    finished = threading.Event()
    acknowledged, deleted, errors = set(), set(), []

    def track(number):
        tracker = Tracker(store, params={"worker": number})
        for item in range(calls):
            tracker.track(lambda x: {"y": x}, args=[item])
            acknowledged.add(tracker.latest["row_id"])

    def poll(read):
        while not finished.is_set():
            try:
                read()
            except Exception as error:
                errors.append(repr(error))
            finished.wait(0.05)

    def with_sqlite3():
        connection = sqlite3.connect(store, timeout=30)
        connection.execute("select count(*) from predictions").fetchall()
        connection.close()

    def with_pandas():
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30)
        pandas.read_sql("select * from predictions order by timestamp desc limit 100", connection)
        connection.close()

    def with_sqlalchemy():
        engine = sqlalchemy.create_engine(f"sqlite:///{store}")
        pandas.read_sql("select count(*) from predictions", engine)
        engine.dispose()

    def with_reader():
        len(Reader(store))

    def delete():
        connection = sqlite3.connect(store, timeout=30)
        chosen = connection.execute("select row_id from predictions order by random() limit 2").fetchall()
        with connection:
            connection.executemany("delete from predictions where row_id = ?", chosen)
        deleted.update(row_id for (row_id,) in chosen)
        connection.close()

    Tracker(store).log({"worker": -1})
    pollers = [threading.Thread(target=poll, args=[read])
               for read in (with_sqlite3, with_pandas, with_sqlalchemy, with_reader, delete)]
    workers = [threading.Thread(target=track, args=[number]) for number in range(4)]
    for thread in pollers + workers:
        thread.start()
    for thread in workers:
        thread.join()
    finished.set()
    for thread in pollers:
        thread.join()
    connection = sqlite3.connect(store)
    stored = {row_id for (row_id,) in connection.execute("select row_id from predictions")}
    print(json.dumps({
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - stored - deleted),
        "back": len(deleted & stored),
        "integrity": connection.execute("pragma integrity_check").fetchall()[0][0],
        "errors": errors,
    }))
"""


def hammer(folder: Folder, calls: int) -> None:
    counts = run_script(folder, HAMMER, str(calls), timeout=600).json
    assert counts == {"acknowledged": 4 * calls, "lost": 0, "back": 0, "integrity": "ok", "errors": []}


def test_four_threads_track_while_others_read_and_delete_by_sqlite3_pandas_and_sqlalchemy(folder: Folder) -> None:
    hammer(folder, 250)


@pytest.mark.heavy
def test_nothing_is_lost_in_twenty_rounds_of_six_thousand_calls(folder: Folder) -> None:
    for _ in range(20):
        hammer(folder, 1_500)
        (folder.path / "results.db").unlink()


def test_a_connection_that_was_open_before_the_tracker_is_noticed(folder: Folder) -> None:
    run_script(
        folder,
        """
        import sqlite3
        connection = sqlite3.connect("results.db", isolation_level=None, timeout=0)
        connection.execute("pragma journal_mode=wal")
        from abreast import Reader, Tracker
        tracker = Tracker("results.db", table="calls")
        tracker.log({"x": 1})
        connection.execute("begin immediate")
        reader = Reader("results.db", table="calls")
        assert len(reader) == 1
        connection.execute("update calls set x = 2")  # closing the reader has not dropped this lock
        other = sqlite3.connect("results.db", timeout=0)
        try:
            tracker_rows = other.execute("select x from calls").fetchall()
        finally:
            other.close()
        assert tracker_rows == [(1,)]
        connection.execute("commit")
        tracker.log({"x": 3})
        connection.close()
        assert reader.to_df()["x"].tolist() == [2, 3]
        """,
    )


def test_a_transaction_of_sqlite3_and_a_tracker_of_one_process_wait_for_each_other(folder: Folder) -> None:
    run_script(
        folder,
        """
        import sqlite3, threading
        from abreast import Tracker
        tracker = Tracker("results.db", table="calls")
        tracker.log({"x": 1})
        connection = sqlite3.connect("results.db", isolation_level=None)
        connection.execute("begin immediate")
        connection.execute("update calls set x = x + 10")
        thread = threading.Thread(target=tracker.log, args=[{"x": 2}])
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        connection.execute("commit")
        thread.join()
        assert connection.execute("select x from calls order by timestamp").fetchall() == [(11,), (2,)]
        """,
    )


def test_a_run_stores_every_trial_while_its_target_reads_the_store_by_sqlite3(folder: Folder) -> None:
    folder.cases(60)
    folder.write(
        "target.py",
        """
        import sqlite3

        def answer(case, word):
            connection = sqlite3.connect("results.db", timeout=30)
            connection.execute("select count(*) from trials").fetchall()
            connection.close()
            return word
        """,
    )
    folder.write(
        "experiment.yaml",
        """
        cases: cases.jsonl
        variants:
          a: {target: "python:target:answer", word: "yes"}
          b: {target: "python:target:answer", word: "no"}
        scorers: [exact]
        """,
    )
    done = folder.command("run", "experiment.yaml")
    assert done.code in (0, 1), done.output
    assert rows_in_copy(folder, "results.db", "select count(*), count(distinct position) from trials") == [(120, 120)]
    assert folder.sql("pragma integrity_check") == [{"integrity_check": "ok"}]


def test_tracking_continues_after_the_helper_process_is_killed(folder: Folder) -> None:
    run_script(
        folder,
        """
        import os, signal, sqlite3
        import psutil
        from abreast import Reader, Tracker
        tracker = Tracker("results.db")
        tracker.log({"x": 1})
        connection = sqlite3.connect("results.db")
        tracker.log({"x": 2})
        (helper,) = psutil.Process().children()
        helper.kill()
        helper.wait()
        tracker.log({"x": 3})
        assert Reader("results.db").to_df()["x"].tolist() == [1, 2, 3]
        """,
    )


@pytest.mark.parametrize("shared", [False, True])
def test_an_interrupt_at_any_moment_leaves_no_transaction_open_and_is_never_swallowed(
    folder: Folder, shared: bool
) -> None:
    run_script(
        folder,
        """
        import random, signal, sqlite3, sys
        from abreast import Reader, Tracker
        tracker = Tracker("results.db", table="calls")
        tracker.log({"x": -1})
        connection = sqlite3.connect("results.db") if sys.argv[1] == "True" else None
        raised = reached = 0

        def interrupt(number, frame):
            global raised
            raised += 1
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        for number in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.002))
                for _ in range(40):
                    tracker.log_batch([{"x": number}, {"x": number}])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                reached += 1
        before = len(Reader("results.db", table="calls"))
        for number in range(5):
            tracker.log({"x": 1_000 + number})
        assert len(Reader("results.db", table="calls")) == before + 5
        assert raised == reached > 10, (raised, reached)
        """,
        str(shared),
    )


def test_a_signal_handler_that_reads_gets_its_own_answers(folder: Folder) -> None:
    run_script(
        folder,
        """
        import signal, sqlite3
        from abreast import Tracker
        calls = []

        def compute(x):
            calls.append(x)
            return {"y": x}

        connection = sqlite3.connect("results.db")
        connection.execute("pragma journal_mode=wal")
        tracker = Tracker("results.db", cache="cache")
        tracker.track(compute, args=[1])
        other = sqlite3.connect("cache/abreast-cache.db")
        signal.signal(signal.SIGALRM, lambda *_: tracker.track(compute, args=[1]))
        for number in range(100):
            signal.setitimer(signal.ITIMER_REAL, 0.0001 * (1 + number % 20))  # once, so that handlers do not pile up
            assert tracker.track(compute, args=[1]) == {"y": 1}
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert calls == [1]
        """,
    )


def test_a_run_continues_after_the_helper_process_is_killed(folder: Folder) -> None:
    folder.write(
        "target.py",
        """
        import sqlite3
        import psutil
        seen = []

        def answer(case):
            seen.append(case)
            sqlite3.connect("results.db").close()
            if len(seen) == 30:
                for child in psutil.Process().children():
                    if "isolation.server" in " ".join(child.cmdline()):
                        child.kill()
            return "yes"
        """,
    )
    write_experiment(folder, cases=40, parallel=2)
    done = folder.command("run", "experiment.yaml")
    assert done.code in (0, 1), done.output
    assert folder.sql("select count(*) as n, count(distinct position) as p from trials") == [{"n": 80, "p": 80}]


def test_a_store_that_is_removed_after_sqlite3_opened_it_is_saved(folder: Folder) -> None:
    folder.write(
        "target.py",
        """
        import pathlib, sqlite3
        seen = []

        def answer(case):
            seen.append(case)
            if len(seen) == 30:
                for path in pathlib.Path().glob("results.db*"):
                    path.unlink()
                sqlite3.connect("elsewhere.db").close()
            elif len(seen) == 20:
                sqlite3.connect("results.db").close()
            return "yes"
        """,
    )
    write_experiment(folder, cases=40, parallel=1)
    done = folder.command("run", "experiment.yaml")
    assert done.code == 3
    assert "results.recovered.db" in done.err
    assert folder.sql("select count(*) as n from trials", "results.recovered.db")[0]["n"] >= 25


def test_a_function_that_changes_the_folder_does_not_move_the_store(folder: Folder) -> None:
    folder.write("target.py", "import os\n\ndef answer(case):\n    os.chdir('/')\n    return 'yes'\n")
    write_experiment(folder, cases=10, parallel=2)
    done = folder.command("run", "experiment.yaml")
    assert done.code in (0, 1), done.output
    assert folder.sql("select status from runs") == [{"status": "complete"}]


def test_no_process_remains_when_the_program_ends(folder: Folder) -> None:
    done = run_script(
        folder,
        """
        import sqlite3
        import psutil
        from abreast import Tracker
        tracker = Tracker("results.db")
        connection = sqlite3.connect("results.db")
        tracker.log({"x": 1})
        print(psutil.Process().children()[0].pid)
        """,
    )
    assert not Path(f"/proc/{int(done.out)}").exists()


# -- one file ------------------------------------------------------------------------------------------------------


def stray_files(folder: Folder) -> list[str]:
    return [path.name for path in folder.path.iterdir() if path.name.endswith(("-wal", "-shm", ".wal"))]


@pytest.mark.parametrize("store", ENGINES)
def test_a_copy_of_the_file_has_what_every_command_wrote(folder: Folder, store: str) -> None:
    folder.cases(4)
    folder.write(
        "experiment.yaml",
        """
        cases: cases.jsonl
        variants: {a: {target: simulated}, b: {target: simulated}}
        scorers: [exact]
        """,
    )
    assert folder.command("run", "experiment.yaml", "--store", store).code in (0, 1)
    assert rows_in_copy(folder, store, "select count(*) from trials") == [(8,)]
    (run,) = [row["run"] for row in json.loads(folder.command("runs", "--json", "--store", store).out)]
    assert folder.command("tag", run, "first", "--store", store).code == 0
    assert rows_in_copy(folder, store, "select label from runs") == [("first",)]
    scorers = (folder.path / "experiment.yaml").read_text().replace("[exact]", "[exact, {contains: {value: yes}}]")
    folder.write("experiment.yaml", scorers)
    assert folder.command("rescore", run, "--spec", "experiment.yaml", "--store", store).code == 0
    assert rows_in_copy(folder, store, "select count(*) from scores") == [(16,)]
    assert folder.command("delete", run, "--yes", "--store", store).code == 0
    assert rows_in_copy(folder, store, "select count(*) from runs") == [(0,)]
    assert stray_files(folder) == []


@pytest.mark.parametrize("store", ENGINES)
def test_a_copy_has_every_row_once_a_tracker_was_flushed_or_closed(folder: Folder, store: str) -> None:
    done = run_script(
        folder,
        """
        import os, shutil, sys
        from abreast import Tracker
        store = sys.argv[1]
        tracker = Tracker(store)
        for number in range(50):
            tracker.log({"x": number})
        tracker.flush()
        shutil.copyfile(store, "flushed-" + store)
        with Tracker(store) as other:
            other.log({"x": 50})
        shutil.copyfile(store, "closed-" + store)
        os._exit(0)
        """,
        store,
    )
    assert done.code == 0
    assert rows_in_copy(folder, f"flushed-{store}", "select count(*) from predictions") == [(50,)]
    assert rows_in_copy(folder, f"closed-{store}", "select count(*) from predictions") == [(51,)]


@pytest.mark.parametrize("store", ENGINES)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_copy_has_every_row_of_a_pool_whose_workers_were_terminated(folder: Folder, method: str, store: str) -> None:
    run_script(
        folder,
        """
        import multiprocessing, sys

        def work(number):
            from abreast import Tracker
            Tracker(sys.argv[2]).log({"x": number})

        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(3) as pool:
                pool.map(work, range(12), chunksize=1)
        """,
        method,
        store,
    )
    assert rows_in_copy(folder, store, "select count(distinct x) from predictions") == [(12,)]


def test_a_copy_is_complete_although_another_process_has_the_store_open(folder: Folder) -> None:
    folder.cases(4)
    folder.write(
        "experiment.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated}, b: {target: simulated}}\nscorers: [exact]\n",
    )
    assert folder.command("run", "experiment.yaml").code in (0, 1)
    with contextlib.closing(sqlite3.connect(folder.path / "results.db")) as other:
        other.execute("select count(*) from runs").fetchall()
        assert folder.command("tag", "latest", "later").code == 0
        assert folder.command("run", "experiment.yaml", "--fresh").code in (0, 1)
        assert rows_in_copy(folder, "results.db", "select label from runs order by run_id") == [("later",), (None,)]
        assert rows_in_copy(folder, "results.db", "select count(*) from trials") == [(16,)]


def test_a_reader_that_closes_last_completes_the_file(folder: Folder) -> None:
    run_script(
        folder,
        """
        import os
        from abreast import Tracker
        Tracker("results.db").log({"x": 1})
        os._exit(0)  # nothing is closed
        """,
    )
    assert stray_files(folder) != []
    assert folder.command("ls", "x").code == 0
    assert stray_files(folder) == []
    assert rows_in_copy(folder, "results.db", "select x from predictions") == [(1,)]
