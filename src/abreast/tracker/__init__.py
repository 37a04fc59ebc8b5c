"""For people who own their loop: track calls, log rows, read them back, and look before each experiment."""

from abreast.tracker.reader import Reader
from abreast.tracker.tracker import Tracker
from abreast.tracker.validation import (
    check_data_committed,
    pre_experiment_validation,
    validate_schema_before_experiment,
)

__all__ = [
    "Reader",
    "Tracker",
    "check_data_committed",
    "pre_experiment_validation",
    "validate_schema_before_experiment",
]
