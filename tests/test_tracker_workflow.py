"""The workflow around tracked loops: objects, corrections, logs, temporary stores."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast import Reader, Tracker
from abreast.errors import BadInput
from conftest import Folder

ENGINES = ("sqlite", "duckdb")


class Scorer(ABC):
    @abstractmethod
    def predict(self, x: float) -> float: ...


class Model(Scorer):
    def __init__(self, weights: list[float]) -> None:
        self.weights = weights

    def predict(self, x: float) -> float:
        return x * sum(self.weights)


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


@pytest.fixture
def workdir(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(folder.path)
    return folder


# -- objects -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_logged_object_is_stored_once_and_round_trips(workdir: Folder, engine: str) -> None:
    tracker = Tracker("models", engine=engine, table="runs_of_mine")
    first = tracker.log({"model": Model([1.0, 2.0]), "accuracy": 0.9})
    second = tracker.log({"model": Model([1.0, 2.0])})
    other = tracker.track(lambda: {"model": Model([4.0])})
    assert first["model"] == second["model"] == tracker["model"].iloc[0]
    assert tracker.get(first["model"]).predict(2.0) == 6.0
    assert other["model"].weights == [4.0]
    assert Reader("models", table="runs_of_mine").get(tracker["model"].iloc[2]).weights == [4.0]
    assert len(tracker.assets) == 2
    assert tracker.get("no such digest") is None


def test_objects_are_loaded_only_by_get(workdir: Folder) -> None:
    digest = Tracker("results.db").log({"model": Bomb()})["model"]
    assert Reader("results.db").to_df()["model"].tolist() == [digest]
    for words in (
        ("assets", "ls", "results.db"),
        ("assets", "export", "results.db", digest, "model.pickle"),
        ("copy", "results.db", "other.db"),
        ("head", "results.db"),
    ):
        assert workdir.abreast(*words).code == 0
    assert not Path("exploded").exists()
    assert Path("model.pickle").read_bytes() == pickle.dumps(Bomb(), protocol=5)
    Reader("other.db").get(digest)
    assert Path("exploded").is_dir()


def test_an_object_that_cannot_be_pickled_is_stored_as_text_with_a_warning(workdir: Folder) -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            raise TypeError("not me")

        def __str__(self) -> str:
            return "a stubborn one"

    with pytest.warns(UserWarning, match="stored as text.*not me"):
        row = Tracker("results.db").log({"thing": Stubborn()})
    assert isinstance(row["thing"], Stubborn)
    assert Reader("results.db").to_df()["thing"].tolist() == ["a stubborn one"]
    assert not Path("results.db.assets").exists()


def test_the_assets_commands_list_export_and_delete(workdir: Folder) -> None:
    row = Tracker("results.db").log({"model": Model([3.0])})
    (listed,) = json.loads(workdir.abreast("assets", "ls", "--json").out)
    assert listed["digest"] == row["model"]
    assert listed["columns"] == ["predictions.model"]
    assert workdir.abreast("assets", "export", row["model"], "model.pickle").code == 0
    assert pickle.loads(Path("model.pickle").read_bytes()).weights == [3.0]
    assert workdir.abreast("assets", "delete", row["model"]).code == 2  # no terminal to confirm on
    assert workdir.abreast("assets", "delete", "results.db", row["model"], "--yes").code == 0
    assert Reader("results.db").get(row["model"]) is None
    assert workdir.abreast("assets", "export", row["model"], "again").code == 2


def test_a_copy_includes_the_objects_of_its_tables(workdir: Folder) -> None:
    digest = Tracker("a.db", table="kept").log({"model": Model([1.0])})["model"]
    other = Tracker("a.db", table="other").log({"model": Model([2.0])})["model"]
    assert workdir.abreast("copy", "a.db", "b.db", "--table", "kept").code == 0
    assert workdir.abreast("copy", "a.db", "c.db", "--no-assets").code == 0
    assert list(Reader("b.db", table="kept").assets) == [digest]
    assert len(Reader("c.db", table="kept").assets) == 0
    assert workdir.abreast("copy", "a.db", "b.db").code == 0
    assert set(Reader("b.db", table="kept").assets) == {digest, other}


# -- corrections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_values_can_be_set_for_a_tracker_or_where_another_column_has_a_value(workdir: Folder, engine: str) -> None:
    first, two = (Tracker("results", engine=engine, params={"model": model}) for model in "ab")
    for tracker in (first, two):
        tracker.log_batch([{"n": n} for n in range(3)])
    assert first.set_value("reviewed", True) == 3
    assert two.set_where("n", 10, "n", 2) == 1
    assert first["reviewed"].tolist() == [True] * 3
    assert two["n"].tolist() == [0, 1, 10]
    reader = Reader("results")
    assert reader.set_where("model", "c", "model", "b") == 3
    assert reader.set_value("note", "checked") == 6
    assert two["model"].tolist() == ["c"] * 3
    assert reader.to_df()["note"].tolist() == ["checked"] * 6
    with pytest.raises(BadInput, match="cannot be changed"):
        reader.set_value("track_id", "mine")
    with pytest.raises(BadInput, match=r'no column "modle".*model'):
        reader.set_where("note", 1, "modle", "a")


def test_the_set_command_reports_what_it_changes(workdir: Folder) -> None:
    for model in "ab":
        Tracker("results.db", params={"model": model}, track_id=f"track-{model}").log({"accuracy": 0.9})
    refused = workdir.abreast("set", "results.db", "accuracy", "0.8", "--where", "model=a")
    assert refused.code == 2, "there is no terminal to confirm on"
    assert "help: run `abreast set accuracy 0.8 --where model=a --yes" in refused.err
    assert "1 row" in workdir.abreast("set", "results.db", "accuracy", "0.8", "--where", "model=a", "--yes").out
    assert workdir.abreast("set", "checked", "true", "--track-id", "track-b", "--yes").code == 0
    rows = Reader("results.db").to_df()
    assert rows["accuracy"].tolist() == [0.8, 0.9]
    assert rows["checked"].tolist()[1] is True


# -- stores --------------------------------------------------------------------------------------------------------


def test_a_store_in_memory_leaves_no_files(workdir: Folder) -> None:
    program = """
from abreast import Tracker
tracker = Tracker(":memory:")
tracker.log({"x": 1})
tracker.track(max, args=[1, 2])
print(len(tracker), tracker.to_df()["x"].tolist()[0], tracker.db)
other = Tracker(":memory:")
assert len(other) == 0 and other.db != tracker.db
path = other.db
del other
assert not path.exists()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rows, x, path = done.stdout.split()
    assert (rows, float(x)) == ("2", 1)
    assert not Path(path).parent.parent.exists()
    assert not list(workdir.path.iterdir())


def test_a_table_without_rows_has_length_zero_and_an_empty_frame(workdir: Folder) -> None:
    for table in ("predictions", "anything"):
        tracker = Tracker("results.db", table=table)
        assert len(tracker) == len(tracker.to_df()) == len(tracker.head()) == 0
        assert "track_id" in tracker.to_df().columns
        assert tracker  # it is still a tracker
        assert tracker.set_value("x", 1) == 0


@pytest.mark.parametrize("name", ["results", "results.xyz", "benchmark.v2", "results.txt"])
def test_a_store_may_have_any_extension(workdir: Folder, name: str) -> None:
    Tracker(name).log({"x": 1})
    assert Reader(name).to_df()["x"].tolist() == [1]
    assert json.loads(workdir.abreast("head", name, "--json").out)[0]["x"] == 1
    assert Path(name).read_bytes().startswith(b"SQLite")


# -- logs ----------------------------------------------------------------------------------------------------------


def test_rows_are_written_to_json_lines_too(workdir: Folder) -> None:
    tracker = Tracker("results.db", jsonl="logs/rows.jsonl", params={"model": "m"})
    tracker.log({"accuracy": 0.5, "found": [1, 2]})
    tracker.track(lambda x: {"y": x * 2}, args=[4])
    first, second = (json.loads(line) for line in Path("logs/rows.jsonl").read_text().splitlines())
    assert (first["accuracy"], first["found"], first["model"]) == (0.5, [1, 2], "m")
    assert first["timestamp"].endswith("Z")
    assert first["level"] == "TRACKING"
    assert second["y"] == 8
    frame = Reader.read_jsonl("logs/rows.jsonl")
    assert frame["track_id"].tolist() == [tracker.track_id] * 2


def test_a_folder_of_json_lines_gets_a_file_per_day(workdir: Folder) -> None:
    for number in range(2):
        Tracker(":memory:", jsonl="logs/").log({"n": number})
    (file,) = Path("logs").iterdir()
    assert file.suffix == ".jsonl"
    assert Reader.read_jsonl("logs")["n"].tolist() == [0, 1]
    file.write_text(file.read_text() + '{"n": 2')  # still being written
    assert len(Reader.read_jsonl("logs")) == 2


def test_json_lines_can_go_to_standard_output(workdir: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    Tracker("results.db", jsonl="-").log({"n": 1})
    assert json.loads(capsys.readouterr().out)["n"] == 1


def test_secrets_do_not_reach_the_log(workdir: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuvwx1234")
    program = "import os; from abreast import Tracker; Tracker('a.db', jsonl='a.jsonl').log(dict(os.environ))"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert "sk-abcdef" not in Path("a.jsonl").read_text()


# -- the cache -----------------------------------------------------------------------------------------------------


def count_call() -> None:
    with Path("calls").open("a") as calls:
        calls.write("x")


def test_params_of_a_call_are_part_of_its_cache_key(workdir: Folder) -> None:
    def work(x: int) -> int:
        count_call()
        return x * 2

    tracker = Tracker("results.db", cache="cache")
    for version in ("v1", "v2", "v1"):
        tracker.track(work, args=[5], params={"version": version})
    assert len(Path("calls").read_text()) == 2
    assert Reader("results.db").to_df()["version"].tolist() == ["v1", "v2", "v1"]


def test_open_files_are_compared_by_their_unread_content(workdir: Folder) -> None:
    def size(file: Any) -> dict[str, int]:
        count_call()
        return {"size": len(file.read())}

    tracker = Tracker("results.db", cache="cache")
    Path("data").write_text("12345")
    openers: list[Callable[[], Any]] = [
        lambda: io.BytesIO(b"abc"),
        lambda: io.BytesIO(b"abcd"),
        lambda: open("data"),  # noqa: SIM115, PTH123 - closed below
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for opener in (*openers, *openers):
            with opener() as file:
                tracker.track(size, args=[file])
    assert len(Path("calls").read_text()) == 3
    assert tracker["size"].tolist() == [3, 4, 5, 3, 4, 5]


def test_cached_results_of_one_tracker_can_be_deleted(workdir: Folder) -> None:
    for track_id in ("one", "two"):
        Tracker("results.db", cache="cache", track_id=track_id).track(max, args=[len(track_id), 2, track_id == "two"])
    assert Reader.delete_cache_by_track_id("cache", "one") == 1
    assert [entry["cache"] for _, entry in Reader.scan_cache("cache")] == ["two"]
    assert Reader.delete_cache_by_track_id("nothing", "one") == 0


# -- the machine, and the commands ---------------------------------------------------------------------------------


def test_resources_include_the_traffic_of_the_network(workdir: Folder) -> None:
    tracker = Tracker("results.db", resources=True)
    tracker.track(sum, args=[[1, 2]])
    row = tracker.to_df().iloc[0]
    assert row["bytes_sent"] >= 0
    assert row["bytes_recv"] >= 0
    assert row["memory_peak_mb"] > 1


def test_stats_and_plot_take_the_store_before_or_after_the_action(workdir: Folder) -> None:
    Tracker("mine").log_batch([{"x": n, "y": n * n} for n in range(5)])
    for before, after in (
        (("stats", "mine", "top", "y"), ("stats", "top", "mine", "y")),
        (("stats", "mine", "describe"), ("stats", "describe", "mine")),
        (("plot", "mine", "scatter", "x", "y"), ("plot", "scatter", "mine", "x", "y")),
    ):
        done = workdir.abreast(*before, "--json")
        assert done.code == 0
        assert done.out == workdir.abreast(*after, "--json").out
