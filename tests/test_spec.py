"""Spec files: the same experiment in every language, and errors with file and line."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast import Case, Experiment, Variant
from abreast.cli import main
from abreast.experiment.options import Options
from abreast.spec.schema import Bounds, Expects, Limits, Spec, Timeout
from conftest import Folder

BASE: dict[str, Any] = {
    "name": "same",
    "description": "one experiment, four languages",
    "cases": "cases.jsonl",
    "repeats": 2,
    "baseline": "better",
    "target": "simulated",
    "params": {"correlation": 0.25},
    "variants": {"plain": {"accuracy": 0.6}, "better": {"accuracy": 0.9, "latency": {"low": 0.0, "high": 0.001}}},
    "scorers": ["exact", {"number": {"rel": 0.01}}],
    "primary": "number",
    "limits": {"parallel": {"min": 1, "start": 2, "max": 8}, "timeout": 5.5, "retries": 1},
    "store": "results.db",
    "seed": 7,
}

YAML = yaml.safe_dump(BASE, sort_keys=False)
TOML = """
name = "same"
description = "one experiment, four languages"
cases = "cases.jsonl"
repeats = 2
baseline = "better"
target = "simulated"
params = {correlation = 0.25}
scorers = ["exact", {number = {rel = 0.01}}]
primary = "number"
store = "results.db"
seed = 7

[variants.plain]
accuracy = 0.6

[variants.better]
accuracy = 0.9
latency = {low = 0.0, high = 0.001}

[limits]
timeout = 5.5
retries = 1
[limits.parallel]
min = 1
start = 2
max = 8
"""


def _facts(experiment: Experiment) -> dict[str, Any]:
    with closing(experiment.prepare(Options())) as prepared:
        return {
            "fingerprint": prepared.setup.plan.fingerprint(),
            "digests": prepared.setup.plan.digests,
            "variants": [
                (variant.name, variant.target, dict(variant.params)) for variant in prepared.setup.plan.variants
            ],
            "cases": prepared.setup.plan.cases.hash,
            "baseline": prepared.setup.baseline,
            "primary": prepared.setup.primary,
            "limits": prepared.setup.spec.limits,
            "scorers": [scorer.version for scorer in prepared.setup.scorers],
        }


def refused(folder: Folder, *words: str) -> str:
    """The error of a command that refuses a spec; it must not have created anything."""
    before = sorted(path.name for path in folder.path.rglob("*"))
    done = folder.abreast(*(words or ("run", "experiment.yaml")))
    assert done.code == 2, done.output
    assert done.err.startswith("error: ")
    assert done.out == ""
    assert sorted(path.name for path in folder.path.rglob("*")) == before
    for jargon in ("input should", "Input should", "literal[", "union", "pydantic", "NoneType", "dict", "StrictInt"):
        assert jargon not in done.err
    return done.err


def spec_with(folder: Folder, **changes: Any) -> None:
    """Write experiment.yaml with other values; None omits a key."""
    folder.cases(3)
    spec = {
        "cases": "cases.jsonl",
        "variants": {"plain": {"target": "simulated"}, "better": {"target": "simulated"}},
        "scorers": ["exact"],
        **changes,
    }
    values = {key: value for key, value in spec.items() if value is not None}
    folder.write("experiment.yaml", yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def test_yaml_toml_json_and_python_give_the_same_experiment(folder: Folder) -> None:
    folder.cases(5)
    folder.write("a.yaml", YAML)
    folder.write("a.yml", YAML)
    folder.write("a.toml", TOML)
    folder.write("a.json", json.dumps(BASE))
    facts = [_facts(Experiment.load(folder.path / f"a.{suffix}")) for suffix in ("yaml", "yml", "toml", "json")]
    facts.append(_facts(Experiment(**BASE, base=folder.path)))
    as_objects = {**BASE, "variants": [Variant(name, params=params) for name, params in BASE["variants"].items()]}
    facts.append(_facts(Experiment(**as_objects, base=folder.path)))
    assert all(fact == facts[0] for fact in facts)


def test_cases_in_a_file_the_spec_or_python_give_the_same_plan(folder: Folder) -> None:
    cases = [{"id": f"c{n}", "input": {"n": n, "text": "äöü"}, "expected": [n, 1.5, None, True]} for n in range(4)]
    folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    rest = {"variants": {"a": {"target": "simulated"}}, "scorers": ["exact"]}
    folder.write("file.yaml", yaml.safe_dump({"cases": "cases.jsonl", **rest}))
    folder.write("inside.json", json.dumps({"cases": cases, **rest}))
    hashes = {
        _facts(Experiment.load(folder.path / "file.yaml"))["fingerprint"],
        _facts(Experiment.load(folder.path / "inside.json"))["fingerprint"],
        _facts(Experiment(cases=cases, **rest))["fingerprint"],
        _facts(Experiment(cases=[Case(**case) for case in cases], **rest))["fingerprint"],
        _facts(Experiment(cases=(Case(**case) for case in cases), **rest))["fingerprint"],
    }
    assert len(hashes) == 1


def test_a_spec_without_a_name_is_named_after_its_file(folder: Folder) -> None:
    spec_with(folder)
    assert Experiment.load(folder.path / "experiment.yaml").spec.name == "experiment"


def test_yaml_values_are_read_as_written(folder: Folder) -> None:
    folder.write(
        "cases.yaml",
        """
        - {id: yes, input: 12:30, expected: no}
        - {id: 007, input: 2026-01-02, expected: on}
        - {id: c, input: 1e-3, expected: true}
        - {id: d, input: 0x10, expected: 1_000}
        - {id: e, input: -1.5, expected: .5}
        """,
    )
    folder.write("experiment.yaml", "cases: cases.yaml\nvariants: {a: {target: simulated}}\n")
    with closing(Experiment.load(folder.path / "experiment.yaml").prepare(Options())) as prepared:
        cases = [prepared.setup.plan.cases[index] for index in range(5)]
    assert [(case.id, case.input, case.expected) for case in cases] == [
        ("yes", "12:30", "no"),
        ("007", "2026-01-02", "on"),
        ("c", 0.001, True),
        ("d", 16, 1000),
        ("e", -1.5, 0.5),
    ]


def test_dates_in_toml_are_text_as_in_yaml(folder: Folder) -> None:
    folder.write(
        "a.toml", 'cases = [{id = "c", input = 2026-01-02}]\n[variants.a]\ntarget = "simulated"\nday = 2026-01-02'
    )
    folder.write("a.yaml", "cases: [{id: c, input: 2026-01-02}]\nvariants: {a: {target: simulated, day: 2026-01-02}}")
    toml, in_yaml = (_facts(Experiment.load(folder.path / name)) for name in ("a.toml", "a.yaml"))
    assert toml["fingerprint"] == in_yaml["fingerprint"]


UNKNOWN = [
    ({"varients": {}}, '"varients" (did you mean "variants"?)'),
    ({"engine": {"ray": {"adress": "auto"}}}, 'unknown key "adress" in engine.ray (did you mean "address"?)'),
    ({"engine": {"rai": {}}}, 'unknown key "rai" in engine (did you mean "ray"?)'),
    ({"limits": {"paralel": 3}}, 'unknown key "paralel" in limits (did you mean "parallel"?)'),
    ({"limits": {"parallel": {"mn": 3}}}, '"mn" in limits.parallel (did you mean "min"?)'),
    ({"limits": {"timeout": {"bas": 3}}}, '"bas" in limits.timeout (did you mean "base"?)'),
    ({"zzz": 1}, 'unknown key "zzz" (known: baseline, case_noun, cases,'),
]


@pytest.mark.parametrize(
    ("changes", "message"), UNKNOWN, ids=[next(iter(changes)) + message[:12] for changes, message in UNKNOWN]
)
def test_an_unknown_key_is_refused_with_a_suggestion(folder: Folder, changes: dict[str, Any], message: str) -> None:
    spec_with(folder, **changes)
    error = refused(folder)
    assert message in error
    assert error.startswith("error: experiment.yaml:")


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_errors_name_the_line_in_every_language(folder: Folder, suffix: str) -> None:
    folder.cases(3)
    files = {
        "yaml": "cases: cases.jsonl\nvariants:\n  parallel: {target: simulated}\nlimits:\n  retries: 1\n  paralel: 3\n",
        "json": '{"cases": "cases.jsonl",\n"variants": {"parallel":\n{"target": "simulated"}},\n'
        '"limits": {"retries": 1,\n\n"paralel": 3}}',
        "toml": 'cases = "cases.jsonl"\n[variants.parallel]\ntarget = "simulated"\n'
        "[limits]\nretries = 1\nparalel = 3\n",
    }
    folder.write(f"experiment.{suffix}", files[suffix])
    message = refused(folder, "run", f"experiment.{suffix}")
    assert f'experiment.{suffix}:6: unknown key "paralel" in limits (did you mean "parallel"?)' in message


WRONG = [
    ("name", [5, True, [], {}], "must be text"),
    ("name", ["", "  "], "is empty"),
    ("name", ["a\0b", "two\nlines"], "invisible character"),
    ("name", ["x" * 300], "longer than 200"),
    ("description", [5, []], "must be text"),
    ("cases", [5, True, {}, {"input": "x"}], "must be a file such as cases.jsonl"),
    ("repeats", ["three", 0, -1, True, 1.5, 1.0, [1], 10**12, 2**80], "must be a whole number from 1 to 100,000"),
    ("baseline", [5, ["a"], {}], "must be the name of a variant"),
    ("target", [5, ["a"], {}], "must be text such as simulated"),
    ("params", [5, "x", ["a"]], "must be a mapping such as {temperature: 0}"),
    ("variants", [5, "x", ["a"]], "must map names to parameters"),
    ("grid", [5, "x", ["a"]], "must be a mapping of lists"),
    ("scorers", ["exact", 5, {"exact": {}}], "must be a list such as [exact]"),
    ("primary", [5, ["a"]], "must be the name of a score"),
    ("limits", [5, "x", ["a"]], "must be a mapping such as {parallel: 4}"),
    ("store", [5, [], {}], "must be text"),
    ("store", ["", "a\0.db"], "store"),
    ("seed", ["x", -1, True, 1.5, 2**63], "must be a whole number from 0"),
]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [(key, value, message) for key, values, message in WRONG for value in values],
    ids=lambda value: ascii(value)[:30] if not isinstance(value, str) else None,
)
def test_a_value_of_the_wrong_type_is_refused_with_line_and_fix(
    folder: Folder, key: str, value: Any, message: str
) -> None:
    spec_with(folder, **{key: value})
    error = refused(folder)
    line = 1 + [row.split(":")[0] for row in (folder.path / "experiment.yaml").read_text().splitlines()].index(key)
    assert error.startswith(f"error: experiment.yaml:{line}: ")
    assert key in error
    assert message in error
    if isinstance(value, int) and not isinstance(value, bool):
        assert f"got {value}" in error


WRONG_LIMITS = [
    ({"parallel": "x"}, 'parallel must be a whole number, auto, variants, or {min: 1, start: 20, max: 64}, got "x"'),
    ({"parallel": True}, "limits.parallel must be a whole number, auto"),
    ({"parallel": 1.5}, "limits.parallel must be a whole number, auto"),
    ({"parallel": 10**9}, "limits.parallel must be"),
    ({"parallel": {"min": 0}}, "limits.parallel.min must be a whole number of at least 1, got 0"),
    ({"parallel": {"min": 5, "max": 2}}, "limits.parallel must have a min of at most its max, got min 5 and max 2"),
    ({"trial_parallelism": "x"}, "limits.trial_parallelism must be a whole number"),
    ({"per_variant": [1]}, "limits.per_variant must be a whole number"),
    ({"retries": -1}, "limits.retries must be a whole number from 0 to 1,000, got -1"),
    ({"retries": True}, "limits.retries must be a whole number from 0 to 1,000, got true"),
    ({"timeout": 0}, "limits.timeout must be seconds above 0, or {base: 180, per_1k_chars: 10, max: 600}, got 0"),
    ({"timeout": "5s"}, 'limits.timeout must be seconds above 0, or {base: 180, per_1k_chars: 10, max: 600}, got "5s"'),
    ({"timeout": {"base": "x"}}, 'limits.timeout.base must be seconds above 0, got "x"'),
    ({"timeout": {"per_1k_chars": -1}}, "limits.timeout.per_1k_chars must be seconds of at least 0"),
    ({"timeout": float("nan")}, "limits.timeout is NaN"),
    ({"timeout": float("inf")}, "limits.timeout is infinite"),
]


@pytest.mark.parametrize(("limits", "message"), WRONG_LIMITS, ids=[str(limits) for limits, _ in WRONG_LIMITS])
def test_a_wrong_limit_is_refused_with_the_accepted_values(
    folder: Folder, limits: dict[str, Any], message: str
) -> None:
    spec_with(folder, limits=limits)
    assert message in refused(folder)


def test_a_grid_takes_lists(folder: Folder) -> None:
    spec_with(folder, variants=None, grid={"accuracy": 0.5})
    assert "experiment.yaml:5: grid.accuracy must be a list, got 0.5" in refused(folder)


def test_a_key_without_a_value_is_refused(folder: Folder) -> None:
    folder.cases(1)
    folder.write("experiment.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated}}\nlimits:\n")
    message = refused(folder)
    assert "experiment.yaml:3: limits must be a mapping such as {parallel: 4}, got nothing" in message
    assert "remove the key" in message


@pytest.mark.parametrize("model", [Spec, Limits, Bounds, Timeout])
def test_every_field_describes_its_values(model: Any) -> None:
    silent = {"cases", "target", "variants"} if model is Spec else set()  # these have sentences of their own
    for name, field in model.model_fields.items():
        assert name in silent or any(isinstance(item, Expects) for item in field.metadata), name


VARIANTS = [
    ({"a": 5}, 'variant "a": must be a mapping of parameters, got 5'),
    ({"a": {"target": "simulate"}}, 'variant "a": unknown target "simulate" (did you mean "simulated"?)'),
    ({"a": {"target": 5}}, 'variant "a": target must be text, got 5'),
    ({"a": {}}, 'variant "a": no target'),
    ({"a": None}, 'variant "a": no target'),
    ({}, "variants: empty"),
    ({"a": {"target": "simulated", "accuracy": 2}}, 'variant "a": accuracy must be between 0 and 1, got 2'),
    ({"a": {"target": "simulated", "accuracy": "high"}}, 'variant "a": accuracy must be a number'),
    ({"a": {"target": "simulated", "accuracy": float("nan")}}, "variants.a.accuracy is NaN"),
    ({"a": {"target": "simulated", "latency": float("inf")}}, "variants.a.latency is infinite"),
    ({"a": {"target": "simulated", "acuracy": 1}}, '"acuracy" of the simulator (did you mean "accuracy"?)'),
    ({"a": {"target": "simulated", "errors": {"timout": 1}}}, '"timout" (did you mean "timeout"?)'),
    ({"a": {"target": "simulated", "errors": {"timeout": 0.7, "crash": 0.7}}}, "add up to 1.4, more than 1"),
    ({"a": {"target": "simulated", "capacity": 0}}, 'variant "a": capacity must be an integer of at least 1'),
    ({"a": {"target": "simulated", "prompt": "{{"}}, 'variant "a": prompt template, line 1'),
    ({"a": {"target": "simulated", "executor": "fast"}}, "executor must be auto, thread or process"),
    ({"a": {"target": "simulated", "version": [1]}}, 'variant "a": version must be text, got [1]'),
    ({"a": {"target": "simulated", "x\0": 1}}, "variants.a has the key"),
    ({"a\0b": {"target": "simulated"}}, "invisible character"),
    ({"": {"target": "simulated"}}, "is empty"),
    ({"x" * 300: {"target": "simulated"}}, "longer than 200 characters"),
    ({1: {"target": "simulated"}}, "the key 1 is not text"),
    ({None: {"target": "simulated"}}, "is not text"),
    ({True: {"target": "simulated"}}, "the key true is not text"),
    ({"a": {"target": "simulated", 5: 6}}, "the key 5 is not text"),
]


@pytest.mark.parametrize(("variants", "message"), VARIANTS, ids=[message[:50] for _, message in VARIANTS])
def test_a_wrong_variant_is_refused_with_its_line(folder: Folder, variants: dict[Any, Any], message: str) -> None:
    spec_with(folder, variants=variants)
    error = refused(folder)
    assert error.startswith("error: experiment.yaml:")
    assert message in error


SCORERS = [
    (["exactt"], 'unknown scorer "exactt" (did you mean "exact"?)'),
    ([5], "5 is not the name of a scorer"),
    ([["exact"]], '["exact"] is not the name of a scorer'),
    ([{"exact": 5}], "the settings of exact must be a mapping, got 5"),
    ([{"exact": {}, "text": {}}], "must have one key, its name"),
    ([{"number": {"rell": 1}}], 'scorer "number": unknown setting "rell" (did you mean "rel"?)'),
    (["exact", "exact"], 'two produce the column "score_exact"'),
]


@pytest.mark.parametrize(("scorers", "message"), SCORERS, ids=[message[:40] for _, message in SCORERS])
def test_a_wrong_scorer_is_refused_with_its_line(folder: Folder, scorers: list[Any], message: str) -> None:
    spec_with(folder, scorers=scorers)
    error = refused(folder)
    assert error.startswith("error: experiment.yaml:")
    assert message in error


def test_an_unknown_baseline_and_primary_are_refused_with_a_suggestion(folder: Folder) -> None:
    spec_with(folder, baseline="plane")
    assert 'experiment.yaml:9: baseline: no variant "plane" (did you mean "plain"?)' in refused(folder)
    spec_with(folder, primary="exac")
    assert 'experiment.yaml:9: primary: no scorer produces "exac" (did you mean "exact"?)' in refused(folder)


@pytest.mark.parametrize("key", ["cases", "variants"])
def test_a_missing_key_is_named(folder: Folder, key: str) -> None:
    spec_with(folder, **{key: None})
    assert key in refused(folder)


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_an_empty_file_is_refused_with_a_minimal_example(folder: Folder, suffix: str) -> None:
    for text in ("", "\n\n", "\ufeff", "# only a comment\n"):
        if suffix != "json" or "#" not in text:  # JSON has no comments
            folder.write(f"experiment.{suffix}", text)
            message = refused(folder, "run", f"experiment.{suffix}")
            assert f"experiment.{suffix}: empty" in message
            assert "cases:" in message


BROKEN = [
    ("a.yaml", b"name: x\ncases: \xff\n", "a.yaml:2: not valid UTF-8"),
    ("a.json", b'{"name": "x",\n\n"cases": "\xff"}', "a.json:3: not valid UTF-8"),
    ("a.toml", b'name = "x"\ncases = "\xff"', "a.toml:2: not valid UTF-8"),
    ("a.yaml", "name: x\n\tcases: y\n", "a.yaml:2: not valid YAML: a tab"),
    ("a.yaml", "name: a\0b\n", "a.yaml:1: not valid YAML"),
    ("a.yaml", "name: x\ncases: [a\n", "a.yaml:3: not valid YAML"),
    ("a.yaml", "name: x: y\n", "a.yaml:1: not valid YAML"),
    ("a.yaml", "a: 1\n---\nb: 2\n", "a.yaml:2: not valid YAML: a second document"),
    ("a.yaml", "params: *nowhere\n", "a.yaml:1: not valid YAML"),
    ("a.yaml", "cases: a\nparams: !!python/object:os.system {}\n", "a.yaml:2: not valid YAML"),
    ("a.yaml", "cases: a\nparams: {a: !!set {x, y}}\n", "a.yaml:2: not valid YAML"),
    ("a.yaml", "cases: a\nparams: {a: !!int xyz}\n", "a.yaml: not valid YAML"),
    ("a.yaml", "cases: a\nparams: &self {x: *self}\n", "a.yaml:2: refers to itself"),
    ("a.yaml", "cases: a\n[1, 2]: b\n", "a.yaml:2: not valid YAML: a list or mapping cannot be a key"),
    ("a.yaml", "cases: a\n1: b\n", "a.yaml:2: the key 1 is not text"),
    ("a.yaml", f"cases: a\nseed: {'9' * 5000}\n", "more than 4,300 digits"),
    ("a.yaml", f"cases: a\nseed: 0x{'f' * 5000}\n", "a.yaml:2: seed is a number of more than 3,000 digits"),
    ("a.yaml", "a: " + "[" * 5000, "a.yaml: nested too deeply"),
    (
        "a.yaml",
        "cases: a\nparams: {a: " + "[" * 150 + "]" * 150 + "}",
        "a.yaml:2: params contains itself, or is nested",
    ),
    ("a.yaml", 'cases: a\nparams: {a: "\\ud800"}', "a.yaml:2: params.a contains half a character"),
    ("a.yaml", "- a\n- b\n", "a.yaml: must be a mapping of keys such as name, cases and variants"),
    ("a.yaml", "just text", "a.yaml: must be a mapping of keys"),
    ("a.yaml", "name: a\ncases: b\nname: c\n", 'a.yaml:3: duplicate key "name"'),
    ("a.yaml", "variants:\n  a: {x: 1}\n  a: {x: 2}\n", 'a.yaml:3: duplicate key "a"'),
    ("a.json", '{"name": "a",\n"cases": "b",\n"name": "c"}', 'a.json:3: duplicate key "name"'),
    ("a.json", '{"variants": {"a": {},\n"a": {}}}', 'a.json:2: duplicate key "a"'),
    ("a.json", '{"cases": \n oops}', "a.json:2: not valid JSON: a value is missing"),
    ("a.json", '{"cases": 1,}', "a.json:1: not valid JSON"),
    ("a.json", '{"cases": 1}\n}', "a.json:2: not valid JSON: extra text after the end"),
    ("a.json", '{"cases": "a",\n "seed": NaN}', "a.json:2: NaN is not valid JSON"),
    ("a.json", "[" * 200_000, "a.json: nested too deeply"),
    ("a.json", '{"seed": ' + "9" * 5000 + "}", "a.json: a number has more than 4,300 digits"),
    ("a.json", "// hello\n{}", "a.json:1: not valid JSON"),
    ("a.toml", 'name = "a"\ncases = \n', "a.toml:2: not valid TOML"),
    ("a.toml", 'name = "a"\nname = "b"\n', "a.toml:2: not valid TOML: duplicate key"),
    ("a.toml", "name", "a.toml:1: not valid TOML"),
    ("a.toml", "a = " + "[" * 20_000, "a.toml: nested too deeply"),
    ("a.txt", "name: x", 'a.txt: unknown extension ".txt"; a spec ends in .yaml, .yml, .toml, .json'),
    ("a", "name: x", "a: unknown extension"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=[message[:60] for _, _, message in BROKEN])
def test_a_broken_file_is_refused_with_its_line(folder: Folder, name: str, content: str | bytes, message: str) -> None:
    folder.write(name, content)
    assert message in refused(folder, "run", name)


def test_aliases_that_expand_to_billions_of_values_are_refused(folder: Folder) -> None:
    levels = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    folder.write("a.yaml", "cases: a\nparams:\n  " + "\n  ".join(levels))
    assert "a.yaml: more than 2,000,000 values" in refused(folder, "run", "a.yaml")


def test_aliases_and_merge_keys_are_accepted(folder: Folder) -> None:
    folder.cases(2)
    folder.write(
        "a.yaml",
        """
        cases: cases.jsonl
        variants:
          a: &a {target: simulated, accuracy: 0.5}
          b: {<<: *a, accuracy: 0.7}
          c: *a
        """,
    )
    variants = Experiment.load(folder.path / "a.yaml").variants
    assert [variant.params["accuracy"] for variant in variants] == [0.5, 0.7, 0.5]


def test_a_missing_spec_is_refused_with_a_suggestion(simulated: Folder) -> None:
    assert 'experimnt.yaml: no such file (did you mean "experiment.yaml"?)' in refused(
        simulated, "run", "experimnt.yaml"
    )
    assert "nowhere/a.yaml: no such file" in refused(simulated, "run", "nowhere/a.yaml")


def test_a_folder_or_an_impossible_name_instead_of_a_spec_is_refused(simulated: Folder) -> None:
    assert "a folder, not a file" in refused(simulated, "run", ".")
    assert "is not a file name" in refused(simulated, "run", "a\0b.yaml")
    assert "cannot read the file" in refused(simulated, "run", "x" * 5000 + ".yaml")


def test_a_huge_spec_is_refused(folder: Folder) -> None:
    folder.write("a.yaml", b"#" * 17_000_000)
    assert "larger than 16 MB" in refused(folder, "run", "a.yaml")


@pytest.mark.parametrize("command", ["run", "check", "aa"])
def test_every_command_that_takes_a_spec_refuses_a_bad_one(folder: Folder, command: str) -> None:
    spec_with(folder, repeats=0)
    assert "repeats must be" in refused(folder, command, "experiment.yaml")


def test_python_experiments_follow_the_same_rules() -> None:
    from abreast.errors import BadInput

    good: dict[str, Any] = {"cases": [{"input": "x"}], "variants": {"a": {"target": "simulated"}}}
    for wrong, message in (
        ({"repeats": 0}, "Experiment: repeats must be a whole number from 1 to 100,000, got 0"),
        ({"limits": {"paralel": 1}}, 'Experiment: unknown key "paralel" in limits'),
        ({"variants": {"a": {"target": "simulated", "x": float("nan")}}}, "variants.a.x is NaN"),
        ({"variants": [Variant("a", "simulated", {"x": float("inf")})]}, "is infinite"),
        ({"variants": {"a": {"target": "simulated", 3: 1}}}, "the key 3, which is not text"),
        ({"variants": [1, 2]}, "variants must map names to parameters"),
    ):
        with pytest.raises(BadInput) as caught:
            Experiment(**{**good, **wrong})
        assert message in str(caught.value)
    with pytest.raises(BadInput, match='duplicate variant name "a"'):
        _ = Experiment(cases=[{"input": "x"}], variants=[Variant("a"), Variant("a")], target="simulated").variants


def test_the_published_schema_names_every_key(folder: Folder) -> None:
    schema = folder.abreast("spec-schema").json
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["type"] == "object"
    assert set(schema["properties"]) == set(Spec.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["cases"]
    definitions = schema["$defs"]
    assert set(definitions["Limits"]["properties"]) == set(Limits.model_fields)
    assert set(definitions["Case"]["properties"]) == {"id", "input", "expected", "tags", "group"}
    for name in ("Limits", "Bounds", "Timeout", "Case"):
        assert definitions[name]["additionalProperties"] is False
    assert {"$ref": "#/$defs/Call"} in schema["properties"]["cases"]["anyOf"]
    assert {"$ref": "#/$defs/Call"} in definitions["Variant"]["properties"]["transform"]["anyOf"]
    assert definitions["Call"]["required"] == ["from"]
    for reference in _references(schema):
        assert reference.removeprefix("#/$defs/") in definitions


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"]] if "$ref" in schema else []
        return own + [reference for value in schema.values() for reference in _references(value)]
    return [reference for item in schema for reference in _references(item)] if isinstance(schema, list) else []


# Anything at all as a spec: an answer or a refusal, never a traceback.

HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**70), 10**400, 100_001]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["\0", "\ud800", "\u202e", "python:", "python:os:getcwd", "python:nope:f", "*", "[", ".", "/", "~"]
    ),
)
NESTED = st.recursive(
    HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE.map(str) | HOSTILE, inner, max_size=3),
    max_leaves=6,
)
VALID: dict[str, Any] = {
    "name": "fuzz",
    "cases": [{"id": "a", "input": "x", "expected": "y", "tags": {"k": "v"}, "group": "g"}],
    "repeats": 1,
    "baseline": "b",
    "params": {"correlation": 0.5},
    "variants": {"a": {"target": "simulated", "accuracy": 0.5, "errors": {"crash": 0.1}}, "b": {"target": "simulated"}},
    "scorers": ["exact", {"number": {"rel": 0.1}}],
    "primary": "exact",
    "limits": {"parallel": 2, "timeout": {"base": 1, "max": 2}, "retries": 0},
    "store": "fuzz.db",
    "seed": 1,
}


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at] + [path for key, item in pairs for path in _paths(item, (*at, key))]


def _mutated(value: Any, path: tuple[Any, ...], change: str, new: Any) -> Any:
    """A copy with the value at one path replaced, dropped, renamed or duplicated."""
    if not path:
        return new if change == "replace" else value
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    head = path[0]
    if len(path) > 1:
        copy[head] = _mutated(copy[head], path[1:], change, new)
    elif change == "replace":
        copy[head] = new
    elif change == "drop":
        del copy[head]
    elif isinstance(copy, dict):
        try:
            copy[new] = copy.pop(head)
        except TypeError:  # a list cannot be a key
            copy[str(head) + "x"] = 1
    else:
        copy.append(copy[head])
    return copy


MUTATIONS = st.lists(
    st.tuples(st.sampled_from(_paths(VALID)), st.sampled_from(["replace", "replace", "drop", "rename"]), NESTED),
    min_size=1,
    max_size=2,
)
FUZZ = settings(
    max_examples=120, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def _survives(folder: Folder, name: str, *more: str) -> None:
    done = folder.abreast("check", name, *more)
    assert done.code in (0, 2, 4), done.output
    assert done.code == 0 or "error: " in done.err


@FUZZ
@given(MUTATIONS, st.sampled_from(["yaml", "json"]))
def test_a_mutated_spec_never_crashes(
    fuzzed: Folder, mutations: list[tuple[tuple[Any, ...], str, Any]], suffix: str
) -> None:
    spec: Any = VALID
    for path, change, new in mutations:
        try:
            spec = _mutated(spec, path, change, new)
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    try:
        text = yaml.dump(spec, sort_keys=False) if suffix == "yaml" else json.dumps(spec)
    except (TypeError, ValueError):
        text = yaml.dump(spec, sort_keys=False)
    fuzzed.write(f"fuzz.{suffix}", text.encode("utf-8", "surrogatepass"))
    _survives(fuzzed, f"fuzz.{suffix}")


@FUZZ
@given(NESTED, st.sampled_from(sorted(Spec.model_fields)))
def test_any_value_of_any_key_in_python_never_crashes(fuzzed: Folder, value: Any, key: str) -> None:
    from abreast.errors import AbreastError

    try:
        with closing(Experiment(**{**VALID, key: value}, base=fuzzed.path).prepare(Options())):
            pass
    except AbreastError:
        pass
    except (TypeError, ValueError, AttributeError):
        assert key in ("scorers", "params", "grid")  # not what the signature says: Python's own message


@FUZZ
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_noise_as_a_spec_never_crashes(fuzzed: Folder, noise: bytes) -> None:
    for suffix in ("yaml", "json", "toml"):
        fuzzed.write(f"fuzz.{suffix}", noise)
        _survives(fuzzed, f"fuzz.{suffix}")


@FUZZ
@given(st.data())
def test_a_spec_with_bytes_lost_or_changed_never_crashes(fuzzed: Folder, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(["yaml", "json", "toml"]))
    original = {"yaml": yaml.safe_dump(VALID), "json": json.dumps(VALID, indent=1), "toml": TOML}[suffix].encode()
    at = data.draw(st.integers(0, len(original)))
    length = data.draw(st.integers(0, 5))
    put = data.draw(st.binary(max_size=3) | st.sampled_from([b"\t", b": ", b"- ", b"&a ", b"*a", b"!!", b"{", b"["]))
    fuzzed.write(f"fuzz.{suffix}", original[:at] + put + original[at + length :])
    _survives(fuzzed, f"fuzz.{suffix}")


TRAPS = [
    '"',
    "'",
    ";",
    "a.b",
    "a b",
    "$",
    "]",
    "[0]",
    "score",
    "run",
    "é",
    "A",
    "a",
    "🙂",
    "%s",
    "--",
    "{{x}}",
    "[red]",
]
TEXTS = (st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=6) | st.sampled_from(TRAPS)).filter(
    str.strip
)
PLAIN_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | st.just(""),
    lambda inner: st.lists(inner | st.none(), max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@settings(FUZZ, max_examples=25)
@given(
    st.dictionaries(TEXTS, PLAIN_VALUES, max_size=3),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.lists(st.tuples(TEXTS, PLAIN_VALUES, PLAIN_VALUES), min_size=1, max_size=2, unique_by=lambda case: case[0]),
    st.lists(TEXTS, min_size=1, max_size=3, unique=True),
)
def test_an_accepted_spec_runs(
    fuzzed: Folder, params: Any, tags: Any, cases: list[tuple[str, Any, Any]], names: list[str]
) -> None:
    for store in fuzzed.path.glob("fuzz.db*"):
        store.unlink()
    spec = {
        "cases": [{"id": name, "input": value, "expected": right, "tags": tags} for name, value, right in cases],
        "params": {f"p{key}": value for key, value in params.items()},
        "variants": {name: {"target": "simulated"} for name in names},
        "store": "fuzz.db",
    }
    fuzzed.write("fuzz.json", json.dumps(spec))
    done = fuzzed.abreast("run", "fuzz.json", "--quiet", "--output", "report")
    assert done.code == 0, done.output
    stored = {
        (row["case_id"], row["variant"]) for row in fuzzed.sql("SELECT case_id, variant FROM predictions", "fuzz.db")
    }
    assert stored == {(case[0], name) for case in cases for name in names}


@pytest.fixture(scope="module")
def fuzz_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture
def fuzzed(fuzz_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Folder:
    """One folder for all examples."""
    folder = Folder(fuzz_path, capsys, monkeypatch)
    folder.cases(2)
    return folder


def test_main_returns_an_exit_code(simulated: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(simulated.path)
    assert main(["check", "experiment.yaml"]) == 0
