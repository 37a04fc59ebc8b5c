"""The suite at the command line: its flags, its experiment, its sections of the report."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from abreast.errors import BadInput

if TYPE_CHECKING:
    from abreast.analyse import Analysis
    from abreast.experiment import Experiment
    from abreast.report.sections import Section

NAME = "coding-agents"


class CodingAgents:
    """`abreast run coding-agents`, and `abreast run settings.json`."""

    name = NAME
    summary = "which coding agent is better on our repository?"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument_group(f"of the suite {NAME}")

    def experiment(self, args: argparse.Namespace) -> Experiment:
        raise BadInput("nothing to run yet")

    def sections(self, analysis: Analysis) -> list[Section]:
        return []


SUITE = CodingAgents()
