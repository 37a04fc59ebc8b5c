"""Run LLM and agent benchmarks side by side, and know which one is better."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment
    from abreast.experiment.options import Options
    from abreast.experiment.result import Result, VariantVerdict
    from abreast.model import Answer, Case, Request, Score, Trial, Usage, Variant
    from abreast.scorers.base import Scorer
    from abreast.spec.grid import grid
    from abreast.targets.base import Target
    from abreast.tracker.reader import Reader
    from abreast.tracker.tracker import Tracker
    from abreast.tracker.validation import (
        check_data_committed,
        pre_experiment_validation,
        validate_schema_before_experiment,
    )

__all__ = [
    "Answer",
    "Case",
    "Experiment",
    "Options",
    "Reader",
    "Request",
    "Result",
    "Score",
    "Scorer",
    "Target",
    "Tracker",
    "Trial",
    "Usage",
    "Variant",
    "VariantVerdict",
    "__version__",
    "check_data_committed",
    "grid",
    "pre_experiment_validation",
    "validate_schema_before_experiment",
]

__version__ = "0.1.0"

# Imported on first use, so that `abreast --help` and `from abreast import stats` load only what they need.
_EXPORTS = {
    "experiment.facade": ("Experiment",),
    "experiment.options": ("Options",),
    "experiment.result": ("Result", "VariantVerdict"),
    "model": ("Answer", "Case", "Request", "Score", "Trial", "Usage", "Variant"),
    "scorers.base": ("Scorer",),
    "spec.grid": ("grid",),
    "targets.base": ("Target",),
    "tracker.reader": ("Reader",),
    "tracker.tracker": ("Tracker",),
    "tracker.validation": ("check_data_committed", "pre_experiment_validation", "validate_schema_before_experiment"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    for module, names in _EXPORTS.items():
        if name in names:
            return getattr(import_module(f"abreast.{module}"), name)
    raise AttributeError(f"module 'abreast' has no attribute {name!r}")
