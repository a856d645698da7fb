-- Writes on behalf of a call that runs. A second `toolcrib_write` beside the first, which nodes of an older version still
-- use until they are replaced: what they write is guarded as it was.
--
-- A batch of writes at one blow: all guards are judged under the locks of their sessions, and what passed is numbered
-- and written. Every statement has a snapshot of its own, so that those after the locks see what came before them.
-- The same batch again writes nothing and returns what became of it.
--
-- `s_` are sessions, `w_` writes in order, `u_` guarded units (a call's row, or a session's revision; a write without a
-- guard has unit 0), `e_` events and `k_` large values, each with the place of its write. `u_holder` is the call on whose
-- behalf a unit is written and `u_held` its attempt; `u_after` is the place of an earlier unit of this batch which leaves
-- that call running in that attempt, so that its verdict decides.
-- An outcome is the number of the write's first event, or why there is none: -1 another row stands, -2 the revision
-- moved, -3 there is no such session, -4 no place is free, -5 it is not its turn, -6 its holder runs no more.
CREATE FUNCTION toolcrib_write(
    writer_ text, number_ bigint, sender text, per_session integer, per_owner integer,
    s_id text[],
    w_session integer[], w_unit integer[], w_count integer[], w_own integer[], w_at float8[], w_revision integer[],
    u_session integer[], u_call text[], u_expect text[], u_fence integer[], u_revision integer[], u_bounded boolean[],
    u_serial boolean[], u_first integer[], u_last integer[],
    u_tool text[], u_effect text[], u_state text[], u_attempt integer[], u_worker text[], u_accepted_at float8[],
    u_background boolean[], u_parent text[], u_key text[], u_code text[], u_question text[], u_expires_at float8[],
    u_crashes integer[], u_holder text[], u_held integer[], u_after integer[],
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
    place integer;
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
            WHEN u.holder IS NOT NULL AND u.after IS NULL AND h.id IS NULL THEN -6
            WHEN u.revision <> revisions[u.session] THEN -2
            WHEN u.call IS NULL THEN 0
            WHEN u.expect IS NULL THEN CASE WHEN c.id IS NULL AND k.id IS NULL THEN 0 ELSE -1 END
            WHEN c.state = u.expect AND c.attempt = u.fence AND c.session = ns[u.session] THEN 0
            ELSE -1 END ORDER BY u.i)
        INTO verdicts
        FROM unnest(u_session, u_call, u_expect, u_fence, u_revision, u_key, u_holder, u_held, u_after)
            WITH ORDINALITY u(session, call, expect, fence, revision, key, holder, held, after, i)
        LEFT JOIN calls c ON c.id = u.call
        LEFT JOIN calls k ON k.session = ns[u.session] AND k.key = u.key
        LEFT JOIN calls h ON h.id = u.holder AND h.session = ns[u.session] AND h.state = 'running'
            AND h.attempt = u.held;
        FOR place IN SELECT i FROM unnest(u_after) WITH ORDINALITY u(after, i) WHERE u.after IS NOT NULL ORDER BY i LOOP
            IF verdicts[place] = 0 AND verdicts[u_after[place]] < 0 THEN
                verdicts[place] := -6;
            END IF;
        END LOOP;
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
