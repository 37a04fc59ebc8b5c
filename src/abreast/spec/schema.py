"""The experiment as it is written down: one strict schema for YAML, TOML, JSON and Python.

Unknown keys are errors. The command line only overrides what stands here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, WithJsonSchema, field_validator

from abreast.errors import BadInput, suggestion
from abreast.model import Case, Variant

VARIANT_SETTINGS = ("target", "executor", "version")
DEFAULT_STORE = "results.db"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Bounds(Strict):
    """Adaptive concurrency between two bounds."""

    min: Annotated[StrictInt, Field(ge=1)] = 1
    start: Annotated[StrictInt, Field(ge=1)] = 4
    max: Annotated[StrictInt, Field(ge=1)] = 64


Seconds = Annotated[float, Field(gt=0, strict=True)]


class Timeout(Strict):
    """`base` seconds, and more for long prompts, up to `max`."""

    base: Seconds = 180.0
    per_1k_chars: Annotated[float, Field(ge=0)] = 10.0
    max: Seconds = 600.0

    def seconds(self, prompt_length: int) -> float:
        """The time a trial with a prompt of this length may take.

        >>> Timeout().seconds(2_000), Timeout().seconds(1_000_000)
        (200.0, 600.0)
        """
        return min(self.max, self.base + self.per_1k_chars * prompt_length / 1000)


class Limits(Strict):
    """How much may happen at once, and how long it may take."""

    parallel: StrictInt | Literal["auto", "variants"] | Bounds | None = Field(
        default=None,
        description="Trials in flight: a number, auto, variants (those of one block), or {min, start, max}",
    )
    trial_parallelism: StrictInt | None = Field(default=None, description="Blocks (a case and repeat) in flight")
    per_variant: StrictInt | None = Field(default=None, description="At most so many trials of one variant in flight")
    retries: Annotated[StrictInt, Field(ge=0)] = Field(default=3, description="Attempts after the first")
    timeout: Seconds | Timeout = Field(default_factory=Timeout, description="Seconds, or {base, per_1k_chars, max}")


def _plain_name(value: str) -> str:
    if not value.strip() or any(ord(char) < 32 for char in value):
        raise ValueError("must be text that can be read")
    return value


Name = Annotated[str, Field(strict=True, min_length=1, max_length=200), AfterValidator(_plain_name)]
Settings = Annotated[Any, WithJsonSchema({"type": ["object", "null"]})]
Function = Annotated[Any, WithJsonSchema({"type": ["string", "null"]})]
CasesField = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "A file or pattern (jsonl, csv, parquet, yaml, json), a list of them, the cases themselves, "
            "or python:module:function",
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Case"}]}},
            ],
        }
    ),
]
ScorersField = Annotated[
    list[Any],
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "object", "minProperties": 1, "maxProperties": 1},
                ]
            },
            "description": "Names, or one-key mappings of a name to its settings; the first gives the column score",
        }
    ),
]
VariantsField = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Variant"}, {"type": "null"}]},
            "description": "Name to target and parameters",
        }
    ),
]


class Spec(Strict):
    """An experiment: cases × variants × repeats, with scorers, limits and a store."""

    name: Name = "experiment"
    description: str = ""
    cases: CasesField
    repeats: Annotated[StrictInt, Field(ge=1, le=100_000)] = 1
    baseline: Name | None = Field(
        default=None, description="The variant the others are compared with; the first if left out"
    )
    target: Function = Field(default=None, description="The target of variants that name none")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters of every variant")
    variants: VariantsField = None
    grid: dict[str, list[Any]] | None = Field(default=None, description="Variants by product, instead of variants")
    scorers: ScorersField = Field(default_factory=list)
    primary: str | None = Field(
        default=None, description="The score that drives the verdict; the first scorer's if left out"
    )
    limits: Limits = Field(default_factory=lambda: Limits())
    store: Annotated[str, Field(min_length=1)] = DEFAULT_STORE
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0

    @field_validator("variants")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if value is None or isinstance(value, Mapping):
            return value
        if isinstance(value, list | tuple) and all(isinstance(item, Variant) for item in value):
            return tuple(value)
        raise ValueError("must map names to parameters, such as {short: {target: simulated}}")

    def all_variants(self) -> tuple[Variant, ...]:
        """The contenders in the order they were written, defaults filled in."""
        if self.variants is not None and self.grid is not None:
            raise BadInput("variants and grid are both given", "keep one of them")
        if self.grid is not None:
            found = self._from_grid(self.grid)
        elif isinstance(self.variants, tuple):
            found = [self._completed(variant) for variant in self.variants]
        else:
            found = [self._from_mapping(name, settings) for name, settings in (self.variants or {}).items()]
        if not found:
            raise BadInput("variants: none given", "name at least one, such as variants: {mine: {target: simulated}}")
        names = [variant.name for variant in found]
        for name in names:
            if names.count(name) > 1:
                raise BadInput(f'variants: "{name}" is there twice', "give each a name of its own")
        return tuple(found)

    def baseline_of(self, variants: tuple[Variant, ...]) -> str:
        names = [variant.name for variant in variants]
        if self.baseline is None:
            return names[0]
        if self.baseline not in names:
            raise BadInput(f'baseline: no variant is called "{self.baseline}"{suggestion(self.baseline, names)}')
        return self.baseline

    def _from_grid(self, grid: Mapping[str, list[Any]]) -> list[Variant]:
        for key, values in grid.items():
            if not values:
                raise BadInput(f"grid: {key} has no values", f"write {key}: [first, second]")
        rows = itertools.product(*grid.values())
        return [
            self._from_mapping(
                ",".join(f"{key}={value}" for key, value in zip(grid, row, strict=True)),
                dict(zip(grid, row, strict=True)),
            )
            for row in rows
        ]

    def _from_mapping(self, name: Any, settings: Any) -> Variant:
        if not isinstance(name, str) or not name.strip():
            raise BadInput(f"variants: the name {name!r} is not text", f'write it in quotes: "{name}"')
        if settings is not None and not isinstance(settings, Mapping):
            raise BadInput(f'variant "{name}": must be a mapping of parameters, got {settings!r}')
        own = dict(settings or {})
        for key in own:
            if not isinstance(key, str):
                raise BadInput(f'variant "{name}": the parameter name {key!r} is not text', "write it in quotes")
        chosen = {key: own.pop(key) for key in VARIANT_SETTINGS if key in own}
        return self._completed(_checked_variant(name, chosen, own))

    def _completed(self, variant: Variant) -> Variant:
        params = variant.params
        if isinstance(params, Mapping):
            params = {**self.params, **params}
        elif self.params:
            raise BadInput(f'variant "{variant.name}": has a dataclass, so params of the experiment cannot be added')
        target = self.target if variant.target is None else variant.target
        return Variant(variant.name, target, params, variant.executor, variant.version)


def _checked_variant(name: str, chosen: Mapping[str, Any], params: Mapping[str, Any]) -> Variant:
    executor, version, target = chosen.get("executor", "auto"), chosen.get("version", ""), chosen.get("target")
    if executor not in ("auto", "thread", "process"):
        raise BadInput(f'variant "{name}": executor must be auto, thread or process, got {executor!r}')
    if not isinstance(version, str | int | float):
        raise BadInput(f'variant "{name}": version must be text, got {version!r}')
    if target is not None and not isinstance(target, str) and not callable(target):
        raise BadInput(f'variant "{name}": target must be text, got {target!r}', "such as target: simulated")
    return Variant(name, target, params, executor, str(version))


def json_schema() -> dict[str, Any]:
    """The schema of a spec file, as JSON Schema."""
    schema = Spec.model_json_schema()
    schema["title"] = "abreast experiment"
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    definitions = schema.setdefault("$defs", {})
    definitions["Case"] = {
        "type": "object",
        "required": ["input"],
        "additionalProperties": False,
        "description": Case.__doc__.split("\n")[0] if Case.__doc__ else "",
        "properties": {
            "id": {"type": "string"},
            "input": {"description": "A text is the prompt; a mapping feeds the template"},
            "expected": {},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
            "group": {"type": "string"},
        },
    }
    definitions["Variant"] = {
        "type": "object",
        "description": "A target and its parameters",
        "properties": {
            "target": {"type": "string"},
            "executor": {"enum": ["auto", "thread", "process"]},
            "version": {"type": ["string", "number"]},
            "prompt": {"type": "string", "description": "A Jinja2 template over the case's input"},
            "transform": {"type": "string", "description": "python:module:function over the case's input"},
        },
        "additionalProperties": True,
    }
    return schema
