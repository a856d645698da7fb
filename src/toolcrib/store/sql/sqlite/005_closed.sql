-- Whether a session was closed and takes no new calls until it is opened again.
ALTER TABLE sessions ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;
