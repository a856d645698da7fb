-- name: open_session
-- Two openers at once make one session.
INSERT INTO sessions (id, owner, created_at, updated_at) VALUES ($1, $2, $3, $3) ON CONFLICT (id) DO NOTHING
RETURNING id, owner, seq, revision, created_at, updated_at, n

-- name: use_session
-- Opening counts as use; right after the last use there is nothing to write.
UPDATE sessions SET updated_at = $3 WHERE id = $1 AND owner = $2 AND updated_at < $3 - $4::float8

-- name: session
-- What the store knows of a session beside its log.
SELECT id, owner, seq, revision, created_at, updated_at, n FROM sessions WHERE id = $1

-- name: number
-- The number of a session.
SELECT n FROM sessions WHERE id = $1

-- name: looks
-- What is newest of sessions: their last events, the last that belong to no call, and their states.
SELECT id, n, seq, own, revision FROM sessions WHERE id = ANY ($1::text[])

-- name: numbered
-- Sessions of which another process told by their numbers.
SELECT id, n FROM sessions WHERE n = ANY ($1::bigint[])

-- name: sessions
-- The last used first, of one owner; pages go on behind the last one seen.
SELECT id, owner, seq, revision, created_at, updated_at FROM sessions
WHERE owner = $1 AND updated_at <= coalesce($3::float8, 'infinity')
AND ($3::float8 IS NULL OR updated_at < $3 OR id > $4::text)
ORDER BY updated_at DESC, id LIMIT $2

-- name: sessions_all
-- The same of all owners.
SELECT id, owner, seq, revision, created_at, updated_at FROM sessions
WHERE $1::text IS NULL AND updated_at <= coalesce($3::float8, 'infinity')
AND ($3::float8 IS NULL OR updated_at < $3 OR id > $4::text)
ORDER BY updated_at DESC, id LIMIT $2

-- name: span
-- Between which times an owner's sessions were used.
SELECT min(created_at), max(updated_at) FROM sessions WHERE owner = $1

-- name: write
-- A batch, in one round trip. Most arrays come as literals: the driver looks at each value of one, which costs more.
-- A server that was halted does not begin with it after its deadline: then there is no row. The function takes a value of
-- the clock, so that it is called after that was looked at.
SELECT outcome, freed, pairs, clock.at FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS at OFFSET 0) clock
CROSS JOIN LATERAL toolcrib_commit(CASE WHEN clock.at < $48::float8 THEN $1::text END, $2, $3, $4, $5, $6::text::text[], $7::text::integer[],
    $8::text::integer[], $9::text::integer[], $10::text::integer[], $11::text::float8[], $12::text::integer[],
    $13::text::integer[], $14::text::text[], $15::text::text[], $16::text::integer[], $17::text::integer[],
    $18::text::boolean[], $19::text::boolean[], $20::text::integer[], $21::text::integer[], $22::text::text[],
    $23::text::text[], $24::text::text[], $25::text::integer[], $26::text::text[], $27::text::float8[],
    $28::text::boolean[], $29::text::text[], $30::text::text[], $31::text::text[], $32::text::text[],
    $33::text::float8[], $34::text::integer[], $35::text::text[], $36::text::integer[], $37::text::integer[],
    $38::text::integer[], $39::text::integer[], $40::text::float8[], $41::text::text[], $42::text::text[], $43,
    $44::text::text[], $45::text::integer[], $46::text::text[], $47)
WHERE clock.at < $48::float8

-- name: settle
-- What became of a batch whose answer was lost; one that was not written then is not written later either.
INSERT INTO batches AS b (writer, number, outcome, at) VALUES ($1, $2, '{}', clock_timestamp())
ON CONFLICT (writer) DO UPDATE SET number = greatest(b.number, excluded.number), at = clock_timestamp(),
    outcome = CASE WHEN b.number >= excluded.number THEN b.outcome ELSE '{}' END
RETURNING outcome

-- name: add_call
-- A further call that begins with a write.
INSERT INTO calls (id, session, owner, tool, effect, state, attempt, worker, accepted_at, background, parent, key, question,
    expires_at, crashes, accepted_seq)
SELECT $2, n, owner, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15 FROM sessions WHERE id = $1

-- name: free_key
-- Of a call that never began: who made it may make it again.
UPDATE calls SET key = NULL WHERE session = (SELECT n FROM sessions WHERE id = $1) AND id = $2

-- name: notify
-- Tells the other stores of this schema, in a transaction of its own that waits for no disk: it writes nothing else.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(toolcrib_channel(), hint) FROM unnest($1::text[]) hint

-- name: numbers
-- The last batch of every writer that wrote lately: one whose hint nobody heard has been missed.
SELECT writer, number FROM batches WHERE at > clock_timestamp() - interval '1 minute'

-- name: count_batch
-- The number of a transaction that is no batch of its writer, of which others are told as well.
INSERT INTO batches AS b (writer, number, outcome, at) VALUES ($1, 1, '{}', clock_timestamp())
ON CONFLICT (writer) DO UPDATE SET number = b.number + 1, at = clock_timestamp() RETURNING number

-- name: channel
-- What the stores of this schema listen to.
SELECT toolcrib_channel()

-- name: events
-- One page of the log, which ends with the event that brings it to so many bytes.
SELECT seq, at, call, kind, data, large FROM (
    SELECT p.*, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
        SELECT seq, at, call, kind, data, large FROM events
        WHERE session = (SELECT n FROM sessions WHERE id = $1) AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4
    ) p
) e WHERE before < $5 ORDER BY seq

-- name: pages
-- The same of many logs at once.
SELECT w.i, e.seq, e.at, e.call, e.kind, e.data, e.large
FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[]) WITH ORDINALITY w(id, after, most, bytes, i)
JOIN sessions s ON s.id = w.id CROSS JOIN LATERAL (
    SELECT p.*, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
        SELECT seq, at, call, kind, data, large FROM events
        WHERE session = s.n AND seq > w.after ORDER BY seq LIMIT w.most
    ) p
) e WHERE e.before < w.bytes ORDER BY w.i, e.seq

-- name: events_of_call
-- A call's own lines, over their index; the session is no condition that the other index could serve.
SELECT seq, at, call, kind, data, large FROM (
    SELECT p.*, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
        SELECT seq, at, call, kind, data, large FROM events
        WHERE call = $6 AND seq > $2 AND seq <= $3 AND (session = (SELECT n FROM sessions WHERE id = $1)) IS TRUE
        ORDER BY call, seq LIMIT $4
    ) p
) e WHERE before < $5 ORDER BY seq

-- name: events_of_session
-- What concerns the session itself, over its own small index.
SELECT seq, at, call, kind, data, large FROM (
    SELECT p.*, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
        SELECT seq, at, call, kind, data, large FROM events
        WHERE session = (SELECT n FROM sessions WHERE id = $1) AND seq > $2 AND seq <= $3 AND call IS NULL
        ORDER BY seq LIMIT $4
    ) p
) e WHERE before < $5 ORDER BY seq

-- name: call
-- By id.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.id = ANY ($1::text[])

-- name: standing
-- What stands in the way of refused writes: the call of that id, else the one that used the key first.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY w(id, session, key, i)
LEFT JOIN calls c ON c.id = coalesce(
    (SELECT id FROM calls WHERE id = w.id),
    (SELECT k.id FROM calls k JOIN sessions o ON o.n = k.session WHERE o.id = w.session AND k.key = w.key))
LEFT JOIN sessions s ON s.n = c.session
ORDER BY w.i

-- Statements are planned once for all values, so with a session and without one are two of each.

-- name: calls_busy
-- What somebody runs or has to run, over its own small index, however many others wait.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state IN ('queued', 'running') AND c.session = (SELECT n FROM sessions WHERE id = $1)
AND c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_busy_all
-- The same of all sessions.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state IN ('queued', 'running') AND $1::text IS NULL
AND c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_waiting
-- What waits for an answer, in order of acceptance.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state = 'waiting' AND c.session = (SELECT n FROM sessions WHERE id = $1)
AND c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_waiting_all
-- The same of all sessions.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state = 'waiting' AND $1::text IS NULL
AND c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_open
-- All that is not done, over the two small indexes.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM (
    SELECT * FROM calls WHERE state IN ('queued', 'running') AND session = (SELECT n FROM sessions WHERE id = $1)
    UNION ALL SELECT * FROM calls WHERE state = 'waiting' AND session = (SELECT n FROM sessions WHERE id = $1)
) c JOIN sessions s ON s.n = c.session WHERE c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_open_all
-- The same of all sessions.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM (
    SELECT * FROM calls WHERE state IN ('queued', 'running') UNION ALL SELECT * FROM calls WHERE state = 'waiting'
) c JOIN sessions s ON s.n = c.session WHERE $1::text IS NULL AND c.state = ANY ($2::text[])
AND ($3::text IS NULL OR c.parent = $3) ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_of_parent
-- What a call has begun, over its own index.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session
WHERE c.parent = $3 AND s.id = $1 AND (cardinality($2::text[]) = 0 OR c.state = ANY ($2))
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_of_parent_all
-- The same in all sessions.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session
WHERE c.parent = $3 AND $1::text IS NULL AND (cardinality($2::text[]) = 0 OR c.state = ANY ($2))
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_held
-- Leases that somebody holds, over their own small index.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state = 'held' AND c.session = (SELECT n FROM sessions WHERE id = $1)
AND c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_held_all
-- The same of all sessions.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state = 'held' AND $1::text IS NULL
AND c.state = ANY ($2::text[]) AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls
-- All rows of a session that fit, in order of acceptance; leases are no calls.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.session = (SELECT n FROM sessions WHERE id = $1)
AND CASE WHEN cardinality($2::text[]) = 0 THEN c.state NOT IN ('held', 'released', 'ended') ELSE c.state = ANY ($2) END AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_all
-- The same of all sessions.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE $1::text IS NULL
AND CASE WHEN cardinality($2::text[]) = 0 THEN c.state NOT IN ('held', 'released', 'ended') ELSE c.state = ANY ($2) END AND ($3::text IS NULL OR c.parent = $3)
ORDER BY c.session, c.accepted_seq LIMIT $4

-- name: calls_of_owner
-- All that is not done in the sessions of one owner; what others have is not looked at.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM sessions s CROSS JOIN LATERAL (
    SELECT * FROM calls b WHERE b.session = s.n AND b.state IN ('queued', 'running')
    UNION ALL SELECT * FROM calls w WHERE w.session = s.n AND w.state = 'waiting'
) c WHERE s.owner = $1 AND c.state = ANY ($2::text[]) ORDER BY c.session, c.accepted_seq LIMIT $3

-- name: calls_done
-- What a consumer has not seen, in order of completion.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM sessions s JOIN events d ON d.session = s.n JOIN calls c ON c.id = d.call AND c.done_seq = d.seq
WHERE s.id = $1 AND d.seq > $5 AND d.kind IN ('done', 'settled') AND (cardinality($2::text[]) = 0 OR c.state = ANY ($2))
AND ($3::text IS NULL OR c.parent = $3)
ORDER BY d.seq LIMIT $4

-- A walk goes over one of several things, back or forward in time; what stands in braces is filled in, and names become
-- numbers.

-- name: as_walked
-- Until the transaction ends: along an index, whatever the planner thinks of how much there is, and sessions before calls.
SET LOCAL enable_bitmapscan = off; SET LOCAL join_collapse_limit = 1

-- name: walk_edge
-- The entry after which a walk looks no further at once.
SELECT w.at, w.session, w.seq FROM ({over}) w
WHERE {past} AND w.at >= :since AND w.at <= :until ORDER BY {order} LIMIT 1 OFFSET :scan

-- name: walk
-- What fits up to there.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq, s.owner, w.at, w.session, w.seq
FROM ({over}) w JOIN sessions s ON s.n = w.session JOIN calls c ON c.id = w.call AND c.session = w.session
WHERE {past} AND {edge} AND w.at >= :since AND w.at <= :until
AND (:owner::text IS NULL OR s.owner = :owner)
AND (cardinality(:states::text[]) = 0 OR c.state = ANY (:states))
AND (cardinality(:codes::text[]) = 0 OR {code} = ANY (:codes))
AND (:tool::text IS NULL OR c.tool = :tool OR right(c.tool, length(:tool) + 1) = '.' || :tool)
AND (cardinality(:tools::text[]) = 0 OR c.tool = ANY (:tools)) AND c.tool <> ALL (:other_tools::text[])
ORDER BY {order} LIMIT :limit

-- name: over_accepted
-- All calls, as they were accepted.
SELECT at, session, seq, call FROM events WHERE kind = 'accepted'

-- name: over_ended
-- All calls, as they ended or were settled.
SELECT at, session, seq, call FROM events WHERE kind IN ('done', 'settled')

-- name: over_failed
-- Calls that ended without success.
SELECT accepted_at AS at, session, accepted_seq AS seq, id AS call FROM calls WHERE code IS NOT NULL

-- name: over_unknown
-- Calls of which nobody knows whether they ran.
SELECT accepted_at AS at, session, accepted_seq AS seq, id AS call FROM calls WHERE code = 'unknown'

-- name: over_waiting
-- Calls that wait for an answer.
SELECT accepted_at AS at, session, accepted_seq AS seq, id AS call FROM calls WHERE state = 'waiting'

-- name: over_busy
-- What somebody runs or has to run: never very many.
SELECT accepted_at AS at, session, accepted_seq AS seq, id AS call FROM calls WHERE state IN ('queued', 'running')

-- name: over_waiting_of
-- Calls of one owner that wait for an answer: what others have is not looked at, however much it is.
SELECT c.accepted_at AS at, c.session, c.accepted_seq AS seq, c.id AS call
FROM sessions o JOIN calls c ON c.session = o.n WHERE o.owner = :owner AND c.state = 'waiting'

-- name: over_busy_of
-- What somebody runs or has to run for one owner.
SELECT c.accepted_at AS at, c.session, c.accepted_seq AS seq, c.id AS call
FROM sessions o JOIN calls c ON c.session = o.n WHERE o.owner = :owner AND c.state IN ('queued', 'running')

-- name: own_events
-- How many sessions an owner has and how many events these hold, as far as it is looked.
SELECT count(*) AS sessions, coalesce(sum(seq), 0) AS events
FROM (SELECT seq FROM sessions WHERE owner = $1 LIMIT $2) o

-- name: own_accepted
-- The calls of one owner, as they were accepted: nothing of others is looked at.
SELECT e.at, e.session, e.seq, e.call FROM events e
WHERE e.session = ANY (ARRAY(SELECT n FROM sessions WHERE owner = :owner)) AND (e.kind = 'accepted') IS TRUE

-- name: own_ended
-- The calls of one owner, as they ended or were settled.
SELECT e.at, e.session, e.seq, e.call FROM events e
WHERE e.session = ANY (ARRAY(SELECT n FROM sessions WHERE owner = :owner)) AND (e.kind IN ('done', 'settled')) IS TRUE

-- name: log_accepted
-- The calls of one session, as they were accepted; the kind is no condition that the other index could serve.
SELECT at, session, seq, call FROM events
WHERE session = (SELECT n FROM sessions WHERE id = :id) AND (kind = 'accepted') IS TRUE

-- name: log_ended
-- The calls of one session, as they ended or were settled.
SELECT at, session, seq, call FROM events
WHERE session = (SELECT n FROM sessions WHERE id = :id) AND (kind IN ('done', 'settled')) IS TRUE

-- name: code_accepted
-- How a call ended, as far as it did.
coalesce(c.code, '')

-- name: code_ended
-- How it ended there: of one that was settled, nobody knew at first.
CASE WHEN c.done_seq <> w.seq THEN 'unknown' ELSE coalesce(c.code, '') END

-- name: time_back_past
(w.at, w.session, w.seq) < (:at, :session, :seq)

-- name: time_back_edge
(w.at, w.session, w.seq) >= (:edge_at, :edge_session, :edge_seq)

-- name: time_back_order
w.at DESC, w.session DESC, w.seq DESC

-- name: time_forward_past
(w.at, w.session, w.seq) > (:at, :session, :seq)

-- name: time_forward_edge
(w.at, w.session, w.seq) <= (:edge_at, :edge_session, :edge_seq)

-- name: time_forward_order
w.at, w.session, w.seq

-- name: log_back_past
w.seq < :seq

-- name: log_back_edge
w.seq >= :edge_seq

-- name: log_back_order
w.seq DESC

-- name: log_forward_past
w.seq > :seq

-- name: log_forward_edge
w.seq <= :edge_seq

-- name: log_forward_order
w.seq

-- name: stories
-- All lines of several calls, over their index.
SELECT w.i, e.seq, e.at, e.call, e.kind, e.data, e.large
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(id, session, i) JOIN sessions s ON s.id = w.session
CROSS JOIN LATERAL (SELECT * FROM events WHERE call = w.id AND (session = s.n) IS TRUE ORDER BY call, seq) e
ORDER BY w.i, e.seq

-- name: expiring
-- The earliest first.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session
WHERE c.state = 'waiting' AND c.expires_at <= $1 ORDER BY c.expires_at LIMIT $2

-- name: open_calls
-- How many calls are not done, counted in the indexes of those alone.
SELECT state, count(*) FROM calls WHERE state IN ('queued', 'running') GROUP BY state
UNION ALL SELECT 'waiting', count(*) FROM calls WHERE state = 'waiting'

-- name: open_calls_of
-- The same of one owner.
SELECT c.state, count(*) FROM sessions s CROSS JOIN LATERAL (
    SELECT state FROM calls b WHERE b.session = s.n AND b.state IN ('queued', 'running')
    UNION ALL SELECT state FROM calls w WHERE w.session = s.n AND w.state = 'waiting'
) c WHERE s.owner = $1 GROUP BY c.state

-- name: next_expiry
-- One look at the index.
SELECT min(expires_at) FROM calls WHERE state = 'waiting'

-- name: cursor
-- Where a reader stands.
SELECT c.seq FROM cursors c JOIN sessions s ON s.n = c.session WHERE s.id = $1 AND c.consumer = $2

-- name: move_cursor
-- Forward, never back.
INSERT INTO cursors (session, consumer, seq) SELECT n, $2, $3 FROM sessions WHERE id = $1
ON CONFLICT (session, consumer) DO UPDATE SET seq = greatest(cursors.seq, excluded.seq) RETURNING seq

-- name: keep
-- The same value twice is stored once; it returns nothing where there is no such session.
WITH s AS (SELECT n FROM sessions WHERE id = $1),
kept AS (INSERT INTO kept (session, id, data) SELECT n, $2, $3 FROM s ON CONFLICT DO NOTHING)
SELECT n FROM s

-- name: kept
-- Large values by their ids.
SELECT k.id, k.data FROM kept k JOIN sessions s ON s.n = k.session WHERE s.id = $1 AND k.id = ANY ($2::text[])

-- name: forget_secrets
-- All that is kept of the secrets of a call: its arguments, and what has a name behind them.
DELETE FROM kept k USING sessions s WHERE s.id = $1 AND k.session = s.n AND (k.id = $2 OR starts_with(k.id, $2 || ':'))

-- name: kept_sizes
-- The bytes of large values, which are not read for it.
SELECT k.id, octet_length(k.data) FROM kept k JOIN sessions s ON s.n = k.session
WHERE s.id = $1 AND k.id = ANY ($2::text[])

-- name: spend
-- Takes one from every rate, or from none.
SELECT toolcrib_spend($1, $2, $3, $4, $5)

-- name: lock_session
-- Nobody writes to a session while its index is made anew.
SELECT n, owner FROM sessions WHERE id = $1 FOR NO KEY UPDATE

-- name: set_revision
-- The revision of the state, as the log tells it.
UPDATE sessions SET revision = coalesce($2::integer, revision) WHERE n = $1

-- name: delete_index
-- All that the index says of the calls of a session, and calls of it that the index had put under another.
DELETE FROM calls WHERE (session = $1 AND state NOT IN ('held', 'released', 'ended')) OR id = ANY ($2::text[])

-- name: insert_rows
-- The index as the log tells it.
INSERT INTO calls (session, owner, id, tool, effect, state, attempt, worker, accepted_at, background, parent, key, code,
    question, expires_at, crashes, accepted_seq, done_seq, queued_at)
SELECT $1, $2, r.*, CASE WHEN r.state = 'queued' THEN extract(epoch FROM clock_timestamp()) END
FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::float8[], $10::boolean[],
    $11::text[], $12::text[], $13::text[], $14::text[], $15::float8[], $16::integer[], $17::integer[], $18::integer[])
    r(id, tool, effect, state, attempt, worker, accepted_at, background, parent, key, code, question, expires_at,
        crashes, accepted_seq, done_seq)

-- name: take
-- All that whoever runs a call needs, in one look.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq,
    s.id, s.owner, s.seq, s.revision, s.created_at, s.updated_at, s.n, s.own, e.seqs, e.ats, e.kinds, e.datas, e.larges
FROM calls c JOIN sessions s ON s.n = c.session CROSS JOIN LATERAL (
    SELECT array_agg(e.seq ORDER BY e.seq) AS seqs, array_agg(e.at ORDER BY e.seq) AS ats,
        array_agg(e.kind ORDER BY e.seq) AS kinds, array_agg(e.data ORDER BY e.seq) AS datas,
        array_agg(e.large ORDER BY e.seq) AS larges
    FROM events e WHERE e.call = c.id
) e WHERE c.id = ANY ($1::text[])

-- name: stale
-- Queued for too long, or running on a node that is not alive, which only a steady node ($5) may say of one it knows;
-- a parked one only where nothing runs that could free it.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM (
    (SELECT * FROM calls WHERE state = 'queued' AND NOT parked AND ($6::text[] IS NULL OR tool = ANY ($6))
        AND queued_at < extract(epoch FROM statement_timestamp())::float8 - $1::float8 ORDER BY queued_at LIMIT $3)
    UNION ALL
    (SELECT * FROM calls p WHERE p.parked AND ($6::text[] IS NULL OR p.tool = ANY ($6))
        AND p.queued_at < extract(epoch FROM statement_timestamp())::float8 - $1::float8 AND NOT EXISTS (
            SELECT 1 FROM calls o WHERE o.owner = p.owner AND o.session = p.session AND o.state = 'running')
        AND NOT ($4 AND EXISTS (SELECT 1 FROM calls o WHERE o.owner = p.owner AND o.state = 'running')) LIMIT $3)
    UNION ALL
    (SELECT * FROM calls r WHERE r.state = 'running' AND ($6::text[] IS NULL OR r.tool = ANY ($6)) AND NOT EXISTS (
        SELECT 1 FROM nodes n WHERE n.name = r.worker
        AND (n.seen_at > statement_timestamp() - make_interval(secs => $2) OR NOT $5)) LIMIT $3)
) c JOIN sessions s ON s.n = c.session ORDER BY c.accepted_at, c.accepted_seq LIMIT $3

-- name: lost
-- Queued or running on a node that is not alive, which only a steady node ($2) may say of one it knows; what is for any
-- worker only where there is none.
SELECT c.id, s.id, c.tool, c.effect, c.state, c.attempt, c.worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq
FROM calls c JOIN sessions s ON s.n = c.session WHERE c.state IN ('queued', 'running') AND NOT EXISTS (
    SELECT 1 FROM nodes n WHERE (n.name = c.worker OR c.worker IS NULL AND n.tools <> '{}')
    AND (n.seen_at > statement_timestamp() - make_interval(secs => $1) OR NOT $2))
ORDER BY c.accepted_at, c.session, c.accepted_seq

-- name: silent
-- How long nodes were not heard of that may be dead soon.
SELECT extract(epoch FROM statement_timestamp() - seen_at)::float8 FROM nodes
WHERE seen_at < statement_timestamp() - make_interval(secs => $1)
AND seen_at > statement_timestamp() - make_interval(secs => $2)

-- name: counts
-- How many calls of each tool are on their way.
SELECT tool, state, count(*) FROM calls WHERE state IN ('queued', 'running') GROUP BY tool, state
UNION ALL SELECT tool, state, count(*) FROM calls WHERE state = 'waiting' GROUP BY tool, state

-- name: join
-- A node's name is its own: whoever had it before is dead.
INSERT INTO nodes (name, facts, started_at, seen_at)
VALUES ($1, $2, extract(epoch FROM clock_timestamp()), clock_timestamp())
ON CONFLICT (name) DO UPDATE SET facts = excluded.facts, started_at = excluded.started_at, seen_at = excluded.seen_at
RETURNING started_at

-- name: beat
-- By this server's clock; a node whose row was cleaned away comes back.
INSERT INTO nodes (name, facts, tools, started_at, seen_at) VALUES ($1, $2, coalesce($4, '{}'), $3, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET facts = excluded.facts, tools = coalesce($4, nodes.tools), seen_at = excluded.seen_at
RETURNING extract(epoch FROM clock_timestamp())::float8

-- name: leave
-- A node that has ended is not dead, but gone.
WITH written AS (DELETE FROM batches WHERE writer = $2 OR starts_with(writer, $2 || '-')) DELETE FROM nodes WHERE name = $1

-- name: clean_nodes
-- Those that died more than a minute ago, which nobody asks for any more.
DELETE FROM nodes WHERE seen_at < clock_timestamp() - make_interval(secs => 60 + $1::float8)

-- name: clean_batches
-- A writer that was cut off for a day does not come back.
DELETE FROM batches WHERE at < clock_timestamp() - interval '1 day'

-- name: alive
-- By this server's clock alone.
SELECT seen_at > clock_timestamp() - make_interval(secs => $2) FROM nodes WHERE name = $1

-- name: others
-- Whether anybody else may use this store; one that died stays for a minute.
SELECT 1 FROM nodes WHERE name <> $1 LIMIT 1

-- name: nodes
-- The oldest first.
SELECT name, facts, tools, started_at, extract(epoch FROM clock_timestamp() - seen_at)::float8 FROM nodes
WHERE seen_at > clock_timestamp() - make_interval(secs => 60 + $1::float8) ORDER BY started_at, name

-- name: idle
-- Sessions to sweep: unused since, nothing running, nothing that still waits. The logs of the crib itself stay.
SELECT s.n, s.id FROM sessions s WHERE s.updated_at < $1 AND s.owner <> 'toolcrib' AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting'
    AND (c.expires_at IS NULL OR c.expires_at >= $2))
ORDER BY s.updated_at LIMIT $3

-- name: idle_count
-- What a sweep would delete.
SELECT count(*) FROM sessions s WHERE s.updated_at < $1 AND s.owner <> 'toolcrib' AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting'
    AND (c.expires_at IS NULL OR c.expires_at >= $2))

-- name: lock_idle
-- Of two sweepers one takes each, and none waits for a writer.
SELECT n FROM sessions WHERE n = ANY ($1::bigint[]) ORDER BY n FOR UPDATE SKIP LOCKED

-- name: take_out
-- The same question once more under the lock: none takes what is used again.
WITH gone AS (
    DELETE FROM sessions s WHERE s.n = ANY ($1::bigint[]) AND s.updated_at < $2 AND NOT EXISTS (
        SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running'))
    AND NOT EXISTS (
        SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting'
        AND (c.expires_at IS NULL OR c.expires_at >= $3))
    RETURNING s.n, s.id
), numbers AS (
    INSERT INTO swept (n) SELECT n FROM gone
), expired AS (
    DELETE FROM calls c USING gone
    WHERE c.session = gone.n AND c.state IN ('waiting', 'held', 'released', 'ended')
)
SELECT n, id FROM gone

-- name: swept
-- What this sweep took out, and what one before it did not come to delete; of two sweepers each takes its own.
SELECT n FROM swept ORDER BY n LIMIT 100 FOR UPDATE SKIP LOCKED

-- name: delete_events
-- In pieces, so that no transaction is long.
DELETE FROM events e USING (
    SELECT session, seq FROM events WHERE session = ANY ($1::bigint[]) ORDER BY session, seq LIMIT $2
) piece WHERE e.session = piece.session AND e.seq = piece.seq

-- name: delete_calls
-- The same for the index.
DELETE FROM calls c USING (SELECT session, id FROM calls WHERE session = ANY ($1::bigint[]) LIMIT $2) piece
WHERE c.session = piece.session AND c.id = piece.id

-- name: delete_rest
-- Their large values, their readers' marks and their numbers: all of them is gone.
WITH large AS (DELETE FROM kept WHERE session = ANY ($1::bigint[])),
marks AS (DELETE FROM cursors WHERE session = ANY ($1))
DELETE FROM swept WHERE n = ANY ($1)

-- name: forget_rates
-- One that is not used up at all is as good as none; no clock that is ahead may say so.
DELETE FROM rates WHERE tat <= least($1, extract(epoch FROM clock_timestamp()))

-- name: cluster
-- Made with the schema, and the same for all who use it.
SELECT cluster FROM schema_version

-- name: has_amcheck
-- Whether the extension that checks tables and indexes is installed.
SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck')

-- name: checked_index
-- The indexes of this schema.
SELECT c.relname, c.oid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_am a ON a.oid = c.relam
WHERE c.relnamespace = current_schema()::regnamespace AND a.amname = 'btree' AND i.indisvalid ORDER BY c.relname

-- name: check_index
-- Every row of its table is in it, in order.
SELECT nullif(bt_index_check($1::oid::regclass, true)::text, '')

-- name: checked_table
-- The tables of this schema.
SELECT relname, oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname

-- name: check_table
-- What does not hold in its pages.
SELECT format('block %s: %s', blkno, msg) FROM verify_heapam($1::oid::regclass)

-- name: checked_events
-- Every line of the log.
SELECT coalesce(s.id, ''), e.seq, e.data FROM events e LEFT JOIN sessions s ON s.n = e.session

-- name: checked_kept
-- Every large value.
SELECT coalesce(s.id, ''), k.id, k.data FROM kept k LEFT JOIN sessions s ON s.n = k.session

-- name: strays
-- Rows of sessions that are neither there nor being deleted.
WITH known AS (SELECT n FROM sessions UNION ALL SELECT n FROM swept)
SELECT 'events', count(*) FROM (SELECT DISTINCT session FROM events) e WHERE session NOT IN (SELECT n FROM known)
UNION ALL SELECT 'calls', count(*) FROM calls WHERE session NOT IN (SELECT n FROM known)
UNION ALL SELECT 'kept', count(*) FROM kept WHERE session NOT IN (SELECT n FROM known)
UNION ALL SELECT 'cursors', count(*) FROM cursors WHERE session NOT IN (SELECT n FROM known)

-- A backup has what belongs to sessions that are there, in the order of `toolcrib.store.backup.TABLES`.

-- name: backup_sessions
SELECT n, id, owner, revision, created_at, updated_at, closed FROM sessions ORDER BY n

-- name: backup_events
SELECT e.session, e.seq, e.at, e.call, e.kind, e.data, e.large FROM sessions s JOIN events e ON e.session = s.n
ORDER BY e.session, e.seq

-- name: backup_calls
SELECT c.id, c.session, c.tool, c.effect, c.state, c.attempt, NULL::text AS worker, c.accepted_at, c.background, c.parent, c.key, c.code,
    c.question, c.expires_at, c.crashes, c.accepted_seq, c.done_seq FROM calls c JOIN sessions s ON s.n = c.session

-- name: backup_cursors
SELECT c.session, c.consumer, c.seq FROM cursors c JOIN sessions s ON s.n = c.session

-- name: backup_kept
SELECT k.session, k.id, k.data FROM kept k JOIN sessions s ON s.n = k.session

-- name: backup_rates
SELECT key, tat FROM rates

-- name: lock_for_restore
-- Nobody begins to use the schema while it is filled.
LOCK TABLE sessions, nodes IN ACCESS EXCLUSIVE MODE

-- name: in_use
-- Whether somebody was heard of lately.
SELECT EXISTS (SELECT 1 FROM nodes WHERE seen_at > clock_timestamp() - make_interval(secs => $1))

-- name: any_session
SELECT EXISTS (SELECT 1 FROM sessions)

-- name: empty
-- All that a restore writes over.
TRUNCATE sessions, swept, events, calls, cursors, kept, rates, nodes, batches, rollups, unrolled, archived

-- name: restore_ends
-- The last event of a session, and the last that belongs to no call.
UPDATE sessions s SET seq = greatest(s.seq, e.seq), own = greatest(s.own, e.own)
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) e(n, seq, own) WHERE s.n = e.n

-- name: go_on_counting
-- Numbers of sessions are never given twice.
SELECT setval(pg_get_serial_sequence('sessions', 'n'), (SELECT coalesce(max(n), 0) + 1 FROM sessions), false)

-- name: cursors_of
-- How far each reader of a session has come.
SELECT c.consumer, c.seq FROM cursors c JOIN sessions s ON s.n = c.session WHERE s.id = $1

-- name: kept_of
-- The large values of a session.
SELECT k.id FROM kept k JOIN sessions s ON s.n = k.session WHERE s.id = $1 ORDER BY k.id

-- name: any_call
-- Whether one of these calls is here.
SELECT EXISTS (SELECT 1 FROM calls WHERE id = ANY ($1::text[]))

-- name: adopt_session
-- A session that comes from elsewhere.
INSERT INTO sessions (id, owner, seq, own, revision, created_at, updated_at, closed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO NOTHING RETURNING n

-- name: lock_for_delete
-- Nobody writes to a session while it is deleted.
SELECT n FROM sessions WHERE id = $1 FOR UPDATE

-- name: busy
-- Whether a session has something to run.
SELECT EXISTS (SELECT 1 FROM calls WHERE session = $1 AND state IN ('queued', 'running'))

-- name: delete_session
-- Whoever opens it finds nothing.
DELETE FROM sessions WHERE n = $1

-- name: bury
-- Its number, until all that bears it is deleted.
WITH expired AS (DELETE FROM calls WHERE session = $1 AND state = 'waiting')
INSERT INTO swept (n) VALUES ($1)

-- name: next_own_event
-- The place of the next line that belongs to no call.
UPDATE sessions SET seq = seq + 1, own = seq + 1 WHERE id = $1 RETURNING n, seq

-- name: one_rolls
-- Of all who roll up, one does, and the others leave it to that one.
SELECT pg_try_advisory_xact_lock(hashtextextended('toolcrib rolls ' || current_schema(), 0))

-- name: wait_to_roll
-- The same for whoever has to know that all is counted.
SELECT pg_advisory_xact_lock(hashtextextended('toolcrib rolls ' || current_schema(), 0))

-- name: unrolled
-- What counts and is not rolled up yet: the lines, who owns their sessions, and what is known of their calls.
SELECT u.id, s.owner, e.seq, e.at, e.kind, e.data, e.call, a.seq, a.data, c.question IS NOT NULL, u.session
FROM (SELECT id, session, seq FROM unrolled WHERE $2::bigint[] IS NULL OR session = ANY ($2) ORDER BY id LIMIT $1) u
LEFT JOIN events e ON e.session = u.session AND e.seq = u.seq LEFT JOIN sessions s ON s.n = u.session
LEFT JOIN calls c ON c.session = e.session AND c.id = e.call
LEFT JOIN events a ON a.session = c.session AND a.seq = c.accepted_seq ORDER BY u.id

-- name: counted
-- The same of all that counts in some sessions, rolled up or not.
SELECT 0, s.owner, e.seq, e.at, e.kind, e.data, e.call, a.seq, a.data, c.question IS NOT NULL, e.session
FROM sessions s JOIN events e ON e.session = s.n
LEFT JOIN calls c ON c.session = e.session AND c.id = e.call
LEFT JOIN events a ON a.session = c.session AND a.seq = c.accepted_seq
WHERE s.n = ANY ($1::bigint[]) AND e.kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled')

-- name: last_waits
-- What came last of the questions of calls before a line of each.
SELECT w.kind, w.at FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::text[])
WITH ORDINALITY AS e (session, first, last, call, i) LEFT JOIN LATERAL (
    SELECT kind, at FROM events WHERE session = e.session AND seq > e.first AND seq < e.last AND call = e.call
    AND kind IN ('waiting', 'answered', 'started') ORDER BY seq DESC LIMIT 1
) w ON true ORDER BY e.i

-- name: rolled
-- They are counted now.
DELETE FROM unrolled WHERE id = ANY ($1::bigint[])

-- name: unrolled_count
-- How many are left, as far as it is looked.
SELECT count(*) FROM (SELECT 1 FROM unrolled LIMIT 100000) u

-- name: rolled_before
-- What was counted of each before.
SELECT r.slots FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
WITH ORDINALITY AS k (cube, at, what, owner, tool, agent, code, i) LEFT JOIN rollups r ON r.cube = k.cube AND r.at = k.at
AND r.what = k.what AND r.owner = k.owner AND r.tool = k.tool AND r.agent = k.agent AND r.code = k.code ORDER BY k.i

-- name: roll_up
-- Adds to what was counted before; slots come with what they were before.
INSERT INTO rollups AS r (cube, at, what, owner, tool, agent, code, count, total, slots)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::bigint[], $9::bigint[], $10::bytea[])
ON CONFLICT (cube, at, what, owner, tool, agent, code)
DO UPDATE SET count = r.count + excluded.count, total = r.total + excluded.total, slots = excluded.slots

-- name: tallies
-- One cube, in some time.
SELECT at, what, {name}, code, count, total, slots FROM rollups
WHERE cube = '{cube}' AND at >= $1::bigint AND at < $2::bigint {more}

-- name: tallies_of_owner
-- Of one owner.
AND owner = ${place}

-- name: tallies_of_agent
-- Of one agent.
AND agent = ${place}

-- name: tallies_of_tools
-- Of some tools.
AND tool = ANY (${place}::text[])

-- name: rollups
-- All rows of a cube.
SELECT at, what, owner, tool, agent, code, count, total, slots FROM rollups WHERE cube = $1 AND at >= $2::float8

-- name: forget_rollups
-- What is older than anybody looks.
DELETE FROM rollups WHERE (cube = 'minutes' AND at < $1::float8) OR (cube <> 'minutes' AND at < $2::float8)

-- name: clear_rollups
-- All but what sessions that are gone had counted.
DELETE FROM rollups WHERE cube <> 'gone'

-- name: clear_unrolled
-- The list is made anew.
DELETE FROM unrolled

-- name: unroll
-- Everything is to be counted anew.
INSERT INTO unrolled (session, seq) SELECT e.session, e.seq FROM events e JOIN sessions s ON s.n = e.session
WHERE e.kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled')
