"""The experiment as it is written down: one strict schema for YAML, TOML, JSON and Python.

Unknown keys are errors. The command line only overrides what stands here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from abreast.errors import BadInput, suggestion
from abreast.model import Case, Executor, Variant, has_fields
from abreast.sizes import LARGEST_ANSWER_SIZE
from abreast.spec.grid import MOST_VARIANTS, label, named
from abreast.spec.values import At, bad_name, shown

VARIANT_SETTINGS = ("target", "executor", "version", "warmup")
LEAST_CASES = 10  # before anything may be decided


class Misplaced(BadInput):
    """Something wrong at a known place of a spec; whoever has the file says which line that is."""

    def __init__(self, at: At, message: str, fix: str = "") -> None:
        super().__init__(message, fix)
        self.at = at


@dataclass(frozen=True, slots=True)
class Expects:
    """What a field takes, in words that complete "must be ...", and what to do if it is not."""

    words: str
    fix: str = ""


class Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


Whole = Annotated[StrictInt, Field(ge=1, le=1_000_000), Expects("a whole number of at least 1")]
Seconds = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False), Expects("seconds above 0")]


Period = Annotated[Seconds | None, Expects("seconds above 0")]


class Bounds(Strict):
    """Adaptive concurrency between two bounds."""

    min: Whole = 1
    start: Whole = 20
    max: Whole = 64

    @model_validator(mode="after")
    def _in_order(self) -> Bounds:
        low, high = self.min, self.max
        if low > high:
            raise ValueError(f"must have a min of at most its max, got min {low} and max {high}")
        return self


def about(default: Any, text: str) -> Any:
    """A field with a default, and the sentence about it in the documentation."""
    return Field(default=default, description=text)


Flag = Annotated[bool, Field(strict=True), Expects("true or false")]
_DOLLARS = Expects("dollars of at least 0")
Dollars = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False), _DOLLARS]


class Price(Strict):
    """Dollars per million tokens. What is left out of the cache costs as plain input."""

    input: Dollars
    output: Dollars
    cache_read: Annotated[Dollars | None, _DOLLARS] = None
    cache_write: Annotated[Dollars | None, _DOLLARS] = None


_AMOUNT = Annotated[float, Field(ge=0, le=1e9, strict=True, allow_inf_nan=False)]


class Expectation(Strict):
    """What one trial will probably take, where no earlier trial tells. For estimates only."""

    seconds: Annotated[_AMOUNT | None, Expects("seconds of at least 0")] = about(
        None, "Seconds until the answer is there"
    )
    output_tokens: Annotated[_AMOUNT | None, Expects("a number of at least 0")] = about(
        None, "Tokens of the answer; with a price for the model they give dollars"
    )


class Timeout(Strict):
    """`base` seconds, and more for long prompts, up to `max`."""

    base: Seconds = 180.0
    per_1k_chars: Annotated[
        float, Field(ge=0, strict=True, allow_inf_nan=False), Expects("seconds of at least 0 for 1,000 characters")
    ] = 10.0
    max: Seconds = 600.0

    def seconds(self, prompt_length: int) -> float:
        """The time a trial with a prompt of this length may take.

        >>> Timeout().seconds(2_000), Timeout().seconds(1_000_000)
        (200.0, 600.0)
        """
        return min(self.max, self.base + self.per_1k_chars * prompt_length / 1000)


Count = Annotated[StrictInt, Field(le=1_000_000)]
Most = Annotated[Count | None, Expects("a whole number up to 1,000,000")]
Some = Annotated[StrictInt, Field(ge=0, le=1000), Expects("a whole number from 0 to 1,000")]

_QUOTA_WORDS = Expects("so many in a time, such as 200/5h, or max-5x or max-20x", "write quota: 200/5h")
_SIZE_WORDS = Expects("a size such as 500MB or 2GB")
_QUOTA = re.compile(r"(\d{1,9})\s*/\s*(\d{1,6}(?:\.\d{1,3})?)?\s*(s|m|min|h|d)", re.IGNORECASE)
_WINDOWS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
QUOTAS = {"max-5x": "50/5h", "max-20x": "200/5h"}


def quota_window(text: str) -> tuple[int, float]:
    """How many in how many seconds.

    >>> quota_window("200/5h"), quota_window("max-5x"), quota_window("10/min")
    ((200, 18000.0), (50, 18000.0), (10, 60.0))
    """
    found = _QUOTA.fullmatch(QUOTAS.get(text, text).strip())
    if found is None or int(found[1]) < 1 or float(found[2] or 1) <= 0:
        raise ValueError(f"must be {_QUOTA_WORDS.words}, got {shown(text)}")
    return int(found[1]), float(found[2] or 1) * _WINDOWS[found[3].lower()]


_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|min|h|d)?", re.IGNORECASE)


def seconds_in(text: str) -> float:
    """Seconds of a time, more than none.

    >>> seconds_in("5m"), seconds_in("1h30m"), seconds_in("90")
    (300.0, 5400.0, 90.0)
    """
    parts = list(_DURATION.finditer(text.strip()))
    whole = "".join(part[0] for part in parts) == text.strip() and all(part[2] for part in parts[:-1])
    seconds = sum(float(part[1]) * _WINDOWS[(part[2] or "s").lower()] for part in parts)
    if not whole or seconds <= 0:
        raise ValueError(f"must be a time such as 90s, 5m or 1h30m, got {shown(text)}")
    return seconds


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*(B|KB|MB|GB|TB)?", re.IGNORECASE)
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def size_in_bytes(value: int | str) -> int:
    """Bytes of a size.

    >>> size_in_bytes("1.5GB"), size_in_bytes(1000)
    (1500000000, 1000)
    """
    found = _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise ValueError(f"must be {_SIZE_WORDS.words}, got {shown(value)}")
    return int(float(found[1]) * _SIZES[(found[2] or "b").lower()])


def _is_size(value: int | str) -> int | str:
    size_in_bytes(value)
    return value


def _is_answer_size(value: int | str) -> int | str:
    if not 1_000 <= size_in_bytes(value) <= LARGEST_ANSWER_SIZE:
        raise ValueError(f"must be from 1KB to {LARGEST_ANSWER_SIZE // 10**6}MB, got {shown(value)}")
    return value


def _is_quota(value: str) -> str:
    quota_window(value)
    return value


Rate = Annotated[
    Annotated[float, Field(gt=0, le=1e9, strict=True, allow_inf_nan=False)] | None, Expects("a number above 0")
]
Size = Annotated[StrictInt | Annotated[str, Field(strict=True)], AfterValidator(_is_size)]


SomeSize = Annotated[Size | None, _SIZE_WORDS]


class TargetLimits(Strict):
    """What holds for one target, whatever else runs beside it."""

    parallel: Annotated[
        Count | Literal["auto", "variants"] | Bounds | None,
        Expects("a whole number, auto, variants, or {min: 1, start: 20, max: 64}"),
    ] = about(None, "Trials in flight: a number, auto, variants (those of one block), or {min, start, max}")
    requests_per_minute: Rate = about(None, "Never more in any 60 seconds, for each target")
    requests_per_second: Rate = about(None, "Never more in any second, for each target")
    tokens_per_minute: Rate = about(None, "Tokens in and out in any 60 seconds, for each target")
    quota: Annotated[Annotated[str, Field(strict=True), AfterValidator(_is_quota)] | None, _QUOTA_WORDS] = about(
        None, "Calls in a window, such as 200/5h, counted for the account over all runs"
    )
    budget_usd: Rate = about(None, "Dollars this run may spend")
    budget_tokens: Rate = about(None, "Tokens this run may use")
    breaker: Some = about(
        3,
        "A target is down after so many failed attempts for each trial in flight, without an answer in "
        "between; 0: never",
    )
    timeout: Annotated[Seconds | Timeout, Expects("seconds above 0, or {base: 180, per_1k_chars: 10, max: 600}")] = (
        Field(default_factory=Timeout.model_construct, description="Seconds, or {base, per_1k_chars, max}")
    )

    def seconds(self, prompt_length: int) -> float:
        """The time a trial with a prompt of this length may take."""
        return self.timeout.seconds(prompt_length) if isinstance(self.timeout, Timeout) else float(self.timeout)


class VariantLimits(Strict):
    """What holds for one variant, whatever its target."""

    timeout: Period = about(None, "Seconds that a trial of it may take, instead of those of its target")


class Limits(TargetLimits):
    """How much may happen at once, how much it may take, and how long."""

    trial_parallelism: Most = about(None, "Blocks (a case and repeat) in flight")
    per_variant: Most = about(None, "At most so many trials of one variant in flight")
    turns: Flag = about(False, "One variant at a time: of each case all repeats of one, then of the next")
    retries: Some = about(3, "Attempts after the first")
    allow_failing: Flag = about(
        False, "Continue although a variant fails in all of its first 10 trials, or in 95 % of 20 or more"
    )
    run_timeout: Period = about(None, "Seconds after which nothing more starts; resume goes on")
    memory_per_trial: SomeSize = about(None, "Memory that one trial takes, such as 1GB; measured if left out")
    free_memory: SomeSize = about(None, "Memory to leave to others; a twentieth of the machine's if left out")
    free_cores: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), Expects("a number of at least 0")] = about(
        1.0, "Cores to leave to others while trials in processes compute; trials that wait are not limited"
    )
    answer_size: Annotated[Size, AfterValidator(_is_answer_size), Expects("a size such as 64MB, from 1KB to 200MB")] = (
        about(
            "64MB",
            "Largest answer that is stored; a larger one is the error too_big. Larger raw responses and "
            "artifacts are shortened to their head and tail",
        )
    )
    ask_above_usd: Annotated[_AMOUNT, _DOLLARS] = about(
        5.0, "Ask before a run that will probably cost more dollars; --yes answers"
    )
    targets: Annotated[dict[str, TargetLimits], Expects("a mapping of targets to limits")] = Field(
        default_factory=dict, description="The same for one target, by its name"
    )
    variants: Annotated[dict[str, VariantLimits], Expects("a mapping such as {slow: {timeout: 900}}")] = Field(
        default_factory=dict, description="{timeout} of one variant, by its name"
    )

    @property
    def answer_bytes(self) -> int:
        return size_in_bytes(self.answer_size)

    @property
    def count_what_is_spent(self) -> bool:
        """Whether one of them needs to know what the run took before."""
        every = (self, *self.targets.values())
        return any(own.budget_usd or own.budget_tokens or own.tokens_per_minute for own in every)

    def seconds_of(self, variant: str, target: str) -> Callable[[int], float]:
        """The time a trial of this variant may take, by the length of its prompt."""
        own = self.variants.get(variant)
        seconds = own.timeout if own is not None else None
        return self.of(target).seconds if seconds is None else lambda prompt_length: seconds

    def of(self, target: str) -> TargetLimits:
        """What holds for one target: its own where given, else the general ones."""
        own = self.targets.get(target)
        if own is None:
            return self
        given = own.model_dump(exclude_unset=True)
        general = {key: getattr(self, key) for key in TargetLimits.model_fields if key not in given}
        return TargetLimits.model_construct(**general, **{key: getattr(own, key) for key in given})


def _plain_name(value: str) -> str:
    wrong = bad_name(value)
    if wrong:
        raise ValueError(f"{wrong}, got {shown(value)}")
    return value


Name = Annotated[str, Field(strict=True), AfterValidator(_plain_name), Expects("text", "put it in quotes")]
Settings = Annotated[Any, WithJsonSchema({"type": ["object", "null"]})]
Function = Annotated[Any, WithJsonSchema({"type": ["string", "null"]})]
CasesField = Annotated[Any, WithJsonSchema({})]  # written out in json_schema()
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
VariantsField = Annotated[Any, WithJsonSchema({})]  # written out in json_schema()


class Spec(Strict):
    """An experiment: cases × variants × repeats, with scorers, limits and a store."""

    name: Name = "experiment"
    description: Annotated[str, Expects("text", "put it in quotes")] = ""
    cases: CasesField
    repeats: Annotated[StrictInt, Field(ge=1, le=100_000), Expects("a whole number from 1 to 100,000")] = 1
    baseline: Annotated[Name | None, Expects("the name of a variant, as text", "put it in quotes")] = about(
        None, "The variant the others are compared with; the first if left out"
    )
    target: Function = about(None, "The target of variants that name none")
    executor: Annotated[Executor, Expects("auto, thread or process")] = about(
        "auto", "Where Python functions run, if a variant does not say: thread (to wait) or process (to compute)"
    )
    params: Annotated[dict[str, Any], Expects("a mapping such as {temperature: 0}")] = Field(
        default_factory=dict, description="Parameters of every variant"
    )
    variants: VariantsField = None
    grid: Annotated[dict[str, list[Any]] | None, Expects("a mapping of lists such as {model: [haiku, sonnet]}")] = (
        about(None, "Variants by product, instead of variants")
    )
    scorers: Annotated[ScorersField, Expects("a list such as [exact]")] = Field(default_factory=list)
    primary: Annotated[str | None, Expects("the name of a score, as text")] = about(
        None, "The score that drives the verdict; the first scorer's if left out"
    )
    margin: Annotated[
        Annotated[float, Field(gt=0, lt=1, strict=True, allow_inf_nan=False)] | None,
        Expects("a number above 0 and below 1", "write margin: 0.05 for five points"),
    ] = about(None, "The smallest difference in score that you care about, such as 0.05")
    weight: Annotated[Literal["case", "group"], Expects("case or group")] = about(
        "case", "What weighs the same in every score: each case, or each group of cases (such as one document)"
    )
    until_decided: Flag = about(False, "Stop as soon as every comparison is decided, or will not be by the cases left")
    min_cases: Annotated[
        StrictInt, Field(ge=LEAST_CASES, le=1_000_000), Expects(f"a whole number of at least {LEAST_CASES}")
    ] = about(30, "Cases to compare before anything is decided early")
    prices: Annotated[dict[str, Price], Expects("a mapping such as {my-model: {input: 3, output: 15}}")] = Field(
        default_factory=dict,
        description="Dollars per million tokens by model, where the shipped table is silent or you pay another price",
    )
    expects: Annotated[Expectation, Expects("a mapping such as {seconds: 3.5, output_tokens: 150}")] = Field(
        default_factory=Expectation.model_construct,
        description="What a trial will probably take ({seconds, output_tokens}), where no earlier trial tells: for "
        "estimates only",
    )
    limits: Annotated[Limits, Expects("a mapping such as {parallel: 4}")] = Field(
        default_factory=Limits.model_construct
    )
    store: Annotated[Name | None, Expects("text, a file such as results.db")] = about(
        None, "The file that rows go to; if omitted, `$ABREAST_STORE`, else `results.db` beside the spec"
    )
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63), Expects("a whole number from 0 to 9,223,372,036,854,775,807")] = 0
    suite: Annotated[Name | None, Expects("the name of a suite, as text", "put it in quotes")] = about(
        None, "The suite whose sections the report has; of a run by a suite's name, that one"
    )

    case_noun: Annotated[Name, Expects("a singular noun such as prompt")] = about(
        "case", "What one case is called in verdicts: `better on these 3 prompts`"
    )
    output: Annotated[Name | None, Expects("a plain name such as bench_results")] = about(
        None, "The base name of files of results that the suite writes beside the store"
    )

    @field_validator("output")
    @classmethod
    def _plain_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"\w[\w. -]*", value):
            raise ValueError(f"must be a plain name such as bench_results, without a folder, got {shown(value)}")
        return value

    @field_validator("variants")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if value is None or isinstance(value, Mapping):
            return value
        if isinstance(value, list | tuple) and all(isinstance(item, Variant) or has_fields(item) for item in value):
            return tuple(value)
        raise ValueError(f"must map names to parameters, such as {{short: {{target: simulated}}}}, got {shown(value)}")

    @field_validator("cases")
    @classmethod
    def _cases(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "from" in value:
            return value
        if value is None or isinstance(value, Mapping | bool | int | float | bytes):
            raise ValueError(
                "must be a file such as cases.jsonl, a list of cases, python:module:function, "
                f"or {{from: python:module:function, NAME: VALUE}}, got {shown(value)}"
            )
        return value

    @field_validator("target")
    @classmethod
    def _target(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str) and not callable(value):
            raise ValueError(f"must be text such as simulated or python:module:function, got {shown(value)}")
        return value

    def as_written(self, key: str) -> dict[str, Any]:
        """One section without what was left out. The serialiser of the spec does it: the section's own is not built."""
        section: dict[str, Any] = self.model_dump(include={key}, exclude_unset=True).get(key, {})
        return section

    def all_variants(self) -> tuple[Variant, ...]:
        """The contenders in the order they were written, defaults filled in."""
        if self.variants is not None and self.grid is not None:
            raise Misplaced(("grid",), "variants and grid are both given", "keep one of them")
        if self.grid is not None:
            found = self._from_grid(self.grid)
        elif isinstance(self.variants, tuple):
            found = [self._completed(variant) for variant in _named_variants(self.variants)]
        else:
            found = [self._from_mapping(name, settings) for name, settings in (self.variants or {}).items()]
        if not found:
            raise Misplaced(
                ("variants",),
                "variants: none given",
                "name at least one, such as variants: {mine: {target: simulated}}",
            )
        if self.executor != "auto" and not any(_is_function(variant.target) for variant in found):
            raise Misplaced(("executor",), "executor: is for Python functions, and no variant has one", "remove it")
        seen: set[str] = set()
        for variant in found:
            if variant.name in seen:
                raise Misplaced(
                    ("grid" if self.grid is not None else "variants",),
                    f"two variants are called {shown(variant.name)}",
                    "give each a name of its own",
                )
            seen.add(variant.name)
        return tuple(found)

    def baseline_of(self, variants: tuple[Variant, ...]) -> str:
        names = [variant.name for variant in variants]
        if self.baseline is None:
            return names[0]
        if self.baseline not in names:
            raise Misplaced(
                ("baseline",),
                f"baseline: no variant is called {shown(self.baseline)}{suggestion(self.baseline, names)}",
                f"write one of them, such as baseline: {names[0]}",
            )
        return self.baseline

    def _from_grid(self, grid: Mapping[str, list[Any]]) -> list[Variant]:
        if not grid:
            raise Misplaced(("grid",), "grid: has no parameters", "write grid: {model: [first, second]}")
        for key, values in grid.items():
            if not values:
                raise Misplaced(("grid", key), f"grid: {key} has no values", f"write {key}: [first, second]")
        number = math.prod(len(values) for values in grid.values())
        if number > MOST_VARIANTS:
            raise Misplaced(
                ("grid",), f"grid: makes {number:,} variants, more than {MOST_VARIANTS:,}", "leave out values"
            )
        choices = [
            [(f"{key}={label(values, i)}", key, values[i]) for i in range(len(values))] for key, values in grid.items()
        ]
        return [
            self._from_mapping(",".join(label for label, _, _ in row), {key: value for _, key, value in row}, ("grid",))
            for row in itertools.product(*choices)
        ]

    def _from_mapping(self, name: Any, settings: Any, at: At | None = None) -> Variant:
        at = at or ("variants", str(name))
        if not isinstance(name, str):
            written = shown(name)
            raise Misplaced(at, f"variants: the name {written} is not text", f'write it in quotes: "{written}"')
        if bad_name(name):
            raise Misplaced(at, f"variants: the name {shown(name)} {bad_name(name)}", "give it a plain name")
        if has_fields(settings):
            return self._completed(Variant(name, params=settings))
        if settings is not None and not isinstance(settings, Mapping):
            raise Misplaced(
                at,
                f'variant "{name}": must be a mapping of parameters, got {shown(settings)}',
                f"write {name}: {{target: simulated}}",
            )
        own = dict(settings or {})
        chosen = {key: own.pop(key) for key in VARIANT_SETTINGS if key in own}
        return self._completed(_checked_variant(name, chosen, own, at))

    def _completed(self, variant: Variant) -> Variant:
        params = variant.params
        if isinstance(params, Mapping):
            params = {**self.params, **params}
        elif self.params:
            raise Misplaced(
                ("params",), f'variant "{variant.name}": has a dataclass, so params of the experiment cannot be added'
            )
        target = self.target if variant.target is None else variant.target
        if has_fields(params) and target in _WITHOUT_OBJECTS:
            raise Misplaced(
                ("target",),
                f'variant "{variant.name}": a {type(params).__name__} is for a function, not for "{target}"',
            )
        executor = self.executor if variant.executor == "auto" and _is_function(target) else variant.executor
        return replace(variant, target=target, params=params, executor=executor)


_WITHOUT_OBJECTS = ("simulated", "mock")


def _is_function(target: Any) -> bool:
    return callable(target) or (isinstance(target, str) and target.startswith("python:"))


def _named_variants(given: tuple[Any, ...]) -> list[Variant]:
    """Variants as they are; instances of parameters between them called by what varies."""
    bare = [item for item in given if not isinstance(item, Variant)]
    try:
        made = iter(named(bare))
    except BadInput as error:
        raise Misplaced(("variants",), error.message, error.fix) from error
    return [item if isinstance(item, Variant) else next(made) for item in given]


def _checked_variant(name: str, chosen: Mapping[str, Any], params: Mapping[str, Any], at: At) -> Variant:
    executor, version, target = chosen.get("executor", "auto"), chosen.get("version", ""), chosen.get("target")
    where = f'variant "{name}"'
    if executor not in ("auto", "thread", "process"):
        raise Misplaced((*at, "executor"), f"{where}: executor must be auto, thread or process, got {shown(executor)}")
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        raise Misplaced((*at, "version"), f"{where}: version must be text, got {shown(version)}", "put it in quotes")
    if target is not None and not isinstance(target, str) and not callable(target):
        raise Misplaced(
            (*at, "target"), f"{where}: target must be text, got {shown(target)}", "such as target: simulated"
        )
    warmup = chosen.get("warmup")
    if warmup is not None and not isinstance(warmup, bool):
        raise Misplaced((*at, "warmup"), f"{where}: warmup must be true or false, got {shown(warmup)}")
    return Variant(name=name, target=target, params=params, executor=executor, version=str(version), warmup=warmup)


def json_schema() -> dict[str, Any]:
    """The schema of a spec file, as JSON Schema."""
    schema = Spec.model_json_schema()
    schema["title"] = "abreast experiment"
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"]["cases"] = {
        "description": "A file or pattern (jsonl, csv, parquet, yaml, json), a list of them, the cases themselves, "
        "python:module:function, or {from: python:module:function, NAME: VALUE} with arguments",
        "anyOf": [
            {"type": "string"},
            {"$ref": "#/$defs/Call"},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Case"}]}},
        ],
    }
    schema["properties"]["variants"] = {
        "type": "object",
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Variant"}, {"type": "null"}]},
        "description": "Name to target and parameters",
    }
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
    definitions["Call"] = {
        "type": "object",
        "description": "A function with arguments by name",
        "required": ["from"],
        "properties": {"from": {"type": "string", "description": "python:module:function"}},
        "additionalProperties": True,
    }
    definitions["Variant"] = {
        "type": "object",
        "description": "A target and its parameters",
        "properties": {
            "target": {"type": "string"},
            "executor": {"enum": ["auto", "thread", "process"]},
            "version": {"type": ["string", "number"]},
            "warmup": {
                "type": "boolean",
                "description": "Ask the target once before anything is measured; left out, the target decides",
            },
            "prompt": {"type": "string", "description": "A Jinja2 template over the case's input"},
            "transform": {
                "description": "python:module:function over the case's input, or the same with arguments",
                "anyOf": [{"type": "string"}, {"$ref": "#/$defs/Call"}],
            },
        },
        "additionalProperties": True,
    }
    return schema
