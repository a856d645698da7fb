-- Rates: the moment until which each is used up, in seconds since 1970.
CREATE TABLE rates (
    key TEXT PRIMARY KEY,
    tat REAL NOT NULL
) WITHOUT ROWID;

-- Aomi's table as a view of the log, where a call that was settled after its `done` stands once, as it was settled.
-- The plus keeps SQLite to the log's own order: done calls have no index by session.
DROP VIEW session_tool_state;
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
                WHERE d.kind IN ('done', 'settled') AND +d.key = (s.n << 32) + c.done_seq
                AND d.key < (s.n + 1) << 32 AND d.key > (s.n << 32) + coalesce(
                    (SELECT seq FROM cursors WHERE session = s.n AND consumer = 'model'), 0)
                ORDER BY d.key)), '[]'))
    ) AS handler_state,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at, 'unixepoch') AS created_at
FROM sessions s;
