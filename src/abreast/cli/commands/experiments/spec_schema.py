"""`abreast spec-schema`: the JSON Schema of spec files."""

from __future__ import annotations

import argparse
import json

from abreast.output import echo


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "in YAML editors: # yaml-language-server: $schema=abreast.schema.json"


def main(_args: argparse.Namespace) -> int:
    from abreast.spec.schema import json_schema

    echo(json.dumps(json_schema(), indent=2))
    return 0
