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
from abreast.output import echo, protect, say
from abreast.signals import ending_signals


def main(words: list[str] | None = None) -> int:
    protect()
    told = _parser().parse_args(words)
    try:
        asyncio.run(_serve(_provider(told)))
    except AbreastError as error:
        say(f"error: {error.message}{' ' if error.fix else ''}{error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        pass
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m abreast.fake",
        description="A server on this machine that looks like Anthropic's and OpenAI's APIs. No model is called.",
    )
    parser.add_argument("--port", type=int, default=8765, help="0 chooses one (default: 8765)")
    parser.add_argument("--script", type=Path, metavar="FILE.json", help="rules, answers and settings")
    parser.add_argument("--latency", type=float, metavar="S", help="seconds until an answer")
    parser.add_argument("--capacity", type=int, metavar="N", help="more requests at once than this get a 429")
    return parser


def _provider(told: argparse.Namespace) -> FakeProvider:
    settings: dict[str, Any] = {"keys": None}  # who tries something out has none
    settings |= {} if told.script is None else read_script(told.script)
    for name in ("latency", "capacity"):
        if getattr(told, name) is not None:
            settings[name] = getattr(told, name)
    try:
        return FakeProvider(**{**settings, "rate": _rate(settings.get("rate"))}, port=told.port)
    except BadInput as error:
        raise BadInput(f"{told.script}: {error.message}" if told.script else error.message) from None


def _rate(told: Any) -> Rate | None:
    if told is None:
        return None
    if not isinstance(told, dict):
        raise BadInput(f'rate must be such as {{"requests": 60, "seconds": 60}}, got {told!r}')
    known = ("requests", "tokens", "seconds")
    for key in told:
        if key not in known:
            raise BadInput(f'rate: unknown key "{key}"{suggestion(key, known)}')
    return Rate(**told)


async def _serve(provider: FakeProvider) -> None:
    """Until Ctrl-C, SIGTERM or SIGHUP."""
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
