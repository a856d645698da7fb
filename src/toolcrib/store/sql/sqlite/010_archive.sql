-- Sessions whose logs are in the archive: what their rows said, when that was, and what their files hold. `n` is the
-- number that they had.
CREATE TABLE archived (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    seq INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    archived_at REAL NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    n INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX archived_owner ON archived (owner, id);
