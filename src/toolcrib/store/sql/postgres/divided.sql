-- Statements of a store that is divided by hash of its sessions, where they differ from those of a whole one. What
-- is of one session takes its number in place of its id, so that Postgres looks into one partition from the beginning:
-- where `queries.sql` says `(SELECT n FROM sessions WHERE id = $1)`, it is `$1` here.

-- name: number
-- The number of a session, from a small table of its own.
SELECT n FROM session_ids WHERE id = $1

-- name: call_sessions
-- The sessions of calls, by their numbers.
SELECT id, session FROM call_ids WHERE id = ANY ($1::text[])

-- name: open_session
-- Two openers at once make one session.
WITH named AS (INSERT INTO session_ids (id) VALUES ($1) ON CONFLICT (id) DO NOTHING RETURNING n)
INSERT INTO sessions (n, id, owner, created_at, updated_at) SELECT n, $1, $2, $3, $3 FROM named
RETURNING id, owner, seq, revision, created_at, updated_at, n

-- name: use_session
-- Opening counts as use; right after the last use there is nothing to write.
UPDATE sessions SET updated_at = $3 WHERE n = $1 AND owner = $2 AND updated_at < $3 - $4::float8

-- name: session
-- What the store knows of a session beside its log.
SELECT id, owner, seq, revision, created_at, updated_at, n FROM sessions WHERE n = $1

-- name: looks
-- What is newest of a session: its last event, the last that belongs to no call, and its state.
SELECT id, n, seq, own, revision FROM sessions WHERE n = $1

-- name: write
-- A batch of one session, in one round trip, as of a whole store.
SELECT outcome, freed, pairs, clock.at FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS at OFFSET 0) clock
CROSS JOIN LATERAL toolcrib_commit($49, CASE WHEN clock.at < $48::float8 THEN $1::text END, $2, $3, $4, $5, $6::text::text[],
    $7::text::integer[], $8::text::integer[], $9::text::integer[], $10::text::integer[], $11::text::float8[],
    $12::text::integer[], $13::text::integer[], $14::text::text[], $15::text::text[], $16::text::integer[],
    $17::text::integer[], $18::text::boolean[], $19::text::boolean[], $20::text::integer[], $21::text::integer[],
    $22::text::text[], $23::text::text[], $24::text::text[], $25::text::integer[], $26::text::text[], $27::text::float8[],
    $28::text::boolean[], $29::text::text[], $30::text::text[], $31::text::text[], $32::text::text[],
    $33::text::float8[], $34::text::integer[], $35::text::text[], $36::text::integer[], $37::text::integer[],
    $38::text::integer[], $39::text::integer[], $40::text::float8[], $41::text::text[], $42::text::text[], $43,
    $44::text::text[], $45::text::integer[], $46::text::text[], $47)
WHERE clock.at < $48::float8

-- name: add_call
-- A further call that begins with a write.
INSERT INTO calls (id, session, owner, tool, effect, state, attempt, worker, accepted_at, background, parent, key, question,
    expires_at, crashes, accepted_seq)
SELECT $2, n, owner, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15 FROM sessions WHERE n = $1

-- name: events_of_call
-- A call's own lines, over their index.
SELECT seq, at, call, kind, data, large FROM (
    SELECT p.*, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
        SELECT seq, at, call, kind, data, large FROM events
        WHERE session = $1 AND call = $6 AND seq > $2 AND seq <= $3 ORDER BY call, seq LIMIT $4
    ) p
) e WHERE before < $5 ORDER BY seq

-- name: call
-- By id, of one session.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.session = $1 AND c.id = ANY ($2::text[])

-- name: standing
-- What stands in the way of refused writes: the call of that id, else the one that used the key first.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY w(id, session, key, i)
LEFT JOIN call_ids t ON t.id = coalesce(
    (SELECT id FROM call_ids WHERE id = w.id),
    (SELECT k.id FROM session_ids o JOIN calls k ON k.session = o.n WHERE o.id = w.session AND k.key = w.key))
LEFT JOIN LATERAL (SELECT * FROM calls WHERE session = t.session AND id = t.id OFFSET 0) c ON true
LEFT JOIN LATERAL (SELECT id FROM sessions WHERE n = t.session OFFSET 0) s ON true
ORDER BY w.i

-- name: calls_open
-- All that is not done, over the two small indexes.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM (
    SELECT * FROM calls WHERE state IN ('queued', 'running') AND session = $1
    UNION ALL SELECT * FROM calls WHERE state = 'waiting' AND session = $1
) c JOIN sessions s ON s.n = $1 WHERE c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_of_parent
-- What a call has begun, over its own index.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session
WHERE c.session = $1 AND c.parent = $3 AND (cardinality($2::text[]) = 0 OR c.state = ANY ($2))
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_done
-- What a consumer has not seen, in order of completion.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM events d JOIN calls c ON c.session = $1 AND c.id = d.call AND c.done_seq = d.seq JOIN sessions s ON s.n = d.session
WHERE d.session = $1 AND d.seq > $5 AND d.kind IN ('done', 'settled') AND (cardinality($2::text[]) = 0 OR c.state = ANY ($2))
AND ($3::text IS NULL OR c.parent = $3)
ORDER BY d.seq LIMIT $4

-- name: log_accepted
-- The calls of one session, as they were accepted.
SELECT at, session, seq, call FROM events
WHERE session = (SELECT n FROM session_ids WHERE id = :id) AND (kind = 'accepted') IS TRUE

-- name: log_ended
-- The calls of one session, as they ended or were settled.
SELECT at, session, seq, call FROM events
WHERE session = (SELECT n FROM session_ids WHERE id = :id) AND (kind IN ('done', 'settled')) IS TRUE

-- name: stories
-- All lines of several calls of one session, over their index.
SELECT w.i, e.seq, e.at, e.call, e.kind, e.data, e.large
FROM unnest($2::text[]) WITH ORDINALITY w(id, i)
CROSS JOIN LATERAL (SELECT * FROM events WHERE session = $1 AND call = w.id ORDER BY call, seq) e
ORDER BY w.i, e.seq

-- name: cursor
-- Where a reader stands.
SELECT seq FROM cursors WHERE session = $1 AND consumer = $2

-- name: move_cursor
-- Forward, never back.
INSERT INTO cursors (session, consumer, seq) SELECT n, $2, $3 FROM sessions WHERE n = $1
ON CONFLICT (session, consumer) DO UPDATE SET seq = greatest(cursors.seq, excluded.seq) RETURNING seq

-- name: keep
-- The same value twice is stored once; it returns nothing where there is no such session.
WITH s AS (SELECT n FROM sessions WHERE n = $1),
kept AS (INSERT INTO kept (session, id, data) SELECT n, $2, $3 FROM s ON CONFLICT DO NOTHING)
SELECT n FROM s

-- name: kept
-- Large values by their ids.
SELECT id, data FROM kept WHERE session = $1 AND id = ANY ($2::text[])

-- name: forget_secrets
-- All that is kept of the secrets of a call: its arguments, and what has a name behind them.
DELETE FROM kept WHERE session = $1 AND (id = $2 OR starts_with(id, $2 || ':'))

-- name: kept_sizes
-- The bytes of large values, which are not read for it.
SELECT id, octet_length(data) FROM kept WHERE session = $1 AND id = ANY ($2::text[])

-- name: lock_session
-- Nobody writes to a session while its index is made anew.
SELECT n, owner FROM sessions WHERE n = $1 FOR NO KEY UPDATE

-- name: delete_index
-- All that the index says of the calls of a session, and calls of it that the index had put under another.
DELETE FROM calls WHERE (session = $1 AND state NOT IN ('held', 'released', 'ended'))
OR (session, id) IN (SELECT session, id FROM call_ids WHERE id = ANY ($2::text[]))

-- name: take
-- All that whoever runs calls of a session needs, in one look.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq,
    s.id, s.owner, s.seq, s.revision, s.created_at, s.updated_at, s.n, s.own, e.seqs, e.ats, e.kinds, e.datas, e.larges
FROM calls c JOIN sessions s ON s.n = c.session CROSS JOIN LATERAL (
    SELECT array_agg(e.seq ORDER BY e.seq) AS seqs, array_agg(e.at ORDER BY e.seq) AS ats,
        array_agg(e.kind ORDER BY e.seq) AS kinds, array_agg(e.data ORDER BY e.seq) AS datas,
        array_agg(e.large ORDER BY e.seq) AS larges
    FROM events e WHERE e.session = $1 AND e.call = c.id
) e WHERE c.session = $1 AND c.id = ANY ($2::text[])

-- name: cursors_of
-- How far each reader of a session has come.
SELECT consumer, seq FROM cursors WHERE session = $1

-- name: kept_of
-- The large values of a session.
SELECT id FROM kept WHERE session = $1 ORDER BY id

-- name: any_call
-- Whether one of these calls is here.
SELECT EXISTS (SELECT 1 FROM call_ids WHERE id = ANY ($1::text[]))

-- name: adopt_session
-- A session that comes from elsewhere.
WITH named AS (INSERT INTO session_ids (id) VALUES ($1) ON CONFLICT (id) DO NOTHING RETURNING n)
INSERT INTO sessions (n, id, owner, seq, own, revision, created_at, updated_at, closed)
SELECT n, $1, $2, $3, $4, $5, $6, $7, $8 FROM named RETURNING n

-- name: readopt_session
-- A session that comes back, in place of one of that id to which nothing was written.
WITH named AS (
    INSERT INTO session_ids (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING n
)
INSERT INTO sessions AS s (n, id, owner, seq, own, revision, created_at, updated_at, closed)
SELECT n, $1, $2, $3, $4, $5, $6, $7, $8 FROM named
ON CONFLICT (n) DO UPDATE SET owner = excluded.owner, seq = excluded.seq, own = excluded.own, revision = excluded.revision,
    created_at = excluded.created_at, updated_at = excluded.updated_at, closed = excluded.closed
WHERE s.seq = 0 RETURNING n

-- name: lock_for_delete
-- Nobody writes to a session while it is deleted.
SELECT n FROM sessions WHERE n = (SELECT n FROM session_ids WHERE id = $1) FOR UPDATE

-- name: next_own_event
-- The place of the next line that belongs to no call.
UPDATE sessions SET seq = seq + 1, own = seq + 1 WHERE n = (SELECT n FROM session_ids WHERE id = $1) RETURNING n, seq
