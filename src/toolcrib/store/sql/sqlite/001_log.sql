-- Owner and last use are what people list by; `updated_at` may be a second behind the last event.
-- A number is never given twice, since what a swept session left is deleted by it later.
CREATE TABLE sessions (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
);
CREATE INDEX sessions_owner ON sessions (owner);
CREATE INDEX sessions_updated ON sessions (updated_at);

-- Sessions that nobody can open any more, and whose lines are still being deleted.
CREATE TABLE swept (
    n INTEGER PRIMARY KEY
);

-- The log: the truth. `large` names the fields whose values are kept in `kept`. The key is the session's number and the
-- event's in one integer, so that the lines of a session lie together, in order, without an index beside the table.
CREATE TABLE events (
    key INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    call TEXT,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    large TEXT,
    session INTEGER AS (key >> 32) VIRTUAL,
    seq INTEGER AS (key & 4294967295) VIRTUAL
);
CREATE INDEX events_of_session ON events (session, seq) WHERE call IS NULL;

-- The index of the log: one row a call.
CREATE TABLE calls (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    tool TEXT NOT NULL,
    effect TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    worker TEXT,
    accepted_at REAL NOT NULL,
    background INTEGER NOT NULL,
    parent TEXT,
    key TEXT,
    code TEXT,
    question TEXT,
    expires_at REAL,
    crashes INTEGER NOT NULL,
    accepted_seq INTEGER NOT NULL,
    done_seq INTEGER
) WITHOUT ROWID;
CREATE INDEX calls_busy ON calls (session, accepted_seq) WHERE state IN ('queued', 'running');
CREATE INDEX calls_waiting ON calls (session, accepted_seq) WHERE state = 'waiting';
CREATE UNIQUE INDEX calls_key ON calls (session, key) WHERE key IS NOT NULL;
CREATE INDEX calls_expiry ON calls (expires_at) WHERE state = 'waiting';
CREATE INDEX calls_parent ON calls (parent) WHERE parent IS NOT NULL;

-- How far each named reader has come.
CREATE TABLE cursors (
    session INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (session, consumer)
) WITHOUT ROWID;

-- Large arguments, results and spilled outputs, each stored once a session.
CREATE TABLE kept (
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session, id)
);

-- Aomi's table as a view of the log.
CREATE VIEW session_tool_state AS
SELECT
    s.id AS session_id,
    s.owner AS user_id,
    strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(
        (SELECT e.at FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32 ORDER BY e.key DESC LIMIT 1), s.updated_at), 'unixepoch'
    ) AS last_updated,
    json_object(
        'namespaces', json(coalesce((
            SELECT json_extract(e.data, '$.namespaces') FROM events e
            WHERE e.session = s.n AND e.call IS NULL AND e.kind IN ('opened', 'namespaces')
            ORDER BY e.seq DESC LIMIT 1), '[]')),
        'available_tools', json(coalesce((
            SELECT json_extract(e.data, '$.tools') FROM events e
            WHERE e.session = s.n AND e.call IS NULL AND e.kind IN ('opened', 'namespaces', 'tools_changed')
            ORDER BY e.seq DESC LIMIT 1), '[]')),
        'completed_calls', json(coalesce((
            SELECT json_group_array(json(entry)) FROM (
                SELECT json_object(
                    'call_id', c.id,
                    'tool_name', substr(c.tool, instr(c.tool, '.') + 1),
                    'sync', json(CASE WHEN c.background THEN 'false' ELSE 'true' END),
                    'result', CASE
                        WHEN c.code IS NULL THEN json_object('Ok', json(coalesce(
                            CASE WHEN json_type(d.data, '$.data') IS NOT NULL
                                THEN json_extract(json_object('v', json(d.data -> '$.data')), '$') -> '$.v' END,
                            (SELECT CAST(k.data AS TEXT) FROM kept k
                             WHERE k.session = s.n AND k.id = json_extract(d.large, '$.data')),
                            'null')))
                        ELSE json_object('Err', json_extract(d.data, '$.failure.message')) END
                ) AS entry
                FROM events d JOIN calls c ON c.id = d.call
                WHERE d.kind = 'done' AND d.key < (s.n + 1) << 32 AND d.key > (s.n << 32) + coalesce(
                    (SELECT seq FROM cursors WHERE session = s.n AND consumer = 'model'), 0)
                ORDER BY d.key)), '[]'))
    ) AS handler_state,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at, 'unixepoch') AS created_at
FROM sessions s;
