BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('sessions_0001');
CREATE TABLE messages (
	id INTEGER NOT NULL, 
	session_id VARCHAR NOT NULL, 
	role VARCHAR NOT NULL, 
	text VARCHAR NOT NULL, 
	citations JSON NOT NULL, 
	details JSON NOT NULL, 
	created_at DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
INSERT INTO "messages" VALUES(1,'919d70932b384abbabfde4b5c4e80845','user','what?','[]','{"k": 5}',1.79603160990332174308e+09);
CREATE TABLE sessions (
	id VARCHAR NOT NULL, 
	title VARCHAR NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "sessions" VALUES('919d70932b384abbabfde4b5c4e80845','a question',1.79603160976655983928e+09,1.79603160990332174308e+09);
CREATE INDEX ix_messages_session ON messages (session_id, id);
COMMIT;
