"""Execution: what is missing in a plan is run, stored and scored."""

from abreast.execute.flying import InFlight
from abreast.execute.listener import Listener, Listeners
from abreast.execute.run import Ending, Execution

__all__ = ["Ending", "Execution", "InFlight", "Listener", "Listeners"]
