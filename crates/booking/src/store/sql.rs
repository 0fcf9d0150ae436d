//! SQL statements of both databases.

/// Tables, which are created if they do not exist.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS books (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, seq BIGINT NOT NULL);
    INSERT INTO books VALUES (1, 2, 0) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS epochs (nth BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS facts (
        kind TEXT NOT NULL, id TEXT NOT NULL, seq BIGINT NOT NULL, doc TEXT NOT NULL, PRIMARY KEY (kind, id)
    );
    CREATE INDEX IF NOT EXISTS facts_by_seq ON facts (seq);
    CREATE TABLE IF NOT EXISTS events (seq BIGINT PRIMARY KEY, doc TEXT NOT NULL);
";
/// Version of the tables.
pub(super) const FORMAT: i32 = 2;
pub(super) const FORMAT_OF: &str = "SELECT format FROM books";
/// Number of the last batch, and latest epoch.
pub(super) const MARK: &str =
    "SELECT seq, COALESCE((SELECT name FROM epochs ORDER BY nth DESC LIMIT 1), '') FROM books";
/// End of an epoch: the start of the next one, or the last batch.
pub(super) const REACH: &str =
    "SELECT COALESCE((SELECT MIN(later.seq) FROM epochs AS later WHERE later.nth > own.nth),
    (SELECT seq FROM books)) FROM epochs AS own WHERE own.name = $1";
pub(super) const BEGIN: &str = "INSERT INTO epochs
    SELECT (SELECT COALESCE(MAX(nth), 0) + 1 FROM epochs), $1, seq FROM books";
pub(super) const SEQ: &str = "SELECT seq FROM books";
/// Affects no row if another writer has written.
pub(super) const ADVANCE: &str = "UPDATE books SET seq = $1 WHERE seq = $2";
pub(super) const PUT: &str = "INSERT INTO facts VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, id) DO UPDATE SET seq = excluded.seq, doc = excluded.doc";
pub(super) const DROP: &str = "DELETE FROM facts WHERE kind = $1 AND id = $2";
pub(super) const TELL: &str = "INSERT INTO events VALUES ($1, $2)";
pub(super) const FORGET: &str = "DELETE FROM events WHERE seq < $1";
pub(super) const FACTS: &str = "SELECT kind, id, doc FROM facts WHERE seq > $1 ORDER BY seq, id";
pub(super) const EVENTS: &str = "SELECT seq, doc FROM events WHERE seq > $1 ORDER BY seq LIMIT $2";
