"""The checks before a run: one file each, one sentence each."""
