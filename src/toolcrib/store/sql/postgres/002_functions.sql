-- A batch of writes at one blow: all guards are judged under the locks of their sessions, and what passed is numbered
-- and written. Every statement has a snapshot of its own, so that those after the locks see what came before them.
-- The same batch again writes nothing and returns what became of it.
--
-- `s_` are sessions, `w_` writes in order, `u_` guarded units (a call's row, or a session's revision; a write without a
-- guard has unit 0), `e_` events and `k_` large values, each with the place of its write.
-- An outcome is the number of the write's first event, or why there is none: -1 another row stands, -2 the revision
-- moved, -3 there is no such session, -4 no place is free, -5 it is not its turn.
CREATE FUNCTION toolcrib_write(
    writer_ text, number_ bigint, sender text, per_session integer, per_owner integer,
    s_id text[],
    w_session integer[], w_unit integer[], w_count integer[], w_own integer[], w_at float8[], w_revision integer[],
    u_session integer[], u_call text[], u_expect text[], u_fence integer[], u_revision integer[], u_bounded boolean[],
    u_serial boolean[], u_first integer[], u_last integer[],
    u_tool text[], u_effect text[], u_state text[], u_attempt integer[], u_worker text[], u_accepted_at float8[],
    u_background boolean[], u_parent text[], u_key text[], u_code text[], u_question text[], u_expires_at float8[],
    u_crashes integer[],
    e_write integer[], e_place integer[], e_at float8[], e_call text[], e_kind text[], e_data text[], e_large text[],
    k_write integer[], k_id text[], k_data bytea[],
    OUT outcome integer[], OUT freed text[]
) LANGUAGE plpgsql
-- Each statement is planned once, for tables of any size: from the batch by index into the tables.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    last bigint;
    ns bigint[];
    seqs integer[];
    revisions integer[];
    owners text[];
    verdicts integer[];
    now_ float8 := extract(epoch FROM clock_timestamp());
BEGIN
    -- One batch of a writer at a time, even where an earlier connection of it has not ended yet. The row must be there,
    -- since what is not there cannot be locked.
    SELECT b.number, b.outcome INTO last, outcome FROM batches b WHERE b.writer = writer_ FOR UPDATE;
    IF last IS NULL THEN
        INSERT INTO batches (writer, number, outcome, at) VALUES (writer_, 0, '{}', clock_timestamp())
        ON CONFLICT DO NOTHING;
        SELECT b.number, b.outcome INTO last, outcome FROM batches b WHERE b.writer = writer_ FOR UPDATE;
    END IF;
    IF last >= number_ THEN
        RETURN;
    END IF;

    IF per_owner IS NOT NULL THEN
        PERFORM toolcrib_lock_owners(s_id, u_session, u_expect, u_state, u_bounded);
    END IF;
    PERFORM 1 FROM sessions WHERE id = ANY (s_id) ORDER BY n FOR NO KEY UPDATE;
    SELECT array_agg(s.n ORDER BY w.i), array_agg(s.seq ORDER BY w.i), array_agg(s.revision ORDER BY w.i),
        array_agg(s.owner ORDER BY w.i)
    INTO ns, seqs, revisions, owners
    FROM unnest(s_id) WITH ORDINALITY w(id, i) LEFT JOIN sessions s ON s.id = w.id;

    IF cardinality(u_session) > 0 THEN
        SELECT array_agg(CASE
            WHEN ns[u.session] IS NULL THEN -3
            WHEN u.revision <> revisions[u.session] THEN -2
            WHEN u.call IS NULL THEN 0
            WHEN u.expect IS NULL THEN CASE WHEN c.id IS NULL AND k.id IS NULL THEN 0 ELSE -1 END
            WHEN c.state = u.expect AND c.attempt = u.fence AND c.session = ns[u.session] THEN 0
            ELSE -1 END ORDER BY u.i)
        INTO verdicts
        FROM unnest(u_session, u_call, u_expect, u_fence, u_revision, u_key)
            WITH ORDINALITY u(session, call, expect, fence, revision, key, i)
        LEFT JOIN calls c ON c.id = u.call
        LEFT JOIN calls k ON k.session = ns[u.session] AND k.key = u.key;
        IF true = ANY (u_bounded) OR true = ANY (u_serial) THEN
            verdicts := toolcrib_bound(per_session, per_owner, now_, verdicts, ns, owners, u_session, u_call, u_expect,
                u_state, u_parent, u_bounded, u_serial);
        END IF;
    END IF;

    SELECT array_agg(CASE WHEN verdict < 0 THEN verdict ELSE seqs[session] + 1 + before END ORDER BY i) INTO outcome
    FROM (
        SELECT i, session, verdict, coalesce(sum(CASE WHEN verdict = 0 THEN count ELSE 0 END) OVER (
            PARTITION BY session ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::integer AS before
        FROM (
            SELECT w.i, w.session, w.count, CASE
                WHEN ns[w.session] IS NULL THEN -3 WHEN w.unit = 0 THEN 0 ELSE verdicts[w.unit] END AS verdict
            FROM unnest(w_session, w_unit, w_count) WITH ORDINALITY w(session, unit, count, i)
        ) judged
    ) numbered;

    INSERT INTO events (session, seq, at, call, kind, data, large)
    SELECT ns[w_session[e.write]], outcome[e.write] + e.place, e.at, e.call, e.kind, e.data, e.large
    FROM unnest(e_write, e_place, e_at, e_call, e_kind, e_data, e_large) e(write, place, at, call, kind, data, large)
    WHERE outcome[e.write] > 0;

    IF cardinality(k_write) > 0 THEN
        INSERT INTO kept (session, id, data)
        SELECT ns[w_session[k.write]], k.id, k.data FROM unnest(k_write, k_id, k_data) k(write, id, data)
        WHERE outcome[k.write] > 0 ON CONFLICT DO NOTHING;
    END IF;

    IF cardinality(u_session) > 0 THEN
        INSERT INTO calls (id, session, owner, tool, effect, state, attempt, worker, accepted_at, background, parent, key,
            code, question, expires_at, crashes, accepted_seq, done_seq, queued_at)
        SELECT u.call, ns[u.session], owners[u.session], u.tool, u.effect, u.state, u.attempt, u.worker, u.accepted_at,
            u.background, u.parent, u.key, u.code, u.question, u.expires_at, u.crashes, outcome[u.first],
            CASE WHEN u.state = 'done' THEN outcome[u.last] + w_count[u.last] - 1 END,
            CASE WHEN u.state = 'queued' THEN now_ END
        FROM unnest(u_session, u_call, u_expect, u_first, u_last, u_tool, u_effect, u_state, u_attempt, u_worker,
            u_accepted_at, u_background, u_parent, u_key, u_code, u_question, u_expires_at, u_crashes)
            WITH ORDINALITY u(session, call, expect, first, last, tool, effect, state, attempt, worker, accepted_at,
                background, parent, key, code, question, expires_at, crashes, i)
        WHERE u.call IS NOT NULL AND u.expect IS NULL AND verdicts[u.i] = 0;

        UPDATE calls c SET state = u.state, attempt = u.attempt, worker = u.worker, code = u.code,
            question = u.question, expires_at = u.expires_at, crashes = u.crashes, parked = false, turn = NULL, reserved_until = NULL,
            done_seq = CASE WHEN u.state = 'done' THEN outcome[u.last] + w_count[u.last] - 1 ELSE c.done_seq END,
            queued_at = CASE WHEN u.state = 'queued' THEN now_ END
        FROM unnest(u_call, u_expect, u_last, u_state, u_attempt, u_worker, u_code, u_question, u_expires_at, u_crashes)
            WITH ORDINALITY u(call, expect, last, state, attempt, worker, code, question, expires_at, crashes, i)
        WHERE c.id = u.call AND u.expect IS NOT NULL AND verdicts[u.i] = 0;

        -- One that found no place is parked, where it was not before.
        IF -4 = ANY (verdicts) OR -5 = ANY (verdicts) THEN
            UPDATE calls c SET parked = true, reserved_until = NULL, turn = CASE WHEN u.verdict = -5 THEN c.tool END
            FROM unnest(u_call, verdicts) u(call, verdict) WHERE c.id = u.call AND u.verdict IN (-4, -5);
        END IF;
    END IF;

    WITH moved AS (
        UPDATE sessions s SET seq = h.seq, own = coalesce(h.own, s.own), revision = coalesce(h.revision, s.revision),
            updated_at = CASE WHEN h.at >= s.updated_at + 1 THEN h.at ELSE s.updated_at END
        FROM (
            SELECT ns[w.session] AS n, seqs[w.session] + sum(w.count)::integer AS seq, max(w.at) AS at,
                max(CASE WHEN w.own > 0 THEN outcome[w.i] + w.own - 1 END) AS own, max(w.revision) AS revision
            FROM unnest(w_session, w_count, w_own, w_at, w_revision) WITH ORDINALITY w(session, count, own, at, revision, i)
            WHERE outcome[w.i] > 0 GROUP BY w.session
        ) h WHERE s.n = h.n
        RETURNING s.n, s.seq, h.own IS NOT NULL AS own
    ), told AS (
        SELECT (row_number() OVER () - 1) / 250 AS part, n || ':' || seq || CASE WHEN own THEN '!' ELSE '' END AS pair
        FROM moved
    ), sent AS (
        SELECT pg_notify(toolcrib_channel(), sender || ' ' || string_agg(pair, ' ')) FROM told GROUP BY part
    )
    SELECT count(*) INTO last FROM sent;

    IF per_session IS NOT NULL OR per_owner IS NOT NULL THEN
        freed := toolcrib_unpark(
            per_session, per_owner, now_, ns, owners, verdicts, u_session, u_call, u_expect, u_state);
    END IF;

    UPDATE batches b SET number = number_, outcome = toolcrib_write.outcome, at = clock_timestamp()
    WHERE b.writer = writer_;
END $$;

-- Where the stores of one schema tell each other what moved.
CREATE FUNCTION toolcrib_channel() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT left('toolcrib_' || current_schema(), 63)
$$;

-- Who counts the calls of an owner, or frees one of its places, does so alone. In order, so that no two wait for each
-- other.
CREATE FUNCTION toolcrib_lock_owners(
    s_id text[], u_session integer[], u_expect text[], u_state text[], u_bounded boolean[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(lock) FROM (
        SELECT DISTINCT hashtextextended(current_schema() || ' ' || s.owner, 0) AS lock
        FROM unnest(u_session, u_expect, u_state, u_bounded) u(session, expect, state, bounded)
        JOIN sessions s ON s.id = s_id[u.session]
        WHERE u.bounded OR u.state IN ('done', 'waiting') OR u.expect = 'running' ORDER BY 1
    ) locks;
END $$;

-- Of the claims that are bounded, as many in order as there is room for after what else this batch begins and ends, and
-- what is reserved. A call that another one made has its parent's place. Of those of a serial tool, one in a session runs
-- at a time.
CREATE FUNCTION toolcrib_bound(
    per_session integer, per_owner integer, now_ float8, verdicts integer[], ns bigint[], owners text[],
    u_session integer[], u_call text[], u_expect text[], u_state text[], u_parent text[], u_bounded boolean[],
    u_serial boolean[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (WITH units AS (
        SELECT i, ns[u.session] AS n, owners[u.session] AS owner, u.call, u.bounded,
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
            SELECT 1 FROM units o WHERE o.claims AND o.n = units.n AND o.serial = units.serial AND o.i < units.i)))
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

-- Where something ended, as many of the parked calls, the oldest first, may be tried again as there is room for.
CREATE FUNCTION toolcrib_unpark(
    per_session integer, per_owner integer, now_ float8, ns bigint[], owners text[], verdicts integer[],
    u_session integer[], u_call text[], u_expect text[], u_state text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    ended bigint[];
    whose text[];
    found text[];
BEGIN
    SELECT array_agg(DISTINCT ns[u.session]), array_agg(DISTINCT owners[u.session]) INTO ended, whose
    FROM unnest(u_session, u_expect, u_state) WITH ORDINALITY u(session, expect, state, i)
    WHERE verdicts[u.i] = 0 AND (u.state IN ('done', 'waiting') OR (u.expect = 'running' AND u.state <> 'running'));
    IF ended IS NULL OR NOT EXISTS (SELECT 1 FROM calls WHERE parked AND owner = ANY (whose)) THEN
        RETURN NULL;
    END IF;
    -- Whose turn it is comes first, one for each tool that ended in a session; it may then find no place, like any other.
    WITH next AS (
        SELECT DISTINCT ON (p.session, p.tool) p.id
        FROM unnest(u_call, u_state) WITH ORDINALITY u(call, state, i) JOIN calls e ON e.id = u.call
        JOIN calls p ON p.parked AND p.owner = e.owner AND p.session = e.session AND p.turn = e.tool
        WHERE verdicts[u.i] = 0 AND u.state <> 'running' ORDER BY p.session, p.tool, p.accepted_at, p.accepted_seq
    ), candidates AS (
        SELECT p.* FROM unnest(ended) e(n) CROSS JOIN LATERAL (
            SELECT id, session, owner, accepted_at, accepted_seq FROM calls
            WHERE session = e.n AND parked AND turn IS NULL ORDER BY accepted_at, accepted_seq LIMIT 64) p
        UNION
        SELECT p.* FROM unnest(CASE WHEN per_owner IS NOT NULL THEN whose END) w(owner) CROSS JOIN LATERAL (
            SELECT id, session, owner, accepted_at, accepted_seq FROM calls
            WHERE owner = w.owner AND parked AND turn IS NULL ORDER BY accepted_at, accepted_seq LIMIT 64) p
    ), rooms AS (
        SELECT owner, session, per_session - (
            SELECT count(*) FROM calls c
            WHERE c.owner = d.owner AND c.session = d.session AND c.state = 'running' AND c.parent IS NULL
        ) - (
            SELECT count(*) FROM calls c WHERE c.owner = d.owner AND c.session = d.session AND c.reserved_until > now_
        ) AS room FROM (SELECT DISTINCT owner, session FROM candidates) d
    ), owner_rooms AS (
        SELECT owner, per_owner - (
            SELECT count(*) FROM calls c WHERE c.owner = d.owner AND c.state = 'running' AND c.parent IS NULL
        ) - (
            SELECT count(*) FROM calls c WHERE c.owner = d.owner AND c.reserved_until > now_
        ) AS room FROM (SELECT DISTINCT owner FROM candidates) d
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY session ORDER BY accepted_at, accepted_seq) AS of_session FROM candidates
    ), roomy AS (
        SELECT r.id, r.owner, row_number() OVER (PARTITION BY r.owner ORDER BY r.accepted_at, r.accepted_seq) AS of_owner
        FROM ranked r JOIN rooms USING (owner, session) WHERE per_session IS NULL OR of_session <= rooms.room
    ), free AS (
        SELECT id FROM roomy r JOIN owner_rooms USING (owner) WHERE per_owner IS NULL OR of_owner <= owner_rooms.room
    ), mine AS (
        SELECT id FROM calls WHERE id IN (SELECT id FROM free UNION ALL SELECT id FROM next) AND parked
        FOR UPDATE SKIP LOCKED
    ), tried AS (
        UPDATE calls c SET parked = false, turn = NULL, queued_at = now_, reserved_until = now_ + 0.5 FROM mine WHERE c.id = mine.id
        RETURNING c.id, c.accepted_at, c.accepted_seq
    )
    SELECT array_agg(id ORDER BY accepted_at, accepted_seq) INTO found FROM tried;
    RETURN found;
END $$;

-- Rates by the generic cell rate algorithm: all give one, or none does. Each stands at the moment until which it is used
-- up. A rate is locked where it stands, in order, so that no two wait for each other.
CREATE FUNCTION toolcrib_spend(keys text[], intervals float8[], bursts integer[], given float8, slack float8)
RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    now_ float8;
    wait float8;
BEGIN
    INSERT INTO rates (key, tat) SELECT key, '-infinity' FROM unnest(keys) key ORDER BY key ON CONFLICT DO NOTHING;
    PERFORM 1 FROM rates WHERE key = ANY (keys) ORDER BY key FOR NO KEY UPDATE;
    now_ := coalesce(given, extract(epoch FROM clock_timestamp()));
    SELECT max(greatest(r.tat, now_) - now_ - (asked.burst - 1) * asked.interval) INTO wait
    FROM unnest(keys, intervals, bursts) asked(key, interval, burst) JOIN rates r ON r.key = asked.key;
    IF wait > slack THEN
        RETURN wait;
    END IF;
    UPDATE rates r SET tat = greatest(r.tat, now_) + asked.interval
    FROM unnest(keys, intervals) asked(key, interval) WHERE r.key = asked.key;
    RETURN 0;
END $$;
