"""The Ray cluster: its connection, nodes and their resources, and the checks before a run. All calls block."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.cluster.local import ray_address
from abreast.errors import BadInput
from abreast.execute.engine.base import Complete, Engine, EngineFactory, EngineSetup
from abreast.execute.engine.ray.facts import (
    FolderMissing,
    NodeFacts,
    lasting_names,
    node_problem,
    read_facts,
    refuse_other,
)
from abreast.execute.engine.ray.messages import dumps_code
from abreast.model import Variant
from abreast.spec.schema import RaySettings, size_in_bytes

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from abreast.execute.engine.ray.runner import Runner

POLL_S = 2.0
REACH_S = 5.0  # for the cluster's port to answer
EXAMINE_S = 120.0  # for all nodes to import the code and build the targets
NOT_SENT = (
    ".venv",
    "venv",
    "__pycache__",
    ".env*",
    "/runs",
    "/*.db*",
    "/*.sqlite*",
    "/*.duckdb*",
)  # patterns in a spec's folder
RAY_NAMES = {"cpu": "CPU", "gpu": "GPU"}


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A live node of the cluster."""

    id: str
    name: str
    resources: Mapping[str, float] = field(compare=False)

    def has(self, needs: Mapping[str, float | int | str]) -> bool:
        """Whether the node has these resources, in total.

        >>> ClusterNode("1", "a", {"CPU": 8.0, "claude": 1.0}).has({"claude": 1, "cpu": 4})
        True
        """
        amounts = {RAY_NAMES.get(name, name): _amount(name, need) for name, need in needs.items()}
        return all(self.resources.get(name, 0) >= amount for name, amount in amounts.items())

    def eligible(self, variants: Sequence[Variant]) -> list[int]:
        """Return the indexes of the variants that this node can execute."""
        return [index for index, variant in enumerate(variants) if self.has(variant.needs)]


def _own_resources(resources: Mapping[str, float]) -> dict[str, float]:
    """Omit the resources that Ray adds for each node and its accelerators."""
    return {name: amount for name, amount in resources.items() if ":" not in name}


def _amount(name: str, need: float | int | str) -> float:
    return float(size_in_bytes(str(need)) if name == "memory" else need)


class Cluster:
    """A connection to a Ray cluster. It stays open from the checks until the end of the run."""

    def __init__(self, settings: RaySettings) -> None:
        self.settings = settings
        self._sent: Path | None = None  # the folder of the spec, if Ray has to send it to the nodes
        self._is_ours = False

    @property
    def address(self) -> str:
        return self.settings.address

    def connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "1000000")  # then Ray would end the process
        os.environ.setdefault("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", ",".join(NOT_SENT))
        address = ray_address(self.address)
        try:
            import ray
            from ray._private import worker
        except ImportError as error:
            raise BadInput("engine: ray is not installed", "run `pip install 'abreast[ray]'`") from error
        if ray.is_initialized():
            return
        _check_reachable(address)
        sent = self._sent
        worker.print_to_stdstream = lambda *_, **__: None  # hides Ray's output on dead workers; lost nodes are reported
        try:
            ray.init(
                address=address,
                namespace="abreast",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                configure_logging=True,
                runtime_env=None if sent is None else {"working_dir": str(sent), "excludes": list(NOT_SENT)},
            )
        except ray.exceptions.RuntimeEnvSetupError as error:
            reason = " ".join(str(error).split()).rpartition("Ray cluster: ")[2].partition(". ")[0]
            raise BadInput(
                f"cannot send {sent} to the nodes: {reason}",
                "list large files in .rayignore, or put the folder at the same path on every node",
            ) from error
        except (ConnectionError, RuntimeError, ValueError, TimeoutError, ray.exceptions.RayError) as error:
            raise _unreachable(self.address, " ".join(str(error).split())[:300]) from error
        self._is_ours = True

    def close(self) -> None:
        if self._is_ours:
            import ray

            self._is_ours = False
            ray.shutdown()

    def nodes(self) -> list[ClusterNode]:
        import ray

        return [
            ClusterNode(node["NodeID"], node["NodeName"], _own_resources(node["Resources"]))
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"]
        ]

    def passed_keys(self) -> dict[str, str]:
        """Return the driver's keys to send to the nodes, over an encrypted channel only."""
        names = self.settings.pass_keys
        if names and os.environ.get("RAY_USE_TLS") != "1":
            raise BadInput(
                "engine: pass_keys sends keys only over an encrypted channel, and RAY_USE_TLS=1 is not set",
                "set up TLS in Ray, or set the keys in the environment of the nodes",
            )
        for name in names:
            if name not in os.environ:
                raise BadInput(f"engine: pass_keys: {name} is not set", f"run `export {name}=...` first")
        return {name: os.environ[name] for name in names}

    # -- on nodes ------------------------------------------------------------------------------------------------------

    def start_runner(self, node: ClusterNode) -> ActorHandle[Runner]:
        import ray

        from abreast.execute.engine.ray.runner import Runner

        runner: Any = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(Runner)
        actor: ActorHandle[Runner] = runner.options(**_options(node)).remote()
        return actor

    def kill(self, actor: ActorHandle[Runner]) -> None:
        import ray

        with contextlib.suppress(Exception):  # the actor or the cluster is dead already
            ray.kill(actor, no_restart=True)

    def base_on_nodes(self, base: Path) -> Path | None:
        """Return the folder's path on the nodes; None if Ray sent it as their working folder."""
        return None if self._sent else base

    def facts(self, setups: Mapping[ClusterNode, EngineSetup], base: Path) -> dict[ClusterNode, NodeFacts]:
        """Build the targets of each setup on its node and return the node's facts. Nodes that die are left out."""
        try:
            return self._ask(setups, base)
        except FolderMissing:
            if not self._is_ours:
                raise BadInput(
                    f"not every node has {base}", f"call ray.init(runtime_env={{'working_dir': {str(base)!r}}})"
                ) from None
            self.close()  # Ray sends folders only when a driver connects
            self._sent = base
            self.connect()
            return self._ask(setups, base)

    def _ask(self, setups: Mapping[ClusterNode, EngineSetup], base: Path) -> dict[ClusterNode, NodeFacts]:
        import ray

        ask: Any = ray.remote(num_cpus=0, max_retries=0)(read_facts)
        folder, names = self.base_on_nodes(base), lasting_names(base)
        references = {
            node: ask.options(**_options(node)).remote(folder, names, dumps_code(setup))
            for node, setup in setups.items()
        }
        facts: dict[ClusterNode, NodeFacts] = {}
        deadline = time.monotonic() + EXAMINE_S
        while references and time.monotonic() < deadline:
            ready, _ = ray.wait(list(references.values()), num_returns=len(references), timeout=POLL_S)
            alive = self.nodes()
            for node, reference in list(references.items()):
                if reference in ready or node not in alive:
                    del references[node]
                if reference not in ready:
                    continue
                try:
                    facts[node] = ray.get(reference)
                except FolderMissing:
                    raise
                except Exception as error:
                    if node in self.nodes():
                        raise node_problem(f"node {node.name}", error) from error
        if references:
            silent = ", ".join(node.name for node in references)
            raise BadInput(f"no answer from {silent} within {EXAMINE_S:g} s", "run `ray status` to check the cluster")
        return facts


def _check_reachable(address: str) -> None:
    """Refuse an address where nothing listens: Ray would wait forever."""
    from ray._private import services

    if address == "auto":
        address = services.get_ray_address_from_environment("auto", None) or "auto"
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon and address == "auto":
        return  # Ray reports what is wrong
    if not (colon and host and port.isdecimal()):
        raise BadInput(f"--address {address}: must be auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from error


def _unreachable(address: str, reason: str) -> BadInput:
    return BadInput(
        f"cannot connect to a Ray cluster at {address}: {reason}",
        "run `abreast cluster up` or `ray start --head`, or pass --address HOST:PORT",
    )


def _options(node: ClusterNode) -> dict[str, Any]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False)}


@dataclass(frozen=True)
class RayFactory(EngineFactory):
    """Makes Ray engines after checking every node."""

    cluster: Cluster

    @classmethod
    def of(cls, settings: RaySettings) -> RayFactory:
        return cls(Cluster(settings))

    def examine(self, setup: EngineSetup) -> Sequence[Mapping[str, Any]]:
        cluster = self.cluster
        cluster.connect()
        cluster.passed_keys()
        _refuse_unsendable(setup)
        nodes = cluster.nodes()
        _check_needs(setup.variants, nodes)
        base = Path(setup.settings["base"]).resolve()
        setups = {node: setup.portable(indexes) for node in nodes if (indexes := node.eligible(setup.variants))}
        facts = cluster.facts(setups, base)
        for node, answer in facts.items():
            refuse_other(f"node {node.name}", answer, setup, node.eligible(setup.variants))
        return [
            {
                "name": node.name,
                "python": answer.python,
                "abreast": answer.abreast,
                "cores": answer.cores,
                "memory_gb": round(answer.memory_bytes / 1e9, 1),
                "resources": dict(node.resources),
                "cli_versions": dict(answer.cli_versions),
            }
            for node, answer in facts.items()
        ]

    def build(self, setup: EngineSetup, complete: Complete) -> Engine:
        from abreast.execute.engine.ray.engine import RayEngine

        return RayEngine(self.cluster, setup, complete)

    def close(self) -> None:
        self.cluster.close()


def _refuse_unsendable(setup: EngineSetup) -> None:
    """Refuse functions and parameters that only this process can have."""
    parts = [(f'variant "{variant.name}"', variant) for variant in setup.variants]
    for name, part in [*parts, ("the checks of the scorers", setup.settings)]:
        try:
            dumps_code(part)
        except Exception as error:
            raise BadInput(
                f"{name} cannot be sent to the nodes: {type(error).__name__}: {error}",
                "create locks, files and connections in the function, or in a module that it imports",
            ) from error


def _check_needs(variants: Sequence[Variant], nodes: Sequence[ClusterNode]) -> None:
    """Refuse variants that no node can execute."""
    for variant in variants:
        if not any(node.has(variant.needs) for node in nodes):
            needs = ", ".join(f"{name}: {need}" for name, need in variant.needs.items())
            have = "; ".join(f"{node.name} has {_described(node)}" for node in nodes[:5])
            raise BadInput(
                f'variant "{variant.name}" needs {needs}, which no node of the cluster has ({have or "no nodes"})',
                "start a node that has it, for example `ray start --address=HOST:PORT --resources='{\"NAME\": 1}'`",
            )


def _described(node: ClusterNode) -> str:
    standard = ("CPU", "memory", "object_store_memory")
    custom = [f"{name}: {amount:g}" for name, amount in node.resources.items() if name not in standard]
    size = f"memory: {node.resources.get('memory', 0) / 1e9:.1f}GB"
    return ", ".join([f"cpu: {node.resources.get('CPU', 0):g}", size, *custom])
