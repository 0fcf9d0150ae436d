CREATE TABLE IF NOT EXISTS job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    directory BLOB NOT NULL,
    priority INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL,
    waits INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL,
    series INTEGER,
    start_by INTEGER,
    every INTEGER,
    worker TEXT,
    lease INTEGER,
    cancel INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER,
    bytes_total INTEGER,
    submitted INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    exit INTEGER,
    text TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS job_queued ON job (priority, owner, id) WHERE state = 1;
CREATE INDEX IF NOT EXISTS job_waiting ON job (not_before) WHERE state = 0 AND waits = 0;
CREATE INDEX IF NOT EXISTS job_start_by ON job (start_by) WHERE state <= 1 AND start_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_lease ON job (lease) WHERE state = 2;
CREATE INDEX IF NOT EXISTS job_ended ON job (ended) WHERE state >= 3;
CREATE TABLE IF NOT EXISTS dependency (
    after INTEGER NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (after, job)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dependency_job ON dependency (job);
CREATE TABLE IF NOT EXISTS event (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, attempt, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS backlog (
    priority INTEGER NOT NULL,
    owner TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (priority, owner)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owner (
    name TEXT PRIMARY KEY,
    running INTEGER NOT NULL DEFAULT 0,
    share INTEGER NOT NULL DEFAULT 1,
    served INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS job_inserted AFTER INSERT ON job WHEN new.state = 1 BEGIN
    INSERT INTO backlog VALUES (new.priority, new.owner, 1)
        ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER IF NOT EXISTS job_enters AFTER UPDATE OF state ON job WHEN new.state = 1 AND old.state <> 1 BEGIN
    INSERT INTO backlog VALUES (new.priority, new.owner, 1)
        ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER IF NOT EXISTS job_leaves AFTER UPDATE OF state ON job WHEN old.state = 1 AND new.state <> 1 BEGIN
    UPDATE backlog SET jobs = jobs - 1 WHERE priority = old.priority AND owner = old.owner;
    DELETE FROM backlog WHERE priority = old.priority AND owner = old.owner AND jobs = 0;
END;
CREATE TRIGGER IF NOT EXISTS job_starts AFTER UPDATE OF state ON job WHEN new.state = 2 AND old.state <> 2 BEGIN
    INSERT INTO owner (name, running) VALUES (new.owner, 1)
        ON CONFLICT DO UPDATE SET running = running + 1;
END;
CREATE TRIGGER IF NOT EXISTS job_stops AFTER UPDATE OF state ON job WHEN old.state = 2 AND new.state <> 2 BEGIN
    UPDATE owner SET running = running - 1 WHERE name = old.owner;
END;
