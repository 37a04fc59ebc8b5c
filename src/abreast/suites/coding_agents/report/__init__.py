"""The suite's sections of a report, and its results files.

The names in `data` are a contract; unknown values are null. An interval is `[low, high]` at 95 %, null where none can
be trusted. Scores are shares from 0 to 1, except a judge's, which are on its own `scale`.

- `agents`: `baseline`, `agents`, `score` (the one of the verdict); `runs` by agent: `planned`, `ok`, `failed` (its own
  fault), `infrastructure`, `skipped`, `not_run`; `common_cases` (that all agents completed at least once);
  `measures`: for each `name`, `kind` ("share", "rating", "seconds", "count", "tokens", "dollars", "megabytes"),
  `scale` (of a rating), `cases` (that an amount is averaged over; null if each agent has its own), and by
  agent `values` and `intervals`. Names are `success_rate`, `error_rate`, `no_change_rate`, those of scores,
  `response_time_median_s`, `response_time_p95_s`, `files_changed`, `lines_added`, `lines_deleted`, `tokens_in`,
  `tokens_out`, `cost_usd`, `cost_per_solved_usd`, `turns`, `cpu_s`, `peak_memory_mb`, `peak_memory_max_mb`, and if
  any is above 0 `tests_changed`, `outside_changes`
- `pairs`, of three agents or more: `score`; `pairs`: verdicts as in the JSON report, `p_adjusted`
  over all of these
- `prompts`: `cases`: for each `id`, `winner` (an agent, a list of some, "tie", or null), and by agent `scores`,
  `passed` and `runs` (that count), `seconds`, `files_changed`, `lines_added`, `lines_deleted`, `failed` (`kind`,
  `blame`, `runs`); `not_begun` (cases)
- `changes`: `counts` by name and agent, `people`: counts of the human change, null if unknown; `unchanged`: `case`,
  `agent`, `runs` (completed without changes), `of` (completed)
"""

from __future__ import annotations

from abreast.analyse.run import Analysis
from abreast.report.sections import Section
from abreast.suites.coding_agents.report import agents, changes, pairs, tasks
from abreast.suites.coding_agents.report.run_table import RunTable


def sections(analysis: Analysis) -> list[Section]:
    if not len(analysis.rows.position):
        return []
    table = RunTable(analysis)
    parts = [part.section(table) for part in (agents, pairs, tasks, changes)]
    return [section for section in parts if section is not None]
