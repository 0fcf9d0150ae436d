//! Store in a `PostgreSQL` server, which several instances share. One of them writes.
//!
//! The writer holds an advisory lock on the connection over which it writes, so it cannot write
//! after losing the lock. A failed action closes the connection, and the next one connects again.
//! Faults come from the SQLSTATE of the server and from the step that the TLS handshake reached.

use lighthaul_database::postgres_server::TIMEOUT;
use lighthaul_database::{PostgresServer, ServerError};
use postgres::types::ToSql;
use postgres::{Client, IsolationLevel};

use super::batch::{Batch, Document, EventDocument};
use super::contract::{EVENTS_BYTES_MAX, EventSize, Position, Store, Writer};
use super::sql;
use super::sqlite::check_format;
use crate::error::{Error, Result, SetupError, StoreError};

/// `PostgreSQL` server that keeps the reservations.
///
/// The holder of an advisory lock is the writer. It writes over the connection that holds the lock,
/// so that a writer that has lost the lock cannot write. The connection is encrypted if the URL has
/// `sslmode=verify-full`. Otherwise the server should be on this host, in a trusted network, or
/// behind a tunnel.
pub struct Postgres {
    server: PostgresServer,
    /// URL of this instance, at which other instances reach it.
    url: String,
    connection: Option<Connection>,
}

/// Connection to the server.
struct Connection {
    client: Client,
    is_writer: bool,
}

impl Postgres {
    /// Connects to a server as in `postgres://user@host/books`. Other instances reach this instance at
    /// `url`.
    pub fn open(server: &str, url: &str) -> Result<Self> {
        let mut store = Self {
            server: PostgresServer::open(server).map_err(SetupError::from)?,
            url: url.to_owned(),
            connection: None,
        };
        store.connection()?;
        Ok(store)
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        let connection = match self.connection.take() {
            Some(connection) if !connection.client.is_closed() => connection,
            _ => connect(&self.server)?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Executes an action at the server. After a failure the next call connects again.
    fn with<T>(
        &mut self,
        action: &'static str,
        act: impl FnOnce(&mut Connection) -> std::result::Result<T, postgres::Error>,
    ) -> Result<T> {
        let answer = act(self.connection()?);
        answer.map_err(|why| {
            self.connection = None;
            failed(action, ServerError::of(&why, false))
        })
    }
}

impl Store for Postgres {
    fn elect(&mut self) -> Result<Writer> {
        let url = self.url.clone();
        self.with("find the writer at", |connection| {
            if connection.is_writer {
                // an instance without connection to the server learns it here
                return connection.client.is_valid(TIMEOUT).map(|()| Writer::This);
            }
            let row = connection
                .client
                .query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK])?;
            connection.is_writer = row.get(0);
            if connection.is_writer {
                connection.client.execute(CLAIM, &[&url])?;
                return Ok(Writer::This);
            }
            let row = connection.client.query_one("SELECT url FROM writer", &[])?;
            Ok(Writer::Other(row.get(0)))
        })
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        let is_next = self.with("write to", |connection| {
            if !connection.is_writer {
                return Ok(false);
            }
            write(&mut connection.client, after, batch)
        })?;
        let lost = StoreError::LostElection;
        is_next.then_some(()).ok_or_else(|| lost.into())
    }

    fn position(&mut self) -> Result<Position> {
        self.with("read from", |connection| {
            let row = connection.client.query_one(sql::SELECT_POSITION, &[])?;
            Ok(Position {
                seq: number(&row, 0),
                epoch: row.get(1),
            })
        })
    }

    fn epoch_end(&mut self, epoch: &str) -> Result<Option<u64>> {
        self.with("read from", |connection| {
            let row = connection
                .client
                .query_opt(sql::SELECT_EPOCH_END, &[&epoch])?;
            Ok(row.map(|row| number(&row, 0)))
        })
    }

    fn begin_epoch(&mut self, epoch: &str) -> Result<()> {
        self.with("write to", |connection| {
            // an instance that has lost the lock learns it when it writes
            if connection.is_writer {
                connection.client.execute(sql::INSERT_EPOCH, &[&epoch])?;
            }
            Ok(())
        })
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        let (seq, rows) = self.with("read from", |connection| {
            let transaction = connection.client.build_transaction();
            let mut transaction = transaction
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()?;
            let seq = number(&transaction.query_one(sql::SELECT_SEQ, &[])?, 0);
            let rows = transaction.query(sql::SELECT_DOCUMENTS, &[&after.cast_signed()])?;
            transaction.commit()?;
            Ok((seq, rows))
        })?;
        let documents = rows
            .iter()
            .map(|row| Document::of_row((row.get(0), row.get(1), row.get(2))));
        Ok(Batch {
            seq,
            documents: documents.collect::<Result<_>>()?,
            ..Batch::default()
        })
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        self.with("read from", |connection| {
            let rows = connection.client.query(
                sql::SELECT_EVENTS,
                &[
                    &after.cast_signed(),
                    &i64::try_from(most).unwrap_or(i64::MAX),
                    &i64::try_from(EVENTS_BYTES_MAX).unwrap_or(i64::MAX),
                ],
            )?;
            Ok(rows
                .iter()
                .map(|row| (number(row, 0), row.get(1)))
                .collect())
        })
    }

    fn event_sizes(&mut self) -> Result<Vec<EventSize>> {
        let mut sizes: Vec<EventSize> = Vec::new();
        loop {
            // in parts, since the server limits the time of each
            let after = sizes.last().map_or(0, |last| last.seq);
            let rows = self.with("read from", |connection| {
                let part = [&after.cast_signed() as &(dyn ToSql + Sync), &SIZES_MAX];
                connection.client.query(SELECT_EVENT_SIZES, &part)
            })?;
            if rows.is_empty() {
                return Ok(sizes);
            }
            sizes.extend(rows.iter().map(|row| EventSize {
                seq: number(row, 0),
                owner: unescaped(row.get(1)),
                bytes: number(row, 2),
            }));
        }
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres")
            .field("url", &self.url)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("is_writer", &self.is_writer)
            .finish_non_exhaustive()
    }
}

/// Writes a batch. Returns false if it is not the next one.
fn write(
    client: &mut Client,
    after: u64,
    batch: &Batch,
) -> std::result::Result<bool, postgres::Error> {
    let mut transaction = client.transaction()?;
    let seq = batch.seq.cast_signed();
    if transaction.execute(sql::UPDATE_SEQ, &[&seq, &after.cast_signed()])? != 1 {
        return Ok(false);
    }
    for document in &batch.documents {
        let kind = document.kind.name();
        match &document.doc {
            Some(doc) => {
                transaction.execute(sql::UPSERT_DOCUMENT, &[&kind, &document.id, &seq, doc])?
            }
            None => transaction.execute(sql::DELETE_DOCUMENT, &[&kind, &document.id])?,
        };
    }
    for EventDocument { seq, doc, .. } in &batch.events {
        transaction.execute(sql::INSERT_EVENT, &[&seq.cast_signed(), doc])?;
    }
    let gone = batch.events_gone.iter();
    let gone: Vec<i64> = gone.map(|seq| seq.cast_signed()).collect();
    if !gone.is_empty() {
        transaction.execute(DELETE_EVENTS, &[&gone])?;
    }
    transaction.commit().map(|()| true)
}

fn connect(server: &PostgresServer) -> Result<Connection> {
    let connected = server.connect(|client| {
        // the lock serializes instances that create the tables at the same time
        client.batch_execute(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock({MAKING}); {} {WRITER} COMMIT;",
            sql::TABLES
        ))?;
        Ok(client.query_one(sql::SELECT_FORMAT, &[])?.get(0))
    });
    let (client, format) = connected.map_err(|why| failed("connect to", why))?;
    check_format(format)?;
    Ok(Connection {
        client,
        is_writer: false,
    })
}

/// Returns the text of a JSON string without its quotes.
fn unescaped(text: &str) -> String {
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_default()
}

fn number(row: &postgres::Row, nth: usize) -> u64 {
    row.get::<_, i64>(nth).cast_unsigned()
}

/// Returns the fault of an action.
fn failed(action: &'static str, ServerError { why, fault }: ServerError) -> Error {
    StoreError::Server { action, why, fault }.into()
}

const WRITER: &str = "
    CREATE TABLE IF NOT EXISTS writer (one INTEGER PRIMARY KEY CHECK (one = 1), url TEXT NOT NULL);
    INSERT INTO writer VALUES (1, '') ON CONFLICT DO NOTHING;";
/// The owner is still escaped as in JSON. The functions of the server for JSON refuse `\u0000`, which a reason may contain.
const SELECT_EVENT_SIZES: &str = r#"SELECT seq,
    COALESCE(SUBSTRING(LEFT(doc, 16384) FROM '"reservation":\{"id":[0-9]+,"owner":"((?:[^"\\]|\\.)*)"'), ''),
    OCTET_LENGTH(doc)::BIGINT FROM events WHERE seq > $1 ORDER BY seq LIMIT $2"#;
/// Events in an answer with their sizes.
const SIZES_MAX: i64 = 10_000;
const DELETE_EVENTS: &str = "DELETE FROM events WHERE seq = ANY($1)";
const CLAIM: &str = "UPDATE writer SET url = $1";
/// Advisory lock of the writer: `lighthau` in ASCII, which no other program uses.
const LOCK: i64 = 0x6c69_6768_7468_6175;
/// Advisory lock for the creation of tables.
const MAKING: i64 = LOCK + 1;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use lighthaul_database::ServerFault;

    use super::*;

    /// Returns the connection fault when the server answers the request for TLS with `answer`.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server that breaks the protocol"
    )]
    fn fault_with(answer: &'static [u8], mode: &str) -> ServerFault {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut tcp = listener.accept().unwrap().0;
            tcp.read_exact(&mut [0; 8]).unwrap();
            tcp.write_all(answer).unwrap();
            // a client that begins a handshake must be able to send all of it
            tcp.shutdown(std::net::Shutdown::Write).unwrap();
            tcp.read_to_end(&mut Vec::new()).ok();
        });
        let url = format!("postgres://me@127.0.0.1:{port}/books?sslmode={mode}");
        let failed = Postgres::open(&url, "http://here").err();
        server.join().unwrap();
        match failed {
            Some(Error::Store(StoreError::Server { fault, .. })) => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn escaped_owner_is_read() {
        for owner in ["ada", "a\"b\\c", "a\0\u{e9}"] {
            let escaped = serde_json::to_string(owner).unwrap();
            assert_eq!(unescaped(&escaped[1..escaped.len() - 1]), owner);
        }
    }

    #[test]
    fn connection_without_tls_is_a_tls_fault() {
        assert_eq!(fault_with(b"N", "require"), ServerFault::Tls);
        assert_eq!(fault_with(b"S no handshake", "require"), ServerFault::Tls);
        assert_eq!(fault_with(b"S no handshake", "prefer"), ServerFault::Tls);
    }

    #[test]
    fn disconnected_server_is_not_a_tls_fault() {
        for mode in ["disable", "prefer", "require"] {
            assert_eq!(fault_with(b"", mode), ServerFault::Away, "{mode}");
        }
        assert_eq!(fault_with(b"N", "prefer"), ServerFault::Away);
    }
}
