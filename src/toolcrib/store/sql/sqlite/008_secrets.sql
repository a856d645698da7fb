-- Secrets of calls that are over are deleted with their end from now on; those of before are deleted here.
DELETE FROM kept WHERE id >= 'args:' AND id < 'args;' AND EXISTS (
    SELECT 1 FROM calls c WHERE c.state = 'done' AND c.id = substr(kept.id, 6, instr(substr(kept.id, 6) || ':', ':') - 1));
