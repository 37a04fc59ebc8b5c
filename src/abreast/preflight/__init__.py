"""The checks before a run, one file each. A check reports its finding in one sentence."""
