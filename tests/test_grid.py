"""A grid over a user's function: variants as a product, two tables without a loop, in threads, processes and async."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import json
import os
import random
import sqlite3
import string
import threading
from dataclasses import InitVar, dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

from abreast import Experiment, Variant, grid
from abreast.errors import BadInput, Refused, Transient
from conftest import Folder

ENGINES = ["results.db", "results.duckdb"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Params:
    """Parameters of the function."""

    model: str
    dim: int = 256
    note: str = "plain"


@dataclass
class Loose:
    model: str
    steps: list[int] = field(default_factory=lambda: [1, 2])


class Checked(pydantic.BaseModel):
    model: str
    dim: int = pydantic.Field(default=256, gt=0)


def predict(item: str, params: Params) -> dict[str, Any]:
    """Answer correctly as the large model, and as the small one for even questions."""
    number = int(item.split()[-1])
    if params.dim > 1_000:
        raise Refused("too large") if number % 2 else ValueError("too large")
    right = params.model == "large" or number % 2 == 0
    return {
        "prediction": "yes" if right else "no",
        "confidence": 0.75 if params.dim == 768 else 0.5,
        "cost_usd": 0.01,
        "where": f"{os.getpid()}.{threading.get_ident()}",
    }


async def predict_async(item: str, params: Params) -> dict[str, Any]:
    await asyncio.sleep(0)
    return predict(item, params)


def of_checked(item: str, params: Checked) -> str:
    assert isinstance(params, Checked)
    return f"{params.model} {params.dim}"


def careless(item: str, params: Loose) -> str:
    """Change its own parameters."""
    params.steps.append(len(params.steps))
    params.model += "!"
    return f"{params.model} {params.steps}"


CASES = [{"id": f"c{n}", "input": f"question {n}", "expected": "yes"} for n in range(8)]


def names(variants: Any, target: Any = predict) -> list[str]:
    return [variant.name for variant in Experiment(cases=CASES, target=target, variants=variants).variants]


# -- the variants ------------------------------------------------------------------------------------------------------


def test_a_grid_has_a_variant_for_each_combination_in_the_order_of_the_product() -> None:
    variants = grid(Params, model=["small", "large"], dim=[256, 768])
    assert [(variant.name, variant.params) for variant in variants] == [
        ("model=small,dim=256", Params("small", 256)),
        ("model=small,dim=768", Params("small", 768)),
        ("model=large,dim=256", Params("large", 256)),
        ("model=large,dim=768", Params("large", 768)),
    ]


def test_a_grid_in_python_has_the_names_of_one_in_a_spec() -> None:
    values: dict[str, list[Any]] = {"model": ["a", "You are a helpful assistant. " * 5], "dim": [1, 2]}
    in_a_spec = [v.name for v in Experiment(cases=CASES, target=lambda case, model, dim: "", grid=values).variants]
    assert [variant.name for variant in grid(Params, **values)] == in_a_spec


def test_names_contain_only_what_varies() -> None:
    assert [v.name for v in grid(Params, model="large", dim=[1, 2])] == ["dim=1", "dim=2"]
    assert [v.name for v in grid(Params, model=["large"])] == ["model=large"], "or all values, if nothing varies"


@pytest.mark.parametrize("value", ["large", ["large"], ("large",), iter(["large"])])
def test_text_is_a_single_value(value: Any) -> None:
    (variant,) = grid(Params, model=value)
    assert variant.params == Params("large")


@pytest.mark.parametrize("values", [range(1, 4), (1, 2, 3), iter([1, 2, 3]), (n for n in (1, 2, 3)), np.arange(1, 4)])
def test_values_come_from_anything_that_has_an_order(values: Any) -> None:
    dims = [variant.params.dim for variant in grid(Params, model="m", dim=values)]
    assert dims == [1, 2, 3]
    assert all(type(value) is int for value in dims)


def test_the_value_of_a_field_may_be_a_list() -> None:
    variants = grid(Loose, model="m", steps=[[1], [1, 2]])
    assert [(v.name, v.params.steps) for v in variants] == [("steps=[1]", [1]), ("steps=[1, 2]", [1, 2])]


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


def test_names_are_short_unique_and_stable_for_any_values() -> None:
    values = [
        1,
        "1",
        True,
        None,
        "",
        "two\nlines\tand \x07",
        Size.LARGE,
        len,
        Path("a"),
        {"k": [1]},
        0.1,
        "x" * 500,
    ]
    names = [variant.name for variant in grid(Params, model=values)]
    assert len(set(names)) == len(values)
    assert all(len(name) <= 120 and name.isprintable() for name in names)
    assert names[:2] == ["model=1#1", "model=1#2"], "names that look alike are numbered"
    assert names[5:8] == ["model=two lines and", "model=LARGE", "model=len"]
    assert names == [variant.name for variant in grid(Params, model=values)]


def test_names_of_many_fields_stay_short() -> None:
    many = make_dataclass("Many", [(letter * 3, str) for letter in string.ascii_lowercase])
    words = random.Random(0)
    rows = [many(*("".join(words.choices(string.ascii_letters, k=60)) for _ in range(26))) for _ in range(30)]
    for variant_names in (
        names(rows),
        [v.name for v in grid(many, **{letter * 3: "w" * 90 for letter in string.ascii_lowercase})],
    ):
        assert len(set(variant_names)) == len(variant_names)
        assert all(len(name) <= 120 for name in variant_names)


def test_a_list_of_instances_is_named_after_what_varies() -> None:
    listed = [Params("bert", 768), Params("roberta", 768), Params("distilbert", 768)]
    assert names(listed) == names(tuple(listed)) == ["model=bert", "model=roberta", "model=distilbert"]
    assert names([Params("bert", 1), Params("bert", 2, "other")]) == ["dim=1,note=plain", "dim=2,note=other"]
    assert names([Params("bert")]) == ["Params"]
    assert names([Params("bert"), Loose("bert"), Loose("other")]) == [
        "Params model=bert",
        "Loose model=bert",
        "Loose model=other",
    ]
    assert names([Params("bert"), Loose("bert")]) == ["Params", "Loose"]


def test_instances_may_have_explicit_names() -> None:
    assert names([Variant("mine", params=Params("x")), *grid(Params, model=["a", "b"])]) == [
        "mine",
        "model=a",
        "model=b",
    ]
    assert names([Variant("mine", params=Params("x")), Params("a"), Params("b")]) == ["mine", "model=a", "model=b"]
    variants = Experiment(cases=CASES, target=predict, variants={"old": Params("a"), "new": Params("b")}).variants
    assert [(variant.name, variant.params) for variant in variants] == [("old", Params("a")), ("new", Params("b"))]


def test_a_pydantic_model_validates_itself_and_is_passed_as_an_object(tmp_path: Path) -> None:
    for variants in (grid(Checked, model=["a", "b"]), [Checked(model="a"), Checked(model="b")]):
        result = Experiment(cases=CASES, target=of_checked, variants=variants, store=tmp_path / "r.db").run()
        rows = {(row["variant"], row["answer"], row["params_model"], row["params_dim"]) for row in result.rows()}
        assert rows == {("model=a", "a 256", "a", 256), ("model=b", "b 256", "b", 256)}


def test_a_function_that_changes_its_parameters_does_not_affect_other_trials(tmp_path: Path) -> None:
    variants = grid(Loose, model=["a", "b"])
    result = Experiment(cases=CASES, target=careless, variants=variants, store=tmp_path / "r.db").run(parallel=4)
    rows = {(row["variant"], row["answer"]) for row in result.rows()}
    assert rows == {("model=a", "a! [1, 2, 2]"), ("model=b", "b! [1, 2, 2]")}
    assert variants[0].params == Loose("a")


# -- what makes no sense -----------------------------------------------------------------------------------------------


@dataclass
class Picky:
    size: int
    scale: InitVar[int] = 1

    def __post_init__(self, scale: int) -> None:
        if self.size < 0:
            raise ValueError("size is below 0")
        self.size = min(self.size, 10) * scale


class Plain:
    def __init__(self, model: str) -> None:
        self.model = model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: grid(Params), "grid of Params: no field has values"),
        (lambda: grid(Params, dim=[1]), 'grid of Params: the field "model" has no default and no values'),
        (lambda: grid(Params, modle=["a"]), 'grid of Params: has no field "modle" (did you mean "model"?)'),
        (lambda: grid(Checked, model="a", dims=[1]), 'grid of Checked: has no field "dims" (did you mean "dim"?)'),
        (lambda: grid(Params, model=[]), "grid of Params: model has no values"),
        (lambda: grid(Params, model=["a", "b", "a"]), 'grid of Params: model has the value "a" twice'),
        (lambda: grid(Params, model={"a", "b"}), "grid of Params: model is a set, which has no order"),
        (lambda: grid(Params("a"), model=["b"]), "grid: needs the class Params, got an instance"),
        (lambda: grid(Plain, model=["b"]), "grid: needs a dataclass or a pydantic model, got <class"),
        (lambda: grid({"model": ["a"]}), "grid: needs a dataclass or a pydantic model, got {"),  # type: ignore[arg-type]
        (lambda: grid(Params, model=range(200), dim=range(100)), "makes 20,000 variants, more than 10,000"),
        (lambda: grid(Params, model=itertools.count()), "model has more than 10,000 values"),
        (lambda: grid(Picky, size=[1, -1]), "Picky: cannot create it with size=-1 (ValueError: size is below 0)"),
        (lambda: grid(Checked, model="a", dim=[1, 0]), 'cannot create it with model="a", dim=0 (ValidationError: '),
        (lambda: grid(Picky, size=[5, 11, 12]), "grid of Picky: size=11 and size=12 are the same"),
        (lambda: names([Params("a"), Params("b"), Params("a")]), "variants[0] and variants[2] are the same"),
        (lambda: names([Params("a"), "b"]), "variants must map names to parameters"),
        (lambda: names([Params]), "variants must map names to parameters"),
        (lambda: names([]), "variants: empty"),
        (lambda: names([Params("a")], "simulated"), 'a Params needs a function as target, not "simulated"'),
        (lambda: names([*grid(Params, model="a"), *grid(Params, model="a")]), 'duplicate variant name "model=a"'),
    ],
)  # fmt: skip
def test_an_invalid_grid_is_refused(build: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        build()
    assert message in caught.value.message


def test_a_field_without_stable_content_is_refused_with_a_fix(tmp_path: Path) -> None:
    variants = grid(Params, model=[names, test_names_are_short_unique_and_stable_for_any_values])
    with pytest.raises(BadInput, match="a field of Params has no stable digest") as caught:
        Experiment(cases=CASES, target=predict, variants=variants, store=tmp_path / "r.db").run()
    assert "in a mapping" in caught.value.fix


def test_the_baseline_is_the_first_unless_one_is_named() -> None:
    variants = grid(Params, model=["a", "b"])
    spec = Experiment(cases=CASES, target=predict, variants=variants, baseline="model=b").spec
    assert spec.baseline_of(spec.all_variants()) == "model=b"
    spec = Experiment(cases=CASES, target=predict, variants=variants).spec
    assert spec.baseline_of(spec.all_variants()) == "model=a"
    spec = Experiment(cases=CASES, target=predict, variants=variants, baseline="model=c").spec
    with pytest.raises(BadInput, match="baseline: no variant"):
        spec.baseline_of(spec.all_variants())


# -- the two tables ----------------------------------------------------------------------------------------------------


def run_grid(folder: Folder, store: str, target: Any = predict, **settings: Any) -> list[dict[str, Any]]:
    """Run four variants over eight cases; return the rows."""
    variants = grid(Params, model=["small", "large"], dim=[256, 768])
    Experiment(
        cases=CASES, target=target, variants=variants, scorers=["exact"], store=folder.path / store, **settings
    ).run(parallel=4)
    return folder.sql("select * from predictions", store)


@pytest.mark.parametrize("store", ENGINES)
def test_a_grid_writes_predictions_and_metrics_without_a_loop(folder: Folder, store: str) -> None:
    rows = run_grid(folder, store)
    assert len(rows) == 32
    assert {(row["variant"], row["params_model"], row["params_dim"], row["params_note"]) for row in rows} == {
        (f"model={model},dim={dim}", model, dim, "plain") for model in ("small", "large") for dim in (256, 768)
    }
    columns = ("n_predictions", "n_successful", "n_failed", "accuracy", "error_rate", "cost_per_correct")
    columns += ("mean_confidence", "failures")
    metrics = {row["variant"]: row for row in folder.sql("select * from metrics", store)}
    assert [metrics["model=small,dim=768"][key] for key in columns] == [
        8,
        8,
        0,
        0.5,
        0,
        pytest.approx(0.02),
        0.75,
        None,
    ]
    assert [metrics["model=large,dim=256"][key] for key in columns] == [
        8,
        8,
        0,
        1.0,
        0,
        pytest.approx(0.01),
        0.5,
        None,
    ]
    assert all(row["avg_latency"] > 0 and row["p95_latency"] >= row["p50_latency"] > 0 for row in metrics.values())


@pytest.mark.parametrize("store", ENGINES)
def test_the_rows_are_the_same_in_threads_in_processes_and_async(folder: Folder, store: str) -> None:
    results = []
    for number, (target, settings) in enumerate(
        [(predict, {}), (predict, {"executor": "thread"}), (predict, {"executor": "process"}), (predict_async, {})]
    ):
        rows = run_grid(folder, f"{number}{store}", target, **settings)
        results.append(sorted((row["variant"], row["case_id"], row["answer"], row["confidence"]) for row in rows))
        processes = {row["where"].split(".")[0] for row in rows}
        assert (str(os.getpid()) in processes) == (settings.get("executor") != "process")
    assert results[0] == results[1] == results[2] == results[3]


def test_the_executor_of_an_experiment_applies_to_variants_without_one(folder: Folder) -> None:
    def executors(**options: Any) -> list[str]:
        return [variant.executor for variant in Experiment(cases=CASES, **options).variants]

    variants = [Variant("own", executor="thread", params=Params("a")), *grid(Params, model="b")]
    assert executors(variants=variants, target=predict, executor="process") == ["thread", "process"]
    mixed = {"one": {"target": "simulated"}, "two": {"target": "python:mine:predict"}}
    assert executors(variants=mixed, executor="process") == ["auto", "process"]
    with pytest.raises(BadInput, match="executor: only for Python functions, and no variant has one"):
        executors(variants={"one": {"target": "simulated"}}, executor="process")
    with pytest.raises(BadInput, match="executor must be auto, thread or process"):
        executors(variants=variants, target=predict, executor="proces")


def test_a_spec_may_set_the_executor_of_all_variants(folder: Folder) -> None:
    folder.cases(2)
    folder.write("mine.py", "import os\n\ndef answer(case, size):\n    return os.getpid()\n")
    folder.write(
        "spec.yaml", "cases: cases.jsonl\ntarget: python:mine:answer\ngrid: {size: [1, 2]}\nexecutor: process\n"
    )
    assert folder.abreast("run", "spec.yaml", "--quiet").code == 0
    assert folder.abreast("sql", "results.db", "select * from predictions").code == 0
    answers = {row["answer"] for row in folder.sql("select answer from predictions")}
    assert answers
    assert str(os.getpid()) not in answers


def test_parameters_that_cannot_be_pickled_are_refused_before_the_run(tmp_path: Path) -> None:
    @dataclass
    class Local:
        model: str

    def run(**options: Any) -> None:
        Experiment(cases=CASES, store=tmp_path / "r.db", executor="process", **options).run()

    with pytest.raises(BadInput, match=r"Local cannot be sent to another process"):
        run(target=predict, variants=[Local("a"), Local("b")])
    with pytest.raises(BadInput, match="is async; executor: process is for plain functions"):
        run(target=predict_async, variants=grid(Params, model=["a", "b"]))


def test_a_larger_grid_executes_only_new_variants(folder: Folder) -> None:
    run_grid(folder, "results.db")
    variants = grid(Params, model=["small", "large", "huge"], dim=[256, 768])
    result = Experiment(
        cases=CASES, target=predict, variants=variants, scorers=["exact"], store=folder.path / "results.db"
    ).run()
    assert {row["params_model"] for row in result.rows() if row["reused_from"] is None} == {"huge"}


def test_any_sqlite_client_reads_the_metrics_of_a_grid(folder: Folder) -> None:
    run_grid(folder, "results.db")
    with contextlib.closing(sqlite3.connect(folder.path / "results.db")) as connection:
        confidences = dict(connection.execute("select variant, mean_confidence from metrics").fetchall())
    assert confidences["model=large,dim=768"] == 0.75


# -- all failed --------------------------------------------------------------------------------------------------------


def failing(item: str, params: Params) -> str:
    if params.model == "gone":
        raise Transient("no answer")
    if params.model == "bad":
        raise Refused("never")
    return "yes"


def all_failed(folder: Folder, store: str, *models: str) -> None:
    Experiment(
        cases=CASES,
        target=failing,
        variants=grid(Params, model=list(models)),
        scorers=["exact"],
        limits={"retries": 0, "breaker": 0},
        store=folder.path / store,
    ).run()


@pytest.mark.parametrize("store", ENGINES)
def test_the_accuracy_of_a_variant_that_always_failed_is_null(folder: Folder, store: str) -> None:
    all_failed(folder, store, "good", "bad", "gone")
    rows = folder.sql("select variant, accuracy, score_mean, failures from metrics order by variant", store)
    assert [tuple(row.values()) for row in rows] == [
        ("model=bad", None, 0.0, '{"refused":8}'),
        ("model=gone", None, None, '{"network":8}'),
        ("model=good", 1.0, 1.0, None),
    ]
    for form in ("terminal", "markdown"):
        lines = folder.abreast("report", "--store", store, "--format", form).out.splitlines()
        assert sum("N/A (all failed)" in line for line in lines) == 2
        assert not any("N/A" in line for line in lines if "good" in line)
    page = folder.abreast("report", "--store", store, "--format", "html", "--output", "out")
    assert page.code == 0, page.err
    assert sum(path.read_text().count("N/A (all failed)") for path in (folder.path / "out").rglob("*.html")) == 2
    (report,) = folder.abreast("report", "--store", store, "--json").json
    summaries = {name: (summary["all_failed"], summary["accuracy"]) for name, summary in report["variants"].items()}
    assert summaries == {"model=good": (False, 1.0), "model=bad": (True, None), "model=gone": (True, None)}
    bad = report["variants"]["model=bad"]["scores"]["exact"]
    assert bad["mean"] == 0.0, "its score stays honest"
    assert [row["verdict"] for row in report["verdicts"]] == ["no comparison", "no comparison"]


@pytest.mark.parametrize("model", ["bad", "gone"])
def test_a_single_variant_that_always_failed_has_no_score(folder: Folder, model: str) -> None:
    all_failed(folder, "results.db", model)
    output = folder.abreast("report").out
    assert f"model={model}: N/A (all failed)" in output
    assert "0.0%" not in output


def test_one_answer_is_enough_for_an_accuracy(folder: Folder) -> None:
    cases = [
        {"id": "one", "input": "question 1", "expected": "yes"},
        {"id": "two", "input": "question 2", "expected": "yes"},
    ]
    folder.write("once.py", 'def answer(case):\n    assert case.id == "one"\n    return "yes"\n')
    folder.write(
        "once.yaml",
        f"cases: {json.dumps(cases)}\nvariants: {{it: {{target: 'python:once:answer'}}}}\nscorers: [exact]\n",
    )
    folder.abreast("run", "once.yaml", "--quiet")
    assert folder.sql("select accuracy, failures from metrics") == [{"accuracy": 0.5, "failures": '{"crash":1}'}]
    assert "N/A" not in folder.abreast("report").out
