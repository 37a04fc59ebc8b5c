"""`format`: whether an answer has the form that was asked for, by a regular expression or a JSON Schema."""

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
from abreast.scorers.contains import compiled, searched
from abreast.scorers.parsing.json_text import MISSING, find_list, find_object, parsed
from abreast.settings import is_text

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

LARGEST_SCHEMA = 1_000_000  # bytes
MOST_FLAWS = 3
LONGEST_FLAW = 160  # characters
_TOO_DEEP = "the JSON is nested too deeply to validate"
_HOW = "write regex: '^[0-9]+$', or json_schema: schema.json (or the schema itself)"


class Form(SingleColumn):
    """Right if `regex` is found in the answer (`^` and `$` make it the whole), or if the answer fits `json_schema`: a
    schema, or a file with one, seen from the folder of the spec.

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
    def read(cls, settings: ScorerSettings) -> Form:
        """The scorer of these settings, which may name a file."""
        regex = settings.take("regex", None, is_text, "a regular expression")
        schema = settings.take("json_schema", None, _is_schema, "a schema, or the name of a file with one")
        if (regex is None) == (schema is None):
            raise BadInput(f"{settings.where}: regex or json_schema is needed, and only one", _HOW)
        if regex is not None:
            return cls(settings, compiled(settings.where, regex, key="regex"), {})
        where, content = _read(settings.where, schema, settings.base)
        _validator(where, content)
        return cls(settings, None, content)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        if self._regex is not None:
            return searched([self._regex], answer.text)
        value = returned_value(answer)
        if value is None:
            if len(answer.text) > LONGEST_TEXT:
                return None, f"not validated: longer than {LONGEST_TEXT:,} characters"
            finds = (find_list, find_object) if self._schema.get("type") == "array" else (find_object, find_list)
            values = (find(answer.text) for find in (parsed, *finds))
            value = next((value for value in values if value is not MISSING), MISSING)
        if value is MISSING:
            return 0.0, "there is no JSON in the answer"
        try:
            flaws = regex_timeout.call("abreast.scorers.form:flaws_of", self._schema, value)
        except regex_timeout.TooSlow:
            return None, f"not validated: {regex_timeout.TOO_SLOW}"
        except RecursionError:
            return 0.0, _TOO_DEEP
        return (0.0, "; ".join(flaws)) if flaws else (1.0, "fits the schema")


@cache
def _known(schema: str) -> Validator:
    return _validator("json_schema", json.loads(schema))


def flaws_of(schema: Any, value: Any) -> list[str]:
    """The first flaws of a value, in a line each; this may take its time."""
    try:
        flaws = list(itertools.islice(_known(json.dumps(schema)).iter_errors(value), MOST_FLAWS + 1))
    except RecursionError:
        return [_TOO_DEEP]
    told = [_shortened(f"{flaw.json_path}: {flaw.message}") for flaw in flaws[:MOST_FLAWS]]
    return [*told, "…"] if len(flaws) > MOST_FLAWS else told


def _is_schema(value: Any) -> bool:
    return is_text(value) or isinstance(value, Mapping)


def _read(where: str, given: Any, base: Path) -> tuple[str, Mapping[str, Any]]:
    """A schema with the place that messages about it begin with."""
    if isinstance(given, Mapping):
        return f"{where}: json_schema", given
    where, path = f"{where}: json_schema {given}", base / Path(given).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{where}: is no file", "name a file, seen from the folder of the spec")
        if path.stat().st_size > LARGEST_SCHEMA:
            raise BadInput(f"{where}: is longer than {LARGEST_SCHEMA:,} bytes", "name a file with a JSON Schema")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{where}: {error.strerror or error}", "name a file, seen from the folder of the spec") from None
    except ValueError:  # no text, or a name that no file can have
        raise BadInput(f"{where}: is no text", "name a file with a JSON Schema") from None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}:{error.lineno}: no JSON: {error.msg}", "mend it") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{where}: no JSON that can be read", "mend it") from None
    if not isinstance(found, Mapping):
        raise BadInput(f"{where}: a schema is an object, got {_shortened(repr(found))}", "mend it")
    return where, found


def _validator(where: str, schema: Mapping[str, Any]) -> Validator:
    """Nothing is ever fetched: what a schema refers to must be in it."""
    import jsonschema  # late: most runs need none
    from referencing import Registry

    family = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        family.check_schema(schema)
        missing = next(_missing(family, schema), None)
    except jsonschema.SchemaError as error:
        raise BadInput(f"{where}: no schema: {_shortened(f'{error.json_path}: {error.message}')}", "mend it") from None
    except RecursionError:
        raise BadInput(f"{where}: is nested too deeply", "mend it") from None
    if missing is not None:
        told = f"{where}: $ref {_shortened(missing)} leads to nothing in it, and nothing is fetched"
        raise BadInput(told, 'put what it refers to under "$defs"')
    quicker = jsonschema.validators.extend(family, {"uniqueItems": _unique})
    found: Validator = quicker(schema, registry=Registry(), format_checker=family.FORMAT_CHECKER)
    return found


def _missing(family: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """References that lead nowhere."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    whole = specification_with(family.META_SCHEMA["$schema"]).create_resource(schema)
    waiting = [(whole, REGISTRY.with_resource("", whole).resolver_with_root(whole))]
    while waiting:
        part, resolver = waiting.pop()
        if isinstance(part.contents, Mapping):
            for key in ("$ref", "$dynamicRef"):
                try:
                    resolver.lookup(part.contents.get(key, "#"))
                except Unresolvable:
                    yield str(part.contents[key])
        waiting += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """As the package does it, but not by comparing each with each: a list may be long."""
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array"):
        seen = {json.dumps(_levelled(item), sort_keys=True) for item in instance}
        if len(seen) != len(instance):
            yield ValidationError(f"{instance!r:.100} has items twice")


def _levelled(value: Any) -> Any:
    """1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _levelled(item) for key, item in value.items()}
    return [_levelled(item) for item in value] if isinstance(value, list | tuple) else value


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_FLAW else f"{line[: LONGEST_FLAW - 1]}…"
