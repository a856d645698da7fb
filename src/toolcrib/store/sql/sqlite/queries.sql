-- name: open_session
-- Two openers at once make one session.
INSERT INTO sessions (id, owner, created_at, updated_at) VALUES (:id, :owner, :at, :at) ON CONFLICT (id) DO NOTHING

-- name: use_session
-- Opening counts as use; right after the last use there is nothing to write.
UPDATE sessions SET updated_at = :at WHERE id = :id AND owner = :owner AND updated_at < :at - :soon

-- name: session
-- What the store knows of a session beside its log.
SELECT id, owner, coalesce((SELECT max(e.key) - (s.n << 32) FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32), 0), revision, created_at, updated_at
FROM sessions s WHERE id = :id

-- name: session_head
-- The writer needs its number, its last event, its revision and its last use.
SELECT n, coalesce((SELECT max(e.key) - (s.n << 32) FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32), 0), revision, updated_at, closed
FROM sessions s WHERE id = :id

-- name: sessions
-- Of one owner, the last used first; pages go on behind the last one seen, also among those used at the same moment.
SELECT id, owner, coalesce((SELECT max(e.key) - (s.n << 32) FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32), 0), revision, created_at, updated_at
FROM sessions s WHERE owner = :owner
AND updated_at <= coalesce(:before, 9e999) AND (:before IS NULL OR updated_at < :before OR id > :before_id)
ORDER BY updated_at DESC, id LIMIT :limit

-- name: sessions_all
-- The same of all owners.
SELECT id, owner, coalesce((SELECT max(e.key) - (s.n << 32) FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32), 0), revision, created_at, updated_at
FROM sessions s WHERE updated_at <= coalesce(:before, 9e999) AND (:before IS NULL OR updated_at < :before OR id > :before_id)
ORDER BY updated_at DESC, id LIMIT :limit

-- name: span
-- Between which times an owner's sessions were used.
SELECT min(created_at), max(updated_at) FROM sessions WHERE owner = :owner

-- name: touch_session
-- When it was last used, and the revision of its state.
UPDATE sessions SET revision = :revision, updated_at = max(updated_at, :at), closed = :closed WHERE n = :n

-- name: set_revision
-- The revision of the state, as the log tells it.
UPDATE sessions SET revision = coalesce(:revision, revision) WHERE n = :n

-- name: insert_event
-- The only statement that writes the log.
INSERT INTO events (key, at, call, kind, data, large, crc) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: insert_call
-- Submit: a second call with the same id or key does nothing.
INSERT INTO calls (id, session, tool, effect, state, attempt, worker, accepted_at, background, parent, key, code,
    question, expires_at, crashes, accepted_seq, done_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: insert_plain_call
-- The same of a call that is done and had nothing special; SQLite takes a third less time for it than for `insert_call`.
INSERT INTO calls (id, session, tool, effect, state, attempt, worker, accepted_at, background, parent, key, code,
    question, expires_at, crashes, accepted_seq, done_seq)
VALUES (?, ?, ?, ?, 'done', 1, ?, ?, 0, NULL, NULL, NULL, NULL, NULL, 0, ?, ?) ON CONFLICT DO NOTHING

-- name: insert_open_call
-- The same of a call that is not done and has nothing special.
INSERT INTO calls (id, session, tool, effect, state, attempt, worker, accepted_at, background, parent, key, code,
    question, expires_at, crashes, accepted_seq, done_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL, NULL, NULL, NULL, 0, ?, NULL) ON CONFLICT DO NOTHING

-- name: update_call
-- Claim, park, answer, finish: one winner, because state and attempt must still be what the writer saw.
UPDATE calls SET state = ?, attempt = ?, worker = ?, code = ?, question = ?, expires_at = ?, crashes = ?, done_seq = ?
WHERE id = ? AND state = ? AND attempt = ?

-- name: update_plain_call
-- The same of a call that neither failed nor waits, and whose process never died; it takes a fifth less time.
UPDATE calls SET state = ?, attempt = ?, worker = ?, code = NULL, question = NULL, expires_at = NULL, crashes = 0, done_seq = ?
WHERE id = ? AND state = ? AND attempt = ?

-- name: holds
-- Whether a call still runs, or a lease is held, in that attempt, so that what is written on its behalf may be.
SELECT 1 FROM calls WHERE id = ? AND session = ? AND state IN ('running', 'held') AND attempt = ?

-- name: events
-- One page of the log.
SELECT seq, at, call, kind, data, large FROM events
WHERE key > (:n << 32) + :after AND key <= (:n << 32) + :until ORDER BY key LIMIT :limit

-- name: events_of_call
-- A call's own lines lie between its first and its last.
SELECT seq, at, call, kind, data, large FROM events
WHERE key > (:n << 32) + :after AND key <= (:n << 32) + :until AND call = :call ORDER BY key LIMIT :limit

-- name: events_of_session
-- What concerns the session itself, over its own small index, which SQLite would not choose by itself.
SELECT seq, at, call, kind, data, large FROM events INDEXED BY events_of_session
WHERE session = :n AND seq > :after AND seq <= :until AND call IS NULL ORDER BY seq LIMIT :limit

-- name: call
-- By id.
SELECT c.*, s.id AS session_id FROM calls c JOIN sessions s ON s.n = c.session WHERE c.id = :id

-- name: call_by_key
-- A caller's idempotency key names its first call.
SELECT c.*, s.id AS session_id FROM calls c JOIN sessions s ON s.n = c.session WHERE c.session = :n AND c.key = :key

-- name: calls_busy
-- What somebody runs or has to run, over its own small index, however many others wait.
SELECT c.*, s.id AS session_id FROM calls c INDEXED BY calls_busy JOIN sessions s ON s.n = c.session
WHERE c.state IN ('queued', 'running') AND (:n IS NULL OR c.session = :n)
AND c.state IN (SELECT value FROM json_each(:states)) AND (:parent IS NULL OR c.parent = :parent)
ORDER BY c.session, c.accepted_seq LIMIT :limit

-- name: busy_workers
-- Who runs something or has to, over the same small index.
SELECT DISTINCT worker FROM calls INDEXED BY calls_busy WHERE state IN ('queued', 'running')

-- name: calls_of_workers
-- What these run or have to; some calls have no worker.
SELECT c.*, s.id AS session_id FROM calls c INDEXED BY calls_busy JOIN sessions s ON s.n = c.session
WHERE c.state IN ('queued', 'running') AND EXISTS (SELECT 1 FROM json_each(:workers) w WHERE w.value IS c.worker)
ORDER BY c.accepted_at, c.session, c.accepted_seq

-- name: calls_waiting
-- What waits for an answer, in order of acceptance.
SELECT c.*, s.id AS session_id FROM calls c INDEXED BY calls_waiting JOIN sessions s ON s.n = c.session
WHERE c.state = 'waiting' AND (:n IS NULL OR c.session = :n) AND (:parent IS NULL OR c.parent = :parent)
ORDER BY c.session, c.accepted_seq LIMIT :limit

-- name: calls_open
-- All that is not done, over the two small indexes.
SELECT c.*, s.id AS session_id FROM (
    SELECT * FROM calls INDEXED BY calls_busy WHERE state IN ('queued', 'running') AND (:n IS NULL OR session = :n)
    UNION ALL
    SELECT * FROM calls INDEXED BY calls_waiting WHERE state = 'waiting' AND (:n IS NULL OR session = :n)
) c JOIN sessions s ON s.n = c.session
WHERE c.state IN (SELECT value FROM json_each(:states)) AND (:parent IS NULL OR c.parent = :parent)
ORDER BY c.session, c.accepted_seq LIMIT :limit

-- name: calls_of_owner
-- All that is not done in the sessions of one owner; what others have is not looked at.
SELECT c.*, s.id AS session_id FROM (
    SELECT b.* FROM sessions o CROSS JOIN calls b INDEXED BY calls_busy ON b.session = o.n
    WHERE o.owner = :owner AND b.state IN ('queued', 'running')
    UNION ALL
    SELECT w.* FROM sessions o CROSS JOIN calls w INDEXED BY calls_waiting ON w.session = o.n
    WHERE o.owner = :owner AND w.state = 'waiting'
) c JOIN sessions s ON s.n = c.session WHERE c.state IN (SELECT value FROM json_each(:states)) ORDER BY c.session, c.accepted_seq LIMIT :limit

-- name: calls_held
-- Leases that somebody holds, over their own small index.
SELECT c.*, s.id AS session_id FROM calls c INDEXED BY calls_held JOIN sessions s ON s.n = c.session
WHERE c.state = 'held' AND (:n IS NULL OR c.session = :n) AND (:parent IS NULL OR c.parent = :parent)
ORDER BY c.session, c.accepted_seq LIMIT :limit

-- name: calls
-- All rows that fit, in order of acceptance; leases are no calls.
SELECT c.*, s.id AS session_id FROM calls c JOIN sessions s ON s.n = c.session
WHERE (:n IS NULL OR c.session = :n) AND CASE WHEN :states = '[]' THEN c.state NOT IN ('held', 'released', 'ended')
    ELSE c.state IN (SELECT value FROM json_each(:states)) END
AND (:parent IS NULL OR c.parent = :parent) ORDER BY c.session, c.accepted_seq LIMIT :limit

-- name: calls_done
-- What a consumer has not seen, in order of completion; a call that was settled afterwards stands where it was settled.
-- The plus keeps SQLite to the log's own order: done calls have no index by session.
SELECT c.*, s.id AS session_id FROM events d JOIN calls c ON c.id = d.call JOIN sessions s ON s.n = c.session
WHERE d.key > (:n << 32) + :done_after AND d.key < (:n + 1) << 32 AND d.kind IN ('done', 'settled')
AND +d.key = (:n << 32) + c.done_seq AND (:parent IS NULL OR c.parent = :parent) ORDER BY d.key LIMIT :limit

-- A walk goes over one of several things, back or forward in time; what stands in braces is filled in.

-- name: walk_edge
-- The entry after which a walk looks no further at once.
SELECT w.at, w.key FROM ({over}) w WHERE {past} AND w.at >= :since AND w.at <= :until ORDER BY {order} LIMIT 1 OFFSET :scan

-- name: walk
-- What fits up to there. The log is looked into only for what passed all that the index itself can tell.
SELECT c.*, s.id AS session_id, s.owner AS owner, w.at AS at, w.key AS mark FROM ({over}) w
CROSS JOIN calls c ON c.id = w.call CROSS JOIN sessions s ON s.n = c.session
WHERE {past} AND {edge} AND w.at >= :since AND w.at <= :until
AND (:owner IS NULL OR w.key >> 32 IN (SELECT n FROM sessions WHERE owner = :owner))
AND (:states = '[]' OR c.state IN (SELECT value FROM json_each(:states)))
AND (:codes = '[]' OR {code} IN (SELECT value FROM json_each(:codes)))
AND (:tool IS NULL OR c.tool = :tool OR substr(c.tool, -length(:tool) - 1) = '.' || :tool)
AND (:tools = '[]' OR c.tool IN (SELECT value FROM json_each(:tools)))
AND (:other_tools = '[]' OR c.tool NOT IN (SELECT value FROM json_each(:other_tools)))
ORDER BY {order} LIMIT :limit

-- name: over_accepted
-- All calls, as they were accepted.
SELECT at, key, call FROM events INDEXED BY events_accepted WHERE kind = 'accepted'

-- name: over_ended
-- All calls, as they ended or were settled.
SELECT at, key, call FROM events INDEXED BY events_ended WHERE kind IN ('done', 'settled')

-- name: over_failed
-- Calls that ended without success.
SELECT accepted_at AS at, (session << 32) + accepted_seq AS key, id AS call FROM calls INDEXED BY calls_failed WHERE code IS NOT NULL

-- name: over_unknown
-- Calls of which nobody knows whether they ran.
SELECT accepted_at AS at, (session << 32) + accepted_seq AS key, id AS call FROM calls INDEXED BY calls_unknown WHERE code = 'unknown'

-- name: over_waiting
-- Calls that wait for an answer.
SELECT accepted_at AS at, (session << 32) + accepted_seq AS key, id AS call FROM calls INDEXED BY calls_asking WHERE state = 'waiting'

-- name: over_busy
-- What somebody runs or has to run: never very many.
SELECT accepted_at AS at, (session << 32) + accepted_seq AS key, id AS call FROM calls INDEXED BY calls_busy
WHERE state IN ('queued', 'running')

-- name: over_waiting_of
-- Calls of one owner that wait for an answer: what others have is not looked at, however much it is.
SELECT c.accepted_at AS at, (c.session << 32) + c.accepted_seq AS key, c.id AS call
FROM sessions o CROSS JOIN calls c INDEXED BY calls_waiting ON c.session = o.n
WHERE o.owner = :owner AND c.state = 'waiting'

-- name: over_busy_of
-- What somebody runs or has to run for one owner.
SELECT c.accepted_at AS at, (c.session << 32) + c.accepted_seq AS key, c.id AS call
FROM sessions o CROSS JOIN calls c INDEXED BY calls_busy ON c.session = o.n
WHERE o.owner = :owner AND c.state IN ('queued', 'running')

-- name: own_events
-- How many sessions an owner has and how many events these hold, as far as it is looked.
SELECT count(*) AS sessions, coalesce(sum(last), 0) AS events FROM (
    SELECT (SELECT max(key) FROM events WHERE key > o.n << 32 AND key < (o.n + 1) << 32) & 4294967295 AS last
    FROM sessions o WHERE o.owner = :owner LIMIT :most
)

-- name: own_accepted
-- The calls of one owner, as they were accepted: nothing of others is looked at.
SELECT e.at AS at, e.key AS key, e.call AS call
FROM sessions o CROSS JOIN events e NOT INDEXED ON e.key > o.n << 32 AND e.key < (o.n + 1) << 32
WHERE o.owner = :owner AND e.kind = 'accepted'

-- name: own_ended
-- The calls of one owner, as they ended or were settled.
SELECT e.at AS at, e.key AS key, e.call AS call
FROM sessions o CROSS JOIN events e NOT INDEXED ON e.key > o.n << 32 AND e.key < (o.n + 1) << 32
WHERE o.owner = :owner AND e.kind IN ('done', 'settled')

-- name: log_accepted
-- The calls of one session, as they were accepted.
SELECT at, key, call FROM events NOT INDEXED WHERE key > :n << 32 AND key < (:n + 1) << 32 AND kind = 'accepted'

-- name: log_ended
-- The calls of one session, as they ended or were settled.
SELECT at, key, call FROM events NOT INDEXED WHERE key > :n << 32 AND key < (:n + 1) << 32 AND kind IN ('done', 'settled')

-- name: code_accepted
-- How a call ended, as far as it did.
coalesce(c.code, '')

-- name: code_ended
-- How it ended there: of one that was settled, nobody knew at first.
CASE WHEN c.done_seq <> (w.key & 4294967295) THEN 'unknown' ELSE coalesce(c.code, '') END

-- name: time_back_past
w.at <= :at AND (w.at < :at OR w.key < :key)

-- name: time_back_edge
w.at >= :edge_at AND (w.at > :edge_at OR w.key >= :edge_key)

-- name: time_back_order
w.at DESC, w.key DESC

-- name: time_forward_past
w.at >= :at AND (w.at > :at OR w.key > :key)

-- name: time_forward_edge
w.at <= :edge_at AND (w.at < :edge_at OR w.key <= :edge_key)

-- name: time_forward_order
w.at, w.key

-- name: log_back_past
w.key < :key

-- name: log_back_edge
w.key >= :edge_key

-- name: log_back_order
w.key DESC

-- name: log_forward_past
w.key > :key

-- name: log_forward_edge
w.key <= :edge_key

-- name: log_forward_order
w.key

-- name: expiring
-- The earliest first.
SELECT c.*, s.id AS session_id FROM calls c JOIN sessions s ON s.n = c.session
WHERE c.state = 'waiting' AND c.expires_at <= :before ORDER BY c.expires_at LIMIT :limit

-- name: open_calls
-- How many calls are not done, counted in the indexes of those alone.
SELECT state, count(*) FROM calls WHERE state IN ('queued', 'running') GROUP BY state
UNION ALL SELECT 'waiting', count(*) FROM calls WHERE state = 'waiting'

-- name: open_calls_of
-- The same of one owner.
SELECT c.state, count(*) FROM sessions s CROSS JOIN calls c INDEXED BY calls_busy ON c.session = s.n
WHERE s.owner = :owner AND c.state IN ('queued', 'running') GROUP BY c.state
UNION ALL SELECT 'waiting', count(*) FROM sessions s CROSS JOIN calls c INDEXED BY calls_waiting ON c.session = s.n
WHERE s.owner = :owner AND c.state = 'waiting'

-- name: next_expiry
-- One look at the index.
SELECT min(expires_at) FROM calls WHERE state = 'waiting'

-- name: cursor
-- Where a reader stands.
SELECT seq FROM cursors WHERE session = :n AND consumer = :consumer

-- name: move_cursor
-- Forward, never back.
INSERT INTO cursors (session, consumer, seq) VALUES (:n, :consumer, :seq)
ON CONFLICT (session, consumer) DO UPDATE SET seq = max(seq, excluded.seq)

-- name: keep
-- The same value twice is stored once.
INSERT INTO kept (session, id, data, crc) VALUES (:n, :id, :data, :crc) ON CONFLICT DO NOTHING

-- name: kept
-- A large value.
SELECT data FROM kept WHERE session = :n AND id = :id

-- name: forget_secrets
-- All that is kept of the secrets of a call: its arguments, and what has a name behind them.
DELETE FROM kept WHERE session = :n AND (id = :id OR (id >= :id || ':' AND id < :id || ';'))

-- name: kept_size
-- The bytes of a large value, which is not read for it.
SELECT length(data) FROM kept WHERE session = :n AND id = :id

-- name: idle
-- Sessions to sweep: unused since, nothing running, nothing that still waits. The logs of the crib itself stay.
SELECT s.n, s.id FROM sessions s WHERE s.updated_at < :before AND s.owner <> 'toolcrib' AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting' AND (c.expires_at IS NULL OR c.expires_at >= :now))
LIMIT :limit

-- name: idle_count
-- What a sweep would delete.
SELECT count(*) FROM sessions s WHERE s.updated_at < :before AND s.owner <> 'toolcrib' AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting' AND (c.expires_at IS NULL OR c.expires_at >= :now))

-- name: take_out
-- The same question once more under the lock: of two sweepers one takes it, and none takes what is used again.
DELETE FROM sessions WHERE n = :n AND updated_at < :before AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = sessions.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.session = sessions.n AND c.state = 'waiting' AND (c.expires_at IS NULL OR c.expires_at >= :now))

-- name: keep_swept
-- Its number, until all that bears it is deleted.
INSERT INTO swept (n) VALUES (:n)

-- name: delete_open
-- What has expired and would be found by its time.
DELETE FROM calls WHERE session = :n AND state = 'waiting'

-- name: delete_leases
-- No event names them, and a new session of that name has its own.
DELETE FROM calls INDEXED BY calls_leases WHERE session = :n AND (state = 'held' OR state = 'released' OR state = 'ended')

-- name: swept
-- What this sweep took out, and what one before it did not come to delete.
SELECT n FROM swept

-- name: delete_calls
-- Those of the next piece of the log, by their ids: done calls have no index by session.
DELETE FROM calls WHERE session = :n AND id IN (SELECT call FROM events WHERE key > :n << 32
    AND key < (:n + 1) << 32 AND key <= (SELECT min(key) + 5000 FROM events WHERE key > :n << 32))

-- name: delete_events
-- In pieces, so that no other writer waits long.
DELETE FROM events WHERE key > :n << 32 AND key < (:n + 1) << 32
AND key <= (SELECT min(key) + 5000 FROM events WHERE key > :n << 32)

-- name: left_of_swept
-- Whether there is another piece.
SELECT 1 FROM events WHERE key > :n << 32 AND key < (:n + 1) << 32 LIMIT 1

-- name: delete_kept
-- Its large values.
DELETE FROM kept WHERE session = :n

-- name: delete_cursors
-- Its readers' marks.
DELETE FROM cursors WHERE session = :n

-- name: forget_swept
-- All of it is gone.
DELETE FROM swept WHERE n = :n

-- name: spend
-- Takes one from every rate, or from none: each stands at the moment until which it is used up, never before now.
INSERT INTO rates (key, tat)
WITH asked AS (
    SELECT value ->> 0 AS key, value ->> 1 AS interval, value ->> 2 AS burst,
        max(:now, coalesce((SELECT tat FROM rates WHERE rates.key = value ->> 0), :now)) AS tat
    FROM json_each(:rates)
)
SELECT key, tat + interval FROM asked
WHERE NOT EXISTS (SELECT 1 FROM asked WHERE tat - :now - (burst - 1) * interval > :slack)
ON CONFLICT (key) DO UPDATE SET tat = excluded.tat

-- name: rate_wait
-- How long until every rate has one to give.
SELECT max(coalesce(r.tat, :now) - :now - (value ->> 2 - 1) * (value ->> 1))
FROM json_each(:rates) LEFT JOIN rates r ON r.key = value ->> 0

-- name: forget_rates
-- One that is not used up at all is as good as none.
DELETE FROM rates WHERE tat <= :now

-- name: delete_index
-- All rows of a session but leases, to be written anew from its log.
DELETE FROM calls WHERE session = :n AND state NOT IN ('held', 'released', 'ended')

-- name: delete_call
-- A call that the index had put under another session.
DELETE FROM calls WHERE id = :id

-- name: checked_events
-- Every line of the log with its checksum, as far as its schema has one.
SELECT s.id, e.key, e.at, e.call, e.kind, e.data, e.large, {crc} FROM events e LEFT JOIN sessions s ON s.n = e.key >> 32

-- name: checked_kept
-- Every large value with its checksum.
SELECT s.id, k.id, k.data, {crc} FROM kept k LEFT JOIN sessions s ON s.n = k.session

-- name: strays
-- Rows of sessions that are neither there nor being deleted.
SELECT 'events', count(*) FROM events WHERE key >> 32 NOT IN (SELECT n FROM sessions UNION ALL SELECT n FROM swept)
UNION ALL SELECT 'calls', count(*) FROM calls WHERE session NOT IN (SELECT n FROM sessions UNION ALL SELECT n FROM swept)
UNION ALL SELECT 'kept', count(*) FROM kept WHERE session NOT IN (SELECT n FROM sessions UNION ALL SELECT n FROM swept)
UNION ALL SELECT 'cursors', count(*) FROM cursors WHERE session NOT IN (SELECT n FROM sessions UNION ALL SELECT n FROM swept)

-- name: bad_cursors
-- Readers whose place is none.
SELECT s.id, c.consumer FROM cursors c JOIN sessions s ON s.n = c.session WHERE typeof(c.seq) <> 'integer' OR c.seq < 0

-- A backup has what belongs to sessions that are there, in the order of `toolcrib.store.backup.TABLES`.

-- name: backup_sessions
SELECT n, id, owner, revision, created_at, updated_at, closed FROM sessions

-- name: backup_events
SELECT e.key >> 32, e.key & 4294967295, e.at, e.call, e.kind, e.data, e.large, e.crc
FROM events e WHERE e.key >> 32 IN (SELECT n FROM sessions) ORDER BY e.key

-- name: backup_calls
SELECT id, session, tool, effect, state, attempt, NULL, accepted_at, background, parent, key, code, question, expires_at,
    crashes, accepted_seq, done_seq FROM calls WHERE session IN (SELECT n FROM sessions)

-- name: backup_cursors
SELECT session, consumer, seq FROM cursors WHERE session IN (SELECT n FROM sessions)

-- name: backup_kept
SELECT session, id, data, crc FROM kept WHERE session IN (SELECT n FROM sessions)

-- name: backup_rates
SELECT key, tat FROM rates

-- name: restore_sessions
INSERT INTO sessions (n, id, owner, revision, created_at, updated_at, closed) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: restore_events
INSERT INTO events (key, at, call, kind, data, large, crc) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: restore_calls
INSERT INTO calls (id, session, tool, effect, state, attempt, worker, accepted_at, background, parent, key, code, question,
    expires_at, crashes, accepted_seq, done_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: restore_cursors
INSERT INTO cursors (session, consumer, seq) VALUES (?, ?, ?)

-- name: restore_kept
INSERT INTO kept (session, id, data, crc) VALUES (?, ?, ?, ?)

-- name: restore_rates
INSERT INTO rates (key, tat) VALUES (?, ?)

-- name: cursors_of
-- How far each reader of a session has come.
SELECT consumer, seq FROM cursors WHERE session = :n

-- name: kept_of
-- The large values of a session.
SELECT id FROM kept WHERE session = :n ORDER BY id

-- name: adopt_session
-- A session that comes from elsewhere.
INSERT INTO sessions (id, owner, revision, created_at, updated_at, closed) VALUES (:id, :owner, :revision, :at, :used, :closed)
ON CONFLICT (id) DO NOTHING

-- name: busy
-- Whether a session has something to run.
SELECT 1 FROM calls INDEXED BY calls_busy WHERE session = :n AND state IN ('queued', 'running') LIMIT 1

-- name: unrolled
-- What counts and is not rolled up yet: the lines, who owns their sessions, and what is known of their calls.
SELECT u.id, s.owner, e.key, e.at, e.kind, e.data, e.call, a.key, a.data, c.question IS NOT NULL
FROM unrolled u LEFT JOIN events e ON e.key = u.key LEFT JOIN sessions s ON s.n = u.key >> 32
LEFT JOIN calls c ON c.id = e.call LEFT JOIN events a ON a.key = (c.session << 32) + c.accepted_seq
ORDER BY u.id LIMIT :limit

-- name: counted
-- The same of all that counts in one session, rolled up or not.
SELECT 0, :owner, e.key, e.at, e.kind, e.data, e.call, a.key, a.data, c.question IS NOT NULL
FROM events e LEFT JOIN calls c ON c.id = e.call LEFT JOIN events a ON a.key = (c.session << 32) + c.accepted_seq
WHERE e.key > :n << 32 AND e.key < (:n + 1) << 32 AND e.kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled')

-- name: last_wait
-- What came last of the questions of a call before a line of it.
SELECT kind, at FROM events WHERE key > :from AND key < :to AND call = :call AND kind IN ('waiting', 'answered', 'started')
ORDER BY key DESC LIMIT 1

-- name: rolled
-- They are counted now.
DELETE FROM unrolled WHERE id <= :id

-- name: unrolled_count
-- How many are left, as far as it is looked.
SELECT count(*) FROM (SELECT 1 FROM unrolled LIMIT 100000)

-- name: roll_up
-- Adds to what was counted before.
INSERT INTO rollups (cube, at, what, owner, tool, agent, code, count, total, slots) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET count = count + excluded.count, total = total + excluded.total, slots = merged(slots, excluded.slots)

-- name: tallies
-- One cube, in some time.
SELECT at, what, {name}, code, count, total, slots FROM rollups
WHERE cube = '{cube}' AND at >= :since AND at < :until {more}

-- name: tallies_of_owner
-- Of one owner.
AND owner = :owner

-- name: tallies_of_agent
-- Of one agent.
AND agent = :agent

-- name: tallies_of_tools
-- Of some tools.
AND tool IN (SELECT value FROM json_each(:tools))

-- name: rollups
-- All rows of a cube.
SELECT at, what, owner, tool, agent, code, count, total, slots FROM rollups WHERE cube = :cube AND at >= :since

-- name: forget_rollups
-- What is older than anybody looks.
DELETE FROM rollups WHERE (cube = 'minutes' AND at < :minutes) OR (cube <> 'minutes' AND at < :hours)

-- name: clear_rollups
-- All but what sessions that are gone had counted.
DELETE FROM rollups WHERE cube <> 'gone'

-- name: unroll
-- Everything is to be counted anew.
INSERT INTO unrolled (key) SELECT key FROM events
WHERE (key >> 32) IN (SELECT n FROM sessions) AND kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled')
