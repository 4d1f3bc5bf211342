"""What is kept: SQLAlchemy models, the catalog (the only place with SQL), migrations and the lexical index."""
