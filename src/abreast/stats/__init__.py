"""Statistics for comparisons, usable on their own: lists or arrays in, small frozen results out."""

from abreast.stats.intervals import Interval, paired_t, wilson
from abreast.stats.power import cases_needed, smallest_detectable
from abreast.stats.verdict import Verdict, verdict

__all__ = ["Interval", "Verdict", "cases_needed", "paired_t", "smallest_detectable", "verdict", "wilson"]
