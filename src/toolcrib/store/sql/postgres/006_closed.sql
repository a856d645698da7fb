-- Whether a session was closed and takes no new calls until it is opened again.
ALTER TABLE sessions ADD COLUMN closed boolean NOT NULL DEFAULT false;

-- What is written since says -7 of a call that would enter a closed session, notes where a session is closed or opened,
-- and tells other nodes of changes of the state as of a session's own events. The rest of the function stays as it is.
DO $patch$
DECLARE
    source text;
    part text[];
BEGIN
    SELECT pg_get_functiondef(p.oid) INTO STRICT source FROM pg_proc p
    WHERE p.proname = 'toolcrib_write' AND p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND 'u_holder' = ANY (p.proargnames);
    FOREACH part SLICE 1 IN ARRAY ARRAY[
        ['WHEN u.expect IS NULL THEN CASE', 'WHEN u.expect IS NULL AND u_parent[u.i] IS NULL
                AND (u_state[u.i] IN (''queued'', ''waiting'') OR (u_state[u.i] = ''running'' AND u_effect[u.i] = ''once''))
                AND (SELECT s.closed FROM sessions s WHERE s.n = ns[u.session]) THEN -7
            WHEN u.expect IS NULL THEN CASE'],
        ['h.own IS NOT NULL AS own', 'h.own IS NOT NULL OR h.revision IS NOT NULL AS own'],
        ['    UPDATE batches b SET number = number_', '    IF ''closing'' = ANY (e_kind) OR ''opened'' = ANY (e_kind) THEN
        UPDATE sessions s SET closed = d.kind = ''closing'' FROM (
            SELECT DISTINCT ON (w_session[e.write]) ns[w_session[e.write]] AS n, e.kind
            FROM unnest(e_write, e_place, e_call, e_kind) e(write, place, call, kind)
            WHERE e.call IS NULL AND e.kind IN (''closing'', ''opened'') AND outcome[e.write] > 0
            ORDER BY w_session[e.write], e.write DESC, e.place DESC
        ) d WHERE s.n = d.n;
    END IF;

    UPDATE batches b SET number = number_']
    ] LOOP
        IF strpos(source, part[1]) = 0 THEN
            RAISE EXCEPTION 'toolcrib_write has no "%"', part[1];
        END IF;
        source := replace(source, part[1], part[2]);
    END LOOP;
    EXECUTE source;
END $patch$;
