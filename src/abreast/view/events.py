"""Server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress

from aiohttp import web

RETRY_MS = 1000  # until a browser reconnects
SIGN_OF_LIFE = b": still here\n\n"


def sections_event(sections: Mapping[str, str], revision: str = "") -> bytes:
    """Format an event with sections of a page; a browser that reconnects sends the last revision."""
    number = f"id: {revision}\n" if revision else ""
    return f"{number}event: sections\ndata: {json.dumps(sections)}\n\n".encode()


async def send_events(request: web.Request, events: AsyncGenerator[bytes]) -> web.StreamResponse:
    """Send events until there are no more, or the page is closed."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    with suppress(ConnectionResetError):  # the page was closed
        async with aclosing(events):
            await response.prepare(request)
            await response.write(f"retry: {RETRY_MS}\n\n".encode())
            async for event in events:
                await response.write(event)
    return response
