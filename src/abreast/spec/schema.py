"""The schema of a spec: one strict schema for YAML, TOML, JSON and Python.

Unknown keys are errors. The command line only overrides values.
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
from abreast.spec.grid import MOST_VARIANTS, name_instances, value_label
from abreast.spec.values import KeyPath, name_problem, quote

VARIANT_SETTINGS = ("target", "executor", "version", "warmup", "needs")
SIMULATORS = ("simulated", "mock")
LEAST_CASES = 10  # before an early decision


class SpecError(BadInput):
    """An error at a key path of a spec; the caller that has the file adds the line."""

    def __init__(self, at: KeyPath, message: str, fix: str = "") -> None:
        super().__init__(message, fix)
        self.at = at


@dataclass(frozen=True, slots=True)
class Expects:
    """The values that a field takes, in words that complete "must be ...", and the fix for other values."""

    words: str
    fix: str = ""


class StrictModel(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


PositiveCount = Annotated[StrictInt, Field(ge=1, le=1_000_000), Expects("a whole number of at least 1")]
Seconds = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False), Expects("seconds above 0")]


OptionalSeconds = Annotated[Seconds | None, Expects("seconds above 0")]


class Bounds(StrictModel):
    """Adaptive concurrency between two bounds."""

    min: PositiveCount = 1
    start: PositiveCount = 20
    max: PositiveCount = 64

    @model_validator(mode="after")
    def _in_order(self) -> Bounds:
        low, high = self.min, self.max
        if low > high:
            raise ValueError(f"must have a min of at most its max, got min {low} and max {high}")
        return self


def setting(default: Any, text: str) -> Any:
    """A field with a default and a description for the documentation."""
    return Field(default=default, description=text)


Flag = Annotated[bool, Field(strict=True), Expects("true or false")]
_DOLLARS = Expects("dollars of at least 0")
Dollars = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False), _DOLLARS]


class Price(StrictModel):
    """Dollars per million tokens. Cache prices default to the price of input."""

    input: Dollars
    output: Dollars
    cache_read: Annotated[Dollars | None, _DOLLARS] = None
    cache_write: Annotated[Dollars | None, _DOLLARS] = None


_AMOUNT = Annotated[float, Field(ge=0, le=1e9, strict=True, allow_inf_nan=False)]


class Expectation(StrictModel):
    """Expected use of a trial if there is no earlier one. For estimates only."""

    seconds: Annotated[_AMOUNT | None, Expects("seconds of at least 0")] = setting(
        None, "Seconds until the answer arrives"
    )
    output_tokens: Annotated[_AMOUNT | None, Expects("a number of at least 0")] = setting(
        None, "Tokens of the answer; multiplied by the price of the model for the cost"
    )


class Timeout(StrictModel):
    """`base` seconds plus `per_1k_chars` of the prompt, up to `max`."""

    base: Seconds = 180.0
    per_1k_chars: Annotated[
        float, Field(ge=0, strict=True, allow_inf_nan=False), Expects("seconds of at least 0 for 1,000 characters")
    ] = 10.0
    max: Seconds = 600.0

    def seconds(self, prompt_length: int) -> float:
        """The timeout of a trial with a prompt of this length.

        >>> Timeout().seconds(2_000), Timeout().seconds(1_000_000)
        (200.0, 600.0)
        """
        return min(self.max, self.base + self.per_1k_chars * prompt_length / 1000)


Count = Annotated[StrictInt, Field(le=1_000_000)]
OptionalCount = Annotated[Count | None, Expects("a whole number up to 1,000,000")]
SmallCount = Annotated[StrictInt, Field(ge=0, le=1000), Expects("a whole number from 0 to 1,000")]

_QUOTA_WORDS = Expects("a number per time, such as 200/5h, or max-5x or max-20x", "use quota: 200/5h")
_SIZE_WORDS = Expects("a size such as 500MB or 2GB")
_QUOTA = re.compile(r"(\d{1,9})\s*/\s*(\d{1,6}(?:\.\d{1,3})?)?\s*(s|m|min|h|d)", re.IGNORECASE)
_WINDOWS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
QUOTAS = {"max-5x": "50/5h", "max-20x": "200/5h"}


def quota_window(text: str) -> tuple[int, float]:
    """Number of calls and window in seconds.

    >>> quota_window("200/5h"), quota_window("max-5x"), quota_window("10/min")
    ((200, 18000.0), (50, 18000.0), (10, 60.0))
    """
    match = _QUOTA.fullmatch(QUOTAS.get(text, text).strip())
    if match is None or int(match[1]) < 1 or float(match[2] or 1) <= 0:
        raise ValueError(f"must be {_QUOTA_WORDS.words}, got {quote(text)}")
    return int(match[1]), float(match[2] or 1) * _WINDOWS[match[3].lower()]


_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|min|h|d)?", re.IGNORECASE)


def seconds_in(text: str) -> float:
    """Seconds of a duration, which must be positive.

    >>> seconds_in("5m"), seconds_in("1h30m"), seconds_in("90")
    (300.0, 5400.0, 90.0)
    """
    parts = list(_DURATION.finditer(text.strip()))
    is_duration = "".join(part[0] for part in parts) == text.strip() and all(part[2] for part in parts[:-1])
    seconds = sum(float(part[1]) * _WINDOWS[(part[2] or "s").lower()] for part in parts)
    if not is_duration or seconds <= 0:
        raise ValueError(f"must be a duration such as 90s, 5m or 1h30m, got {quote(text)}")
    return seconds


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*(B|KB|MB|GB|TB)?", re.IGNORECASE)
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def size_in_bytes(value: int | str) -> int:
    """Bytes of a size with a unit.

    >>> size_in_bytes("1.5GB"), size_in_bytes(1000)
    (1500000000, 1000)
    """
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"must be {_SIZE_WORDS.words}, got {quote(value)}")
    return int(float(match[1]) * _SIZES[(match[2] or "b").lower()])


def _check_size(value: int | str) -> int | str:
    size_in_bytes(value)
    return value


def _check_answer_size(value: int | str) -> int | str:
    if not 1_000 <= size_in_bytes(value) <= LARGEST_ANSWER_SIZE:
        raise ValueError(f"must be from 1KB to {LARGEST_ANSWER_SIZE // 10**6}MB, got {quote(value)}")
    return value


def _check_quota(value: str) -> str:
    quota_window(value)
    return value


Rate = Annotated[
    Annotated[float, Field(gt=0, le=1e9, strict=True, allow_inf_nan=False)] | None, Expects("a number above 0")
]
Size = Annotated[StrictInt | Annotated[str, Field(strict=True)], AfterValidator(_check_size)]


OptionalSize = Annotated[Size | None, _SIZE_WORDS]


class TargetLimits(StrictModel):
    """Limits of one target."""

    parallel: Annotated[
        Count | Literal["auto", "variants"] | Bounds | None,
        Expects("a whole number, auto, variants, or {min: 1, start: 20, max: 64}"),
    ] = setting(None, "Trials in flight: a number, auto, variants (those of one block), or {min, start, max}")
    requests_per_minute: Rate = setting(None, "Most requests in any 60 seconds, per target")
    requests_per_second: Rate = setting(None, "Most requests in any second, per target")
    tokens_per_minute: Rate = setting(None, "Most input and output tokens in any 60 seconds, per target")
    quota: Annotated[Annotated[str, Field(strict=True), AfterValidator(_check_quota)] | None, _QUOTA_WORDS] = setting(
        None, "Calls in a window, such as 200/5h, counted per account over all runs"
    )
    budget_usd: Rate = setting(None, "Dollars this run may spend")
    budget_tokens: Rate = setting(None, "Tokens this run may use")
    breaker: SmallCount = setting(
        3, "A target counts as down after this many failed attempts per trial in flight without an answer; 0: never"
    )
    timeout: Annotated[Seconds | Timeout, Expects("seconds above 0, or {base: 180, per_1k_chars: 10, max: 600}")] = (
        Field(default_factory=Timeout.model_construct, description="Seconds, or {base, per_1k_chars, max}")
    )

    def seconds(self, prompt_length: int) -> float:
        """The timeout of a trial with a prompt of this length."""
        return self.timeout.seconds(prompt_length) if isinstance(self.timeout, Timeout) else float(self.timeout)


class VariantLimits(StrictModel):
    """Limits of one variant."""

    timeout: OptionalSeconds = setting(None, "Timeout of its trials in seconds, instead of that of its target")


FIXED_LIMITS = frozenset(
    ("timeout", "variants", "turns", "memory_per_trial", "free_memory", "free_cores", "answer_size", "ask_above_usd")
)
"""Settings of `Limits` that cannot change during a run."""


class Limits(TargetLimits):
    """Limits of a run: concurrency, rates, cost, time and resources."""

    trial_parallelism: OptionalCount = setting(None, "Blocks (a case and repeat) in flight")
    per_variant: OptionalCount = setting(None, "Most trials of one variant in flight")
    turns: Flag = setting(False, "One variant at a time: for each case all repeats of one variant, then of the next")
    retries: SmallCount = setting(3, "Attempts after the first")
    allow_failing: Flag = setting(
        False, "Continue although a variant fails in all of its first 10 trials, or in 95 % of 20 or more"
    )
    run_timeout: OptionalSeconds = setting(None, "Seconds after which no trial starts; resume continues")
    memory_per_trial: OptionalSize = setting(None, "Memory of one trial, such as 1GB; measured if omitted")
    free_memory: OptionalSize = setting(None, "Memory to leave free (default: a twentieth of the machine's)")
    free_cores: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), Expects("a number of at least 0")] = setting(
        1.0, "Cores to leave free while trials in processes compute; trials that wait are not limited"
    )
    answer_size: Annotated[
        Size, AfterValidator(_check_answer_size), Expects("a size such as 64MB, from 1KB to 200MB")
    ] = setting(
        "64MB",
        "Largest answer to store; a larger one is the error too_big. Larger raw responses and artifacts are "
        "shortened to head and tail",
    )
    ask_above_usd: Annotated[_AMOUNT, _DOLLARS] = setting(
        5.0, "Ask before a run whose estimated cost in dollars is higher; --yes skips the question"
    )
    targets: Annotated[dict[str, TargetLimits], Expects("a mapping of targets to limits")] = Field(
        default_factory=dict, description="Limits of one target, by its name"
    )
    variants: Annotated[dict[str, VariantLimits], Expects("a mapping such as {slow: {timeout: 900}}")] = Field(
        default_factory=dict, description="{timeout} of one variant, by its name"
    )

    @property
    def answer_bytes(self) -> int:
        return size_in_bytes(self.answer_size)

    def seconds_of(self, variant: str, target: str) -> Callable[[int], float]:
        """The timeout of a trial of this variant, as a function of the prompt length."""
        own = self.variants.get(variant)
        seconds = own.timeout if own is not None else None
        return self.of(target).seconds if seconds is None else lambda prompt_length: seconds

    def of(self, target: str) -> TargetLimits:
        """The limits of one target: its own where set, else the general ones."""
        own = self.targets.get(target)
        if own is None:
            return self
        fields = {key: getattr(own if key in own.model_fields_set else self, key) for key in TargetLimits.model_fields}
        return TargetLimits.model_construct(**fields)


def _check_name(value: str) -> str:
    if problem := name_problem(value):
        raise ValueError(f"{problem}, got {quote(value)}")
    return value


Name = Annotated[str, Field(strict=True), AfterValidator(_check_name), Expects("text", "put it in quotes")]
TargetField = Annotated[Any, WithJsonSchema({"type": ["string", "null"]})]
AnyField = Annotated[Any, WithJsonSchema({})]  # described in json_schema()
ScorersField = Annotated[
    list[Any],
    WithJsonSchema(
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}]},
            "description": "Names, or one-key mappings of a name to its settings; the first gives the column score",
        }
    ),
]


class RaySettings(StrictModel):
    """The Ray cluster on which trials execute."""

    address: Annotated[Name, Expects("text such as auto, or HOST:PORT")] = setting(
        "auto", "auto (a cluster that this machine belongs to), HOST:PORT, or ray://HOST:PORT"
    )
    pass_keys: Annotated[list[Name], Expects("a list of environment variables such as [OPENAI_API_KEY]")] = Field(
        default_factory=list,
        description="Environment variables that the nodes get from here, only if Ray encrypts its channels with TLS; "
        "by default keys come from the environment of each node",
    )


class RayEngineChoice(StrictModel):
    """Ray as the engine, with settings."""

    ray: RaySettings = Field(default_factory=RaySettings.model_construct)


class Spec(StrictModel):
    """An experiment: cases × variants × repeats, with scorers, limits and a store."""

    name: Name = "experiment"
    description: Annotated[str, Expects("text", "put it in quotes")] = ""
    cases: AnyField
    repeats: Annotated[StrictInt, Field(ge=1, le=100_000), Expects("a whole number from 1 to 100,000")] = 1
    baseline: Annotated[Name | None, Expects("the name of a variant, as text", "put it in quotes")] = setting(
        None, "The variant that the others are compared with (default: the first)"
    )
    target: TargetField = setting(None, "The target of variants without their own")
    executor: Annotated[Executor, Expects("auto, thread or process")] = setting(
        "auto", "Where Python functions run by default: thread (for waiting) or process (for computing)"
    )
    params: Annotated[dict[str, Any], Expects("a mapping such as {temperature: 0}")] = Field(
        default_factory=dict, description="Parameters of every variant"
    )
    variants: AnyField = None
    grid: Annotated[dict[str, list[Any]] | None, Expects("a mapping of lists such as {model: [haiku, sonnet]}")] = (
        setting(None, "Variants by product, instead of variants")
    )
    scorers: Annotated[ScorersField, Expects("a list such as [exact]")] = Field(default_factory=list)
    primary: Annotated[str | None, Expects("the name of a score, as text")] = setting(
        None, "The score that drives the verdict (default: that of the first scorer)"
    )
    margin: Annotated[
        Annotated[float, Field(gt=0, lt=1, strict=True, allow_inf_nan=False)] | None,
        Expects("a number above 0 and below 1", "use margin: 0.05 for five points"),
    ] = setting(None, "The smallest difference in score that you care about, such as 0.05")
    weight: Annotated[Literal["case", "group"], Expects("case or group")] = setting(
        "case", "What has equal weight in every score: each case, or each group of cases (such as one document)"
    )
    fail_if: Annotated[list[str], Expects("a list of requirements such as [worse]")] = Field(
        default_factory=list,
        description="Requirements on the result, as with `--fail-if`; `abreast run` and pytest check them",
    )
    until_decided: Flag = setting(
        False, "Stop as soon as every comparison is decided, or the remaining cases cannot decide it"
    )
    min_cases: Annotated[
        StrictInt, Field(ge=LEAST_CASES, le=1_000_000), Expects(f"a whole number of at least {LEAST_CASES}")
    ] = setting(30, "Cases to compare before an early decision")
    prices: Annotated[dict[str, Price], Expects("a mapping such as {my-model: {input: 3, output: 15}}")] = Field(
        default_factory=dict,
        description="Dollars per million tokens by model, for models missing in the built-in table or other prices",
    )
    expects: Annotated[Expectation, Expects("a mapping such as {seconds: 3.5, output_tokens: 150}")] = Field(
        default_factory=Expectation.model_construct,
        description="What a trial will probably take ({seconds, output_tokens}) if there is no earlier trial; for "
        "estimates only",
    )
    limits: Annotated[Limits, Expects("a mapping such as {parallel: 4}")] = Field(
        default_factory=Limits.model_construct
    )
    engine: Annotated[Name | RayEngineChoice, Expects("local, ray, {ray: {address: auto}}, or a package's engine")] = (
        setting("local", "Where trials execute: local, ray or {ray: SETTINGS} (a Ray cluster), or a package's engine")
    )
    store: Annotated[Name | None, Expects("text, a file such as results.db or the URL of a database")] = setting(
        None,
        "The store to write to, a file or the URL of a database (default: `$ABREAST_STORE`, else `results.db` next to "
        "the spec)",
    )
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63), Expects("a whole number from 0 to 9,223,372,036,854,775,807")] = 0
    suite: Annotated[Name | None, Expects("the name of a suite, as text", "put it in quotes")] = setting(
        None, "The suite whose sections the report shows (default: the suite that was run)"
    )

    case_noun: Annotated[Name, Expects("a singular noun such as prompt")] = setting(
        "case", "Noun for a case in verdicts: `better on these 3 prompts`"
    )
    output: Annotated[Name | None, Expects("a plain name such as bench_results")] = setting(
        None, "Base name of the result files that the suite writes next to the store"
    )

    @field_validator("store")
    @classmethod
    def _hide_password(cls, value: str | None) -> str | None:
        """Keep a password in memory only: specs are stored and shown."""
        if value is None or {":", "="}.isdisjoint(value):
            return value
        from abreast.store.address import hide_password  # late: loads the store

        return hide_password(value)

    @field_validator("output")
    @classmethod
    def _check_output(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"\w[\w. -]*", value):
            raise ValueError(f"must be a plain name such as bench_results, without a folder, got {quote(value)}")
        return value

    @field_validator("variants")
    @classmethod
    def _check_variants(cls, value: Any) -> Any:
        if value is None or isinstance(value, Mapping):
            return value
        if isinstance(value, list | tuple) and all(isinstance(item, Variant) or has_fields(item) for item in value):
            return tuple(value)
        raise ValueError(f"must map names to parameters, such as {{short: {{target: simulated}}}}, got {quote(value)}")

    @field_validator("cases")
    @classmethod
    def _check_cases(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and ("from" in value or "file" in value):
            return value
        if value is None or isinstance(value, Mapping | bool | int | float | bytes):
            raise ValueError(
                "must be a file such as cases.jsonl, a list of cases, python:module:function, "
                "{from: python:module:function, NAME: VALUE}, or {file: FILE, input: COLUMN, expected: COLUMN}, "
                f"got {quote(value)}"
            )
        return value

    @field_validator("target")
    @classmethod
    def _check_target(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str) and not callable(value):
            raise ValueError(f"must be text such as simulated or python:module:function, got {quote(value)}")
        return value

    def as_written(self, key: str) -> dict[str, Any]:
        """A section as it was written, without defaults."""
        section: dict[str, Any] = self.model_dump(include={key}, exclude_unset=True).get(key, {})
        return section

    def all_variants(self) -> tuple[Variant, ...]:
        """The variants in the order they were written, with defaults filled in."""
        if self.variants is not None and self.grid is not None:
            raise SpecError(("grid",), "variants and grid exclude each other", "keep one of them")
        if self.grid is not None:
            variants = self._from_grid(self.grid)
        elif isinstance(self.variants, tuple):
            variants = [self._with_defaults(variant) for variant in _named_variants(self.variants)]
        else:
            variants = [self._from_mapping(name, settings) for name, settings in (self.variants or {}).items()]
        if not variants:
            fix = "add at least one, such as variants: {mine: {target: simulated}}"
            raise SpecError(("variants",), "variants: empty", fix)
        if self.executor != "auto" and not any(_is_function(variant.target) for variant in variants):
            raise SpecError(("executor",), "executor: only for Python functions, and no variant has one", "remove it")
        names: set[str] = set()
        for variant in variants:
            if variant.name in names:
                key = "grid" if self.grid is not None else "variants"
                raise SpecError((key,), f"duplicate variant name {quote(variant.name)}", "rename one of them")
            names.add(variant.name)
        return tuple(variants)

    def baseline_of(self, variants: tuple[Variant, ...]) -> str:
        names = [variant.name for variant in variants]
        if self.baseline is None:
            return names[0]
        if self.baseline not in names:
            raise SpecError(
                ("baseline",),
                f"baseline: no variant {quote(self.baseline)}{suggestion(self.baseline, names)}",
                f"use one of them, such as baseline: {names[0]}",
            )
        return self.baseline

    def _from_grid(self, grid: Mapping[str, list[Any]]) -> list[Variant]:
        if not grid:
            raise SpecError(("grid",), "grid: empty", "use grid: {model: [first, second]}")
        for key, values in grid.items():
            if not values:
                raise SpecError(("grid", key), f"grid: {key} has no values", f"use {key}: [first, second]")
        number = math.prod(len(values) for values in grid.values())
        if number > MOST_VARIANTS:
            raise SpecError(("grid",), f"grid: makes {number:,} variants, more than {MOST_VARIANTS:,}", "remove values")
        choices = [
            [(f"{key}={value_label(values, i)}", key, values[i]) for i in range(len(values))]
            for key, values in grid.items()
        ]
        return [
            self._from_mapping(",".join(label for label, _, _ in row), {key: value for _, key, value in row}, ("grid",))
            for row in itertools.product(*choices)
        ]

    def _from_mapping(self, name: Any, settings: Any, at: KeyPath | None = None) -> Variant:
        at = at or ("variants", str(name))
        if not isinstance(name, str):
            text = quote(name)
            raise SpecError(at, f"variants: the name {text} is not text", f'write it in quotes: "{text}"')
        if problem := name_problem(name):
            raise SpecError(at, f"variants: the name {quote(name)} {problem}", "use a plain name")
        if has_fields(settings):
            return self._with_defaults(Variant(name, params=settings))
        if settings is not None and not isinstance(settings, Mapping):
            raise SpecError(
                at,
                f'variant "{name}": must be a mapping of parameters, got {quote(settings)}',
                f"use {name}: {{target: simulated}}",
            )
        own = dict(settings or {})
        chosen = {key: own.pop(key) for key in VARIANT_SETTINGS if key in own}
        return self._with_defaults(_build_variant(name, chosen, own, at))

    def _with_defaults(self, variant: Variant) -> Variant:
        params = variant.params
        if isinstance(params, Mapping):
            params = {**self.params, **params}
        elif self.params:
            raise SpecError(
                ("params",),
                f'variant "{variant.name}": has a dataclass, to which params of the experiment cannot be added',
            )
        target = self.target if variant.target is None else variant.target
        if has_fields(params) and target in SIMULATORS:
            raise SpecError(
                ("target",),
                f'variant "{variant.name}": a {type(params).__name__} needs a function as target, not "{target}"',
            )
        executor = self.executor if variant.executor == "auto" and _is_function(target) else variant.executor
        return replace(variant, target=target, params=params, executor=executor)


def _is_function(target: Any) -> bool:
    return callable(target) or (isinstance(target, str) and target.startswith("python:"))


def _named_variants(items: tuple[Any, ...]) -> list[Variant]:
    """Convert the items to variants; instances of parameters are named after the fields that vary."""
    try:
        variants = iter(name_instances([item for item in items if not isinstance(item, Variant)]))
    except BadInput as error:
        raise SpecError(("variants",), error.message, error.fix) from error
    return [item if isinstance(item, Variant) else next(variants) for item in items]


def _build_variant(name: str, chosen: Mapping[str, Any], params: Mapping[str, Any], at: KeyPath) -> Variant:
    executor, version, target = chosen.get("executor", "auto"), chosen.get("version", ""), chosen.get("target")
    where = f'variant "{name}"'
    if executor not in ("auto", "thread", "process"):
        raise SpecError((*at, "executor"), f"{where}: executor must be auto, thread or process, got {quote(executor)}")
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        raise SpecError((*at, "version"), f"{where}: version must be text, got {quote(version)}", "put it in quotes")
    if target is not None and not isinstance(target, str) and not callable(target):
        raise SpecError(
            (*at, "target"),
            f"{where}: target must be text, got {quote(target)}",
            "use a target such as target: simulated",
        )
    warmup = chosen.get("warmup")
    if warmup is not None and not isinstance(warmup, bool):
        raise SpecError((*at, "warmup"), f"{where}: warmup must be true or false, got {quote(warmup)}")
    return Variant(
        name=name,
        target=target,
        params=params,
        executor=executor,
        version=str(version),
        warmup=warmup,
        needs=_needs(chosen.get("needs") or {}, where, at),
    )


def _needs(needs: Any, where: str, at: KeyPath) -> dict[str, float | str]:
    """Parse the resources that a variant needs on a node: numbers by name, and memory as a size."""
    fix = "use needs: {claude: 1, memory: 8GB}"
    if not isinstance(needs, Mapping):
        raise SpecError((*at, "needs"), f"{where}: needs must be a mapping, got {quote(needs)}", fix)
    for name, amount in needs.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool) and 0 < amount < math.inf
        try:
            is_valid = bool(size_in_bytes(amount)) if name == "memory" else is_number
        except ValueError:
            is_valid = False
        if not isinstance(name, str) or not is_valid:
            message = f"{where}: needs must be numbers above 0 by name, and memory a size, got {quote({name: amount})}"
            raise SpecError((*at, "needs"), message, fix)
    return dict(needs)


_COLUMN = {"type": "string", "description": "A column, or COLUMN:TYPE with text, number, boolean or json"}
_COLUMNS = {"anyOf": [_COLUMN, {"type": "array", "items": _COLUMN}, {"additionalProperties": _COLUMN}]}
_PROPERTIES: dict[str, Any] = {
    "cases": {
        "description": "A file or pattern (jsonl, csv, parquet, yaml, json), a list of them, the cases themselves, "
        "python:module:function, {from: python:module:function, NAME: VALUE} with arguments, or columns of a table: "
        "{file: FILE, input: COLUMN, expected: COLUMN}",
        "anyOf": [
            {"type": "string"},
            {"$ref": "#/$defs/Call"},
            {"$ref": "#/$defs/CaseColumns"},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Case"}]}},
        ],
    },
    "variants": {
        "type": "object",
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Variant"}, {"type": "null"}]},
        "description": "Name to target and parameters",
    },
}
_DEFINITIONS: dict[str, Any] = {
    "CaseColumns": {
        "type": "object",
        "required": ["file", "input"],
        "additionalProperties": False,
        "description": "A table whose columns make the fields of cases",
        "properties": {
            "file": {"type": "string"},
            **dict.fromkeys(("id", "group"), _COLUMN),
            **dict.fromkeys(("input", "expected", "tags"), _COLUMNS),
        },
    },
    "Case": {
        "type": "object",
        "required": ["input"],
        "additionalProperties": False,
        "description": Case.__doc__.split("\n")[0] if Case.__doc__ else "",
        "properties": {
            "id": {"type": "string"},
            "input": {"description": "Text is the prompt; a mapping feeds the template"},
            "expected": {},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
            "group": {"type": "string"},
        },
    },
    "Call": {
        "type": "object",
        "description": "A function with arguments by name",
        "required": ["from"],
        "properties": {"from": {"type": "string", "description": "python:module:function"}},
        "additionalProperties": True,
    },
    "Variant": {
        "type": "object",
        "description": "A target and its parameters",
        "properties": {
            "target": {"type": "string"},
            "executor": {"enum": ["auto", "thread", "process"]},
            "version": {"type": ["string", "number"]},
            "warmup": {
                "type": "boolean",
                "description": "Ask the target once before the measurement (default: the target decides)",
            },
            "needs": {
                "type": "object",
                "additionalProperties": {"type": ["number", "string"]},
                "description": "What a node of a Ray cluster must have to execute it: cpu, gpu, memory (a size) and "
                "custom resources, such as {claude: 1}",
            },
            "prompt": {"type": "string", "description": "A Jinja2 template over the case's input"},
            "transform": {
                "description": "python:module:function over the case's input, or the same with arguments",
                "anyOf": [{"type": "string"}, {"$ref": "#/$defs/Call"}],
            },
        },
        "additionalProperties": True,
    },
}


def json_schema() -> dict[str, Any]:
    """The schema of a spec file, as JSON Schema."""
    schema = Spec.model_json_schema()
    schema["title"] = "abreast experiment"
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"] |= _PROPERTIES
    schema.setdefault("$defs", {}).update(_DEFINITIONS)
    return schema
