"""Facts about a node: versions, memory and targets, compared with the driver's before trials run on it."""

from __future__ import annotations

import os
import pickle
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from abreast.code.reference import add_to_path
from abreast.errors import AbreastError, BadInput
from abreast.execute.engine.base import EngineSetup
from abreast.targets import Target

MISSING = "missing"  # what targets report as the version of a program that is not installed


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node reports about itself and the targets that it built."""

    python: str
    abreast: str
    cores: int
    memory_bytes: int
    cli_versions: Mapping[str, str]
    versions: Sequence[str]  # of its targets


class FolderMissing(Exception):
    """The folder of the spec differs on a node."""


def lasting_names(folder: Path) -> frozenset[str]:
    """Return the names of a folder's entries, without a store's temporary files."""
    names = (path.name for path in folder.iterdir())
    return frozenset(name for name in names if not name.endswith(("-wal", "-shm", "-journal")))


def read_facts(base: Path | None, names: frozenset[str], setup: bytes) -> NodeFacts:
    """Build the targets on this node and describe both. `base` is None if Ray sent the folder of the spec."""
    if base is not None and not (base.is_dir() and names <= lasting_names(base)):
        raise FolderMissing(str(base))
    targets = received_setup(base, setup).targets()
    return facts_of(targets)


def facts_of(targets: Sequence[Target]) -> NodeFacts:
    import psutil  # late: the driver does not need it

    programs: dict[str, str] = {}
    for target in targets:
        programs |= target.cli_versions
    return NodeFacts(
        python=platform.python_version(),
        abreast=metadata.version("abreast"),
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        cli_versions=programs,
        versions=[target.version for target in targets],
    )


def received_setup(base: Path | None, setup: bytes) -> EngineSetup:
    """Load the setup that the driver sent, and import code from this node's copy of the spec's folder."""
    folder = base or Path.cwd()
    add_to_path(folder)
    os.chdir(folder)
    received: EngineSetup = pickle.loads(setup)
    return replace(received, settings={**received.settings, "base": folder})


def refuse_other(where: str, facts: NodeFacts, setup: EngineSetup, variants: Sequence[int]) -> None:
    """Refuse a node whose versions or code differ from the driver's. It built the targets of these variants."""
    python, version = platform.python_version(), metadata.version("abreast")
    if facts.python.split(".")[:2] != python.split(".")[:2]:
        raise BadInput(f"{where} has Python {facts.python}, but this machine has {python}", "install the same version")
    if facts.abreast != version:
        fix = f"run `pip install abreast=={version}` on it"
        raise BadInput(f"{where} has abreast {facts.abreast}, but this machine has {version}", fix)
    targets = setup.targets()
    for index, built in zip(variants, facts.versions, strict=True):
        variant, target = setup.variants[index], targets[index]
        for name, own in target.cli_versions.items():
            other = facts.cli_versions.get(name, MISSING)
            if other != own:
                there, here = _describe(name, other), _describe(name, own)
                raise BadInput(f"{where} has {there}, but this machine has {here}", "install the same version on both")
        if built != target.version and not callable(variant.target):
            raise BadInput(
                f'{where}: the code or the settings of variant "{variant.name}" differ from those on this machine',
                "use the same folder, packages and variables such as ANTHROPIC_BASE_URL on that node",
            )


def _describe(program: str, version: str) -> str:
    return f"no {program}" if version == MISSING else f"{program} {version}"


def node_problem(where: str, error: Exception) -> BadInput:
    """Explain why a node cannot build the targets."""
    from ray.exceptions import RayTaskError

    cause = error.cause if isinstance(error, RayTaskError) else error
    message = " ".join(str(error).split())
    if "No module named 'abreast'" in message:
        version = metadata.version("abreast")
        return BadInput(f"{where}: abreast is not installed there", f"run `pip install abreast=={version}` on it")
    if isinstance(cause, AbreastError):
        return BadInput(f"{where}: {cause.message}", cause.fix)
    return BadInput(
        f"{where}: {type(cause).__name__}: {' '.join(str(cause).split())[:500]}", "check the node and its log"
    )
