"""Run the experiment with the real CLI and the real server, against the fake provider."""

import os
import subprocess

from abreast.fake import FakeProvider, Reply, Rule

ROOMS = ["kitchen", "library", "workshop", "laundry", "archive", "studio"]
rules = [Rule(f"has the {room}", [Reply(tool="mcp__house__room", args={"name": room})]) for room in ROOMS]

with FakeProvider.in_thread(rules, answers={"house": "0"}) as provider:
    subprocess.run(
        ["abreast", "run", "experiment.yaml", "--tag", "kind=one", "--store", "offline.db", "--fresh"],
        env={**os.environ, **provider.environment, "ANTHROPIC_API_KEY": "any"},
        check=True,
    )
