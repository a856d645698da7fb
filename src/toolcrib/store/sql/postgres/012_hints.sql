-- NOTIFY takes one lock for the whole server until its transaction has ended, so what is written says nothing by itself:
-- `toolcrib_commit` is `toolcrib_write` without it, and returns instead what others are to be told after the commit.
-- Nodes of an older version go on with `toolcrib_write` until they are replaced, and hear of what is sent afterwards.
DO $patch$
DECLARE
    source text;
    part text[];
BEGIN
    SELECT pg_get_functiondef(p.oid) INTO STRICT source FROM pg_proc p
    WHERE p.proname = 'toolcrib_write' AND p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND 'u_holder' = ANY (p.proargnames);
    FOREACH part SLICE 1 IN ARRAY ARRAY[
        ['toolcrib_write', 'toolcrib_commit'],
        ['OUT freed text[]', 'OUT freed text[], OUT pairs text[]'],
        ['    ), sent AS (
        SELECT pg_notify(toolcrib_channel(), sender || '' '' || string_agg(pair, '' '')) FROM told GROUP BY part
    )
    SELECT count(*) INTO last FROM sent;', '    )
    SELECT array_agg(pair) INTO pairs FROM told;']
    ] LOOP
        IF strpos(source, part[1]) = 0 THEN
            RAISE EXCEPTION 'toolcrib_write has no "%"', part[1];
        END IF;
        source := replace(source, part[1], part[2]);
    END LOOP;
    EXECUTE source;
END $patch$;
