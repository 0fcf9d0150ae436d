//! `PostgreSQL` server with the books of a test.

use std::ops::Deref;

use lighthaul_booking::store::postgres::Postgres;
use lighthaul_testkit::PostgresServer;

/// Server for one test, on a socket in a directory.
pub(crate) struct Server(PostgresServer);

impl Server {
    /// Starts a server; `None` if `PostgreSQL` is not installed.
    pub(crate) fn start() -> Option<Self> {
        PostgresServer::start().map(Self)
    }

    pub(crate) fn store(&self, url: &str) -> Box<Postgres> {
        Box::new(Postgres::open(&self.url(), url).unwrap())
    }

    pub(crate) fn ask(&self, query: &str) {
        // some statements may not be in a transaction with others
        let mut client = self.client();
        client.batch_execute(query).unwrap();
    }

    pub(crate) fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.url(), postgres::NoTls).unwrap()
    }
}

impl Deref for Server {
    type Target = PostgresServer;

    fn deref(&self) -> &PostgresServer {
        &self.0
    }
}
