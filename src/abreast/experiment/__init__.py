"""The public façade. It only wires the rooms together."""

from abreast.experiment.facade import Experiment
from abreast.experiment.options import Options, Result

__all__ = ["Experiment", "Options", "Result"]
