"""The vocabulary: every word of the product on one page.

Read this first and the rest is guessable. Docs, spec, database and code use the same words.
Nothing here reads, writes or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from abreast.text import storable

Status = Literal["ok", "error", "skipped", "cancelled"]
Blame = Literal["variant", "infrastructure", "unknown"]
CostBasis = Literal["reported", "estimated", "included", "unknown"]
Executor = Literal["auto", "thread", "process"]
Placeholder = Literal["case", "folder", "tests"]
"""Placeholders in the command of a check: the id of the case, the folder of the spec, the test files of the case."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question. Cases of one `group` (one document, one pull request) are not independent.

    Examples:
        >>> Case("greeting", "Say hello", expected="hello").id
        'greeting'
    """

    id: str
    input: Any
    expected: Any = None
    tags: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None

    if not TYPE_CHECKING:  # explains frequent mistakes; type checkers report them as errors

        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, str) and key in self.__slots__:
                raise TypeError(f"a Case has attributes: write case.{key}")
            raise TypeError(f"a Case is not its input: write case.input[{key!r}]")

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_"):
                message += f"; {_instead(name, getattr(self, 'input', None))}"
            raise AttributeError(message, name=name)


def _instead(name: str, value: Any) -> str:
    """Suggest what to write instead of `case.NAME`, which does not exist."""
    if isinstance(value, Mapping) and name in value:
        return f"write case.input[{name!r}]"
    if hasattr(value, name):
        return f"write case.input.{name}"
    return "the function is called with the whole case, whose fields are id, input, expected, tags and group"


@dataclass(frozen=True, slots=True)
class Variant:
    """One contender: a name, a target and its parameters.

    `target` is a name (`simulated`, `python:module:function`) or a Python function, by default the experiment's.
    `params` is a mapping, or an instance of a dataclass or pydantic model that the function receives whole. With
    `warmup`, its target is called once before anything is measured; None leaves that to the target. `needs` are the
    resources that a node of a cluster must have to execute it.

    Examples:
        >>> Variant("short", params={"style": "brief"}).name
        'short'
    """

    name: str
    target: str | Callable[..., Any] | None = None
    params: Any = field(default_factory=dict)
    executor: Executor = "auto"
    version: str = ""
    warmup: bool | None = None
    needs: Mapping[str, float | str] = field(default_factory=dict)


def is_of_fields(kind: type) -> bool:
    """Whether this is a dataclass or a pydantic model."""
    return is_dataclass(kind) or (hasattr(kind, "model_fields") and hasattr(kind, "model_dump"))


def has_fields(params: Any) -> bool:
    """Whether parameters are an object with fields, which a function receives as such: `function(item, params)`.

    >>> has_fields(Case("c", "?")), has_fields(Case), has_fields({"style": "brief"})
    (True, False, False)
    """
    return not isinstance(params, type) and is_of_fields(type(params))


@dataclass(frozen=True, slots=True)
class Trial:
    """One repeat of a case with a variant: the unit of execution.

    `position` is its place in the plan; `occurrence` distinguishes trials that would otherwise have the same key.
    """

    position: int
    case: Case
    variant: Variant
    repeat: int
    occurrence: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """The request that a trial sends, after transform and template are applied. Estimates use it, and it is stored."""

    prompt: str
    input: Any
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; None if the target does not report them.

    `input_tokens` exclude cache reads and writes; `reasoning_tokens` are part of `output_tokens`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """A rate limit announced by a provider: the limit, what remains of it, and the seconds until it is reset."""

    limit: float | None = None
    remaining: float | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The rate limits that a provider announced with an answer or a refusal; `abreast.rate_headers` parses them."""

    requests: Allowance | None = None
    tokens: Allowance | None = None


STATE = "state"
"""The artifact with the workspace state that another trial continues from. It is not shown to users."""

TEST_FILES, OUTSIDE_FILES = "test_files_changed", "outside_files_changed"
"""Lists of files in the data of an answer: tests that the agent changed, and files outside its workspace that changed
while it ran. Stored only if not empty."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a target. `data` has further named values; each becomes its own column. `rate` is not stored: it
    tells the scheduler what the provider allows. `artifacts` are texts by name, such as a diff. `waited_s` is how long
    an agent waited to repeat requests that its provider refused; it is not part of the latency.

    Examples:
        >>> Answer("42").text
        '42'
    """

    text: str
    value: Any = None
    data: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_basis: CostBasis = "unknown"
    model: str | None = None
    raw_response: str | None = None
    rate: RateLimits | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an attempt gave no answer. Statistics and retries depend on `blame`."""

    kind: str
    blame: Blame
    message: str
    retry_after: float | None = None
    detail: str = ""  # where in the user's code the exception was raised
    rate: RateLimits | None = None
    fix: str = ""  # what the user can do about it, as a command if there is one
    presumed: bool = False  # the blame is a guess, from a foreign exception that a user's function raised

    def __post_init__(self) -> None:
        for name in ("kind", "message", "detail", "fix"):  # untrusted text that is stored and printed
            object.__setattr__(self, name, storable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Score:
    """One number for one answer. `name` is its column without `score_`; `value` is None if the scorer crashed."""

    name: str
    value: float | None
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A command that runs in the workspace of a trial after its agent has ended; a scorer reads the outcome.

    `command` is a list of words, or with `shell` a single text. With `fails_before` it also runs on the initial
    workspace, where it is expected to fail. With `own` each case has its own tests; the command may then be inferred
    from their type. `tests` are globs of the test files, which are restored before it runs; None if a rule
    locates them.

    >>> Check("tests", ("pytest", "{tests}")).names("tests")
    True
    """

    name: str
    command: tuple[str, ...]
    shell: bool = False
    timeout_s: float = 600.0
    fails_before: bool = False
    own: bool = False
    tests: tuple[str, ...] | None = None

    def names(self, placeholder: Placeholder) -> bool:
        """Whether the command uses the placeholder, which is `{NAME}` or, in a shell, a variable."""
        mark = variable_of(placeholder) if self.shell else f"{{{placeholder}}}"
        return any(mark in word for word in self.command)


def variable_of(placeholder: str) -> str:
    """The environment variable of a placeholder.

    >>> variable_of("case")
    'ABREAST_CASE'
    """
    return f"ABREAST_{placeholder.upper()}"


@dataclass(slots=True)
class Outcome:
    """The result of one attempt, and its times.

    A failure may come with an answer, for its usage and cost. Such an answer is stored and never scored.
    """

    status: Status
    answer: Answer | None = None
    failure: Failure | None = None
    started_at: float = 0.0
    finished_at: float = 0.0
    service_s: float = 0.0
