"""What a run stores about the earlier run that it extends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Extension:
    """The run that is extended: its cases come first, in the order in which it started them."""

    run: str
    cases: int  # of the extended run that are in this one too
    added: int  # other cases of this run
    spent_at: int | None  # planned cases of the run that used the final interval; None if no run has
    grown_groups: int  # groups with cases of both kinds
    largest_group: int | None  # of the extended run
    order: tuple[int, ...]  # indexes of the cases that come first

    @classmethod
    def read(cls, provenance: Mapping[str, Any]) -> Extension | None:
        """The extension in the provenance of a run; None if the run extends nothing."""
        stored = provenance.get("extends")
        if stored is None:
            return None
        facts = {field.name: stored[field.name] for field in fields(cls) if field.name != "order"}
        return cls(**facts, order=tuple(provenance["first_cases"]))

    def recorded(self) -> dict[str, Any]:
        """For the provenance of a run."""
        facts = asdict(self)
        return {"first_cases": list(facts.pop("order")), "extends": facts}

    @property
    def final_spent(self) -> bool:
        """Whether an earlier run used the final interval, so that only the confidence sequence decides."""
        return self.spent_at is not None

    @property
    def rule(self) -> str:
        """How the verdict is reached."""
        if self.final_spent:
            return "the final interval is spent, so only the confidence sequence decides"
        return "the confidence sequence continues"

    def sentence(self) -> str:
        """`extends quiet-heron-0217 (100 cases): the confidence sequence continues`."""
        cases = f"{self.cases:,} case{'' if self.cases == 1 else 's'}"
        return f"extends {self.run} ({cases}): {self.rule}"
