"""Logs of other tools with anything anywhere: each one is imported, or refused with its name and what is wrong."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.importers.importing import import_log
from abreast.store import open_store
from canned_models import LOGS

EXAMPLES = int(os.environ.get("ABREAST_FUZZ", "2")) * 10
HOSTILE = settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 2_000,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
KEPT = 3  # rows of a log, which keeps the examples small

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**20, 10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\0", "\ud800", "<script>", "' OR 1=1", "a\nb", "NaN", "2026-13-45T00:00:00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def lm_eval() -> list[Any]:
    lines = (next((LOGS / "lm-eval/careful").glob("samples_sums*"))).read_text().splitlines()
    return [json.loads(line) for line in [*lines[:KEPT], *lines[24 : 24 + KEPT]]]


def promptfoo() -> Any:
    content = json.loads((LOGS / "promptfoo/results.json").read_text())
    content["results"]["results"] = content["results"]["results"][:KEPT]
    return content


def promptfoo_2() -> Any:
    content = json.loads((LOGS / "promptfoo/0.57.1/results.json").read_text())
    content["results"]["results"] = content["results"]["results"][:KEPT]
    content["results"]["table"]["body"] = content["results"]["table"]["body"][:KEPT]
    return content


def pydantic_evals() -> Any:
    content = json.loads((LOGS / "pydantic-evals/quick.json").read_text())
    return {**content, "cases": content["cases"][:KEPT]}


def harbor() -> dict[str, Any]:
    job = LOGS / "harbor"
    trials = sorted(job.glob("*/result.json"))[:2]
    paths = [
        job / "result.json",
        job / "config.json",
        *trials,
        *(path.parent / "agent/trajectory.json" for path in trials),
    ]
    return {str(path.relative_to(job)): json.loads(path.read_text()) for path in paths}


def terminal_bench() -> dict[str, Any]:
    result = {
        "trial_name": "t.1-of-1",
        "task_id": "t",
        "instruction": "do",
        "is_resolved": True,
        "failure_mode": "unset",
    }
    result |= {
        "parser_results": {"test_a": "passed"},
        "total_input_tokens": 5,
        "agent_started_at": "2025-11-19T10:00:00",
    }
    metadata = {"agent_name": "a", "model_name": "m", "n_attempts": 1, "dataset_size": 2, "end_time": None}
    metadata |= {"agent_kwargs": {"effort": 1}, "dataset_name": "d"}
    return {"results.json": {"id": "1", "results": [result, {**result, "task_id": "u"}]}, "run_metadata.json": metadata}


def write_json(content: Any, place: Path) -> Path:
    place.write_text(json.dumps(content))
    return place


def write_lines(rows: Any, place: Path) -> Path:
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def write_folder(files: Any, place: Path) -> Path:
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return place


LOGS_OF = {
    "lm-eval": (lm_eval, write_lines),
    "promptfoo": (promptfoo, write_json),
    "promptfoo 2": (promptfoo_2, write_json),
    "pydantic-evals": (pydantic_evals, write_json),
    "harbor": (harbor, write_folder),
    "terminal-bench": (terminal_bench, write_folder),
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document, as container and key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.parametrize("name", LOGS_OF)
def test_any_value_anywhere_is_imported_or_refused(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    make, write = LOGS_OF[name]
    original = make()

    @HOSTILE
    @given(st.data())
    def check(data: st.DataObject) -> None:
        content = copy.deepcopy(original)
        for _ in range(data.draw(st.integers(1, 3))):
            found = [place for place in places(content) if not (write is write_folder and place[0] is content)]
            container, key = found[data.draw(st.integers(0, len(found) - 1))]
            if isinstance(container, dict) and data.draw(st.booleans()):
                del container[key]
            else:
                container[key] = data.draw(JSON)
        check_import(write, content, tmp_path_factory.mktemp("hostile"))

    check()


@pytest.mark.parametrize("name", [name for name, (_, write) in LOGS_OF.items() if write is not write_folder])
def test_a_log_cut_anywhere_is_refused_or_imported_in_part(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    make, write = LOGS_OF[name]
    folder = tmp_path_factory.mktemp("cut")
    content = write(make(), folder / "log").read_bytes()

    @HOSTILE
    @given(st.integers(0, len(content) - 1))
    def check(size: int) -> None:
        place = tmp_path_factory.mktemp("cut")

        def write_cut(part: bytes, path: Path) -> Path:
            path.write_bytes(part)
            return path

        is_imported = check_import(write_cut, content[:size], place)
        assert (
            not is_imported
            or (name == "lm-eval" and content[size : size + 1] == b"\n")
            or content[:size].endswith(b"\n")
        )

    check()


def check_import(write: Callable[[Any, Path], Path], content: Any, folder: Path) -> bool:
    """Import the content; whether it was imported. Nothing is left in the store if it was not."""
    log = write(content, folder / "log")
    store = open_store(str(folder / "results.db"))
    problem = ""
    try:
        import_log(store, log)
    except BadInput as error:
        problem = str(error)
    runs = list(store.runs()) if store.exists() else []
    assert ("log" in problem) if problem else (len(runs) == 1)
    assert not (problem and runs)
    return not problem
