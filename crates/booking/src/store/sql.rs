//! SQL statements of both databases.

/// Tables, which are created if they do not exist.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS books (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, seq BIGINT NOT NULL);
    INSERT INTO books VALUES (1, 3, 0) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS epochs (nth BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS documents (
        kind TEXT NOT NULL, id TEXT NOT NULL, seq BIGINT NOT NULL, doc TEXT NOT NULL, PRIMARY KEY (kind, id)
    );
    CREATE INDEX IF NOT EXISTS documents_by_seq ON documents (seq);
    CREATE TABLE IF NOT EXISTS events (seq BIGINT PRIMARY KEY, doc TEXT NOT NULL);
";
/// Version of the tables.
pub(super) const FORMAT: i32 = 3;
pub(super) const SELECT_FORMAT: &str = "SELECT format FROM books";
/// Number of the last batch, and latest epoch.
pub(super) const SELECT_POSITION: &str =
    "SELECT seq, COALESCE((SELECT name FROM epochs ORDER BY nth DESC LIMIT 1), '') FROM books";
/// End of an epoch: the start of the next one, or the last batch.
pub(super) const SELECT_EPOCH_END: &str =
    "SELECT COALESCE((SELECT MIN(later.seq) FROM epochs AS later WHERE later.nth > own.nth),
    (SELECT seq FROM books)) FROM epochs AS own WHERE own.name = $1";
pub(super) const INSERT_EPOCH: &str = "INSERT INTO epochs
    SELECT (SELECT COALESCE(MAX(nth), 0) + 1 FROM epochs), $1, seq FROM books";
pub(super) const SELECT_SEQ: &str = "SELECT seq FROM books";
/// Affects no row if another writer has written.
pub(super) const UPDATE_SEQ: &str = "UPDATE books SET seq = $1 WHERE seq = $2";
pub(super) const UPSERT_DOCUMENT: &str = "INSERT INTO documents VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, id) DO UPDATE SET seq = excluded.seq, doc = excluded.doc";
pub(super) const DELETE_DOCUMENT: &str = "DELETE FROM documents WHERE kind = $1 AND id = $2";
pub(super) const INSERT_EVENT: &str = "INSERT INTO events VALUES ($1, $2)";
pub(super) const SELECT_DOCUMENTS: &str =
    "SELECT kind, id, doc FROM documents WHERE seq > $1 ORDER BY seq, id";
/// Ends before the event at which all before exceed `$3` bytes.
pub(super) const SELECT_EVENTS: &str = "SELECT seq, doc FROM (
    SELECT seq, doc, SUM(OCTET_LENGTH(doc)) OVER (ORDER BY seq) AS total FROM (
        SELECT seq, doc FROM events WHERE seq > $1 ORDER BY seq LIMIT $2
    ) AS following
) AS summed WHERE total - OCTET_LENGTH(doc) <= $3 ORDER BY seq";
