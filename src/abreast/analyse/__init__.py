"""Analysis: from rows to verdicts."""
