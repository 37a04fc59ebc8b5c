"""Execution: what is missing in a plan is run, stored and scored."""

from abreast.execute.deciding import Decision, Stop
from abreast.execute.flying import Flown
from abreast.execute.listener import Listener, Listeners
from abreast.execute.run import Ending, Execution

__all__ = ["Decision", "Ending", "Execution", "Flown", "Listener", "Listeners", "Stop"]
