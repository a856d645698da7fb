-- Rows that are no calls but leases: those that somebody holds, and all of a session.
CREATE INDEX calls_held ON calls (session, accepted_seq) WHERE state = 'held';
CREATE INDEX calls_leases ON calls (session) WHERE state IN ('held', 'released', 'ended');
