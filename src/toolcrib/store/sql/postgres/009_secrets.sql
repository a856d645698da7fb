-- Secrets of calls that are over are deleted with their end from now on; those of before are deleted here.
DELETE FROM kept k USING calls c WHERE k.id LIKE 'args:%' AND c.id = split_part(k.id, ':', 2) AND c.state = 'done';
