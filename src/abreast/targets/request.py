"""Rendering of requests: transform, then template. Pure, so that `--dry-run` shows what would be sent."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from abreast.code.digest import source_digest
from abreast.code.reference import Call, load_call, load_function, reference_in
from abreast.digest import compose, digest
from abreast.errors import BadInput, Classified, Crashed, TrialError, classify, did_you_mean
from abreast.model import Case, Request, Trial
from abreast.plugins import is_async
from abreast.targets.base import Sees, prompt_of

if TYPE_CHECKING:
    import jinja2


_MISSING = re.compile(r"'(\w+)'(?: is undefined)?$")  # the missing name in a message of Jinja2


class Renderer:
    """Renders requests with the `transform` and `prompt` of a variant."""

    def __init__(self, where: str, params: Mapping[str, Any]) -> None:
        self.params = params
        prompt = params.get("prompt")
        if prompt is not None and not isinstance(prompt, str):
            raise BadInput(f"{where}: prompt must be text (a Jinja2 template), got {prompt!r}")
        self._template = None if prompt is None else compile_template(f"{where}: prompt", prompt)
        self.sees: Sees = seen_by(prompt)
        self._transform = _transform(where, params.get("transform"))
        self.transforms = self._transform is not None
        function = self._transform.function if isinstance(self._transform, Call) else self._transform
        self.quick = getattr(function, "quick", False) is True  # set by the user: estimates may call it
        self.version = compose("renderer", digest(params.get("prompt")), *_version(self._transform))

    def request(self, trial: Trial) -> Request:
        case = trial.case
        value = case.input
        if self._transform is not None:
            try:
                value = self._transform(value)
            except TrialError:  # such as Skipped or TooLong
                raise
            except Exception as error:
                failure = classify(error)  # a failure of the variant, which is not retried
                message = f"transform: {failure.message}"
                raise Classified(
                    dataclasses.replace(failure, kind="crash", blame="variant", message=message)
                ) from error
        prompt = prompt_of(value) if self._template is None else _render(self._template, "prompt", case, value)
        return Request(prompt, value, self.params)


def _transform(where: str, setting: Any) -> Callable[[Any], Any] | None:
    """Load the function that is applied to inputs: a reference, a reference with arguments, or a function."""
    if isinstance(setting, Mapping):
        return load_call(f"{where}: transform", setting, ["input"])
    function = load_function(setting) if isinstance(setting, str) else setting
    if function is not None and not callable(function):
        raise BadInput(
            f"{where}: transform must be python:module:function, got {setting!r}",
            "write arguments as {from: python:module:function, NAME: VALUE}",
        )
    if function is not None:
        _check_transform(f"{where}: transform", function)
    return function


def _check_transform(where: str, function: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called with an input."""
    if is_async(function):
        raise BadInput(f"{where} must not be async", "write a plain function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind("input")
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        raise BadInput(f"{where} is called with the input of a case, got {name}{signature}") from None


def _version(transform: Callable[[Any], Any] | None) -> Iterator[str]:
    """Digests of the code and the arguments of a transform."""
    if isinstance(transform, Call):
        yield source_digest(transform.function)
        yield from [digest_of_params(transform.arguments)] if transform.arguments else []
    elif transform is not None:
        yield source_digest(transform)


class Template:
    """A parameter with a template over the input of a case, such as paths of images."""

    def __init__(self, where: str, parameter: str, text: str) -> None:
        self._parameter = parameter
        self._template = compile_template(f"{where}: {parameter}", text)

    def render(self, case: Case, value: Any) -> str:
        return _render(self._template, self._parameter, case, value)


def _render(template: jinja2.Template, parameter: str, case: Case, value: Any) -> str:
    names = names_of(case, value)
    try:
        return template.render(names)
    except Exception as error:
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == "<template>"]
        line = f", line {lines[-1]}" if lines else ""
        raise Crashed(f"{parameter} template{line}: {error}{_did_you_mean(error, names)}") from error


def _did_you_mean(error: Exception, names: Mapping[str, Any]) -> str:
    """Return a suggestion for a name that the case does not have."""
    import jinja2

    missing = _MISSING.search(str(error)) if isinstance(error, jinja2.UndefinedError) else None
    return did_you_mean(missing[1], map(str, names)) if missing else ""


def seen_by(*templates: str | None) -> Sees:
    """Return the part of a case that templates use.

    >>> seen_by("{{ question }}", None), seen_by("{{ tags.kind }}: {{ input }}")
    ('input', 'case')
    """
    if not any(templates):
        return "input"
    from jinja2 import meta

    names = [name for text in templates if text for name in meta.find_undeclared_variables(_environment().parse(text))]
    return "case" if {"tags", "id"} & set(names) else "input"


def names_of(case: Case, value: Any) -> dict[str, Any]:
    """Return the names in a template: the keys of the input, and `input`, `tags` and `id`."""
    names = dict(value) if isinstance(value, Mapping) else {}
    return {**names, "input": value, "tags": case.tags, "id": case.id}


@cache
def _environment() -> jinja2.Environment:
    import jinja2.sandbox  # late: most experiments with functions have no template

    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )


def compile_template(where: str, text: str) -> jinja2.Template:
    """Compile a sandboxed template, in which missing names are errors."""
    import jinja2

    try:
        return _environment().from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise BadInput(f"{where} template, line {error.lineno}: {error.message}") from error


def digest_of_params(params: Any) -> str:
    """Return a digest of a variant's parameters, including functions."""
    if isinstance(params, Mapping):
        return digest({key: _replace_functions(key, value) for key, value in params.items()})
    return digest(params)


def _replace_functions(key: str, value: Any) -> Any:
    """Replace a function by the digest of its code, and a reference without arguments by its short form."""
    if key == "transform" and isinstance(value, Mapping) and set(value) == {"from"}:
        return reference_in(value)
    return source_digest(value) if callable(value) else value


def params_as_mapping(params: Any) -> Mapping[str, Any]:
    """Return a variant's parameters by name, from a mapping or a dataclass."""
    if dataclasses.is_dataclass(params) and not isinstance(params, type):
        return {item.name: getattr(params, item.name) for item in dataclasses.fields(params)}
    return dict(params)
