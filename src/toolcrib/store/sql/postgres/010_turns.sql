-- Calls of a serial tool run in the order in which they were accepted, whichever of their claims comes first.
--
-- Of the claims that are bounded, as many in order as there is room for after what else this batch begins and ends, and
-- what is reserved. A call that another one made has its parent's place. Of those of a serial tool, one in a session runs
-- at a time: the first that was accepted of all that are queued. One that another call made waits for none that is
-- queued, which may wait for the place of its parent.
CREATE OR REPLACE FUNCTION toolcrib_bound(
    per_session integer, per_owner integer, now_ float8, verdicts integer[], ns bigint[], owners text[],
    u_session integer[], u_call text[], u_expect text[], u_state text[], u_parent text[], u_bounded boolean[],
    u_serial boolean[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (WITH units AS (
        SELECT i, ns[u.session] AS n, owners[u.session] AS owner, u.call, u.bounded, c.accepted_seq AS seq,
            verdicts[i] = 0 AND u.expect = 'queued' AND (u.bounded OR u.serial) AS claims,
            CASE WHEN u.serial THEN c.tool END AS serial,
            verdicts[i] = 0 AND u.state <> 'running' AS ends,
            CASE WHEN verdicts[i] <> 0 OR u.call IS NULL OR (u.bounded AND u.expect = 'queued')
                    OR coalesce(c.parent, u.parent) IS NOT NULL THEN 0
                ELSE (u.state = 'running')::integer - coalesce(u.expect = 'running', false)::integer END AS change
        FROM unnest(u_session, u_call, u_expect, u_state, u_parent, u_bounded, u_serial)
            WITH ORDINALITY u(session, call, expect, state, parent, bounded, serial, i)
        LEFT JOIN calls c ON c.id = u.call
    ), sessions_now AS (
        SELECT n, sum(change) + (
            SELECT count(*) FROM calls c
            WHERE c.owner = units.owner AND c.session = units.n AND c.state = 'running' AND c.parent IS NULL
        ) + (
            SELECT count(*) FROM calls c WHERE c.owner = units.owner AND c.session = units.n
            AND c.reserved_until > now_ AND c.id <> ALL (u_call)) AS running
        FROM units GROUP BY n, owner HAVING bool_or(claims AND bounded)
    ), owners_now AS (
        SELECT owner, sum(change) + (
            SELECT count(*) FROM calls c WHERE c.owner = units.owner AND c.state = 'running' AND c.parent IS NULL
        ) + (
            SELECT count(*) FROM calls c WHERE c.owner = units.owner
            AND c.reserved_until > now_ AND c.id <> ALL (u_call)) AS running
        FROM units WHERE per_owner IS NOT NULL GROUP BY owner HAVING bool_or(claims AND bounded)
    ), in_turn AS (
        SELECT i, units.n, owner, bounded FROM units WHERE claims AND (serial IS NULL OR (NOT EXISTS (
            SELECT 1 FROM calls c WHERE c.owner = units.owner AND c.session = units.n AND c.state = 'running'
            AND c.tool = units.serial AND NOT EXISTS (SELECT 1 FROM units o WHERE o.call = c.id AND o.ends)
        ) AND NOT EXISTS (
            SELECT 1 FROM units o WHERE o.claims AND o.n = units.n AND o.serial = units.serial
            AND (o.bounded, o.seq) < (units.bounded, units.seq)
        ) AND NOT (units.bounded AND EXISTS (
            SELECT 1 FROM calls c WHERE c.session = units.n AND c.state = 'queued' AND c.accepted_seq < units.seq
            AND c.tool = units.serial AND c.parent IS NULL
            AND NOT EXISTS (SELECT 1 FROM units o WHERE o.call = c.id AND o.ends)))))
    ), fits AS (
        SELECT i, in_turn.n, owner, per_session IS NULL
            OR running + row_number() OVER (PARTITION BY in_turn.n ORDER BY i) <= per_session AS fits
        FROM in_turn JOIN sessions_now ON sessions_now.n = in_turn.n WHERE bounded
    ), passed AS (
        SELECT i FROM (
            SELECT i, per_owner IS NULL
                OR running + row_number() OVER (PARTITION BY fits.owner ORDER BY i) <= per_owner AS passes
            FROM fits LEFT JOIN owners_now ON owners_now.owner = fits.owner WHERE fits
        ) ranked WHERE passes
        UNION ALL SELECT i FROM in_turn WHERE NOT bounded
    )
    SELECT array_agg(CASE WHEN NOT units.claims OR passed.i IS NOT NULL THEN verdicts[units.i]
        WHEN in_turn.i IS NULL THEN -5 ELSE -4 END ORDER BY units.i)
    FROM units LEFT JOIN passed ON passed.i = units.i LEFT JOIN in_turn ON in_turn.i = units.i);
END $$;
