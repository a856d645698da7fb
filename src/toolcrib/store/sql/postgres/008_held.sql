-- A write may be made on behalf of a lease too, as long as it is held. The rest of the function stays as it is.
DO $patch$
DECLARE
    source text;
BEGIN
    SELECT pg_get_functiondef(p.oid) INTO STRICT source FROM pg_proc p
    WHERE p.proname = 'toolcrib_write' AND p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND 'u_holder' = ANY (p.proargnames);
    IF strpos(source, 'h.state = ''running''') = 0 THEN
        RAISE EXCEPTION 'toolcrib_write has no "h.state"';
    END IF;
    EXECUTE replace(source, 'h.state = ''running''', 'h.state IN (''running'', ''held'')');
END $patch$;
