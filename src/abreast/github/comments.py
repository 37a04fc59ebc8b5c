"""The comment on a pull request: written once, then updated."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any

from abreast.github.workflow import Workflow, current, log, required
from abreast.report.formats.github_commands import command
from abreast.text import printable

TIMEOUT_S = 30
MOST_PAGES = 100
TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")  # users with write access; anybody may copy the marker
FORBIDDEN = (401, 403, 404)


def comment() -> int:
    """Write or update the comment. Problems are warnings, because the job summary also has the result."""
    workflow, token = current(), os.environ.get("TOKEN", "")
    if workflow.pull is None:
        return 0
    if not workflow.body.exists():
        log(command("notice", "no comment: an earlier step failed, so there is no result", title="abreast"))
        return 0
    try:
        log(_comment(workflow, token))
    except _ApiError as error:
        log(command("warning", _without(token, error.message), title="abreast: no comment on the pull request"))
    return 0


def _comment(workflow: Workflow, token: str) -> str:
    api = _Api(required("GITHUB_API_URL").rstrip("/"), token)
    repository = f"{api.url}/repos/{required('GITHUB_REPOSITORY')}"
    body = {"body": f"{workflow.marker}\n{workflow.body.read_text(encoding='utf-8')}"}
    for item in api.pages(f"{repository}/issues/{workflow.pull}/comments?per_page=100"):
        if _is_ours(item, workflow.marker):
            api.send("PATCH", f"{repository}/issues/comments/{int(item['id'])}", body)
            return "updated the comment on the pull request"
    api.send("POST", f"{repository}/issues/{workflow.pull}/comments", body)
    return "commented on the pull request"


def _is_ours(item: dict[str, Any], marker: str) -> bool:
    is_trusted = (item.get("user") or {}).get("type") == "Bot" or item.get("author_association") in TRUSTED
    return is_trusted and str(item.get("body") or "").startswith(marker)


class _ApiError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes redirects errors: urllib would send the token to their targets."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Api:
    url: str
    token: str

    def pages(self, url: str) -> Iterator[dict[str, Any]]:
        """Yield all items of a paginated list."""
        for _ in range(MOST_PAGES):
            items, headers = self.send("GET", url)
            yield from (item for item in items if isinstance(item, dict))
            following = re.search(r'<([^<>]+)>;\s*rel="next"', headers.get("Link") or "")
            if following is None or not following[1].startswith(f"{self.url}/"):
                return
            url = following[1]

    def send(self, method: str, url: str, body: dict[str, str] | None = None) -> tuple[Any, Message]:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "User-Agent": "abreast",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as reply:
                return json.loads(reply.read()), reply.headers
        except urllib.error.HTTPError as error:
            raise _ApiError(_refusal(error)) from None
        except (OSError, ValueError, HTTPException) as error:
            raise _ApiError(f"cannot reach the GitHub API: {error}; the job summary has the result") from None


def _refusal(error: urllib.error.HTTPError) -> str:
    """Explain an error of the API and its fix."""
    try:
        reason = str(json.loads(error.read(10_000))["message"])
    except (OSError, ValueError, KeyError, TypeError, HTTPException):
        reason = str(error.reason)
    answer = f"the GitHub API answered {error.code} ({printable(reason)[:200]})"
    if error.code in FORBIDDEN:
        return (
            f"{answer}: the token may not write comments. Workflows of forks never may; others need "
            "`permissions: pull-requests: write`. The job summary has the result"
        )
    return f"{answer}; the job summary has the result"


def _without(token: str, message: str) -> str:
    return message.replace(token, "***") if token else message
