-- Roll-ups: what the log comes down to by minutes and hours. `count` is how many, `total` the sum of their times in
-- microseconds, `slots` how many of these took about how long, by fixed bounds: MessagePack of a map.
CREATE TABLE rollups (
    cube TEXT NOT NULL,
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    owner TEXT NOT NULL,
    tool TEXT NOT NULL,
    agent TEXT NOT NULL,
    code TEXT NOT NULL,
    count INTEGER NOT NULL,
    total INTEGER NOT NULL,
    slots BLOB NOT NULL,
    PRIMARY KEY (cube, at, what, owner, tool, agent, code)
) WITHOUT ROWID;
-- What is of one owner, tool or agent alone, among what all have.
CREATE INDEX rollups_owner ON rollups (owner, at) WHERE cube = 'hours';
CREATE INDEX rollups_tool ON rollups (tool, at) WHERE cube = 'hours';
CREATE INDEX rollups_agent ON rollups (agent, at) WHERE cube = 'hours';

-- Lines of the log that count and are not rolled up yet; written with them, by whichever way they come.
CREATE TABLE unrolled (
    id INTEGER PRIMARY KEY,
    key INTEGER NOT NULL
);
CREATE TRIGGER events_counted AFTER INSERT ON events
WHEN NEW.kind = 'done' OR NEW.kind = 'turn_finished' OR NEW.kind = 'opened' OR NEW.kind = 'answered' OR NEW.kind = 'settled'
BEGIN
    INSERT INTO unrolled (key) VALUES (NEW.key);
END;

-- What was written before.
INSERT INTO unrolled (key) SELECT key FROM events
WHERE (key >> 32) IN (SELECT n FROM sessions) AND kind IN ('done', 'turn_finished', 'opened', 'answered', 'settled') ORDER BY at;
