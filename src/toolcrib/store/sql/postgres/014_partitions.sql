-- A store may be divided by hash of its sessions: every key of a table then holds the session, as a Postgres of several
-- servers demands it too. Nothing is divided by this step, which adds what does it; nodes of an older version go on.
--
-- In a divided store, a session's number stands in `session_ids` and a call's session in `call_ids`: what is known by its
-- id alone finds its partition there. Both follow their tables, whoever writes to those.
CREATE OR REPLACE FUNCTION toolcrib_sessions_named() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO session_ids (id, n) SELECT w.id, w.n FROM written w
    WHERE NOT EXISTS (SELECT 1 FROM session_ids i WHERE i.id = w.id AND i.n = w.n);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION toolcrib_sessions_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM session_ids i USING gone WHERE i.id = gone.id AND i.n = gone.n;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION toolcrib_calls_named() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO call_ids (id, session) SELECT id, session FROM written;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION toolcrib_calls_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM call_ids i USING gone WHERE i.id = gone.id AND i.session = gone.session;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION toolcrib_names_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('TRUNCATE %I', TG_ARGV[0]);
    RETURN NULL;
END $$;

-- Exchanges parts of a function's text, all of which must be there.
CREATE OR REPLACE FUNCTION toolcrib_patch(name text, parts text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    source text;
    part text[];
BEGIN
    SELECT pg_get_functiondef(p.oid) INTO STRICT source FROM pg_proc p
    WHERE p.proname = name AND p.pronamespace = current_schema()::regnamespace;
    FOREACH part SLICE 1 IN ARRAY parts LOOP
        IF strpos(source, part[1]) = 0 THEN
            RAISE EXCEPTION '% has no "%"', name, part[1];
        END IF;
        source := replace(source, part[1], part[2]);
    END LOOP;
    EXECUTE source;
END $$;

-- One table in so many partitions, with its rows, its indexes and its triggers. `unlike` are indexes that are not taken over.
CREATE OR REPLACE FUNCTION toolcrib_divide_table(name text, by text, key text, count integer, unlike text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    whole oid := name::regclass;
    indexes text[];
    triggers text[];
    numbered text;
    next bigint;
    options text;
    statement text;
BEGIN
    SELECT array_agg(pg_get_indexdef(i.indexrelid)) INTO indexes FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = whole AND c.relname <> ALL (unlike)
    AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = i.indexrelid);
    SELECT array_agg(pg_get_triggerdef(t.oid)) INTO triggers FROM pg_trigger t WHERE t.tgrelid = whole AND NOT t.tgisinternal;
    SELECT attname INTO numbered FROM pg_attribute WHERE attrelid = whole AND attidentity <> '';
    SELECT coalesce(' WITH (' || array_to_string(reloptions, ', ') || ')', '') INTO options FROM pg_class WHERE oid = whole;
    IF numbered IS NOT NULL THEN
        next := coalesce(pg_sequence_last_value(pg_get_serial_sequence(name, numbered)), 0) + 1;
    END IF;

    EXECUTE format('ALTER TABLE %I RENAME TO %I', name, name || '_whole');
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) PARTITION BY HASH (%I)',
        name, name || '_whole', by);
    FOR place IN 0 .. count - 1 LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)%s',
            name || '_p' || place, name, count, place, options);
    END LOOP;
    EXECUTE format('INSERT INTO %I SELECT * FROM %I', name, name || '_whole');
    EXECUTE format('DROP TABLE %I', name || '_whole');
    EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (%s)', name, key);
    IF numbered IS NOT NULL THEN
        EXECUTE format('CREATE SEQUENCE %I START %s OWNED BY %I.%I', name || '_' || numbered || '_seq', next, name, numbered);
        EXECUTE format('ALTER TABLE %I ALTER %I SET DEFAULT nextval(%L)', name, numbered, name || '_' || numbered || '_seq');
    END IF;
    FOREACH statement IN ARRAY coalesce(indexes, '{}') || coalesce(triggers, '{}') LOOP
        EXECUTE statement;
    END LOOP;
END $$;

-- Divides a store that nobody uses, in the transaction of whoever calls it.
CREATE OR REPLACE FUNCTION toolcrib_divide(count integer) RETURNS void LANGUAGE plpgsql AS $divide$
DECLARE
    shown text := pg_get_viewdef('session_tool_state'::regclass);
BEGIN
    LOCK TABLE sessions, swept, events, calls, cursors, kept, unrolled, nodes, batches IN ACCESS EXCLUSIVE MODE;
    DROP VIEW session_tool_state;
    PERFORM toolcrib_divide_table('sessions', 'n', 'n', count, '{}'),
        toolcrib_divide_table('swept', 'n', 'n', count, '{}'),
        toolcrib_divide_table('events', 'session', 'session, seq', count, '{events_of_call}'),
        toolcrib_divide_table('calls', 'session', 'session, id', count, '{calls_parent}'),
        toolcrib_divide_table('cursors', 'session', 'session, consumer', count, '{}'),
        toolcrib_divide_table('kept', 'session', 'session, id', count, '{}'),
        toolcrib_divide_table('unrolled', 'session', 'session, id', count, '{}');
    CREATE INDEX events_of_call ON events (session, call, seq) WHERE call IS NOT NULL;
    CREATE INDEX calls_parent ON calls (session, parent) WHERE parent IS NOT NULL;
    CREATE INDEX unrolled_id ON unrolled (id);
    EXECUTE 'CREATE VIEW session_tool_state AS ' || replace(shown, 'c.id = d.call', 'c.session = d.session AND c.id = d.call');

    CREATE TABLE session_ids (
        id text COLLATE "C" PRIMARY KEY,
        n bigint NOT NULL DEFAULT nextval('sessions_n_seq')
    );
    INSERT INTO session_ids (id, n) SELECT id, n FROM sessions;
    CREATE TRIGGER sessions_named AFTER INSERT ON sessions REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_sessions_named();
    CREATE TRIGGER sessions_gone AFTER DELETE ON sessions REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_sessions_gone();
    CREATE TRIGGER sessions_emptied AFTER TRUNCATE ON sessions
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_names_emptied('session_ids');

    CREATE TABLE call_ids (
        id text COLLATE "C" PRIMARY KEY,
        session bigint NOT NULL
    );
    INSERT INTO call_ids (id, session) SELECT id, session FROM calls;
    CREATE TRIGGER calls_named AFTER INSERT ON calls REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_calls_named();
    CREATE TRIGGER calls_gone AFTER DELETE ON calls REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_calls_gone();
    CREATE TRIGGER calls_emptied AFTER TRUNCATE ON calls
    FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_names_emptied('call_ids');

    PERFORM toolcrib_divide_functions();
END $divide$;

-- What a batch looks at is in the partition of its session, whose number comes with it: a batch of a divided store has one
-- session alone. How many calls an owner has running is counted in all partitions, where that is bounded.
CREATE OR REPLACE FUNCTION toolcrib_divide_functions() RETURNS void LANGUAGE plpgsql AS $divide$
DECLARE
    old oid;
BEGIN
    -- Those that nodes of older versions call, none of which opens a divided store.
    FOR old IN SELECT p.oid FROM pg_proc p WHERE p.proname = 'toolcrib_write'
        AND p.pronamespace = current_schema()::regnamespace
    LOOP
        EXECUTE 'DROP FUNCTION ' || old::regprocedure;
    END LOOP;
    SELECT p.oid INTO STRICT old FROM pg_proc p
    WHERE p.proname = 'toolcrib_commit' AND p.pronamespace = current_schema()::regnamespace;

    PERFORM toolcrib_patch('toolcrib_commit', ARRAY[
        ['toolcrib_commit(writer_ text', 'toolcrib_commit(n_ bigint, writer_ text'],
        ['PERFORM toolcrib_lock_owners(s_id, u_session, u_expect, u_state, u_bounded);',
         'PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '' '' || s.owner, 0)) FROM sessions s
        WHERE s.n = n_ AND EXISTS (
            SELECT 1 FROM unnest(u_expect, u_state, u_bounded) u(expect, state, bounded)
            WHERE u.bounded OR u.state IN (''done'', ''waiting'') OR u.expect = ''running'');'],
        ['FROM sessions WHERE id = ANY (s_id) ORDER BY n', 'FROM sessions WHERE n = n_ AND id = ANY (s_id)'],
        ['LEFT JOIN sessions s ON s.id = w.id', 'LEFT JOIN sessions s ON s.n = n_ AND s.id = w.id'],
        ['LEFT JOIN calls c ON c.id = u.call', 'LEFT JOIN calls c ON c.session = n_ AND c.id = u.call
        LEFT JOIN call_ids o ON u.expect IS NULL AND o.id = u.call'],
        ['CASE WHEN c.id IS NULL AND k.id IS NULL', 'CASE WHEN o.id IS NULL AND c.id IS NULL AND k.id IS NULL'],
        ['k.session = ns[u.session]', 'k.session = n_'],
        ['h.id = u.holder AND h.session = ns[u.session]', 'h.session = n_ AND h.id = u.holder'],
        ['s.n = ns[u.session]', 's.n = n_'],
        ['WHERE c.id = u.call AND', 'WHERE c.session = n_ AND c.id = u.call AND'],
        ['WHERE s.n = h.n', 'WHERE s.n = n_ AND s.n = h.n'],
        ['WHERE s.n = d.n', 'WHERE s.n = n_ AND s.n = d.n']
    ]);
    EXECUTE 'DROP FUNCTION ' || old::regprocedure;

    PERFORM toolcrib_patch('toolcrib_bound', ARRAY[
        ['LEFT JOIN calls c ON c.id = u.call', 'LEFT JOIN calls c ON c.session = ns[1] AND c.id = u.call'],
        ['c.session = units.n', 'c.session = ns[1]']
    ]);
    PERFORM toolcrib_patch('toolcrib_unpark', ARRAY[
        ['NOT EXISTS (SELECT 1 FROM calls WHERE parked AND owner = ANY (whose))',
         '(NOT EXISTS (SELECT 1 FROM calls WHERE parked AND session = ns[1])
        AND (per_owner IS NULL OR NOT EXISTS (SELECT 1 FROM calls WHERE parked AND owner = ANY (whose))))'],
        ['JOIN calls e ON e.id = u.call', 'JOIN calls e ON e.session = ns[1] AND e.id = u.call'],
        ['p.session = e.session AND p.turn', 'p.session = ns[1] AND p.turn'],
        ['WHERE session = e.n AND parked', 'WHERE session = ns[1] AND parked'],
        ['SELECT id FROM calls WHERE id IN (SELECT id FROM free UNION ALL SELECT id FROM next) AND parked',
         'SELECT session, id FROM calls WHERE (session, id) IN (
            SELECT session, id FROM call_ids WHERE id IN (SELECT id FROM free UNION ALL SELECT id FROM next)) AND parked'],
        ['WHERE c.id = mine.id', 'WHERE c.session = mine.session AND c.id = mine.id']
    ]);
END $divide$;
