"""`abreast tail`: the last rows of a table, the newest last."""

from __future__ import annotations

import argparse

from abreast.cli.commands.tables import head

EPILOG = head.EPILOG.replace("abreast head", "abreast tail")

arguments = head.arguments


def main(args: argparse.Namespace) -> int:
    return head.show(args, "tail")
