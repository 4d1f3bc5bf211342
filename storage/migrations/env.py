"""Alembic's entry: runs revisions on the connection it is handed, in the transaction that is open there.

It knows no file and no URL.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True, transactional_ddl=True)
context.run_migrations()
