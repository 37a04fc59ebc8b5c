"""Adaptive concurrency: how many requests a target can take, learned from its refusals and its latency."""

from abreast.execute.limits.adaptive.limit import Adaptive

__all__ = ["Adaptive"]
