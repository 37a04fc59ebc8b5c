"""Keeps a store safe while another SQLite library in this process uses the same file.

A process can contain several copies of SQLite: ours, in `apsw`, and the one in Python's `sqlite3`, which pandas and
SQLAlchemy use. POSIX locks belong to the process, so two copies in one process do not see each other's locks, and when
one closes the file it drops the locks of the other: rows are lost and files damaged.

Therefore only one copy may touch a file in a process. When another copy opens a store (`sharing`), our connections to
it move to a helper process (`client`, `server`).
"""
