-- Calls by time: when they were accepted and when they ended. Log lines are never changed, so each costs one entry at the
-- end of an index.
CREATE INDEX events_accepted ON events (at, session, seq) WHERE kind = 'accepted';
CREATE INDEX events_ended ON events (at, session, seq) WHERE kind IN ('done', 'settled');

-- The calls that somebody looks for among very many others.
CREATE INDEX calls_failed ON calls (accepted_at, session, accepted_seq) WHERE code IS NOT NULL;
CREATE INDEX calls_unknown ON calls (accepted_at, session, accepted_seq) WHERE code = 'unknown';
CREATE INDEX calls_asking ON calls (accepted_at, session, accepted_seq) WHERE state = 'waiting';
