"""The schema `abreast` of a PostgreSQL database: creating it, migrating it, and keeping its views up to date."""

from __future__ import annotations

from contextlib import suppress

from psycopg import errors

from abreast.errors import StoreError
from abreast.store import schema, views
from abreast.store.postgres.connection import PostgresConnection, connect
from abreast.store.postgres.dialect import FUNCTIONS, POSTGRES, SCHEMA, SOURCE_OF_VIEWS

OLDEST_SERVER = 14
VIEWS_WAIT = "200ms"  # longest wait for readers of the views; then the next writer recreates them
CHANGES = "abreast_changes"  # the channel of notifications
NOW = "extract(epoch FROM clock_timestamp())::double precision"
_CHANGE_LOCK = 4702111234474983745  # held by the transaction of a `change`
# Whether the table and the schema exist. `to_regclass` may miss what another process has just created.
_EXISTS = f"""SELECT count(c.oid) > 0, count(n.oid) > 0, bool_and(has_schema_privilege(n.oid, 'USAGE'))
FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'store_version'
WHERE n.nspname = '{SCHEMA}'"""
_VERSION = "SELECT version FROM store_version"
_OTHERS = f"SELECT relname FROM pg_class WHERE relnamespace = '{SCHEMA}'::regnamespace ORDER BY relname LIMIT 1"
# A member of the role that owns the schema acts as that role, so that members can change what others created.
_OWNER = f"""SELECT quote_ident(r.rolname) FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
WHERE n.nspname = '{SCHEMA}' AND r.rolname <> current_user AND pg_has_role(current_user, r.oid, 'MEMBER')"""

# Tables that only this engine has: trackers' objects, account quotas that the users of a database share, and the number
# of the last transaction of each active run.
_OWN_TABLES = (
    "CREATE TABLE assets (digest TEXT PRIMARY KEY, content BYTEA NOT NULL, stored_at DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE quota_uses (use BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account TEXT NOT NULL, "
    "used_at DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE last_commits (writer TEXT PRIMARY KEY, number BIGINT NOT NULL)",
    "CREATE INDEX uses_by_account ON quota_uses(account, used_at)",
)


def version_of(connection: PostgresConnection, address: str) -> int:
    """Return the version of a store, 0 if there is none. Refuses a newer version, and a schema of another program."""
    ((is_made, is_used, is_allowed),) = connection.execute(_EXISTS).fetchall()
    if is_used and not is_allowed:
        message = f"{address}: no right to use the schema {SCHEMA}"
        raise StoreError(message, "ask for the role of a writer or reader of this database")
    if not is_made:
        if is_used and connection.execute(_OTHERS).fetchall():
            raise StoreError(
                f"{address}: its schema {SCHEMA} is not an abreast store",
                "drop or rename the schema, or name another database",
            )
        return 0
    ((version,),) = connection.execute(_VERSION).fetchall()
    schema.refuse_newer(version, address)
    return int(version)


def connect_for_writing(url: str, address: str, is_typed: bool = False) -> PostgresConnection:
    """Open a connection for changes. Creates the store, or migrates an older one."""
    connection = connect(url, is_typed, synchronous_commit="on")
    try:
        _act_as_owner(connection)
        if version_of(connection, address) != schema.VERSION:
            _migrate(connection, address)
        update_views(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _act_as_owner(connection: PostgresConnection) -> None:
    for (owner,) in connection.execute(_OWNER).fetchall():
        connection.execute(f"SET ROLE {owner}")


def _migrate(connection: PostgresConnection, address: str) -> None:
    """Create or upgrade the tables, while other processes wait."""
    if connection.raw.info.server_version < OLDEST_SERVER * 10_000:
        raise StoreError(f"{address}: this server is older than PostgreSQL {OLDEST_SERVER}", "use a newer server")
    encoding = connection.raw.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        fix = "create another with `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`"
        raise StoreError(f"{address}: the encoding of this database is {encoding}, not UTF8", fix)
    with connection.transaction():
        lock_changes(connection)
        version = version_of(connection, address)  # another process may have migrated it meanwhile
        if version == schema.VERSION:
            return
        if not version:
            if not connection.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'").fetchall():
                connection.execute(f"CREATE SCHEMA {SCHEMA}")
            for statement in (*FUNCTIONS, *schema.create_tables(POSTGRES), SOURCE_OF_VIEWS, *_OWN_TABLES):
                connection.execute(statement)
            connection.execute("CREATE TABLE store_version (version BIGINT NOT NULL)")
            connection.execute("INSERT INTO store_version VALUES (?)", (schema.VERSION,))
        else:
            for statement in (*FUNCTIONS, *schema.upgrades(POSTGRES, version), SOURCE_OF_VIEWS):
                connection.execute(statement)
            connection.execute("UPDATE store_version SET version = ?", (schema.VERSION,))
        views.drop_views(connection)
        views.make_views(connection)


def lock_changes(connection: PostgresConnection) -> None:
    connection.execute(f"SELECT pg_advisory_xact_lock({_CHANGE_LOCK})")


def update_views(connection: PostgresConnection) -> None:
    """Recreate the views if columns were added. If a reader or a dependent object blocks that, leave it to the next
    writer."""
    if are_views_current(connection):
        connection.views_are_stale = False
        return
    in_the_way = (errors.LockNotAvailable, errors.DeadlockDetected, errors.DependentObjectsStillExist)
    with suppress(*in_the_way), connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{VIEWS_WAIT}'")
        connection.execute(POSTGRES.lock_columns)
        if not are_views_current(connection):
            views.drop_views(connection)
            views.make_views(connection)
        connection.views_are_stale = False


def are_views_current(connection: PostgresConnection) -> bool:
    """Whether the views have every column."""
    query = "SELECT obj_description(to_regclass('predictions'), 'pg_class') IS NOT DISTINCT FROM source_of_views()"
    return bool(connection.execute(query).fetchall()[0][0])
