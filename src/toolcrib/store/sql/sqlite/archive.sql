-- name: archivable
-- Sessions for the archive: unused since, with nothing open. The logs of the crib itself stay.
SELECT id, owner, coalesce((SELECT max(e.key) - (s.n << 32) FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32), 0), revision, created_at, updated_at
FROM sessions s WHERE updated_at < :before AND owner <> 'toolcrib' AND (updated_at, id) > (:used, :id)
AND NOT EXISTS (SELECT 1 FROM calls c INDEXED BY calls_busy WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting')
ORDER BY updated_at, id LIMIT :limit

-- name: put_away
-- The same question once more under the lock: none is taken that was used since its log was read.
INSERT INTO archived (id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size, n)
SELECT id, owner, :seq, revision, created_at, updated_at, :archived_at, :sha256, :size, n FROM sessions s
WHERE id = :id AND updated_at = :used AND revision = :revision
AND :seq = coalesce((SELECT max(e.key) - (s.n << 32) FROM events e WHERE e.key > s.n << 32 AND e.key < (s.n + 1) << 32), 0)
AND NOT EXISTS (SELECT 1 FROM calls c INDEXED BY calls_busy WHERE c.session = s.n AND c.state IN ('queued', 'running'))
AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session = s.n AND c.state = 'waiting')
RETURNING n

-- name: delete_session
-- Whoever opens it finds nothing.
DELETE FROM sessions WHERE n = :n

-- name: find_archived
-- One archived session.
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived WHERE id = :id

-- name: archived
-- Of all owners, by id.
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived
WHERE id > :after ORDER BY id LIMIT :limit

-- name: archived_of
-- Of one owner.
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived
WHERE owner = :owner AND id > :after ORDER BY id LIMIT :limit

-- name: take_archived
-- It is about to be a session again; of two who do that, one finds it. Its old number tells what is left of it.
DELETE FROM archived WHERE id = :id AND sha256 = :sha256 RETURNING n

-- name: readopt_session
-- A session that comes back, in place of one of that id to which nothing was written.
INSERT INTO sessions (id, owner, revision, created_at, updated_at, closed) VALUES (:id, :owner, :revision, :at, :used, :closed)
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, revision = excluded.revision, created_at = excluded.created_at,
    updated_at = excluded.updated_at, closed = excluded.closed
WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.key > sessions.n << 32 AND e.key < (sessions.n + 1) << 32)
RETURNING n

-- name: last_unrolled
-- What comes behind it is new.
SELECT coalesce(max(id), 0) FROM unrolled

-- name: forget_unrolled
-- What came behind it was counted when it happened.
DELETE FROM unrolled WHERE id > :id

-- name: backup_archived
SELECT id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size FROM archived

-- name: restore_archived
INSERT INTO archived (id, owner, seq, revision, created_at, updated_at, archived_at, sha256, size, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
