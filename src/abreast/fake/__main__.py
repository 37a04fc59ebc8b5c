"""`python -m abreast.fake`: the fake provider as a command."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from abreast.errors import AbreastError, BadInput, suggestion
from abreast.fake.rate import Rate
from abreast.fake.script import read_script
from abreast.fake.server import FakeProvider
from abreast.output import echo, protect, say_problem
from abreast.signals import ending_signals


def main(words: list[str] | None = None) -> int:
    protect()
    options = _parser().parse_args(words)
    try:
        asyncio.run(_serve(_provider(options)))
    except AbreastError as error:
        say_problem("error", error.message, error.fix)
        return error.exit_code
    except KeyboardInterrupt:
        pass
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m abreast.fake",
        description="Serve Anthropic's and OpenAI's APIs on this machine without calling a model.",
    )
    parser.add_argument("--port", type=int, default=8765, help="port to listen on; 0 picks a free one (default: 8765)")
    parser.add_argument("--script", type=Path, metavar="FILE.json", help="rules, answers and settings")
    parser.add_argument("--latency", type=float, metavar="S", help="seconds until an answer")
    parser.add_argument("--capacity", type=int, metavar="N", help="answer 429 above N concurrent requests")
    return parser


def _provider(options: argparse.Namespace) -> FakeProvider:
    settings: dict[str, Any] = {"keys": None}  # no key is required by default
    settings |= {} if options.script is None else read_script(options.script)
    for name in ("latency", "capacity"):
        if getattr(options, name) is not None:
            settings[name] = getattr(options, name)
    try:
        return FakeProvider(**{**settings, "rate": _rate(settings.get("rate"))}, port=options.port)
    except BadInput as error:
        raise BadInput(f"{options.script}: {error.message}" if options.script else error.message) from None


def _rate(setting: Any) -> Rate | None:
    if setting is None:
        return None
    if not isinstance(setting, dict):
        raise BadInput(f'rate must be such as {{"requests": 60, "seconds": 60}}, got {setting!r}')
    keys = ("requests", "tokens", "seconds")
    for key in setting:
        if key not in keys:
            raise BadInput(f'rate: unknown key "{key}"{suggestion(key, keys)}')
    return Rate(**setting)


async def _serve(provider: FakeProvider) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, stop.set)
    async with provider:
        variables = " ".join(f"{name}={value}" for name, value in provider.environment.items())
        echo(f"fake provider on {provider.url}, no model is called: {variables}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    raise SystemExit(main())
