"""Execution: what is missing in a plan is run, stored and scored."""
