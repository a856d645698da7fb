-- What explorers said of contracts and accounts; `at` is when.
CREATE TABLE IF NOT EXISTS found (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- What was proposed to wallets by a call, and whether the wallet has sent it. Wei does not fit an integer of SQLite.
CREATE TABLE IF NOT EXISTS spent (
    key TEXT PRIMARY KEY,
    call TEXT NOT NULL,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    at REAL NOT NULL,
    wei TEXT NOT NULL,
    sent INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
