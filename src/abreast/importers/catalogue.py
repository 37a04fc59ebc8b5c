"""The registry of log formats, and recognition of a file's format."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from abreast.errors import BadInput, suggestion
from abreast.importers.base import LogFormat
from abreast.importers.log_file import LogFile
from abreast.plugins import find_plugin, plugin_names

BUILT_IN = {  # imported on use, tried in this order
    "inspect": "inspect_log:InspectLog",
    "promptfoo": "promptfoo:PromptfooResults",
    "lm-eval": "lm_eval:LmEvalLog",
    "pydantic-evals": "pydantic_evals:PydanticEvalsReport",
    "harbor": "harbor:HarborJob",
    "terminal-bench": "terminal_bench:TerminalBenchRun",
    "junit": "junit_xml:JUnitXml",
    "table": "table:Table",  # last: it recognises any rows
}


def load(name: str) -> LogFormat:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: LogFormat = getattr(import_module(f"abreast.importers.formats.{module}"), attribute)()
        return built_in
    plugin = find_plugin("importer", name)
    if plugin is None:
        raise BadInput(f"--format {name}: unknown format{suggestion(name, names())}", f"use {', '.join(names())}")
    loaded = plugin.build("a subclass of abreast.importers.base.LogFormat", ())
    if not isinstance(loaded, LogFormat):
        plugin.refuse("its entry point must be a LogFormat", loaded)
    return loaded


def names() -> list[str]:
    return [*plugin_names("importer"), *BUILT_IN]


def recognise(log: LogFile) -> LogFormat:
    """Find the format of a log by its content. A log with `--map` is a table."""
    if log.columns and log.kind in ("json lines", "text"):
        return load("table")
    for log_format in _formats():
        if log_format.recognises(log):
            return log_format
    if log.kind == "folder":
        raise log.error(
            f"not the folder of a supported tool: {log.description()}", "name the files in it, such as logs/*.eval"
        )
    if log.is_utf16:
        raise log.error(f"unknown format: {log.description()}", log.conversion)
    titles = ", ".join(log_format.title for log_format in _formats())
    raise log.error(f"unknown format: {log.description()}", f"supported: {titles}; name columns with --map")


def _formats() -> Iterator[LogFormat]:
    return map(load, names())
