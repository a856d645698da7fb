-- Sessions are listed by their last use, and by their ids where that was at the same moment. A step of its own: writers
-- lock sessions before the log, so nothing else may be locked when these are.
DROP INDEX sessions_owner;
DROP INDEX sessions_updated;
CREATE INDEX sessions_owner ON sessions (owner, updated_at DESC, id);
CREATE INDEX sessions_updated ON sessions (updated_at DESC, id);
