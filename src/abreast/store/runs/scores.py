"""Scores that are given after the trials: by other versions of scorers, by people, and metrics that users log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import BadInput, StoreError, suggestion
from abreast.store import schema
from abreast.store.base import Connection, Database
from abreast.store.rows import Row, to_json
from abreast.store.run_names import find_run
from abreast.store.user_tables import logged_metrics
from abreast.store.views import add_columns


class LaterScores(Database):
    """Changes of scores and metrics of stored runs."""

    def replace_scores(
        self,
        run_id: int,
        versions: Mapping[str, str],
        fresh: Sequence[Row],
        primary: str | None,
        scorers: Mapping[str, Any],
    ) -> None:
        """Put these scores in the place of those that other versions of the scorers gave; keep the old ones aside.

        `scorers` replaces what the run's spec says of its scorers."""
        names = ", ".join(schema.TABLES["scores"])
        with self.change() as connection:
            for column, version in versions.items():
                where = "run_id = ? AND name = ? AND version <> ?"
                connection.execute(
                    f"INSERT INTO old_scores ({names}, replaced_at) SELECT {names}, ? FROM scores WHERE {where}",
                    (time.time(), run_id, column, version),
                )
                connection.execute(f"DELETE FROM scores WHERE {where}", (run_id, column, version))
            connection.executemany(schema.insert(connection.dialect, "scores", "replace"), fresh)
            ((spec,),) = connection.execute("SELECT spec FROM runs WHERE run_id = ?", (run_id,)).fetchall()
            connection.execute(
                "UPDATE runs SET primary_score = ?, spec = ? WHERE run_id = ?",
                (primary, to_json({**json.loads(spec), **scorers}), run_id),
            )
            add_columns(connection, [schema.Column("score", column, "real") for column in versions])
        self.close()

    def add_labels(self, run_id: int, rows: Sequence[Row], sample: tuple[str, Mapping[str, Any]] | None) -> None:
        """Store score rows that people gave, and the event that records their sample, all or none; a label that
        changes is kept aside, and scores of scorers stay as they are."""
        names = ", ".join(schema.TABLES["scores"])
        where = "run_id = ? AND position = ? AND name = ?"
        with self.change() as connection:
            if not connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchall():
                raise StoreError("the run was deleted a moment ago", f"abreast runs --store {self.path}")
            connection.executemany(
                f"INSERT INTO old_scores ({names}, replaced_at) SELECT {names}, ? FROM scores WHERE {where} "
                "AND value IS NOT NULL AND value IS DISTINCT FROM ?",
                [(time.time(), *row[:4]) for row in rows],
            )
            connection.executemany(schema.insert(connection.dialect, "scores", "replace"), rows)
            add_columns(
                connection, [schema.Column("score", name, "real") for name in dict.fromkeys(r[2] for r in rows)]
            )
            if sample is not None:
                event = (run_id, time.time(), sample[0], to_json(sample[1]))
                connection.execute(schema.insert(connection.dialect, "events"), event)
        self.close()

    def log_metrics(self, run: str, variant: str | None, segment: str, values: Mapping[str, Any]) -> None:
        """A row of a user's own in `metrics`, for a variant or for the run as a whole; it stays as long as the run."""
        data, segment = logged_metrics.validate_metrics(values), logged_metrics.validate_segment(segment)
        _, name = find_run([self], run)
        with self.change() as connection:
            runs = connection.execute("SELECT run_id FROM runs WHERE run = ?", (name,)).fetchall()
            if not runs:
                raise StoreError(f"{name} was deleted a moment ago", f"abreast runs --store {self.path}")
            ((run_id,),) = runs
            index = None if variant is None else _variant_index(connection, run_id, name, variant)
            columns = logged_metrics.columns_for(data)
            _refuse_too_many(connection, columns)
            add_columns(connection, columns)
            row = (run_id, index, segment, time.time(), to_json(data))
            connection.execute(schema.insert(connection.dialect, "logged_metrics"), row)
        self.close()


def _variant_index(connection: Connection, run_id: int, run: str, variant: str) -> int:
    known: dict[str, int] = dict(
        connection.execute("SELECT name, variant FROM variants WHERE run_id = ?", (run_id,)).fetchall()
    )
    if not isinstance(variant, str) or variant not in known:
        raise BadInput(f'log: {run} has no variant "{variant}"{suggestion(str(variant), known)}')
    return known[variant]


def _refuse_too_many(connection: Connection, columns: Sequence[schema.Column]) -> None:
    known = {name for (name,) in connection.execute("SELECT name FROM columns WHERE kind = 'metric'")}
    if len(known | {column.name for column in columns}) > schema.MOST_LOGGED:
        raise BadInput(
            f"log: metrics would have more than {schema.MOST_LOGGED:,} columns of logged names",
            "log many values under one name, as a mapping: it is kept as JSON",
        )
