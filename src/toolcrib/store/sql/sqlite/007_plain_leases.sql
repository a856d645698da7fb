-- The same index in a form that SQLite tests with three comparisons. For a list of three values it makes a table of them,
-- for every call that is written.
DROP INDEX calls_leases;
CREATE INDEX calls_leases ON calls (session) WHERE state = 'held' OR state = 'released' OR state = 'ended';
