"""Parts of the provenance of a run: the run that it extends, the plan that was locked before it, and the log of another
tool that it was imported from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Extension:
    """The run that this one extends. Its cases come first, in the order in which it started them."""

    run: str
    cases: int  # cases of the extended run that this one also has
    added: int  # cases that are new in this run
    spent_at: int | None  # planned cases of the earlier run that used the final interval, if one did
    grown_groups: int  # groups with cases of both runs
    largest_group: int | None  # cases in the largest group of the extended run
    order: tuple[int, ...]  # indexes of the cases that come first

    @classmethod
    def read(cls, provenance: Mapping[str, Any]) -> Extension | None:
        """Read the provenance of a run; None if the run extends nothing."""
        stored = provenance.get("extends")
        if stored is None:
            return None
        return cls(**stored, order=tuple(provenance["first_cases"]))

    def recorded(self) -> dict[str, Any]:
        facts = asdict(self)
        return {"first_cases": list(facts.pop("order")), "extends": facts}

    @property
    def final_spent(self) -> bool:
        """Whether an earlier run used the final interval, so that only the confidence sequence decides."""
        return self.spent_at is not None

    @property
    def rule(self) -> str:
        if self.final_spent:
            return "the final interval is spent, so only the confidence sequence decides"
        return "the confidence sequence continues"

    def sentence(self) -> str:
        """`extends quiet-heron-0217 (100 cases): the confidence sequence continues`."""
        cases = f"{self.cases:,} case{'' if self.cases == 1 else 's'}"
        return f"extends {self.run} ({cases}): {self.rule}"


@dataclass(frozen=True, slots=True)
class LockCheck:
    """Whether a run follows the locked plan."""

    file: str
    created_at: str
    earlier_runs: int  # runs of the experiment when the plan was locked
    differences: tuple[str, ...] = ()

    @classmethod
    def read(cls, provenance: Mapping[str, Any]) -> LockCheck | None:
        """Read the provenance of a run; None if no plan was locked."""
        stored = provenance.get("lock")
        if stored is None:
            return None
        return cls(**{**stored, "differences": tuple(stored["differences"])})

    def recorded(self) -> dict[str, Any]:
        return {"lock": {**asdict(self), "differences": list(self.differences)}}

    @property
    def plan(self) -> str:
        """`the locked plan of 2026-11-17`."""
        after = f", locked after {self.earlier_runs:,} run{'' if self.earlier_runs == 1 else 's'}"
        return f"the locked plan of {self.created_at[:10]}{after if self.earlier_runs else ''}"

    def sentence(self) -> str:
        """Such as `kept to the locked plan of 2026-11-17`."""
        if self.differences:
            return f"differs from {self.plan}: {'; '.join(self.differences)}"
        return f"kept to {self.plan}"

    @property
    def name(self) -> str:
        return Path(self.file).name


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecord:
    """The log that a run was imported from."""

    format: str
    tool: str
    tool_version: str | None
    file: str
    sha256: str
    task: str
    notes: tuple[str, ...]  # notes for readers of the results
    columns: Mapping[str, str]  # columns of a table that the user named
    ranges: Mapping[str, Sequence[float]]  # lowest and highest value of scores that were scaled
    facts: Mapping[str, Any]  # further information in the log about the run

    @classmethod
    def read(cls, provenance: Mapping[str, Any]) -> ImportRecord | None:
        """Read the provenance of a run; None if it was not imported."""
        stored = provenance.get("imported")
        return None if stored is None else cls(**{**stored, "notes": tuple(stored["notes"])})

    def recorded(self) -> dict[str, Any]:
        return {"imported": {**asdict(self), "notes": list(self.notes)}}

    def sentence(self) -> str:
        """`imported from quick.eval, a log of Inspect 0.3.285`."""
        version = f" {self.tool_version}" if self.tool_version else ""
        writer = "" if self.format == "table" else f", a log of {self.tool}{version}"
        return f"imported from {Path(self.file).name}{writer}"

    @property
    def rerun(self) -> str:
        """Say how to get more results."""
        return f"run it again with {'the tool that wrote it' if self.format == 'table' else self.tool}"
