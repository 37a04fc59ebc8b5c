"""Facts about the execution of a run, for every format that people read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from abreast.report.formats.json_report import provenance
from abreast.report.words.concurrency import describe_findings
from abreast.report.words.variant_figures import in_flight_line
from abreast.report.words.verdict_sentence import not_run_line
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.store.queries.runs import StoredEvent
    from abreast.store.runs.provenance import ImportRecord

CONTROLS = 20  # most controls listed
NODES = 20  # most nodes listed


def run_facts(analysis: Analysis, events: Sequence[StoredEvent]) -> list[tuple[str, str]]:
    """Titles and facts, without those that are unknown."""
    record, run = provenance(analysis), analysis.run
    models = "; ".join(f"{name}: {', '.join(models)}" for name, models in record["models"].items())
    cores = many(record["cores"], "core") if record.get("cores") else "unknown cores"
    versions = [f"{name} {version}" for name, version in (record["packages"] or {}).items()]
    executions = [
        in_flight_line(item["asked"], item["mean"], item["most"]) for _, kind, item in events if kind == "in_flight"
    ]
    facts = {
        "started": record["created_at"],
        "finished": record["finished_at"] or "not yet",
        "status": run["status"] + (f": {run['reason']}" if run["reason"] else ""),
        "label": run["label"],
        "trials": f"{analysis.stored:,} of {analysis.planned:,} planned trials are stored",
        "not run": not_run_line(analysis),
        "in flight": "; ".join(line.removeprefix("in flight: ") for line in executions),
        "controls": _controls(events),
        "concurrency": "; ".join(describe_findings((kind, detail) for _, kind, detail in events)),
        "seed": str(run["seed"]),
        "commit": (record["commit"] or "none") + (" with uncommitted changes" if record["dirty"] else ""),
        "branch": record.get("branch"),
        "data": f"{many(record.get('cases') or 0, 'case')}, hash {record['data_hash']}",
        "models": models or "none reported",
        "programs": ", ".join(f"{name} {version}" for name, version in record["cli_versions"].items()),
        "software": ", ".join([f"Python {record['python']}", *versions]) if record["python"] else "",
        "machine": f"{record['host']}, {record.get('platform') or 'unknown'}, {cores}" if record["host"] else "",
        "imported from": _log_of(analysis.rows.imported),
        "nodes": _nodes(record.get("nodes") or ()),
    }
    return [(title, str(fact)) for title, fact in facts.items() if fact]


def _log_of(record: ImportRecord | None) -> str:
    """`logs/quick.eval (Inspect 0.3.285), SHA-256 0123…`."""
    if record is None:
        return ""
    tool = f"{record.tool} {record.tool_version or ''}".strip()
    return f"{record.file} ({tool}), SHA-256 {record.sha256}"


def _controls(events: Sequence[StoredEvent]) -> str:
    """`14:02:07 UTC ann@host: paused; 3 trials in flight`, for each control that the run answered."""
    controls = [
        f"{time.strftime('%H:%M:%S', time.gmtime(at))} UTC {detail['by']}: {detail['outcome']}"
        for at, kind, detail in events
        if kind == "control"
    ]
    omitted = len(controls) - CONTROLS
    return "; ".join([*controls[:CONTROLS], *([f"and {omitted:,} more"] if omitted > 0 else [])])


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    """`worker-1 (8 cores), worker-2 (16 cores)`."""
    names = [f"{node['name']} ({many(node['cores'], 'core')})" for node in nodes[:NODES]]
    return ", ".join([*names, *([f"and {len(nodes) - NODES:,} more"] if len(nodes) > NODES else [])])
