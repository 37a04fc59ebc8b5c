"""`abreast cluster`: Ray nodes on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from abreast.cli.command import argument, command
from abreast.errors import BadInput
from abreast.output import echo, listings
from abreast.text import many

if TYPE_CHECKING:
    from abreast.cluster.local import LocalCluster

DEFAULT_NODES = 2
NOTHING = "no cluster is up"


@command(
    "cluster",
    argument("action", choices=("up", "status", "down")),
    argument("--nodes", metavar="N", type=int, help=f"nodes to start (default: {DEFAULT_NODES})"),
    "--json",
    epilog="""  up       start Ray nodes that share the cores and the memory of this machine
  status   show the nodes, with their cores, memory and processes
  down     end the nodes and remove their files
`abreast run SPEC --engine ray` runs trials on them. The nodes listen on 127.0.0.1 only, without a password: do not
start them on a machine whose other users you do not trust. They inherit the environment of `up`, API keys included.""",
)
def manage_cluster(args: argparse.Namespace) -> None:
    from abreast.cluster import local

    if args.nodes is not None and args.action != "up":
        raise BadInput(f"cluster {args.action} takes no --nodes", "use it with `abreast cluster up`")
    if args.action == "status":
        _show_status(local.find(), args.json)
        return
    cluster = local.up(DEFAULT_NODES if args.nodes is None else args.nodes) if args.action == "up" else local.down()
    if args.json:
        listings.show_json([] if cluster is None else [{"address": cluster.address, "nodes": cluster.nodes}])
    elif cluster is None:
        echo(NOTHING)
    elif args.action == "down":
        echo(f"ended {many(cluster.nodes, 'node')} at {cluster.address}")
    else:
        echo(f"{many(cluster.nodes, 'node')} up at {cluster.address}, {many(cluster.cores, 'core')} each")
        echo("next: abreast run SPEC --engine ray")


def _show_status(cluster: LocalCluster | None, as_json: bool) -> None:
    if cluster is None:
        listings.show([], as_json, NOTHING)
        return
    rows: list[dict[str, Any]] = [
        {
            "node": node.node,
            "role": "worker" if node.node else "head",
            "state": "alive" if node.is_alive else "dead",
            "address": cluster.address,
            "cores": cluster.cores,
            "memory": cluster.memory,
            "memory_used": node.memory_used,
            "pids": node.pids,
        }
        for node in cluster.status()
    ]
    if not as_json:
        for row in rows:
            row |= {name: f"{row[name] / 1e9:.1f} GB" for name in ("memory", "memory_used")}
            row["pids"] = " ".join(map(str, row["pids"]))
    listings.show(rows, as_json, NOTHING)
