"""Start Ray nodes and wait: `python -m abreast.cluster.launcher CLUSTER`, with a `LocalCluster` as JSON.

`ray start` cannot be used: it replaces 127.0.0.1 by the machine's address, and Ray then listens on all interfaces.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from abreast.cluster.local import MARK, OBJECT_STORE, READY, LocalCluster
from abreast.output import echo


def main(cluster: LocalCluster) -> None:
    from ray.cluster_utils import Cluster

    nodes = Cluster(shutdown_at_exit=False)
    for node in range(cluster.nodes):
        os.environ[MARK] = cluster.mark_of(node)  # marks the processes of this node
        nodes.add_node(
            gcs_server_port=cluster.port,  # only the first node, the head, has one
            node_ip_address=cluster.host,
            node_name=f"node{node}",
            num_cpus=cluster.cores,
            memory=cluster.memory,
            object_store_memory=OBJECT_STORE,
            include_log_monitor=False,
            include_dashboard=False,
            dashboard_agent_listen_port=0,
        )
    echo(READY, flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # processes that die do not remain as zombies
    while True:
        signal.pause()


if __name__ == "__main__":
    main(LocalCluster(**json.loads(sys.argv[1])))
