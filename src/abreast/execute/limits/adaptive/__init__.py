"""Adaptive concurrency: learn from refusals and latency how many requests a target can take."""

from abreast.execute.limits.adaptive.limit import Adaptive

__all__ = ["Adaptive"]
