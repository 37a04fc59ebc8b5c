"""The scorer `format`: check that answers have the requested form."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from abreast import regex_timeout
from abreast.errors import BadInput
from abreast.model import Answer, Case
from abreast.scorers import build
from conftest import Folder

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "ages": {"$ref": "#/$defs/ages"}},
    "required": ["name"],
    "$defs": {"ages": {"type": "array", "uniqueItems": True, "items": {"type": "number"}}},
}


def mark(settings: dict[str, Any], text: str, value: Any = None) -> tuple[float | None, str]:
    (score,) = build("format", settings).score(Case("c", "?"), Answer(text, value=value))
    return score.value, score.explanation


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"regex": "^(a+)+$"}, "a" * 60 + "!"),
        ({"json_schema": {"items": {"pattern": "^(a+)+$"}}}, json.dumps(["a" * 60 + "!"])),
        ({"json_schema": {"patternProperties": {"^(a+)+$": {}}}}, json.dumps({"a" * 60 + "!": 1})),
    ],
)
def test_an_endless_pattern_costs_a_score_but_not_the_run(
    settings: dict[str, Any], answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regex_timeout, "SECONDS", 0.3)
    value, why = mark(settings, answer)
    assert value is None
    assert "took longer than" in why
    assert mark(settings, "[]")[0] is not None  # the next one is checked as usual


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ('{"name": "Ann"}', 1.0, "valid against the schema"),
        ('Here it is:\n```json\n{"name": "Ann", "ages": [1, 2]}\n```\nBye.', 1.0, "valid against the schema"),
        ('I say {"name": "Ann"}.', 1.0, "valid against the schema"),
        ("{}", 0.0, "$: 'name' is a required property"),
        (
            '{"name": 5, "ages": ["x"]}',
            0.0,
            "$.name: 5 is not of type 'string'; $.ages[0]: 'x' is not of type 'number'",
        ),
        ('{"name": "Ann", "ages": [1, 1.0]}', 0.0, "$.ages: [1, 1.0] has duplicate items"),
        ("[]", 0.0, "$: [] is not of type 'object'"),
        ("Ann", 0.0, "no JSON in the answer"),
        ("", 0.0, "no JSON in the answer"),
        ("[" * 90_000, 0.0, "no JSON in the answer"),
        ("x" * 100_001, None, "not validated: longer than 100,000 characters"),
    ],
)
def test_an_answer_matches_the_schema_or_the_explanation_says_what_does_not_and_where(
    text: str, value: float, why: str
) -> None:
    assert mark({"json_schema": PERSON}, text) == (value, why)


def test_array_schemas_prefer_lists_and_returned_values_are_validated_directly() -> None:
    names = {"json_schema": {"type": "array", "items": {"type": "string"}}}
    assert mark(names, 'The {"names"} are ["a", "b"].')[0] == 1.0
    assert mark(names, "whatever", value=["a", "b"])[0] == 1.0
    assert mark(names, "whatever", value=[1])[0] == 0.0


def test_only_the_first_validation_errors_are_reported() -> None:
    value, why = mark({"json_schema": {"items": {"type": "string"}}}, json.dumps([["x" * 1000]] * 50))
    assert value == 0.0
    assert why.startswith("$[0]: ['x")
    assert why.endswith("…")
    assert len(why) < 600


def test_unique_items_take_linear_time() -> None:
    """Items that cannot be sorted are not compared in pairs."""
    items = json.dumps([item for n in range(4_000) for item in (n, str(n), [n])], separators=(",", ":"))
    began = time.process_time()
    assert mark({"json_schema": {"uniqueItems": True}}, items)[0] == 1.0
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("regex", "text", "value"),
    [
        ("^[0-9]+$", "42\n", 1.0),
        ("^[0-9]+$", "It is 42", 0.0),
        ("[0-9]+", "It is 42", 1.0),
        (r"(?s)\A# .*^## Result$(?m:)", "x", 0.0),
    ],
)
def test_a_pattern_matches_anywhere_unless_it_is_anchored(regex: str, text: str, value: float) -> None:
    assert mark({"regex": regex}, text)[0] == value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set either regex or json_schema"),
        ({"regex": "a", "json_schema": {}}, "set either regex or json_schema"),
        ({"regex": "("}, "regex '(' is not a regular expression"),
        ({"regex": 5}, "regex must be a regular expression"),
        ({"json_schema": ["a"]}, "json_schema must be a schema, or the path of a file with one"),
        ({"json_schema": {"type": "strin"}}, "json_schema: invalid JSON Schema: $.type: 'strin' is not"),
        (
            {"json_schema": {"properties": {"a": {"pattern": "("}}}},
            "invalid JSON Schema: $.properties.a.pattern: '(' is not",
        ),
        ({"json_schema": {"items": {"$ref": "https://example.org/a.json"}}}, "remote references are not fetched"),
        ({"json_schema": {"$ref": "#/$defs/missing"}}, "unresolved $ref #/$defs/missing"),
        ({"json_schema": "missing.json"}, "json_schema missing.json: No such file or directory"),
        ({"json_schema": "a\0b"}, "not a readable JSON file"),
        ({"json": {}}, "set either regex or json_schema"),
        ({"regex": "a", "flags": "i"}, 'unknown setting "flags"'),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        build("format", settings)
    assert message in refused.value.message
    assert refused.value.message.startswith('scorer "format": ')


def test_references_within_a_schema_and_to_metaschemas_are_resolved() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"name": {"$id": "https://example.org/name", "type": "string"}},
        "properties": {"a": {"$ref": "https://example.org/name"}},
    }
    assert mark({"json_schema": schema}, '{"a": "x"}')[0] == 1.0
    assert mark({"json_schema": schema}, '{"a": 1}')[0] == 0.0
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert mark({"json_schema": meta}, '{"type": "strin"}')[0] == 0.0


SPEC = """\
cases: [{id: one, input: "?"}]
target: command
variants:
  tidy: {command: [echo, '{{"name": "Ann"}}']}
  wordy: {command: [echo, "Her name is Ann."]}
scorers:
  - format: {json_schema: schema.json}
"""


def test_schema_files_are_relative_to_the_spec_and_a_changed_schema_rescores(folder: Folder) -> None:
    folder.write("in/spec.yaml", SPEC)
    refused = folder.abreast("run", "in/spec.yaml")
    assert refused.code == 2
    assert "in/spec.yaml:7: scorer" in refused.err
    assert "No such file" in refused.err
    folder.write("in/schema.json", '{"type": "object",\n "required": ["name"}')
    assert "schema.json:2: invalid JSON" in folder.abreast("run", "in/spec.yaml").err
    folder.write("in/schema.json", json.dumps(PERSON))
    assert folder.abreast("run", "in/spec.yaml").code == 0
    assert scores_by_variant(folder, "in/results.db") == {"tidy": 1, "wordy": 0}
    folder.write("in/schema.json", json.dumps({**PERSON, "required": ["ages"]}))
    assert folder.abreast("run", "in/spec.yaml", "--json").json[0]["executed"] == 0
    assert scores_by_variant(folder, "in/results.db") == {"tidy": 0, "wordy": 0}


def scores_by_variant(folder: Folder, store: str) -> dict[str, Any]:
    """Scores of the last run by variant."""
    last = "(select run from runs order by run_id desc limit 1)"
    rows = folder.sql(f"select variant, score_format from predictions where run = {last}", store)
    return {row["variant"]: row["score_format"] for row in rows}


def test_the_suite_takes_a_schema_by_file_and_by_flag(folder: Folder) -> None:
    folder.write("one/schema.json", json.dumps(PERSON))
    folder.write("one/prompt.md", "Say a name.\n")
    own = {"tidy": {"commandTemplate": 'echo \'{"name": "Ann"}\''}, "wordy": {"commandTemplate": "echo Ann"}}
    form = {"output_format": {"json_schema": "schema.json"}}
    settings = {"prompts": ["prompt.md"], "agents": list(own), "agent_config": own, "metrics_config": form}
    folder.write("one/settings.json", json.dumps(settings))
    done = folder.abreast("run", "one/settings.json")
    assert done.code == 0, done.output
    assert scores_by_variant(folder, "one/results.db") == {"tidy": 1, "wordy": 0}
    assert folder.abreast("run", "one/settings.json", "--answer-format", "^Ann$").code == 0
    assert scores_by_variant(folder, "one/results.db") == {"tidy": 0, "wordy": 1}
    folder.write("strict.json", json.dumps({"type": "string"}))
    assert folder.abreast("run", "one/settings.json", "--answer-format", "strict.json").code == 0
    assert scores_by_variant(folder, "one/results.db") == {"tidy": 0, "wordy": 0}
