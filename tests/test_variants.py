"""Variants by name and by grid with shared parameters, and the selection of variants and cases for a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from abreast import Experiment, Variant
from abreast.errors import BadInput
from conftest import Folder


def variants_of(**spec: Any) -> list[Variant]:
    return list(Experiment(cases=[{"input": "x"}], **spec).variants)


def test_a_grid_is_a_product_in_the_order_it_is_written() -> None:
    variants = variants_of(target="simulated", grid={"model": ["haiku", "sonnet"], "temperature": [0, 1]})
    assert [variant.name for variant in variants] == [
        "model=haiku,temperature=0",
        "model=haiku,temperature=1",
        "model=sonnet,temperature=0",
        "model=sonnet,temperature=1",
    ]
    assert variants[2].params == {"model": "sonnet", "temperature": 0}


def test_names_in_a_grid_stay_readable_whatever_the_values() -> None:
    long = "You are a helpful assistant.\nAnswer briefly, and only with what you know."
    variants = variants_of(target="simulated", grid={"prompt": [long, long + " Really."], "flag": [True, None, [1]]})
    names = [variant.name for variant in variants]
    assert names[0] == "prompt=You are a helpful assistant. A…#1,flag=true"
    assert names[1].endswith("flag=null")
    assert names[2].endswith("flag=[1]")
    assert len(set(names)) == 6
    assert variants[0].params["prompt"] == long


def test_a_grid_may_choose_the_target() -> None:
    variants = variants_of(grid={"target": ["simulated", "mock"]})
    assert [(variant.name, variant.target) for variant in variants] == [
        ("target=simulated", "simulated"),
        ("target=mock", "mock"),
    ]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "grid: empty"),
        ({"a": []}, "grid: a has no values"),
        ({"a": [1, 1]}, 'duplicate variant name "a=1"'),
        ({letter: list(range(10)) for letter in "abcdefgh"}, "grid: makes 100,000,000 variants, more than 10,000"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(folder: Folder, grid: dict[str, Any], message: str) -> None:
    folder.cases(2)
    folder.write("experiment.yaml", yaml.safe_dump({"cases": "cases.jsonl", "target": "simulated", "grid": grid}))
    done = folder.abreast("run", "experiment.yaml")
    assert done.code == 2
    assert message in done.err
    assert done.err.startswith("error: experiment.yaml:")


def test_variants_and_grid_together_are_refused() -> None:
    with pytest.raises(BadInput, match="variants and grid exclude each other"):
        variants_of(target="simulated", variants={"a": {}}, grid={"x": [1]})


def test_shared_parameters_reach_every_variant_and_its_own_take_precedence() -> None:
    variants = variants_of(target="simulated", params={"a": 1, "b": 2}, variants={"x": {"b": 3}, "y": None})
    assert [variant.params for variant in variants] == [{"a": 1, "b": 3}, {"a": 1, "b": 2}]


def test_a_variant_has_its_own_target_or_the_shared_one() -> None:
    variants = variants_of(target="simulated", variants={"x": {"target": "mock"}, "y": {}})
    assert [variant.target for variant in variants] == ["mock", "simulated"]


def test_version_and_executor_are_not_parameters() -> None:
    (variant,) = variants_of(variants={"x": {"target": "python:math:sqrt", "version": 2, "executor": "thread", "p": 1}})
    assert (variant.version, variant.executor, variant.params) == ("2", "thread", {"p": 1})


def test_the_first_variant_is_the_baseline_unless_another_is_named(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--quiet")
    text = (simulated.path / "experiment.yaml").read_text()
    simulated.write("other.yaml", text + "baseline: better\n")
    simulated.abreast("run", "other.yaml", "--quiet", "--store", "other.db")
    assert simulated.sql("SELECT baseline FROM runs")[0]["baseline"] == "plain"
    assert simulated.sql("SELECT baseline FROM runs", "other.db")[0]["baseline"] == "better"


def counted(folder: Folder, *options: str) -> list[tuple[str, str, int]]:
    """The trials that a run with these options executed: case, variant, repeat."""
    store = f"{len(list(folder.path.glob('*.db')))}.db"
    done = folder.abreast("run", "experiment.yaml", "--json", "--quiet", "--store", store, *options)
    assert done.code == 0, done.output
    rows = folder.sql("SELECT case_id, variant, repeat FROM predictions", store)
    assert done.json[0]["planned"] == len(rows)
    return sorted((row["case_id"], row["variant"], row["repeat"]) for row in rows)


@pytest.fixture
def tagged(folder: Folder) -> Folder:
    lines = [
        {"id": f"c{n}", "input": n, "expected": "y", "tags": {"level": "odd" if n % 2 else "even", "third": n % 3 == 0}}
        for n in range(6)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write(
        "experiment.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated}, b: {target: simulated}}\nscorers: [exact]\n",
    )
    return folder


def test_repeats_multiply_the_trials(tagged: Folder) -> None:
    rows = counted(tagged, "--repeats", "3")
    assert len(rows) == 6 * 2 * 3
    assert {repeat for _, _, repeat in rows} == {0, 1, 2}


def test_case_selects_only_the_named_cases(tagged: Folder) -> None:
    assert {case for case, _, _ in counted(tagged, "--case", "c4", "--case", "c1")} == {"c1", "c4"}
    assert {case for case, _, _ in counted(tagged, "--case", "c4", "--case", "c1", "--limit", "1")} == {"c1"}


def test_tag_selects_only_cases_with_all_tags(tagged: Folder) -> None:
    assert {case for case, _, _ in counted(tagged, "--tag", "level=odd")} == {"c1", "c3", "c5"}
    assert {case for case, _, _ in counted(tagged, "--tag", "level=odd", "--tag", "third=true")} == {"c3"}


def test_variant_selects_only_the_named_variants(tagged: Folder) -> None:
    assert {variant for _, variant, _ in counted(tagged, "--variant", "b")} == {"b"}


def test_limit_selects_the_first_cases(tagged: Folder) -> None:
    assert {case for case, _, _ in counted(tagged, "--limit", "2")} == {"c0", "c1"}
    assert {case for case, _, _ in counted(tagged, "--limit", "2", "--tag", "level=odd")} == {"c1", "c3"}
    assert len(counted(tagged, "--limit", "100")) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--case", "c44"], '--case c44: no such case (did you mean "c4"?)'),
        (["--case", "c1", "--case", "zzz"], "--case zzz: no such case (known: c0, c1"),
        (["--tag", "level"], "--tag level: must be KEY=VALUE"),
        (["--tag", "=odd"], "--tag =odd: must be KEY=VALUE"),
        (["--tag", "level=none"], "no case matches --tag level=none"),
        (["--case", "c1", "--tag", "level=even"], "no case matches --case c1 --tag level=even"),
        (["--variant", "c"], "--variant c: no such variant (known: a, b)"),
        (["--limit", "0"], "a limit of 0 leaves no cases"),
        (["--limit", "-1"], "a limit of -1 leaves no cases"),
        (["--limit", "x"], "--limit"),
        (["--repeats", "0"], "--repeats 0: must be a whole number of at least 1"),
        (["--seed", "-1"], "--seed -1: must be a whole number of at least 0"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(tagged: Folder, options: list[str], message: str) -> None:
    before = sorted(path.name for path in tagged.path.iterdir())
    done = tagged.abreast("run", "experiment.yaml", *options)
    assert done.code == 2
    assert message in done.err
    assert sorted(path.name for path in tagged.path.iterdir()) == before


def test_variants_with_the_same_name_in_python_are_refused() -> None:
    with pytest.raises(BadInput, match='duplicate variant name "a"'):
        variants_of(target="simulated", variants=[Variant("a"), Variant("a")])
