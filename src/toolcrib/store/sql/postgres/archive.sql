-- name: archivable
-- Sessions for the archive: unused since, with nothing open. The logs of the crib itself stay.
SELECT s.id, s.owner, s.seq, s.revision, s.created_at, s.updated_at FROM sessions s
WHERE s.updated_at < $1 AND s.owner <> 'toolcrib' AND (s.updated_at, s.id) > ($2::float8, $3::text)
AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting')
ORDER BY s.updated_at, s.id LIMIT $4

-- name: lock_archivable
-- Nobody writes to them while they are taken, and none waits for a writer.
SELECT s.n FROM sessions s JOIN unnest($1::text[], $2::integer[]) AS e (id, seq) ON s.id = e.id AND s.seq = e.seq
ORDER BY s.n FOR UPDATE OF s SKIP LOCKED

-- name: put_away
-- The same question once more under the lock: none is taken that was used since its log was read.
WITH gone AS (
    DELETE FROM sessions s USING unnest($2::text[], $3::integer[], $4::float8[], $5::text[], $6::bigint[])
        AS e (id, seq, archived_at, sha256, size)
    WHERE s.n = ANY ($1::bigint[]) AND s.id = e.id AND s.seq = e.seq
    AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session = s.n AND c.state IN ('queued', 'running', 'waiting'))
    RETURNING s.n, s.id, s.owner, s.seq, s.revision, s.created_at, s.updated_at, e.archived_at, e.sha256, e.size
), numbers AS (
    INSERT INTO swept (n) SELECT n FROM gone
), leases AS (
    DELETE FROM calls c USING gone WHERE c.session = gone.n AND c.state IN ('held', 'released', 'ended')
)
INSERT INTO archived (id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size, n)
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size, n FROM gone RETURNING n, id

-- name: find_archived
-- One archived session.
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived WHERE id = $1

-- name: archived
-- Of all owners, or of one, by id.
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived
WHERE ($1::text IS NULL OR owner = $1) AND id > $2 ORDER BY id LIMIT $3

-- name: take_archived
-- It is about to be a session again; of two who do that, one finds it. Its old number tells what is left of it.
DELETE FROM archived WHERE id = $1 AND sha256 = $2 RETURNING n

-- name: readopt_session
-- A session that comes back, in place of one of that id to which nothing was written.
INSERT INTO sessions AS s (id, owner, seq, own, revision, created_at, updated_at, closed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, seq = excluded.seq, own = excluded.own, revision = excluded.revision,
    created_at = excluded.created_at, updated_at = excluded.updated_at, closed = excluded.closed
WHERE s.seq = 0 RETURNING n

-- name: delete_remains
-- What is not deleted yet of a session that comes back under another number.
WITH lines AS (DELETE FROM events WHERE session = $1), large AS (DELETE FROM kept WHERE session = $1),
marks AS (DELETE FROM cursors WHERE session = $1)
DELETE FROM calls WHERE session = $1

-- name: forget_unrolled
-- What comes back was counted when it happened.
DELETE FROM unrolled WHERE session = $1

-- name: backup_archived
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived ORDER BY id
