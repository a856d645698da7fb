-- Sessions whose logs are in the archive: what their rows said, when that was, and what their files hold. `n` is the
-- number that they had.
CREATE TABLE archived (
    id text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    revision integer NOT NULL,
    created_at float8 NOT NULL,
    updated_at float8 NOT NULL,
    archived_at float8 NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    n bigint NOT NULL
);
CREATE INDEX archived_owner ON archived (owner, id);
