"""Keeps a store safe while another SQLite library in this process uses the same file.

A process can contain several copies of SQLite: ours, in `apsw`, and the one in Python's `sqlite3`, which pandas and
SQLAlchemy use. POSIX locks belong to the process. Two copies in one process therefore never see each other's locks, and
whichever closes the file drops the locks of the other: rows are lost and files damaged.

So only one copy may touch a file in one process. As soon as another one opens a store (`sharing`), our connections to
it move to a helper process (`client`, `server`), where they are safe like any other process.
"""
