"""`abreast check --engine ray`: the nodes, how much faster they are than this machine, and what limits the speed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conftest import ABREAST, SIMULATED, Folder
from tests.ray_cluster import RayCluster

from abreast import __version__

COMPUTING = """\
name: computing
cases: cases.jsonl
variants:
  slow: {target: "python:work:slow", executor: process}
expects: {seconds: 60}
limits: {parallel: 100, free_cores: 0}
scorers: [exact]
"""
WORK = """\
def slow(case):
    return "yes"
"""


def nodes_finding(cluster: RayCluster, folder: Folder) -> dict[str, Any]:
    done = cluster.run(
        [*ABREAST, "check", "spec.yaml", "--engine", "ray", "--address", cluster.address, "--json"], cwd=folder.path
    )
    (finding,) = (row for row in json.loads(done.stdout) if row["check"] == "nodes")
    return finding


def test_check_shows_each_node_and_that_limits_let_a_cluster_idle(ray_cluster: RayCluster, folder: Folder) -> None:
    folder.cases(40)
    folder.write("spec.yaml", SIMULATED)
    finding = nodes_finding(ray_cluster, folder)
    assert finding["level"] == "note"
    assert finding["message"].startswith("2 nodes with 4 cores and ")
    assert finding["message"].endswith("no faster than this machine; bottleneck: limits")
    first, second = sorted(finding["details"])
    assert first.startswith("10.213.0.1: Python 3.")
    assert f", abreast {__version__}, 2 cores and " in second
    assert second.endswith(" GB, node1: 1")


@pytest.mark.heavy
def test_check_names_the_bottleneck_of_functions_that_compute(ray_cluster: RayCluster, folder: Folder) -> None:
    folder.cases(400)
    folder.write("work.py", WORK)
    for limits, bottleneck in (
        ("parallel: 100", "cores"),
        ("parallel: 100, memory_per_trial: 1000GB", "memory"),
        ("parallel: 100, quota: 10/5h", "quota"),
        ("parallel: 1", "limits"),
    ):
        folder.write("spec.yaml", COMPUTING.replace("parallel: 100", limits))
        assert nodes_finding(ray_cluster, folder)["message"].endswith(f"bottleneck: {bottleneck}")
