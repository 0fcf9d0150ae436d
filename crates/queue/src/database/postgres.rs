//! Queue in a `PostgreSQL` server, for workers on many hosts.
//!
//! A failed action closes a broken connection, and the next one connects again. The clock of the server counts for
//! leases, so clocks of workers may differ. Each transaction has a number, by which the server tells later if it has
//! committed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lighthaul_database::{PostgresServer, ServerError, ServerFault};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, SimpleQueryMessage, Statement};

use super::contract::{Database, Durability};
use super::row::{Cell, Row};
use super::tables;
use super::value::Value;
use crate::error::{Error, Result};

/// Queue in a server.
#[derive(Debug)]
pub(super) struct Postgres {
    server: PostgresServer,
    connection: Option<Connection>,
    is_in_transaction: bool,
    /// Number of the last transaction, as the server counts them, and the time when the server was started.
    transaction: Option<(i64, String)>,
}

/// Connection with its prepared statements.
struct Connection {
    client: Client,
    statements: BTreeMap<String, Statement>,
}

impl Postgres {
    /// Connects to the server at `url`. The tables are created if they do not exist.
    pub(super) fn open(url: &str) -> Result<Self> {
        let mut queue = Self {
            server: PostgresServer::open(url)?,
            connection: None,
            is_in_transaction: false,
            transaction: None,
        };
        queue.connection()?;
        Ok(queue)
    }

    /// Returns the connection. In a transaction, it is the one that has begun the transaction.
    fn connection(&mut self) -> Result<&mut Connection> {
        let open = self.connection.take();
        let open = open.filter(|open| !open.client.is_closed());
        let connection = match open {
            Some(open) => open,
            None if self.is_in_transaction => return Err(Error::server("write", lost())),
            None => connect(&self.server)?,
        };
        Ok(self.connection.insert(connection))
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> std::result::Result<T, postgres::Error>,
    ) -> Result<T> {
        let action = if self.is_in_transaction {
            "write"
        } else {
            "read"
        };
        let answer = act(self.connection()?);
        answer.map_err(|why| Error::server(action, ServerError::of(&why, false)))
    }
}

impl Database for Postgres {
    fn begin(&mut self, durability: Durability) -> Result<()> {
        let sql = match durability {
            Durability::Full | Durability::Shared => "BEGIN",
            Durability::Relaxed => "BEGIN; SET LOCAL synchronous_commit TO off",
        };
        let sql = format!("{sql}; SELECT txid_current(), pg_postmaster_start_time()");
        self.transaction = None;
        let answers = self.with(|connection| connection.client.simple_query(&sql))?;
        let number = |answer: &SimpleQueryMessage| {
            let SimpleQueryMessage::Row(row) = answer else {
                return None;
            };
            Some((row.get(0)?.parse().ok()?, row.get(1)?.to_owned()))
        };
        self.transaction = answers.iter().find_map(number);
        self.is_in_transaction = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let done = self.with(|connection| connection.client.batch_execute("COMMIT"));
        self.is_in_transaction = false;
        match done {
            // the server may have committed before the connection has ended
            Err(error) if error.is_away() => Err(Error::Unsure(error.to_string())),
            done => done,
        }
    }

    fn has_committed(&mut self) -> Result<Option<bool>> {
        let Some((number, started)) = self.transaction.clone() else {
            return Ok(None);
        };
        let begin = Clock::start();
        let start = begin.now();
        // a server that was started again, or that has replaced another one, may use the number for another transaction
        let sql = format!("SELECT pg_postmaster_start_time(), txid_status({number})");
        loop {
            let asked = self.with(|connection| connection.client.simple_query(&sql));
            let answers = match asked {
                Err(error) if error.is_away() => return Err(error),
                // it does not know the number
                Err(_) => return Ok(None),
                Ok(answers) => answers,
            };
            let of = |answer: &SimpleQueryMessage| {
                let SimpleQueryMessage::Row(row) = answer else {
                    return None;
                };
                let is_same = row.get(0) == Some(&*started);
                row.get(1).filter(|_| is_same).map(str::to_owned)
            };
            match answers.iter().find_map(of).as_deref() {
                Some("committed") => return Ok(Some(true)),
                Some("aborted") => return Ok(Some(false)),
                Some("in progress") if begin.now().since(start) < PATIENCE => pause(PAUSE),
                Some(_) | None => return Ok(None),
            }
        }
    }

    fn roll_back(&mut self) {
        self.is_in_transaction = false;
        let Some(connection) = &mut self.connection else {
            return;
        };
        if connection.client.batch_execute("ROLLBACK").is_err() {
            self.connection = None;
        }
    }

    fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.with(|connection| {
            let statement = connection.prepare(sql, values)?;
            let values: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
            let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
            let rows = connection
                .client
                .query(&statement, &values.collect::<Vec<_>>())?;
            rows.iter().map(row).collect()
        })
    }

    fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        self.with(|connection| {
            let statement = connection.prepare(sql, values)?;
            let values: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
            let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
            connection
                .client
                .execute(&statement, &values.collect::<Vec<_>>())
        })
    }

    fn now(&mut self) -> Result<u64> {
        self.query(NOW, &[])?
            .first()
            .map_or(Err(Error::Value(0)), |row| row.get(0))
    }

    fn wait_at_most(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }
}

impl Connection {
    fn prepare(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> std::result::Result<Statement, postgres::Error> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let types: Vec<Type> = values.iter().map(kind).collect();
        let statement = self.client.prepare_typed(sql, &types)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

fn connect(server: &PostgresServer) -> Result<Connection> {
    let connected = server.connect(|client| {
        // creation locks the tables, so only the first program tries it
        if !client.query_one(HAS_TABLES, &[])?.get::<_, bool>(0) {
            lay_out(client)?;
        }
        let row = client.query_one(SELECT_FORMAT, &[])?;
        Ok(row.get::<_, i64>(0))
    });
    let (client, format) = connected.map_err(|why| Error::server("connect to", why))?;
    if format != i64::from(tables::FORMAT) {
        return Err(Error::ServerFormat {
            found: format,
            supported: tables::FORMAT,
        });
    }
    Ok(Connection {
        client,
        statements: BTreeMap::new(),
    })
}

/// Creates the tables, unless another program has done it meanwhile.
fn lay_out(client: &mut Client) -> std::result::Result<(), postgres::Error> {
    let mut transaction = client.transaction()?;
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({MAKING})"))?;
    if !transaction.query_one(HAS_TABLES, &[])?.get::<_, bool>(0) {
        transaction.batch_execute(&tables::tables(&POSTGRES))?;
    }
    transaction.commit()
}

/// Returns the type of a parameter.
fn kind(value: &Value<'_>) -> Type {
    match value {
        Value::Number(_) => Type::INT8,
        Value::Text(_) => Type::TEXT,
        Value::Bytes(_) => Type::BYTEA,
    }
}

/// Parameter in the form of the server.
#[derive(Debug)]
struct Parameter<'a>(&'a Value<'a>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Fault> {
        match self.0 {
            Value::Number(number) => number.to_sql(kind, out),
            // the server has no text with NUL, which SQLite has
            Value::Text(Some(text)) if text.contains('\0') => {
                text.replace('\0', "\u{fffd}").to_sql(kind, out)
            }
            Value::Text(text) => text.to_sql(kind, out),
            Value::Bytes(octets) => octets.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

type Fault = Box<dyn std::error::Error + Sync + Send>;

fn row(row: &postgres::Row) -> std::result::Result<Row, postgres::Error> {
    let columns = row.columns().iter().enumerate();
    let cells = columns.map(|(nth, column)| {
        Ok(match *column.type_() {
            Type::TEXT => cell(row.try_get(nth)?, Cell::Text),
            Type::BYTEA => cell(row.try_get(nth)?, Cell::Bytes),
            Type::INT4 => cell(row.try_get::<_, Option<i32>>(nth)?, |number| {
                Cell::Number(number.into())
            }),
            _ => cell(row.try_get(nth)?, Cell::Number),
        })
    });
    cells.collect::<std::result::Result<_, _>>().map(Row)
}

fn cell<T>(value: Option<T>, of: impl FnOnce(T) -> Cell) -> Cell {
    value.map_or(Cell::Null, of)
}

/// Returns the fault of a transaction whose connection has ended.
fn lost() -> ServerError {
    ServerError {
        why: "the connection has ended".to_owned(),
        fault: ServerFault::Away,
    }
}

const NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
const SELECT_FORMAT: &str = "SELECT format FROM queue";
const HAS_TABLES: &str = "SELECT to_regclass('queue') IS NOT NULL";
/// Advisory lock for the creation of tables: `lhqueue1` in ASCII, which no other program uses.
const MAKING: i64 = 0x6c68_7175_6575_6531;
/// Interval at which a worker looks for work.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for a transaction that is still being committed.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
const POSTGRES: tables::Dialect = tables::Dialect {
    id: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    bytes: "BYTEA",
    sorted: "",
    format: "
CREATE TABLE IF NOT EXISTS queue (one BIGINT PRIMARY KEY CHECK (one = 1), format BIGINT NOT NULL);
INSERT INTO queue VALUES (1, {format}) ON CONFLICT (one) DO UPDATE SET format = excluded.format;",
};
