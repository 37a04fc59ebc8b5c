"""`format`: whether the answer matches a regular expression or a JSON Schema."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast import regex_timeout
from abreast.errors import BadInput
from abreast.model import Answer
from abreast.scorers.base import LONGEST_TEXT, Mark, ScorerSettings, SingleColumn, returned_value
from abreast.scorers.contains import compile_pattern, search_any
from abreast.scorers.parsing.json_text import MISSING, find_list, find_object, parse_json
from abreast.settings import is_text

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

LARGEST_SCHEMA = 1_000_000  # bytes
MOST_FLAWS = 3
LONGEST_FLAW = 160  # characters
_FILE = "use a path of a JSON Schema, relative to the spec"
_TOO_DEEP = "the JSON is nested too deeply to validate"
_HOW = "set regex: '^[0-9]+$', or json_schema: schema.json (or the schema itself)"


class Format(SingleColumn):
    """Right if `regex` matches in the answer, or if the answer is valid against `json_schema`: a schema, or a file
    relative to the spec.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scorer = build("format", {"json_schema": {"type": "object", "required": ["name"]}})
    >>> scorer.score(Case("c", "?"), Answer('Here it is: {"age": 4}'))[0].explanation
    "$: 'name' is a required property"
    """

    def __init__(self, settings: ScorerSettings, regex: re.Pattern[str] | None, schema: Mapping[str, Any]) -> None:
        super().__init__(settings, needs_expected=False)
        self._regex, self._schema = regex, schema
        if regex is None:
            self.version = settings.version(self.revision, json.dumps(schema, sort_keys=True, default=str))

    @classmethod
    def read(cls, settings: ScorerSettings) -> Format:
        """Build the scorer, reading the schema from its file if necessary."""
        regex = settings.take("regex", None, is_text, "a regular expression")
        schema = settings.take("json_schema", None, _is_schema, "a schema, or the path of a file with one")
        if (regex is None) == (schema is None):
            raise BadInput(f"{settings.where}: set either regex or json_schema", _HOW)
        if regex is not None:
            return cls(settings, compile_pattern(settings.where, regex, key="regex"), {})
        where, content = _read_schema(settings.where, schema, settings.base)
        _validator(where, content)
        return cls(settings, None, content)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        if self._regex is not None:
            return search_any([self._regex], answer.text)
        value = returned_value(answer)
        if value is None:
            if len(answer.text) > LONGEST_TEXT:
                return None, f"not validated: longer than {LONGEST_TEXT:,} characters"
            finds = (find_list, find_object) if self._schema.get("type") == "array" else (find_object, find_list)
            values = (find(answer.text) for find in (parse_json, *finds))
            value = next((value for value in values if value is not MISSING), MISSING)
        if value is MISSING:
            return 0.0, "no JSON in the answer"
        try:
            flaws = regex_timeout.call("abreast.scorers.format:find_flaws", self._schema, value)
        except regex_timeout.TooSlow:
            return None, f"not validated: {regex_timeout.TOO_SLOW}"
        except RecursionError:
            return 0.0, _TOO_DEEP
        return (0.0, "; ".join(flaws)) if flaws else (1.0, "valid against the schema")


@cache
def _cached_validator(schema: str) -> Validator:
    return _validator("json_schema", json.loads(schema))


def find_flaws(schema: Any, value: Any) -> list[str]:
    """Return the first validation errors; called in a process with a time limit, as patterns may be slow."""
    try:
        flaws = list(itertools.islice(_cached_validator(json.dumps(schema)).iter_errors(value), MOST_FLAWS + 1))
    except RecursionError:
        return [_TOO_DEEP]
    messages = [_shorten(f"{flaw.json_path}: {flaw.message}") for flaw in flaws[:MOST_FLAWS]]
    return [*messages, "…"] if len(flaws) > MOST_FLAWS else messages


def _is_schema(value: Any) -> bool:
    return is_text(value) or isinstance(value, Mapping)


def _read_schema(where: str, schema: Any, base: Path) -> tuple[str, Mapping[str, Any]]:
    """Return a schema, from its file if necessary, and the start of messages about it."""
    if isinstance(schema, Mapping):
        return f"{where}: json_schema", schema
    where, path = f"{where}: json_schema {schema}", base / Path(schema).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{where}: not a file", _FILE)
        if path.stat().st_size > LARGEST_SCHEMA:
            raise BadInput(f"{where}: larger than {LARGEST_SCHEMA:,} bytes", _FILE)
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{where}: {error.strerror or error}", _FILE) from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}:{error.lineno}: invalid JSON: {error.msg}", "fix the file") from None
    except (ValueError, RecursionError):  # invalid UTF-8, an impossible file name, or beyond the parser's limits
        raise BadInput(f"{where}: not a readable JSON file", _FILE) from None
    if not isinstance(content, Mapping):
        raise BadInput(f"{where}: a schema must be an object, got {_shorten(repr(content))}", "fix the file")
    return where, content


def _validator(where: str, schema: Mapping[str, Any]) -> Validator:
    """Return a validator that never fetches anything; references must be resolvable within the schema."""
    import jsonschema  # late: most runs need none
    from referencing import Registry

    family = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        family.check_schema(schema)
        missing = next(_dangling_references(family, schema), None)
    except jsonschema.SchemaError as error:
        message = _shorten(f"{error.json_path}: {error.message}")
        raise BadInput(f"{where}: invalid JSON Schema: {message}", "fix the schema") from None
    except RecursionError:
        raise BadInput(f"{where}: nested too deeply", "simplify the schema") from None
    if missing is not None:
        message = f"{where}: unresolved $ref {_shorten(missing)}; remote references are not fetched"
        raise BadInput(message, 'add the referenced schema under "$defs"')
    extended = jsonschema.validators.extend(family, {"uniqueItems": _unique})
    validator: Validator = extended(schema, registry=Registry(), format_checker=family.FORMAT_CHECKER)
    return validator


def _dangling_references(family: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield references that cannot be resolved."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    root = specification_with(family.META_SCHEMA["$schema"]).create_resource(schema)
    pending = [(root, REGISTRY.with_resource("", root).resolver_with_root(root))]
    while pending:
        part, resolver = pending.pop()
        if isinstance(part.contents, Mapping):
            for key in ("$ref", "$dynamicRef"):
                try:
                    resolver.lookup(part.contents.get(key, "#"))
                except Unresolvable:
                    yield str(part.contents[key])
        pending += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


def _unique(validator: Any, is_required: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Check `uniqueItems` in linear time, unlike jsonschema."""
    from jsonschema import ValidationError

    if is_required and validator.is_type(instance, "array"):
        items = {json.dumps(_normalize_numbers(item), sort_keys=True) for item in instance}
        if len(items) != len(instance):
            yield ValidationError(f"{instance!r:.100} has duplicate items")


def _normalize_numbers(value: Any) -> Any:
    """Replace 1.0 by 1, at any depth."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _normalize_numbers(item) for key, item in value.items()}
    return [_normalize_numbers(item) for item in value] if isinstance(value, list | tuple) else value


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_FLAW else f"{line[: LONGEST_FLAW - 1]}…"
