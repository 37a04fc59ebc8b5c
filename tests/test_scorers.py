"""Scorers: what they read from an answer, what they refuse, and that no answer crashes them."""

from __future__ import annotations

import doctest
import functools
import importlib
import math
import pkgutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast import scorers
from abreast.code import reference
from abreast.code.digest import source_digest
from abreast.code.reference import load_function
from abreast.errors import BadInput
from abreast.model import Answer, Case, Score
from abreast.scorers import KINDS, Scorer, build
from abreast.scorers.number import read
from abreast.scorers.parsing.answer_text import fold
from abreast.scorers.parsing.negation import Phrases
from abreast.scorers.text import normalized

MODULES = [scorers.__name__, *(module.name for module in pkgutil.iter_modules(scorers.__path__, "abreast.scorers."))]


def scored(kind: Any, text: str, expected: Any = None, returned: Any = None, **settings: Any) -> tuple[Score, ...]:
    return build(kind, settings).score(Case("case", "?", expected=expected), Answer(text, value=returned))


def value_of(kind: Any, text: str, expected: Any = None, **settings: Any) -> float | None:
    return scored(kind, text, expected, **settings)[0].value


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_examples_of_python_references_run() -> None:
    assert doctest.testmod(reference).failed == 0


# Building


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "human"])
def test_every_kind_takes_a_name_for_its_columns(kind: str) -> None:
    needed: dict[str, dict[str, Any]] = {
        "label": {"classes": ["a", "b"]},
        "judge": {"target": "anthropic", "rubric": "Is it true?"},
        "tests": {"command": "make test"},
        "format": {"regex": "a"},
    }
    settings = needed.get(kind, {})
    plain, renamed = build(kind, settings), build(kind, {**settings, "name": "loose"})
    assert plain.columns[0].startswith(kind)
    assert all(column.startswith("loose") for column in renamed.columns)
    assert plain.version == renamed.version


@pytest.mark.parametrize("name", ["Loose", "1st", "a-b", "", "é", 3, "a b", "x\n"])
def test_a_name_that_is_no_lowercase_identifier_is_refused(name: Any) -> None:
    with pytest.raises(BadInput, match="name must be lowercase"):
        build("number", {"name": name})


def test_an_unknown_scorer_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BadInput, match=r'unknown scorer "nubmer".*did you mean "number"'):
        build("nubmer", {})


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("number", {"rle": 0.1}, 'unknown setting "rle".*did you mean "rel"'),
        ("number", {"rel": -1}, "rel must be a number of at least 0"),
        ("number", {"abs": math.nan}, "abs must be"),
        ("number", {"rel": True}, "rel must be"),
        ("regex", {"pattern": "a(b"}, "position 1"),
        ("label", {}, "classes is required"),
        ("label", {"classes": []}, "classes must be"),
        ("label", {"classes": {"up": [" "]}}, "is empty"),
        ("label", {"classes": {"up": ["rise"], "down": ["RISE"]}}, "belongs to both"),
        ("json", {"fields": {"a": "txt"}}, "fields.a must be"),
        ("json", {"fields": {"a": {"rle": 1}}}, 'unknown setting "rle"'),
        ("contains", {"value": []}, "value must be"),
        ("python:math:sqrtt", {}, "sqrtt"),
        (print, {"columns": ["a", "a"]}, "columns must be"),
    ],
)
def test_wrong_settings_are_refused_when_the_scorer_is_built(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        build(kind, settings)


def test_settings_change_the_version_and_equal_settings_do_not() -> None:
    assert build("number", {"rel": 0.1}).version == build("number", {"rel": 0.1}).version
    assert build("number", {"rel": 0.1}).version != build("number", {"rel": 0.2}).version
    assert build("number", {}).version != build("exact", {}).version


def test_an_installed_package_can_bring_a_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = tmp_path / "bring-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: bring\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[abreast.scorers]\nbrought = bring_scorer:make\nbroken = bring_scorer:absent\n"
    )
    source = "from abreast.scorers import build\ndef make(name, settings):\n    return build('exact', {'name': name})\n"
    (tmp_path / "bring_scorer.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert build("brought", {}).columns == ("brought",)
    with pytest.raises(BadInput, match=r'scorer "broken" \(bring 1.0, bring_scorer:absent\): importing it failed'):
        build("broken", {})


@pytest.mark.parametrize("kind", ["exact", "text", "contains", "regex", "number", "label", "set", "json"])
def test_without_an_expected_value_there_is_no_score(kind: str) -> None:
    scores = scored(kind, "anything", None, **({"classes": ["a", "b"]} if kind == "label" else {}))
    assert {(score.value, score.explanation) for score in scores} == {(None, "no expected value")}


# Exact and text


@pytest.mark.parametrize(
    ("text", "value", "expected", "right"),
    [
        (" Paris\n", None, "Paris", True),
        ("paris", None, "Paris", False),
        ("b", None, ["a", "b"], True),
        ("c", None, ["a", "b"], False),
        ("", ["a", "b"], ["a", "b"], True),
        ("", ["b", "a"], ["a", "b"], False),
        ("42", None, 42, True),
        ("42.0", None, 42, True),
        ("true", None, True, True),
        ("1", None, True, False),
        ("x", True, 1, False),
        ("x", 1, True, False),
        ("x", 1.0, 1, True),
        ("x", math.nan, math.nan, False),
        ('{"a": [1, {"b": null}]}', None, {"a": [1, {"b": None}]}, True),
        ('{"a": [true]}', None, {"a": [1]}, False),
        ("not json", None, {"a": 1}, False),
        ("[1, 2]", None, [1, 2], True),
        ("NaN", None, 1, False),
    ],
)
def test_exact_compares_texts_and_values(text: str, value: Any, expected: Any, right: bool) -> None:
    assert scored("exact", text, expected, value)[0].value == float(right)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The Eiffel Tower.", "eiffel tower"),
        ("**Bold** text", "bold text"),
        ("# Title", "title"),
        ("- item", "item"),
        ("`src/a.py`", "src/a.py"),
        ("well-known", "well known"),
        ("don’t", "don't"),
        ("−3", "-3"),
        ("ｆｕｌｌ", "full"),
        ("STRASSE", "straße"),
        ("Yes!", "yes"),
        ("a,b", "a b"),
        ("two\n  lines", "two lines"),
    ],
)
def test_text_ignores_case_punctuation_markdown_and_articles(first: str, second: str) -> None:
    assert normalized(first) == normalized(second)
    assert value_of("text", first, second) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1.5", "15"),
        ("1,5", "15"),
        ("1,5", "1 5"),
        ("-3", "3"),
        ("x: -3", "x: 3"),
        ("1 -3", "1 3"),
        (".5", "5"),
        ("10-5", "105"),
        ("10-5", "10 5"),
        ("1/2", "12"),
        ("1:30", "130"),
        ("5*3", "53"),
        ("2**3", "23"),
        ("10²", "102"),
        ("1½", "11/2"),
        ("5%", "5"),
        ("$5", "5"),
        ("C++", "C"),
        ("C#", "C"),
        (".NET", "net"),
        ("a != b", "a = b"),
        ("Option A", "Option"),
        ("A", "The"),
        ("x_1", "x 1"),
    ],
)
def test_text_keeps_different_numbers_and_names_apart(first: str, second: str) -> None:
    assert normalized(first) != normalized(second)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False))
def test_text_never_makes_two_numbers_one(first: Any, second: Any) -> None:
    if first != second:
        assert normalized(str(first)) != normalized(str(second))


# Contains and regex


@pytest.mark.parametrize(
    ("term", "text", "right"),
    [
        ("C++", "I use C++.", True),
        ("C", "I use C++.", False),
        ("C", "I use C.", True),
        (".NET", "the .NET runtime", True),
        ("src/a.py", "see ./src/a.py:12", True),
        ("src/a.py", "src/a.pyc", False),
        ("café", "CAFE\u0301!", True),
        ("cafe", "café", False),
        ("東京", "答えは東京です", True),
        ("straße", "STRASSE", True),
        ("Zürich", "ZÜRICH", True),
        ("3", "-3", False),
        ("5", "1.5", False),
        ("5", "It is 5.", True),
        ("New York", "in new\n  york", True),
        ("foo", "foo_bar", False),
        ("foo", "_foo_ and **bar**", True),
        ("__init__", "the __init__ method", True),
        ("cat", "concatenate", False),
        ("Paris", "It is not Paris", False),
        ("Paris", "It is not Paris. It was Paris once.", True),
    ],
)
def test_contains_finds_whole_words_that_are_not_denied(term: str, text: str, right: bool) -> None:
    assert value_of("contains", text, term) == float(right)


def test_contains_requires_any_of_a_list_or_all_of_them() -> None:
    assert value_of("contains", "only a", ["a", "b"]) == 1
    assert value_of("contains", "only a", ["a", "b"], all=True) == 0
    assert value_of("contains", "b and a", ["a", "b"], all=True) == 1
    assert value_of("contains", "not rising", value="rising", negation=False) == 1
    assert value_of("contains", "x", "  ") is None


def test_regex_searches_anywhere_and_reports_its_match() -> None:
    assert scored("regex", "abc 42", pattern=r"\d+")[0] == Score("regex", 1.0, r"'\\d+' matches '42'")
    assert value_of("regex", "ABC", "b") == 0
    assert value_of("regex", "ABC", "b", ignore_case=True) == 1
    assert value_of("regex", "abc", "[") is None
    late = scored("regex", "x" * 100_001 + "y", "y")[0]
    assert late.value == 0
    assert "only the first 100,000 characters" in late.explanation


# Number

READ = {
    "The 95th percentile is 66.2": 66.2,
    "1,234.5": 1234.5,
    "−3e-4": -0.0003,
    "12 %": 12,
    "12 percent": 12,
    "$1,234": 1234,
    "-$5": -5,
    "$-5": -5,
    "66.2ms": 66.2,
    "**66.2**": 66.2,
    "≈ 3.2": 3.2,
    "1\u00a0234.5": 1234.5,
    "1\u2009234.5": 1234.5,
    "1\u202f234,5": 1234.5,
    "1_000": 1000,
    "1'234.5": 1234.5,
    "1.234,56": 1234.56,
    ".5": 0.5,
    "5k": 5000,
    "2 million": 2e6,
    "$1.5bn": 1.5e9,
    "1.5 billion": 1.5e9,
    "1E-5": 1e-5,
    "3.2 × 10⁻⁴": 3.2e-4,
    r"$3.2 \times 10^{-4}$": 3.2e-4,
    "3x10^5": 3e5,
    "−12.5°C": -12.5,
    "１２": 12,
    "The value is –3": -3,
    "p95 of Q3 and x2 is 7": 7,
    "Version 1.2.3 gives 5": 5,
    "On 2024-01-05 it was 4": 4,
    "GPT-4 gets 0.9": 0.9,
    "January 5, 2024: 12 items": 12,
    "at 10:30 it was 5": 5,
    "5-fold cross-validation gives 0.8": 0.8,
    "He was 3rd of 20": 20,
    "1. First\n2. Second\nIt is 9": 9,
    "1) other: 3\n2) thing": 3,
    "42. Because.": 42,
    "Step 1: add. Step 2: get 8": 8,
    "66.2 ± 0.5": 66.2,
    "x ≠ 5, x = 3": 3,
    '{"answer": 5, "n": 9}': 5,
    'Sure:\n```json\n{"result": "1,234"}\n```': 1234,
    "n = 5. Final answer is 7": 7,
    r"\boxed{1{,}234}": 1234,
    "#### 18": 18,
    "<answer>5</answer>": 5,
    "Final answer:\n\n**66.2**": 66.2,
    "The answer is **66.2** ms (n = 20).": 66.2,
    "The answer is approximately equal to 66.2.": 66.2,
    "2 + 2 = 4": 4,
    "12 * 3 = 36 + 4 = 40": 40,
    "f(x) = 5": 5,
    "blah 3 blah 4\n\n5": 5,
    "Mean 3\n42 ms": 42,
    "I saw 3 then 4, so **5**": 5,
    "I computed 5; is it 5? Yes, 5.": 5,
    "12% (i.e. 0.12)": 12,
    "not 5 but 7": 7,
    "it is not 5; it is 7": 7,
    "Answer: not 5 but 7": 7,
    "I don’t think it is 5. It is 7.": 7,
    "5 is not the answer; 7 is": 7,
    "No, it is 5": 5,
    "The test was not significant with p = 0.3": 0.3,
}
REFUSED = [
    "between 12 and 15",
    "The mean is 5 and the std is 2",
    "3,5",
    "It was 66,2",
    "1/3",
    r"\frac{1}{3}",
    "1½",
    "5²",
    "2^10",
    "x = 5, y = 6",
    "5\n6\n7",
    "- 5\n- 6",
    "[100,200]",
    "[1, 2]",
    "10-12",
    "10–12",
    "±5",
    "p < 0.05",
    "3:1",
    "The total is 1 234.5",
    "is 1 1/2",
    "Answer: 12 or 15",
    "Answer: 5 out of 10",
    "Answer: 5. Wait. Answer: 7",
    '{"answer": 5, "result": 6}',
    '{"answer": null, "n": 5}',
    '{"answer": [5], "n": 5}',
    "0x1F",
    "3f8a9c",
    "p95",
    "95th",
    "v1.2",
    "1.2.3",
    "2024-01-05",
    "nan",
    "inf",
    "1e999",
    "twelve",
    "",
    "USD1,234",
    "1" * 500,
    "not 5",
]


@pytest.mark.parametrize(("text", "number"), READ.items())
def test_the_number_of_an_answer_is_read(text: str, number: float) -> None:
    assert read(text).values[:1] == (number,), read(text).why


@pytest.mark.parametrize("text", REFUSED)
def test_an_ambiguous_number_is_refused(text: str) -> None:
    assert read(text).values == ()


def test_a_refusal_lists_the_candidates() -> None:
    score = scored("number", "between 12 and 15", 12)[0]
    assert score.value == 0
    assert "12, 15" in score.explanation


@pytest.mark.parametrize(
    ("text", "expected", "settings", "right"),
    [
        ("66.2", 66, {"rel": 0.01}, True),
        ("66.2", 66, {"abs": 0.1}, False),
        ("66.2", 66, {"abs": 0.1, "rel": 0.01}, True),
        ("66.2", 66.2000001, {}, True),
        ("66.2", 66.3, {}, False),
        ("0", 0, {}, True),
        ("12 %", 12, {}, True),
        ("12 %", 0.12, {}, True),
        ("0.12", "12%", {}, True),
        ("1234", "1,234", {}, True),
        ("1e308", 1e308, {}, True),
        ("NaN", 5, {"abs": 1e300}, False),
    ],
)
def test_a_number_is_right_within_its_tolerance(text: str, expected: Any, settings: Any, right: bool) -> None:
    assert value_of("number", text, expected, **settings) == float(right)


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (5, 1),
        (5.0, 1),
        (math.nan, 0),
        (math.inf, 0),
        (True, 0),
        ([5], 0),
        ({"answer": 5}, 1),
        pytest.param(10**5000, 0, id="huge"),
    ],
)
def test_a_number_from_a_python_target_is_used_unchanged(value: Any, score: float) -> None:
    assert scored("number", "irrelevant 7", 5, value, abs=1)[0].value == score


@pytest.mark.parametrize("expected", ["many", True, math.nan, math.inf, [5], pytest.param(10**5000, id="huge")])
def test_an_expected_value_that_is_not_a_number_gives_no_score(expected: Any) -> None:
    assert value_of("number", "5", expected) is None


numbers = st.one_of(st.integers(-(10**15), 10**15), st.floats(allow_nan=False, allow_infinity=False))
shapes = st.sampled_from(
    [
        "{}",
        "{} ",
        "**{}**",
        "The answer is {}.",
        "Answer: {}",
        "In 2024-01-05 the p95 was {} ms",
        "x = {}",
        r"\boxed{{{}}}",
        "`{}`",
        "Step 1: think.\n\n{}",
        '{{"answer": {}}}',
        "_{}_",
        "It is not so; it is {}",
    ]
)
writings: st.SearchStrategy[Callable[[Any], str]] = st.sampled_from(
    [str, lambda x: f"{x:,}", lambda x: f"{x:_}", lambda x: str(x).replace("-", "−"), lambda x: f"{x:e}"]
)


@given(numbers, shapes, writings)
def test_a_number_that_is_written_is_read_back(number: float, shape: str, written: Callable[[Any], str]) -> None:
    text = written(number)
    if shape.startswith("{{") and not text.lstrip("-").replace(".", "").isdigit():
        text = f'"{text}"'
    values = read(shape.format(text)).values
    assert values, read(shape.format(text)).why
    assert math.isclose(values[0], number, rel_tol=1e-5)


# Negation and labels

MENTIONS_CLASS = {
    "not falling; rising": "rising",
    "It isn't falling, it is rising": "rising",
    "isn’t falling": "",
    "isnt falling": "",
    "never falling": "",
    "no longer falling": "",
    "neither up nor down": "",
    "rising rather than falling": "rising",
    "instead of falling, it's rising": "rising",
    "Instead of falling it is rising": "rising",
    "rising, not falling": "rising",
    "falling is not what we see": "",
    "falling? No, rising": "rising",
    "not only rising but accelerating": "rising",
    "no doubt it is rising": "rising",
    "There is no doubt that it is rising": "rising",
    "not just rising": "rising",
    "No, it is rising": "rising",
    "No it is rising": "rising",
    "it cannot be falling": "",
    "It won't be falling": "",
    "I do not think it is falling": "",
    "There is no evidence of falling": "",
    "not rising or stable": "",
    "not rising, falling or stable": "",
    "not falling but rising": "rising",
    "non-rising": "",
    "far from stable": "",
    "It is **not** falling. It's **rising**.": "rising",
    "_rising_": "rising",
    "RISING!": "rising",
    "uprising": "",
    "The trend does not look stable and is rising": "rising",
    "without a doubt, rising": "rising",
    "It is increasing because it is not stable": "rising",
    "Although it isn't stable, it is rising": "rising",
    "Is it falling? Not at all. It is rising.": "rising",
    "falling: no\nrising: yes": "rising",
    "Not rising. Falling.": "falling",
    "It is not rising and not falling but stable": "stable",
    "rising or falling": "rising falling",
    "Answer: rising\nIt is not going down anymore, and flat was considered": "rising",
    "At first falling... Final answer: rising": "rising",
    "Answer: rising or falling": "rising falling",
    "Answer: rising, then falling": "rising falling",
    "Answer: not falling but rising": "rising",
    '{"answer": "going up", "why": "not stable, and not down"}': "rising",
    "<answer>up</answer>": "rising",
    r"\boxed{\text{rising}}": "rising",
    '{"answer": "unclear", "why": "parts are rising"}': "",
    "nothing to see": "",
    "": "",
}
TREND = {"rising": ["up", "increasing"], "falling": ["down", "decreasing"], "stable": ["flat"]}


def classes_read(text: str, classes: Any) -> str:
    """The classes for which the answer counts as right, or the candidates if it is ambiguous."""
    names = list(classes)
    scores = {name: scored("label", text, name, classes=classes)[0] for name in names}
    right = [name for name, score in scores.items() if score.value == 1]
    several = scores[names[0]].explanation.split("expected")[0]
    return " ".join(right or [name for name in names if "several" in several and f"'{name}'" in several])


@pytest.mark.parametrize(("text", "names"), MENTIONS_CLASS.items())
def test_a_label_is_what_the_answer_says_and_does_not_deny(text: str, names: str) -> None:
    assert classes_read(text, TREND) == names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Series B has a higher mean", "b"),
        ("a", "a"),
        ("A", "a"),
        ("(a)", "a"),
        ("option a", "a"),
        ("**B**", "b"),
        ("series a is higher", "a"),
        ("A higher mean is seen in B", "b"),
        ("A has a higher mean", "a"),
        ("It's a tie", ""),
        ("The answer is A", "a"),
        ("the answer is a.", "a"),
        ("B, not A", "b"),
        ("Both A and B", "a b"),
        ("A-level", ""),
        ("Answer: B, since A has a lower mean", "b"),
        ("I'd say 'b'", "b"),
        ("b) is right", "b"),
        ("a mean of 5", ""),
    ],
)
def test_a_single_letter_is_a_class_and_not_an_article(text: str, name: str) -> None:
    assert classes_read(text, ["a", "b"]) == name


@pytest.mark.parametrize(
    ("text", "classes", "name"),
    [
        ("It is not significant", ["significant", "not significant"], "not significant"),
        ("It isn't statistically significant", ["significant", "not significant"], "not significant"),
        ("It is significant", ["significant", "not significant"], "significant"),
        ("It is strongly positive", ["positive", "strongly positive"], "strongly positive"),
        ("It is positive", ["positive", "strongly positive"], "positive"),
        ("No, there is no trend.", ["yes", "no"], "no"),
        ("Yes, no doubt", ["yes", "no"], "yes"),
        ("There is no trend", ["yes", "no"], ""),
    ],
)
def test_the_longest_class_name_wins(text: str, classes: list[str], name: str) -> None:
    assert classes_read(text, classes) == name


def test_the_expected_label_may_be_a_synonym_but_must_be_a_class() -> None:
    assert value_of("label", "rising", "Up", classes=TREND) == 1
    assert value_of("label", "rising", "sideways", classes=TREND) is None
    assert value_of("label", "yes", ["yes"], classes=["yes", "no"]) is None


def test_classes_made_of_punctuation_are_distinguished() -> None:
    assert classes_read("+", ["+", "-"]) == "+"
    assert classes_read("", ["+", "-"]) == ""
    assert classes_read("?", ["+", "-"]) == ""


def test_mentions_keep_their_position() -> None:
    text = fold("Not FALLING: rising")
    assert [
        (text[match.start : match.end], match.negated) for match in Phrases(["rising", "falling"]).mentions(text)
    ] == [
        ("FALLING", True),
        ("rising", False),
    ]


# Sets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, b and c", ["a", "b", "c"]),
        ("a, b, and c.", ["c", "b", "a"]),
        ('```json\n["A", "b"]\n```', ["a", "b"]),
        ('The list: ["a", "b"]. Done.', ["a", "b"]),
        ('{"files": ["a"]}', ["a"]),
        ("['a', 'b']", ["a", "b"]),
        ("The items are: a, b", ["a", "b"]),
        ("Files:\na\nb", "a, b"),
        ("Here:\n- `a.py`\n- **b.py**\n\nHope it helps", ["a.py", "b.py"]),
        ("1. x\n2. y", ["x", "y"]),
        ("a; b; a", ["a", "b"]),
        ("Trinidad and Tobago, Cuba", ["Trinidad and Tobago", "Cuba"]),
        ("src/a.py:12", ["src/a.py:12"]),
        ("None.", []),
        ("[]", []),
        ("", []),
        ("none", ["none"]),
        ("[1, 2]", [2, 1]),
    ],
)
def test_a_set_is_read_however_it_is_listed(text: str, expected: Any) -> None:
    assert [score.value for score in scored("set", text, expected)] == [1, 1, 1]


def test_set_scores_are_f1_precision_and_recall() -> None:
    scores = scored("set", "a, b, x, y", ["a", "b", "c"])
    assert [(score.name, score.value) for score in scores] == [
        ("set_f1", pytest.approx(4 / 7)),
        ("set_precision", 0.5),
        ("set_recall", pytest.approx(2 / 3)),
    ]
    assert "missing: 'c'" in scores[0].explanation
    assert [score.value for score in scored("set", "a", [])] == [0, 0, 0]
    assert [score.value for score in scored("set", "", ["a"], {"a"})] == [1, 1, 1]


# JSON


@pytest.mark.parametrize(
    ("text", "expected", "settings", "score"),
    [
        ('{"a": 1, "b": 2}', {"a": 1, "b": 2}, {}, 1),
        ('{"a": 1, "b": 3}', {"a": 1, "b": 2}, {}, 0.5),
        ('So {this}: {"a": 1.0000000000001}, ok?', {"a": 1}, {}, 1),
        ('```json\n{"a": {"b": 1, "c": [1, 2]}}\n```', {"a": {"b": 1, "c": [1, 3]}}, {}, 0.5),
        ('{"a": true}', {"a": 1}, {}, 0),
        ('{"a": "1"}', {"a": 1}, {}, 0),
        ('{"a": null}', {"a": None}, {}, 1),
        ('{"a": 1, "z": 2}', {"a": 1}, {}, 1),
        ('{"a": 1, "z": 2}', {"a": 1}, {"strict": True}, 0.5),
        ('{"a": {"b": 104}}', {"a": {"b": 100}}, {"fields": {"a.b": {"rel": 0.05}}}, 1),
        ('{"a": "$104"}', {"a": 100}, {"fields": {"a": {"abs": 5}}}, 1),
        ('{"a": "The Mug."}', {"a": "mug"}, {"fields": {"a": "text"}}, 1),
        ('{"a": NaN}', {"a": 1}, {"fields": {"a": {"abs": 100}}}, 0),
        ("no object", {"a": 1}, {}, 0),
        ("{}", {}, {}, 1),
        ('{"a": {}}', {"a": {}}, {}, 1),
        ("[1, 2]", [1, 2], {}, 1),
        ('{"a": 1}', '{"a": 1}', {}, 1),
    ],
)
def test_json_scores_the_share_of_right_fields(text: str, expected: Any, settings: Any, score: float) -> None:
    assert value_of("json", text, expected, **settings) == score


def test_json_says_which_fields_are_wrong() -> None:
    score = scored("json", '{"a": 1, "b": 3}', {"a": 1, "b": 2, "c": 3})[0]
    assert score.explanation == "1 of 3 fields right; b is 3, expected 2, c missing"
    assert scored("json", "irrelevant", {"a": 1}, {"a": 1})[0].value == 1


# Functions


def by_name(expected: str, text: str, *, value: Any = None, strictness: int = 3) -> bool:
    return text == expected and value is None and strictness == 3


def by_position(item: Case, other: Answer) -> float:
    return float(item.expected == other.text)


async def waiting(input: str) -> float:
    return 0.5 if input == "?" else 0


def boom(text: str) -> float:
    raise LookupError("no such luck")


def test_a_function_gets_the_parameters_it_names() -> None:
    assert scored(by_name, "x", "x") == (Score("by_name", 1.0),)
    assert scored(by_position, "x", "x") == (Score("by_position", 1.0),)
    assert scored(waiting, "x") == (Score("waiting", 0.5),)
    assert scored(lambda text, /, case: text == case.expected, "x", "x") == (Score("lambda", 1.0),)
    assert scored(f"python:{__name__}:by_name", "x", "x") == (Score("by_name", 1.0),)
    assert scored(functools.partial(by_name, strictness=4), "x", "x", name="strict") == (Score("strict", 0.0),)


def test_a_crash_of_a_function_is_reported_and_affects_nothing_else() -> None:
    assert scored(boom, "x") == (Score("boom", None, "crashed: LookupError: no such luck"),)
    assert scored(lambda text: sys.exit(3), "x")[0].value is None


@pytest.mark.parametrize(
    ("result", "value", "why"),
    [
        (True, 1, ""),
        (0.25, 0.25, ""),
        (1, 1, ""),
        (7, None, "not between 0 and 1"),
        (-0.1, None, "not between 0 and 1"),
        (math.nan, None, "not between 0 and 1"),
        pytest.param(10**5000, None, "not between 0 and 1", id="huge"),
        ("1", None, "not a number"),
        (None, None, "no score"),
        (Score("other", 0.5, "so so"), 0.5, "so so"),
        (Score("other", 5, "so so"), None, "not between 0 and 1; so so"),
        ({"score": 0.5, "explanation": "half"}, 0.5, "half"),
        ({"a": 1, "b": 0}, None, "columns: [a, b]"),
        ([1], None, "not a number"),
    ],
)
def test_a_function_may_return_any_unambiguous_score(result: Any, value: float | None, why: str) -> None:
    score = scored(lambda text: result, "x")[0]
    assert score.value == value
    assert why in score.explanation


def test_a_function_may_give_the_columns_it_declares() -> None:
    scores = scored(lambda text: {"a": 1, "b": None}, "x", name="mine", columns=["a", "b", "c"])
    assert [(score.name, score.value) for score in scores] == [("mine_a", 1.0), ("mine_b", None), ("mine_c", None)]
    assert scored(lambda text: 1, "x", columns=["a", "b"])[0].value is None
    assert "not declared in columns: z" in scored(lambda text: {"a": 1, "z": 1}, "x", columns=["a"])[0].explanation


def test_a_function_with_unknown_parameters_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot be called with its parameters"):
        build(lambda first, second, third: 1, {})
    with pytest.raises(BadInput, match="must be a name or a function"):
        build(5, {})  # type: ignore[arg-type]


# Python references


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("math:sqrt", "not a function reference"),
        ("python:math", "not a function reference"),
        ("python:math:", "not a function reference"),
        ("python:no_such_module:f", 'no module named "no_such_module"'),
        ("python:json.no_such_part:f", 'no module named "json.no_such_part"'),
        ("python:math:sqrrt", 'has no "sqrrt" .did you mean "sqrt"'),
        ("python:math:pi", "pi is not a function but a float"),
        ("python:broken_module:f", r"ZeroDivisionError: division by zero \(.*broken_module.py, line 2\)"),
        ("python:misspelt_module:f", r"SyntaxError.*misspelt_module.py, line 1\)"),
        ("python:needy_module:f", "importing needy_module failed: ModuleNotFoundError.*not_installed"),
        ("python:leaving_module:f", "importing leaving_module failed: SystemExit"),
    ],
)
def test_a_reference_that_does_not_load_is_refused_with_the_cause(
    reference: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "misspelt_module.py").write_text("def f(:\n")
    (tmp_path / "needy_module.py").write_text("import not_installed\n")
    (tmp_path / "leaving_module.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(BadInput, match=message):
        load_function(reference)


def test_a_reference_reaches_into_classes_and_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_here.py").write_text("class Box:\n    @staticmethod\n    def f(x):\n        return x + 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert load_function("python:found_here:Box.f")(1) == 2


def digest_in_script(tmp_path: Path, script: str) -> str:
    path = tmp_path / "script.py"
    body = textwrap.dedent(script) + "\nfrom abreast.code.digest import source_digest\nprint(source_digest(f))\n"
    path.write_text(body)
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout.strip()


SCRIPT = """
import json, threading
LIMIT = 3
WORDS = {"a": [1, 2]}
UNUSED = 1
LOCK = threading.Lock()
class Box:
    def width(self):
        return LIMIT
def helper(x):
    return json.dumps(WORDS) + str(x)
def unrelated():
    return 1
def make(step):
    def inner(text, extra=object()):
        with LOCK:
            return helper(text), Box(), step
    return inner
f = make(2)
"""


def test_the_digest_of_a_script_function_follows_what_it_uses_and_nothing_else(tmp_path: Path) -> None:
    before = digest_in_script(tmp_path, SCRIPT)
    assert before == digest_in_script(tmp_path, SCRIPT)
    for old, new in [("UNUSED = 1", "UNUSED = 2\n\n"), ("return 1", "return 2")]:
        assert digest_in_script(tmp_path, SCRIPT.replace(old, new)) == before
    for old, new in [("LIMIT = 3", "LIMIT = 4"), ("[1, 2]", "[1, 3]"), ("str(x)", "repr(x)"), ("make(2)", "make(3)")]:
        assert digest_in_script(tmp_path, SCRIPT.replace(old, new)) != before


def test_the_digest_of_a_module_function_follows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "changing_module.py"
    path.write_text("def f(text):\n    return 1\n")
    function = load_function("python:changing_module:f")
    before, version = source_digest(function), build(function, {}).version
    path.write_text("def f(text):\n    return 1\n\nLIMIT = 4\n")
    assert source_digest(function) != before
    assert build(function, {}).version != version


@dataclass
class Callee:
    level: int

    def __call__(self, text: str) -> float:
        return self.level

    def method(self, text: str) -> float:
        return self.level


class Opaque:
    def __init__(self) -> None:
        self.inner = object()

    def __call__(self, text: str) -> float:
        return 1.0


def test_every_callable_has_a_digest_without_a_memory_address() -> None:
    makers: list[Callable[[], Callable[..., Any]]] = [
        lambda: len,
        lambda: print,
        lambda: [].append,
        lambda: str.upper,
        lambda: functools.partial(by_name, strictness=3),
        lambda: functools.partial(by_name, value=object()),
        lambda: Callee(1),
        lambda: Callee(1).method,
        lambda: Opaque(),
        lambda: functools.lru_cache(lambda text: 1),
        lambda: eval("lambda text: {1, 2} and [x for x in text]"),
        lambda: Callee,
    ]
    for make in makers:
        function = make()
        assert source_digest(function) == source_digest(make())
    assert source_digest(Callee(1)) != source_digest(Callee(2))
    assert source_digest(functools.partial(by_name, strictness=3)) != source_digest(by_name)


def test_a_value_that_contains_itself_has_a_digest() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert source_digest(functools.partial(by_name, value=loop))


# Hostile answers

SCORERS: list[tuple[Scorer, Any]] = [
    (build("exact", {}), "x"),
    (build("exact", {}), {"a": [1]}),
    (build("text", {}), "x y"),
    (build("contains", {}), ["foo", "new york", "C++", "東京"]),
    (build("regex", {"pattern": "a{2,5}b"}), None),
    (build("regex", {}), "^x"),
    (build("number", {}), 5),
    (build("label", {"classes": {**TREND, "a": [], "b": [], "no": ["nope"], "not up": []}}), "a"),
    (build("set", {}), ["a", "b and c"]),
    (build("json", {"strict": True, "fields": {"a": {"rel": 0.1}, "b": "text"}}), {"a": 1, "b": "x", "c": {"d": 2}}),
    (build("json", {}), [1]),
]
PIECES = (
    "5 1,5 -3 1/3 is = : Answer: not no n't or , . ; ? ** __ ` ``` { } [ ] \" ' \\ a A b rising up falling # - %"
    ' $ ± < e5 \n \\boxed{ {"answer": 10^ million Jan st ½ ² \u00a0 \u0301 \ud800 ß İ \x00 foo C++ and new york'
)
words = st.sampled_from(PIECES.split(" "))
answers = st.one_of(st.text(), st.text(st.characters()), st.lists(words).map(" ".join), st.lists(words).map("".join))


@given(answers)
def test_every_text_gets_a_score_between_0_and_1(text: str) -> None:
    for scorer, expected in SCORERS:
        scores = scorer.score(Case("case", "?", expected=expected), Answer(text))
        assert tuple(score.name for score in scores) == scorer.columns
        assert all(score.value is not None and 0 <= score.value <= 1 for score in scores)
        assert all(score.explanation and len(score.explanation) < 600 for score in scores)


@given(answers)
def test_every_expected_text_gets_a_score_or_none(expected: str) -> None:
    for kind in ("exact", "text", "contains", "regex", "number", "set", "json"):
        for score in scored(kind, "Answer: 5, a and b", expected):
            assert score.value is None or 0 <= score.value <= 1


HOSTILE = [
    "1 ",
    "1. ",
    "5, ",
    "1,",
    "=5",
    "not 5 ",
    "not foo ",
    "foo ",
    "rising ",
    "A ",
    "is ",
    "Answer: A ",
    "Answer: ",
    "1:",
    "\\boxed{",
    "**",
    "**5 ",
    "_",
    "__5",
    "```",
    "```a",
    "{",
    '{"a":',
    '[{"a":[',
    "[",
    '["',
    "\\",
    "C+",
    "new ",
    "(",
    "ﷺ",
    "İ",
    "\u0301\u0316",
    "é",
    "\n",
    "- a\n",
    "1. a\n",
    "b and c, ",
    ": ",
    ". ",
    "not up, down, ",
    "e",
    "1e",
    "1x10^",
    "x",
    "$",
    "\ud800",
    "1\u00a0",
    "½",
    "\t",
    " ",
]


@pytest.mark.parametrize("unit", [*HOSTILE, None])
@pytest.mark.matrix(quick=8)
def test_a_megabyte_of_nonsense_takes_less_than_a_second(unit: str | None) -> None:
    text = "a" + "\u0301" * 500_000 + "\u0316" * 500_000 if unit is None else unit * (1_000_000 // len(unit))
    for scorer, expected in SCORERS:
        started = time.process_time()
        scorer.score(Case("case", "?", expected=expected), Answer(text))
        assert time.process_time() - started < 1, scorer


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a": ' + "9" * 5000 + "}", "9" * 100_000])
def test_deep_and_huge_json_does_not_crash(text: str) -> None:
    for scorer, expected in SCORERS:
        assert scorer.score(Case("case", "?", expected=expected), Answer(text))[0].value in (0, 1)
