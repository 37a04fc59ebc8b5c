"""How a driver reaches a Ray cluster, and what of its keys the cluster sees."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import ABREAST, SIMULATED, Folder
from tests.ray_cluster import RayCluster
from tests.test_ray import SLOW, Experiments, until

import abreast
from abreast.errors import BadInput
from abreast.execute.engine.base import EngineSetup
from abreast.execute.engine.ray.facts import NodeFacts, refuse_other
from abreast.model import Variant
from abreast.spec.schema import Limits

KEY = "sk-ABREAST-SECRET-0123456789"
KEYED = """
import hashlib, os

def digest(case):
    return hashlib.sha256(os.environ["OPENAI_API_KEY"].encode()).hexdigest()[:8]
"""
SPEC = """
name: keyed
cases: cases.jsonl
variants: {one: {target: "python:keyed:digest"}}
scorers: [exact]
engine: {ray: {pass_keys: [OPENAI_API_KEY]}}
"""


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.0.1:1", "cannot connect to a Ray cluster at 127.0.0.1:1: [Errno 111] Connection refused"),
        ("ray://127.0.0.1:1", "cannot connect to a Ray cluster at ray://127.0.0.1:1: [Errno 111] Connection refused"),
        ("nowhere.invalid:6379", "cannot connect to a Ray cluster at nowhere.invalid:6379: "),
        ("127.0.0.1", "--address 127.0.0.1: must be auto, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(folder: Folder, address: str, problem: str) -> None:
    folder.cases(2)
    folder.write("spec.yaml", SIMULATED)
    done = folder.abreast("run", "spec.yaml", "--engine", "ray", "--address", address, "--yes")
    assert done.code == 2
    assert problem in done.err
    assert not (folder.path / "results.db").exists()


def test_a_node_without_an_agent_program_is_named() -> None:
    target: Any = SimpleNamespace(cli_versions={"claude": "2.1.3"}, version="1")
    setup = EngineSetup(variants=[Variant("v", "claude-code")], limits=Limits(), built_targets=[target])
    facts = NodeFacts(platform.python_version(), abreast.__version__, 8, 8_000_000_000, {"claude": "missing"}, ["1"])
    with pytest.raises(BadInput, match=r"node a has no claude, but this machine has claude 2\.1\.3"):
        refuse_other("node a", facts, setup, [0])


@pytest.mark.heavy
def test_a_run_through_the_client_server_survives_a_killed_runner(ray_cluster: RayCluster, folder: Folder) -> None:
    experiments = Experiments(ray_cluster, folder)
    folder.cases(60)
    folder.write("spec.yaml", SLOW)
    words = ["run", "spec.yaml", "--engine", "ray", "--address", f"ray://{ray_cluster.nodes[0].address}:10001"]
    command = [*ABREAST, *words, "--yes", "--no-pictures", "--events", "events.jsonl"]
    with ray_cluster.command(command, node=1, cwd=folder.path) as run:
        until(lambda: len(experiments.executed()) >= 30 or run.poll() is not None)
        (runner,) = experiments.runners(0)
        runner.kill()
        out, err = run.communicate(timeout=60)
    assert run.returncode == 0, out + err
    assert experiments.events("node_lost")[0]["reason"] == "its runner died"
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 120}
    until(lambda: not experiments.runners(0) + experiments.runners(1))


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, str]:
    """The environment of machines that encrypt what they send to each other."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = "subjectAltName=IP:10.213.0.1,IP:10.213.0.2,IP:127.0.0.1,DNS:localhost"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ray"]
    subprocess.run([*words, "-addext", names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate),
        "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(certificate),
    }


@pytest.fixture
def encrypted(certificate: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    cluster = RayCluster(environment=certificate)
    try:
        cluster.start()
        for name, value in certificate.items():
            monkeypatch.setenv(name, value)
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.heavy
def test_keys_reach_runners_on_request_and_are_in_no_file_of_ray(
    encrypted: RayCluster, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    folder.cases(20)
    folder.write("keyed.py", KEYED)
    folder.write("spec.yaml", SPEC)
    done = encrypted.run([*ABREAST, "run", "spec.yaml", "--address", encrypted.address, "--yes"], cwd=folder.path)
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(KEY.encode()).hexdigest()[:8]
    assert folder.sql("select distinct answer from predictions") == [{"answer": digest}]
    for node in (0, 1):
        found = encrypted.run(["grep", "--recursive", "--text", "--files-with-matches", KEY, "/dev/shm"], node=node)
        assert found.returncode == 1, f"in Ray's object store, logs or sessions: {found.stdout}"


def test_keys_are_not_passed_over_an_open_channel(ray_cluster: RayCluster, folder: Folder) -> None:
    folder.cases(2)
    folder.write("spec.yaml", SIMULATED + "engine: {ray: {pass_keys: [OPENAI_API_KEY]}}\n")
    words = ["run", "spec.yaml", "--address", ray_cluster.address, "--yes"]
    done = ray_cluster.run([*ABREAST, *words], cwd=folder.path)
    assert done.returncode == 2
    assert "pass_keys sends keys only over an encrypted channel" in done.stderr
