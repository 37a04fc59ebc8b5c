"""The experiment as written: YAML, TOML, JSON or Python, and its cases."""

from abreast.spec.cases import CaseTable, Selection, load_cases
from abreast.spec.load import load_spec, validated
from abreast.spec.schema import Bounds, Expectation, Limits, Spec, Timeout, json_schema

__all__ = [
    "Bounds",
    "CaseTable",
    "Expectation",
    "Limits",
    "Selection",
    "Spec",
    "Timeout",
    "json_schema",
    "load_cases",
    "load_spec",
    "validated",
]
