"""Execution: run, store and score the missing trials of a plan."""
