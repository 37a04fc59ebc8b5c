"""The public `Experiment`: preparation, execution and results of a run."""
