"""What a run stores about the plan that was locked before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class LockCheck:
    """Whether a run keeps to the locked plan."""

    file: str
    created_at: str
    earlier_runs: int  # of the experiment, when the plan was locked
    differences: tuple[str, ...] = ()

    @classmethod
    def read(cls, provenance: Mapping[str, Any]) -> LockCheck | None:
        """The check in the provenance of a run; None if no plan was locked."""
        stored = provenance.get("lock")
        if stored is None:
            return None
        facts = {field.name: stored[field.name] for field in fields(cls)}
        return cls(**{**facts, "differences": tuple(facts["differences"])})

    def recorded(self) -> dict[str, Any]:
        """For the provenance of a run."""
        return {"lock": {**asdict(self), "differences": list(self.differences)}}

    @property
    def plan(self) -> str:
        """`the locked plan of 2026-11-17`."""
        after = f", locked after {self.earlier_runs:,} run{'' if self.earlier_runs == 1 else 's'}"
        return f"the locked plan of {self.created_at[:10]}{after if self.earlier_runs else ''}"

    def sentence(self) -> str:
        """For the report: `kept to the locked plan of 2026-11-17`."""
        if self.differences:
            return f"differs from {self.plan}: {'; '.join(self.differences)}"
        return f"kept to {self.plan}"

    @property
    def name(self) -> str:
        return Path(self.file).name
