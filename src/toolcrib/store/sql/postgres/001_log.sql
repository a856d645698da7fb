-- `seq` is the last event, `own` the last that belongs to no call. A number is never given twice, since what a swept
-- session left is deleted by it later. `updated_at` may be a second behind the last event, so that the row is mostly
-- changed in its own page, without any index.
CREATE TABLE sessions (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    owner text COLLATE "C" NOT NULL,
    seq integer NOT NULL DEFAULT 0,
    own integer NOT NULL DEFAULT 0,
    revision integer NOT NULL DEFAULT 0,
    created_at float8 NOT NULL,
    updated_at float8 NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX sessions_owner ON sessions (owner, updated_at);
CREATE INDEX sessions_updated ON sessions (updated_at);

-- Sessions that nobody can open any more, and whose lines are still being deleted.
CREATE TABLE swept (
    n bigint PRIMARY KEY
);

-- The log: the truth. `large` names the fields whose values are kept in `kept`. The data is text, since its bytes are
-- kept as they came, which no column of type jsonb would do.
CREATE TABLE events (
    session bigint NOT NULL,
    seq integer NOT NULL,
    at float8 NOT NULL,
    call text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    large text COLLATE "C",
    PRIMARY KEY (session, seq)
);
CREATE INDEX events_of_call ON events (call, seq) WHERE call IS NOT NULL;
CREATE INDEX events_of_session ON events (session, seq) WHERE call IS NULL;

-- The index of the log: one row a call. `queued_at` is of this server's clock, so that no other clock matters. A parked
-- call is queued, and waits for a place in its session or with its owner, or for its `turn` after others of that tool; for one that was told that there is a place, it
-- is reserved for a moment.
CREATE TABLE calls (
    id text COLLATE "C" PRIMARY KEY,
    session bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    effect text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    worker text COLLATE "C",
    accepted_at float8 NOT NULL,
    background boolean NOT NULL,
    parent text COLLATE "C",
    key text COLLATE "C",
    code text COLLATE "C",
    question text COLLATE "C",
    expires_at float8,
    crashes integer NOT NULL,
    accepted_seq integer NOT NULL,
    done_seq integer,
    queued_at float8,
    parked boolean NOT NULL DEFAULT false,
    turn text COLLATE "C",
    reserved_until float8
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX calls_of_session ON calls (session, accepted_seq);
CREATE INDEX calls_busy ON calls (session, accepted_seq) WHERE state IN ('queued', 'running');
CREATE INDEX calls_waiting ON calls (session, accepted_seq) WHERE state = 'waiting';
CREATE INDEX calls_expiry ON calls (expires_at) WHERE state = 'waiting';
CREATE INDEX calls_running ON calls (owner, session) WHERE state = 'running';
CREATE INDEX calls_reserved ON calls (owner, session) WHERE reserved_until IS NOT NULL;
CREATE INDEX calls_queued ON calls (queued_at) WHERE state = 'queued' AND NOT parked;
CREATE INDEX calls_parked ON calls (owner, accepted_at) WHERE parked;
CREATE INDEX calls_parked_here ON calls (session, accepted_at) WHERE parked;
CREATE UNIQUE INDEX calls_key ON calls (session, key) WHERE key IS NOT NULL;
CREATE INDEX calls_parent ON calls (parent) WHERE parent IS NOT NULL;

-- How far each named reader has come.
CREATE TABLE cursors (
    session bigint NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    PRIMARY KEY (session, consumer)
);

-- Large arguments, results and spilled outputs, each stored once a session.
CREATE TABLE kept (
    session bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, id)
);

-- Rates: the moment until which each is used up, in seconds since 1970.
CREATE TABLE rates (
    key text COLLATE "C" PRIMARY KEY,
    tat float8 NOT NULL
) WITH (fillfactor = 50);

-- Who uses this store, and when each was last heard of.
CREATE TABLE nodes (
    name text COLLATE "C" PRIMARY KEY,
    facts text NOT NULL,
    tools text NOT NULL DEFAULT '{}',
    started_at float8 NOT NULL,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The last batch of each writer and what became of it: a writer that lost its connection sends its batch again, and is
-- told this instead. Apart from `nodes`, so that no heartbeat waits for a batch.
CREATE TABLE batches (
    writer text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    outcome integer[] NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 20);
ALTER TABLE batches ALTER outcome SET STORAGE PLAIN;

-- A text of the log as JSON that Postgres can look into: it has no NUL, in whose place the sign for what cannot be
-- shown stands. A backslash that is itself escaped begins no NUL.
CREATE FUNCTION toolcrib_json(data text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos(data, '\u0000') = 0 THEN data
        ELSE regexp_replace(data, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END::json
$$;

-- Aomi's table as a view of the log.
CREATE VIEW session_tool_state AS
SELECT
    s.id AS session_id,
    s.owner AS user_id,
    to_char(to_timestamp(coalesce(
        (SELECT e.at FROM events e WHERE e.session = s.n ORDER BY e.seq DESC LIMIT 1), s.updated_at
    )) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_updated,
    json_build_object(
        'namespaces', coalesce((
            SELECT toolcrib_json(e.data) -> 'namespaces' FROM events e
            WHERE e.session = s.n AND e.call IS NULL AND e.kind IN ('opened', 'namespaces')
            ORDER BY e.seq DESC LIMIT 1), '[]'),
        'available_tools', coalesce((
            SELECT toolcrib_json(e.data) -> 'tools' FROM events e
            WHERE e.session = s.n AND e.call IS NULL AND e.kind IN ('opened', 'namespaces', 'tools_changed')
            ORDER BY e.seq DESC LIMIT 1), '[]'),
        'completed_calls', coalesce((
            SELECT json_agg(json_build_object(
                'call_id', c.id,
                'tool_name', substr(c.tool, strpos(c.tool, '.') + 1),
                'sync', NOT c.background,
                'result', CASE
                    WHEN c.code IS NULL THEN json_build_object('Ok', coalesce(
                        toolcrib_json(d.data) -> 'data',
                        (SELECT toolcrib_json(convert_from(k.data, 'UTF8')) FROM kept k
                         WHERE k.session = s.n AND k.id = d.large::json ->> 'data')))
                    ELSE json_build_object('Err', toolcrib_json(d.data) -> 'failure' -> 'message') END
            ) ORDER BY d.seq)
            FROM events d JOIN calls c ON c.id = d.call
            WHERE d.kind IN ('done', 'settled') AND d.session = s.n AND d.seq = c.done_seq AND d.seq > coalesce(
                (SELECT seq FROM cursors WHERE session = s.n AND consumer = 'model'), 0)), '[]')
    ) AS handler_state,
    to_char(to_timestamp(s.created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at
FROM sessions s
-- Of two tables, so that nobody can delete sessions through it.
CROSS JOIN (SELECT) AS nothing;
