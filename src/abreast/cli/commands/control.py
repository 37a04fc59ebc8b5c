"""`abreast ctl`: control of a run that another process executes."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.cli.command import argument, command
from abreast.errors import BadInput
from abreast.output import echo, listings
from abreast.store.runs.controls import ACTIONS


@command(
    "ctl",
    argument("run", metavar="RUN", help="name, label or unique prefix of a run, or latest"),
    argument("action", metavar="ACTION", choices=ACTIONS, help=f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}"),
    argument("settings", metavar="NAME=VALUE", nargs="*", default=[], help="for set: keys of limits: in a spec"),
    "--store --json",
    epilog="""examples:
  abreast ctl latest pause
  abreast ctl latest set parallel=8 budget_usd=10
  abreast ctl latest set parallel.openai=auto""",
)
def control(args: argparse.Namespace) -> int:
    from abreast.experiment.control import control_run, parse_settings

    if args.settings and args.action != "set":
        raise BadInput(f"ctl: {args.action} takes no settings", f"use `abreast ctl {args.run} {args.action}`")
    if args.action == "set" and not args.settings:
        raise BadInput("ctl: set needs NAME=VALUE", f"use `abreast ctl {args.run} set parallel=8`")
    settings = parse_settings(args.settings) if args.settings else None
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)["run"]
        answered = control_run(store, run, args.action, settings)
    is_applied = answered.applied_at is not None
    if args.json:
        listings.show_json([{"run": run, **answered._asdict(), "is_applied": is_applied}])
    elif is_applied:
        echo(f"{run}: {answered.outcome}")
    else:
        raise BadInput(f"{run}: {answered.outcome}")
    return 0 if is_applied else BadInput.exit_code
