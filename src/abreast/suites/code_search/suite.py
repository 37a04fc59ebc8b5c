"""The suite: its flags, experiment and report sections."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.spec.schema import seconds_in
from abreast.suites import Suite
from abreast.suites.code_search.config import MODEL, NAME, TURNS, CodeSearchConfig, experiment
from abreast.suites.code_search.new_cases import NewCases

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.experiment.facade import Experiment
    from abreast.report.sections import Section

_SAME_NAMES = ("cases", "mcp", "tools", "search_tools", "model", "max_turns", "commit", "workspace", "mock")


class CodeSearch(Suite):
    """`abreast run code-search`."""

    name = NAME
    summary = "does an MCP server help an agent to find code?"
    case_maker = NewCases()

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument_group("of the suite code-search").add_argument
        several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
        add("--repo", metavar="PATH", default=".", help="the repository of the cases (default: current folder)")
        add(
            "--cases",
            metavar="PATH",
            **several,
            help="case files, or folders of them, instead of those in the repository",
        )
        add("--category", metavar="A,B", action="append", default=[], help="only these categories; repeatable")
        add(
            "--mcp",
            metavar="SERVER",
            **several,
            help='add a variant with this server: NAME="COMMAND ARGUMENTS", NAME=URL or a file with mcpServers '
            "(abreast-demo-mcp)",
        )
        add(
            "--tools",
            metavar="NAME=T,T",
            action="append",
            default=[],
            help="add a variant with only these tools; repeatable",
        )
        add(
            "--search-tools",
            choices=("control", "both"),
            default="control",
            help="variants with Grep, Glob, rg, grep and find: only the one without servers (default), or both",
        )
        add("--model", metavar="M", default=MODEL, help=f"model of all variants ({MODEL})")
        add("--max-turns", metavar="N", type=int, default=TURNS, help=f"turns of a trial ({TURNS})")
        add("--timeout", metavar="T", default="5m", help="timeout of a trial: 90s, 5m, 1h (5m)")
        add("--start-timeout", metavar="T", help="timeout for starting a server (20s)")
        add("--commit", metavar="REV", help="commit to check out for each trial (HEAD)")
        add("--workspace", choices=("git", "copy"), help="give each trial a git checkout, or a copy of the folder")
        add("--mock", action="store_true", help="use the simulator; nothing is called")

    def experiment(self, args: argparse.Namespace) -> Experiment:
        categories = [name.strip() for text in args.category for name in text.split(",") if name.strip()]
        if args.category and not categories:
            raise BadInput(f"--category {args.category[0]}: no category named")
        return experiment(
            CodeSearchConfig(
                repo=Path(args.repo),
                categories=categories,
                timeout=_seconds("--timeout", args.timeout),
                start_timeout=None if args.start_timeout is None else _seconds("--start-timeout", args.start_timeout),
                **{name: getattr(args, name) for name in _SAME_NAMES},
            )
        )

    def when_refused(self, args: argparse.Namespace) -> str:
        return f"to try it without a model, run `abreast run {NAME} --mock`"

    def flags_of_list(self, args: argparse.Namespace) -> list[str]:
        words = ["--repo", args.repo or ".", "--mock"]  # no agent is needed to read cases
        words += ["--cases", *args.cases] if args.cases else []
        words += ["--commit", args.commit] if args.commit else []
        return words + [word for text in args.category or () for word in ("--category", text)]

    def sections(self, analysis: Analysis) -> list[Section]:
        from abreast.suites.code_search.report import sections

        return sections(analysis)


def _seconds(flag: str, text: str) -> float:
    try:
        return seconds_in(text)
    except ValueError as error:
        raise BadInput(f"{flag} {text}: {error}") from None


SUITE = CodeSearch()
