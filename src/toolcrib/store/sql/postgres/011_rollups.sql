-- Roll-ups: what the log comes down to by minutes and hours. `count` is how many, `total` the sum of their times in
-- microseconds, `slots` how many of these took about how long, by fixed bounds: MessagePack of a map. Only whoever rolls up writes here, one at a time, so
-- that no two writers of the log wait for each other.
CREATE TABLE rollups (
    cube text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    what text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    total bigint NOT NULL,
    slots bytea NOT NULL,
    PRIMARY KEY (cube, at, what, owner, tool, agent, code)
) WITH (fillfactor = 80);
-- What is of one owner, tool or agent alone, among what all have.
CREATE INDEX rollups_owner ON rollups (owner, at) WHERE cube = 'hours';
CREATE INDEX rollups_tool ON rollups (tool, at) WHERE cube = 'hours';
CREATE INDEX rollups_agent ON rollups (agent, at) WHERE cube = 'hours';

-- Lines of the log that count and are not rolled up yet; written with them, by whichever way they come.
CREATE TABLE unrolled (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bigint NOT NULL,
    seq integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE FUNCTION toolcrib_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unrolled (session, seq) SELECT session, seq FROM written
    WHERE kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled');
    RETURN NULL;
END $$;
CREATE TRIGGER events_counted AFTER INSERT ON events REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION toolcrib_counted();

-- What was written before.
INSERT INTO unrolled (session, seq) SELECT e.session, e.seq FROM events e JOIN sessions s ON s.n = e.session
WHERE e.kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled') ORDER BY e.at;
