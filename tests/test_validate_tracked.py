"""`abreast validate` and the check before an experiment, for tracked rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, make_dataclass
from typing import Any

import pydantic
import pytest

from abreast import Reader, Tracker, validate_schema_before_experiment
from conftest import Folder


@dataclass(frozen=True)
class Stored:
    model_name: str
    embedding_dim: int
    min_tokens: int = 16
    num_layers: int = 4
    weight_decay: float = 0.1


def predict(item: int, params: Any) -> dict[str, Any]:
    return {"prediction": item * 2}


@pytest.fixture
def workdir(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(folder.path)
    return folder


@pytest.fixture
def stored(workdir: Folder) -> Folder:
    for model in ("bert-base", "roberta-base"):
        Tracker("benchmark.db", table="predictions").track(predict, args=[1, Stored(model, 768)])
    return workdir


def renamed(capsys: pytest.CaptureFixture[str], params: type) -> list[str]:
    """Return the printed rename commands; the schema is valid if there are none."""
    is_valid = validate_schema_before_experiment("benchmark.db", "predictions", params)
    commands = [line.strip(" →") for line in capsys.readouterr().out.splitlines() if "→" in line]
    assert is_valid == (not commands)
    return commands


def fields(**changes: str) -> list[Any]:
    names = {"model_name": str, "embedding_dim": int, "min_tokens": int, "num_layers": int, "weight_decay": float}
    return [(changes.get(name, name), kind) for name, kind in names.items()]


def test_renamed_parameters_are_detected_with_a_command_for_each(
    stored: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    params = make_dataclass("Params", fields(model_name="model", embedding_dim="embedding_size"))
    assert renamed(capsys, params) == [
        "abreast rename benchmark.db params_embedding_dim params_embedding_size",
        "abreast rename benchmark.db params_model_name params_model",
    ]
    for command in renamed(capsys, params):
        assert stored.abreast(*command.split()[1:], "--yes").code == 0
    assert renamed(capsys, params) == []
    rows = Reader("benchmark.db").to_df()
    assert rows["params_model"].tolist() == ["bert-base", "roberta-base"]
    assert rows["params_embedding_size"].tolist() == [768, 768]


def test_fields_of_a_pydantic_model_are_compared_too(stored: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    class Params(pydantic.BaseModel):
        model: str
        embedding_dim: int
        min_tokens: int
        num_layers: int
        weight_decay: float

    assert renamed(capsys, Params) == ["abreast rename benchmark.db params_model_name params_model"]


@pytest.mark.parametrize(
    "changed",
    [
        [("embedding_dim", str)],  # another type
        [("embedding_size", str)],
        [("max_tokens", int)],
        [("num_heads", int)],
        [("weight_delay", float)],
        [("embedding_size", int), ("embedding_count", int)],  # which of the two?
        [("tokens_per_model", str)],
    ],
    ids=lambda changed: "-".join(name for name, _ in changed),
)
def test_different_parameters_are_not_renames(
    stored: Folder, capsys: pytest.CaptureFixture[str], changed: list[tuple[str, type]]
) -> None:
    replaced = {"embedding": "embedding_dim", "max": "min_tokens", "num": "num_layers", "weight": "weight_decay"}
    without = replaced.get(changed[0][0].partition("_")[0], "model_name")
    unchanged = [field for field in fields() if field[0] != without]
    assert renamed(capsys, make_dataclass("Params", [*unchanged, *changed])) == []


def test_a_default_of_another_magnitude_means_a_different_parameter(
    stored: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    unchanged = [field for field in fields() if field[0] != "embedding_dim"]
    assert renamed(capsys, make_dataclass("Params", [*unchanged, ("embedding_size", int, 1_000_000)])) == []
    assert len(renamed(capsys, make_dataclass("Params", [*unchanged, ("embedding_size", int, 512)]))) == 1


# -- abreast validate ----------------------------------------------------------------------------------------------


def validate(folder: Folder, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = folder.abreast("validate", *words, "--json")
    return done.code, {finding["check"]: finding for finding in json.loads(done.out)}


def test_valid_rows_pass(workdir: Folder) -> None:
    tracker = Tracker("results.db")
    for item in range(20):
        tracker.log({"item": item, "prediction": item % 3})
    assert validate(workdir) == (0, {})
    assert "predictions: no problems found in 20 rows" in workdir.abreast("validate").out


def test_a_tracked_table_is_validated(workdir: Folder) -> None:
    tracker = Tracker("results.db", track_id="early-otter-0001")
    for item in range(20):
        tracker.log(
            {"item": item // 2, "prediction": "yes", "model_name": "bert", "score": "n/a" if item > 18 else 0.5}
        )
    tracker.log({"error": "TimeoutError: too slow", "item": 50})
    later = Tracker("results.db", track_id="later-otter-0002")
    for item in range(20):
        later.log({"item": 100 + item, "prediction": "yes", "model": "bert"} | ({} if item % 2 else {"note": item}))
    code, findings = validate(workdir)
    assert code == 1
    assert findings["duplicates"]["level"] == "serious"
    assert findings["duplicates"]["count"] == 9
    assert findings["answers"]["message"].startswith("prediction is the same in all 40 rows")
    assert findings["renames"]["fix"] == "abreast rename results.db model_name model"
    assert findings["errors"]["count"] == 1
    assert "score has numbers and text" in findings["types"]["message"]
    assert "note is missing in 10 rows" in findings["missing"]["message"]
    code, only = validate(workdir, "later-otter-0002")
    assert "duplicates" not in only
    assert "errors" not in only


def test_another_table_can_be_validated(workdir: Folder) -> None:
    Tracker("results.db", table="metrics").log_batch([{"accuracy": 0.5, "model": "a"}] * 12)
    code, findings = validate(workdir, "--table", "metrics")
    assert code == 1
    assert findings["duplicates"]["count"] == 11
    assert workdir.abreast("validate", "--table", "nothing").code == 2
    assert workdir.abreast("validate", "no-such-otter", "--table", "metrics").code == 2
