//! TLS connector that records how far the handshake with a server came.
//!
//! Errors of the `postgres` crate do not say by type that TLS failed. The connector therefore
//! records each step. The last step before an error tells if the error is one of TLS.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use postgres::Socket;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Step of the latest connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeStep {
    /// No server has accepted the connection.
    NotReached,
    /// The client asks the server for TLS.
    Asked,
    /// The server supports TLS, and the handshake runs.
    Begun,
    /// The connection is encrypted.
    Done,
}

/// Connector of `rustls` with the step of its latest connection, which all clones share.
#[derive(Clone)]
pub(crate) struct RecordedConnector {
    connector: MakeRustlsConnect,
    step: Arc<Mutex<HandshakeStep>>,
}

/// Handshake of one connection.
pub(crate) struct RecordedHandshake {
    handshake: Inner,
    step: Arc<Mutex<HandshakeStep>>,
}

type Inner = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
type Stream = <Inner as TlsConnect<Socket>>::Stream;
type Failure = <Inner as TlsConnect<Socket>>::Error;

impl RecordedConnector {
    /// Returns a connector without a connection.
    pub(crate) fn new(connector: MakeRustlsConnect) -> Self {
        Self {
            connector,
            step: Arc::new(Mutex::new(HandshakeStep::NotReached)),
        }
    }

    /// Forgets the step of earlier connections.
    pub(crate) fn reset(&self) {
        record(&self.step, HandshakeStep::NotReached);
    }

    /// Returns the step of the latest connection.
    pub(crate) fn step(&self) -> HandshakeStep {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MakeTlsConnect<Socket> for RecordedConnector {
    type Stream = Stream;
    type TlsConnect = RecordedHandshake;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<RecordedHandshake, Self::Error> {
        record(&self.step, HandshakeStep::Asked);
        let handshake = MakeTlsConnect::<Socket>::make_tls_connect(&mut self.connector, domain)?;
        Ok(RecordedHandshake {
            handshake,
            step: Arc::clone(&self.step),
        })
    }
}

impl TlsConnect<Socket> for RecordedHandshake {
    type Stream = Stream;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Failure>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let Self { handshake, step } = self;
        record(&step, HandshakeStep::Begun);
        Box::pin(async move {
            let stream = handshake.connect(socket).await?;
            record(&step, HandshakeStep::Done);
            Ok(stream)
        })
    }
}

fn record(step: &Mutex<HandshakeStep>, reached: HandshakeStep) {
    *step.lock().unwrap_or_else(PoisonError::into_inner) = reached;
}
