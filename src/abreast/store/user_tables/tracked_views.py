"""What users track under the name of a view joins its rows: one table for people who run experiments and loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abreast.store.dialect import Dialect, literal, quote

JOINED = ("predictions", "metrics")  # the views
MOST_IN_A_VIEW = 1_950  # SQLite allows 2,000 columns; further ones are in the table itself


class Tracked(NamedTuple):
    """A column of a table of users."""

    relation: str
    name: str


def joining(
    dialect: Dialect,
    tracked: Sequence[Tracked],
    names: Sequence[str],
    types: Mapping[str, str],
    said: Mapping[str, str],
) -> tuple[list[str], str]:
    """The columns that a view with `names` gets beside them, and the SELECT of the tracked rows ('' if there are none).

    `types` are of columns that must keep their type, whatever users put there. `said` are values for columns that the
    users' table does not have; {names} in them are its columns.
    """
    if not tracked:
        return [], ""
    own = {column.name.lower(): quote(column.name) for column in tracked}
    known = {name.lower() for name in names}
    more = [column.name for column in tracked if column.name.lower() not in known]
    more = more[: max(0, MOST_IN_A_VIEW - len(names))]
    chosen = []
    for name in (*names, *more):
        value = own.get(name.lower()) or re.sub(r"\{(\w+)\}", lambda m: own.get(m[1], "NULL"), said.get(name, "NULL"))
        if dialect == "duckdb" and name in types:
            value = f"TRY_CAST({value} AS {types[name]})"
        chosen.append(f"{value} AS {quote(name)}")
    return more, f"SELECT {', '.join(chosen)} FROM {quote(tracked[0].relation)}"


def deletable(view: str, tracked: Iterable[Tracked]) -> Iterable[str]:
    """Lets SQLite delete tracked rows through the view. Rows of a run go with the run."""
    for relation in {column.relation for column in tracked}:
        told = literal("rows of a run are deleted with the run: abreast delete RUN; tracked rows have a row_id")
        yield (
            f"CREATE TRIGGER {quote(f'{view} delete')} INSTEAD OF DELETE ON {view} BEGIN "
            f"SELECT RAISE(ABORT, {told}) WHERE OLD.row_id IS NULL; "
            f"DELETE FROM {quote(relation)} WHERE row_id = OLD.row_id; END"
        )
