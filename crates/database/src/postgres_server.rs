//! A `PostgreSQL` server by its URL, including settings of encryption that the client crate does not support.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use crate::handshake::{HandshakeStep, RecordedConnector};
use crate::server_fault::{DatabaseUrlError, ServerError};

/// `PostgreSQL` server, and the encryption of its connections, if any.
pub struct PostgresServer {
    config: Config,
    tls: Option<RecordedConnector>,
}

impl PostgresServer {
    /// Reads the URL of a server, as in `postgres://user@host/books`. Each action there has a timeout.
    ///
    /// With encryption, the certificate must match the name of the server. It must be signed by an authority that this
    /// host trusts, or by one in the file `sslrootcert`.
    pub fn open(text: &str) -> Result<Self, DatabaseUrlError> {
        let mut server = Self::parse(text)?;
        if server.is_readable() {
            warn!(
                "the connection to the PostgreSQL server is not encrypted: add sslmode=verify-full to its URL"
            );
        }
        let config = &mut server.config;
        config.connect_timeout(TIMEOUT).tcp_user_timeout(TIMEOUT);
        config.keepalives(true).keepalives_idle(PROBE_AFTER);
        config
            .keepalives_interval(PROBE_EVERY)
            .keepalives_retries(PROBES);
        let before = config.get_options().map(str::to_owned).unwrap_or_default();
        config.options(&format!("{before} {}", options()));
        Ok(server)
    }

    /// Connects to the server, and prepares the connection with `prepare`.
    pub fn connect<T>(
        &self,
        prepare: impl FnOnce(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<(Client, T), ServerError> {
        let open = || {
            let mut client = match &self.tls {
                Some(tls) => {
                    tls.reset();
                    self.config.connect(tls.clone())?
                }
                None => self.config.connect(NoTls)?,
            };
            let prepared = prepare(&mut client)?;
            Ok((client, prepared))
        };
        open().map_err(|why| ServerError::of(&why, self.is_tls_fault(&why)))
    }

    fn parse(text: &str) -> Result<Self, DatabaseUrlError> {
        let (rest, mode) = without(text, "sslmode");
        let (rest, roots) = without(&rest, "sslrootcert");
        let mode = match mode.as_deref() {
            None | Some("disable") => SslMode::Disable,
            Some("prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(DatabaseUrlError::SslMode(other.to_owned()));
            }
        };
        let config: Result<Config, postgres::Error> = rest.parse();
        let mut config = config.map_err(|why| DatabaseUrlError::Form(why.to_string()))?;
        config.ssl_mode(mode);
        let tls = (mode != SslMode::Disable)
            .then(|| connector(roots.as_deref()))
            .transpose()?;
        Ok(Self { config, tls })
    }

    /// Returns true if connections cross a network without encryption.
    fn is_readable(&self) -> bool {
        let is_near = |host: &Host| match host {
            #[cfg(unix)]
            Host::Unix(_) => true,
            Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
        };
        self.config.get_ssl_mode() != SslMode::Require
            && !self.config.get_hosts().iter().all(is_near)
    }

    /// Returns true if `why` ended the connection before encryption: the server has no TLS, or the handshake failed.
    fn is_tls_fault(&self, why: &postgres::Error) -> bool {
        let source = why.source();
        let is_network = source.is_some_and(<dyn Error>::is::<io::Error>);
        match self.tls.as_ref().map(RecordedConnector::step) {
            Some(HandshakeStep::Begun) => true,
            Some(HandshakeStep::Asked) => {
                self.config.get_ssl_mode() == SslMode::Require && !is_network
            }
            Some(HandshakeStep::NotReached | HandshakeStep::Done) | None => false,
        }
    }
}

impl fmt::Debug for PostgresServer {
    /// Leaves out the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresServer")
            .field("hosts", &self.config.get_hosts())
            .finish_non_exhaustive()
    }
}

/// Returns the connection settings of the server. Its keepalive probes detect a client whose host
/// has failed, so that its locks are released soon after [`PROBE_AFTER`].
fn options() -> String {
    let (limit, lock) = (TIMEOUT.as_millis(), LOCK_TIMEOUT.as_millis());
    let (after, every) = (PROBE_AFTER.as_secs(), PROBE_EVERY.as_secs());
    format!(
        "-c statement_timeout={limit} -c lock_timeout={lock} -c idle_in_transaction_session_timeout={limit} \
         -c tcp_keepalives_idle={after} -c tcp_keepalives_interval={every} -c tcp_keepalives_count={PROBES} \
         -c tcp_user_timeout={limit}"
    )
}

/// Returns a connector that trusts the authorities in a file, or the authorities that this host trusts.
fn connector(roots: Option<&str>) -> Result<RecordedConnector, DatabaseUrlError> {
    let mut store = RootCertStore::empty();
    match roots {
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let read = CertificateDer::pem_file_iter(Path::new(path)).and_then(Iterator::collect);
            let read: Vec<_> = read.map_err(|why| DatabaseUrlError::Roots {
                path: path.to_owned(),
                why: why.to_string(),
            })?;
            store.add_parsable_certificates(read);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|why| DatabaseUrlError::Tls(why.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(RecordedConnector::new(MakeRustlsConnect::new(config)))
}

/// Removes a setting from a URL or from words like `host=db`, and returns the remaining text and the value.
fn without(text: &str, name: &str) -> (String, Option<String>) {
    let is_url = text.contains("://");
    let (head, settings, mark) = match text.split_once('?') {
        Some((head, settings)) if is_url => (format!("{head}?"), settings, "&"),
        _ if is_url => return (text.to_owned(), None),
        _ => (String::new(), text, " "),
    };
    let named = |word: &&str| word.split_once('=').is_some_and(|(found, _)| found == name);
    let (found, kept): (Vec<&str>, Vec<&str>) = settings.split(mark).partition(named);
    let value = found.last().and_then(|word| word.split_once('='));
    let value = value.map(|(_, value)| value.to_owned());
    (format!("{head}{}", kept.join(mark)), value)
}

/// Timeout of each action at a server.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of each lock; shorter than the statement timeout, so that the error names the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle time of a connection before its first TCP keepalive.
const PROBE_AFTER: Duration = Duration::from_secs(3);
/// Interval of TCP keepalives.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// Number of unanswered keepalives that end a connection.
const PROBES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_settings_are_removed_from_the_url() {
        let (rest, mode) = without("postgres://me@db/books?sslmode=require&port=1", "sslmode");
        assert_eq!(rest, "postgres://me@db/books?port=1");
        assert_eq!(mode.as_deref(), Some("require"));
        let (rest, roots) = without("host=db sslrootcert=/a.pem user=me", "sslrootcert");
        assert_eq!(rest, "host=db user=me");
        assert_eq!(roots.as_deref(), Some("/a.pem"));
        assert_eq!(without("postgres://me@db/books", "sslmode").1, None);
    }

    #[test]
    fn unencrypted_connections_over_a_network_are_recognized() {
        let is_readable = |text: &str| PostgresServer::parse(text).unwrap().is_readable();
        assert!(is_readable("postgres://me@db.example.org/books"));
        assert!(!is_readable("postgres://me@127.0.0.1/books"));
        assert!(!is_readable("host=/run/postgresql user=me"));
        assert!(!is_readable(
            "postgres://me@db.example.org/books?sslmode=verify-full"
        ));
        let Err(why) = PostgresServer::parse("postgres://me@db/books?sslmode=maybe") else {
            panic!("sslmode=maybe is accepted");
        };
        assert!(why.to_string().contains("verify-full"), "{why}");
    }
}
