"""The locked plan: a file that fixes, before the first run, what will be run and how it will be judged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic

from abreast.digest import compose
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.plan.plan import Plan
from abreast.stats import alphas
from abreast.store.runs.provenance import LockCheck

_ELSEWHERE = "name another file with --lock=FILE, or move this one away"


class LockModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(defer_build=True, strict=True, extra="forbid", frozen=True)


class LockedCases(LockModel):
    number: int
    digest: str


class LockedRule(LockModel):
    alpha_sequence: float
    alpha_final: float
    until_decided: bool
    min_cases: int


class LockedPlan(LockModel):
    """Everything that a verdict depends on and that is chosen beforehand."""

    abreast_lock: Literal[1]
    created_at: str
    abreast: str
    earlier_runs: int
    experiment: str
    cases: LockedCases
    repeats: int
    variants: dict[str, str]
    baseline: str
    primary: str | None
    scorer: str | None = None  # version of the scorer that gives the primary score
    weight: str
    margin: float | None
    seed: int
    rule: LockedRule

    @classmethod
    def of(
        cls,
        plan: Plan,
        spec: Mapping[str, Any],
        primary: str | None,
        scorer: str | None,
        baseline: str,
        version: str,
        earlier_runs: int,
    ) -> LockedPlan:
        """The current plan. `spec` is the spec as stored with a run."""
        cases, (sequence, final) = plan.cases, alphas(max(1, len(plan.cases)))
        contents = sorted(cases.digest(index) for index in range(len(cases)))
        return cls(
            abreast_lock=1,
            created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            abreast=version,
            earlier_runs=earlier_runs,
            experiment=spec["name"],
            cases=LockedCases(number=len(cases), digest=compose("cases", *contents)),
            repeats=plan.repeats,
            variants={variant.name: digest for variant, digest in zip(plan.variants, plan.digests, strict=True)},
            baseline=baseline,
            primary=primary,
            scorer=scorer,
            weight=spec.get("weight", "case"),
            margin=spec["margin"],
            seed=plan.seed,
            rule=LockedRule(
                alpha_sequence=sequence,
                alpha_final=final,
                until_decided=spec["until_decided"],
                min_cases=spec["min_cases"],
            ),
        )

    def check(self, file: Path, planned: LockedPlan) -> LockCheck:
        return LockCheck(str(file.absolute()), self.created_at, self.earlier_runs, tuple(_differences(self, planned)))

    def write(self, file: Path) -> None:
        """Write a new file; an existing one is never overwritten."""
        text = json.dumps(self.model_dump(), indent=2, ensure_ascii=False) + "\n"
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except FileExistsError:
            raise BadInput(f"{relative_path(file)} already exists", "run again to compare with it") from None
        except OSError as error:
            message = f"cannot write the plan to {relative_path(file)}: {error.strerror}"
            raise BadInput(message, "name another file with --lock=FILE") from None


def read_lock(file: Path) -> LockedPlan | None:
    """The plan locked in this file; None if there is no such file. Raises BadInput for any other content."""
    name = relative_path(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"cannot read the locked plan {name}: {error.strerror}", _ELSEWHERE) from None
    except (ValueError, RecursionError):
        raise BadInput(f"{name}: not a locked plan: invalid JSON", _ELSEWHERE) from None
    version = content.get("abreast_lock") if isinstance(content, dict) else None
    if isinstance(version, int) and version > 1:
        raise BadInput(f"{name}: this plan was locked by a newer abreast", "update abreast")
    try:
        return LockedPlan.model_validate(content)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = f"{key}: {first['msg']}" if key else first["msg"]
        raise BadInput(f"{name}: not a locked plan: {problem}", _ELSEWHERE) from None


def _differences(locked: LockedPlan, planned: LockedPlan) -> Iterator[str]:
    """Phrases about what differs from the locked plan."""
    if planned.cases.number != locked.cases.number:
        yield f"{planned.cases.number:,} cases instead of {locked.cases.number:,}"
    elif planned.cases.digest != locked.cases.digest:
        yield "the content of the cases changed"
    yield from _variant_differences(locked.variants, planned.variants)
    if planned.primary == locked.primary and locked.scorer not in (None, planned.scorer):
        yield f"the scorer of {locked.primary} changed"
    before, now = _settings(locked), _settings(planned)
    for name, value in now.items():
        if value != before[name]:
            yield f"{name} {_in_words(value)} instead of {_in_words(before[name])}"


def _variant_differences(locked: Mapping[str, str], planned: Mapping[str, str]) -> Iterator[str]:
    for name in {**locked, **planned}:
        if name not in planned:
            yield f"variant {name} is missing"
        elif name not in locked:
            yield f"variant {name} was added"
        elif planned[name] != locked[name]:
            yield f"variant {name} changed"


def _settings(plan: LockedPlan) -> dict[str, Any]:
    names = ("experiment", "repeats", "margin", "primary", "baseline", "weight", "seed")
    return {**{name: getattr(plan, name) for name in names}, **plan.rule.model_dump()}


def _in_words(value: Any) -> str:
    """A setting in a message.

    >>> _in_words(None), _in_words(0.05), _in_words(True)
    ('none', '0.05', 'true')
    """
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
