"""A store that is deleted or replaced during a run: the run stops, and everything paid for is saved."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable

import pytest

from abreast.errors import StoreError
from abreast.store import open_store
from conftest import Done, Folder
from test_durability import calls, ended, every_trial_once, experiment, until

CASES = 20


def interfere(folder: Folder, action: Callable[[], object], store: str = "data/results.db") -> Done:
    """Run an experiment and do something to its store after the first calls; return how the run ended."""
    (folder.path / "data").mkdir(exist_ok=True)
    spec = experiment(folder, seconds=0.25, cases=CASES, parallel=2, store=store)
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) >= 6, "some calls", process)
    action()
    return ended(process)


def saved_copy(folder: Folder, done: Done) -> tuple[str, str]:
    """Check that the run ended with exit code 3 and saved all rows; return its name and the file with the rows."""
    assert done.code == 3, done.err
    paid = len(calls(folder))
    assert paid < 2 * CASES
    assert f"{paid} of {2 * CASES} trials are stored" in done.err
    run, _, copy = shlex.split(done.err.split("abreast resume")[-1].splitlines()[0].rstrip("`"))
    assert folder.sql("select count(*) as n from predictions where status = 'ok'", copy) == [{"n": paid}]
    return run, copy


def test_a_deleted_store_ends_the_run_and_the_run_continues_in_the_copy(folder: Folder) -> None:
    earlier = folder.write("data/results.recovered.db", b"an earlier copy")
    done = interfere(folder, lambda: [path.unlink() for path in (folder.path / "data").glob("results.db*")])
    assert "results.db was deleted while the run was writing to it" in done.err
    run, copy = saved_copy(folder, done)
    assert not (folder.path / "data/results.db").exists()
    assert earlier.read_bytes() == b"an earlier copy"
    resumed = folder.command("resume", run, "--store", copy, "--yes")
    assert resumed.code == 0, resumed.err
    assert len(calls(folder)) == 2 * CASES
    every_trial_once(folder, copy, CASES)


def test_a_store_whose_folder_is_deleted_is_saved_too(folder: Folder) -> None:
    done = interfere(folder, lambda: shutil.rmtree(folder.path / "data"))
    saved_copy(folder, done)


def test_a_store_replaced_by_another_file_ends_the_run_and_the_other_file_is_not_changed(simulated: Folder) -> None:
    assert simulated.abreast("run", "experiment.yaml", "--store", "other.db", "--quiet").code == 0
    query = "select run, case_id, variant, answer from predictions order by 2, 3"
    before = simulated.sql(query, "other.db")
    done = interfere(simulated, lambda: (simulated.path / "other.db").rename(simulated.path / "data/results.db"))
    assert "results.db was replaced by another file" in done.err
    saved_copy(simulated, done)
    assert simulated.sql(query, "data/results.db") == before
    assert simulated.sql("pragma integrity_check", "data/results.db") == [{"integrity_check": "ok"}]


def test_emptying_the_store_ends_the_run(folder: Folder) -> None:
    done = interfere(folder, lambda: (folder.path / "data/results.db").write_bytes(b""))
    assert done.code == 3
    assert "results.db was emptied" in done.err
    assert len(calls(folder)) < 2 * CASES


def test_a_store_whose_log_is_deleted_ends_the_run_and_its_rows_are_saved(folder: Folder) -> None:
    done = interfere(folder, lambda: (folder.path / "data/results.db-wal").unlink())
    assert "results.db-wal was deleted" in done.err
    saved_copy(folder, done)


def test_a_duckdb_store_whose_journal_is_deleted_ends_the_run_and_its_rows_are_saved(folder: Folder) -> None:
    remove = ["find", "data", "-name", "*.journal*", "-delete"]
    done = interfere(folder, lambda: subprocess.run(remove, cwd=folder.path, check=True), store="data/results.duckdb")
    assert "results.duckdb.journal was deleted" in done.err
    saved_copy(folder, done)


def test_the_log_of_a_replaced_store_is_never_applied_to_the_other_file(simulated: Folder) -> None:
    for store in ("results.db", "other.db"):
        assert simulated.abreast("run", "experiment.yaml", "--store", store, "--quiet").code == 0
    query = "select run, case_id, variant, answer from predictions order by 2, 3"
    before = simulated.sql(query, "other.db")
    with open_store(str(simulated.path / "results.db")) as store:
        reader = store.reading()
        writer = store.open_tracked_writer()
        with writer.transaction() as connection:
            connection.execute("CREATE TABLE another (name TEXT)")
        assert reader.execute("SELECT COUNT(*) FROM another").fetchall() == [(0,)]
        (simulated.path / "other.db").rename(simulated.path / "results.db")
        with pytest.raises(StoreError, match="replaced while a run was writing to it"):
            store.reading()
        writer.close()
        assert len(store.reading().execute("SELECT 1 FROM trials").fetchall()) == len(before)
    assert simulated.sql(query) == before
