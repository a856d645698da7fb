-- Rows that are no calls but leases: those that somebody holds.
CREATE INDEX calls_held ON calls (session, accepted_seq) WHERE state = 'held';
