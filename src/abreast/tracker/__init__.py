"""For people who own their loop: track calls, log rows, read them back."""

from abreast.tracker.reader import Reader
from abreast.tracker.tracker import Tracker

__all__ = ["Reader", "Tracker"]
