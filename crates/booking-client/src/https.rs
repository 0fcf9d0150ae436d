//! HTTP client with its own check of server certificates: by trusted authorities, or by the key of
//! the server.
//!
//! [`HttpsClient`] keeps the reason for which it refused a server, since the error of the
//! connection does not have it. Only TLS 1.3 is accepted. Redirects are not followed and proxies of
//! the environment are not used, so that a token reaches no other server.

use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lighthaul_io::crypto::identity::Fingerprint;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};

/// Servers that a client trusts.
pub struct ServerTrust {
    /// True if a certificate of an authority that the system trusts is sufficient.
    pub by_certificate: bool,
    /// Check of the fingerprint of the server's key; returns the reason if it is not trusted.
    pub by_key: Box<dyn Fn(Fingerprint) -> Result<(), String> + Send + Sync>,
}

impl ServerTrust {
    /// Returns the trust in servers with a certificate that the system trusts, and in no others.
    pub fn certificate() -> Self {
        Self {
            by_certificate: true,
            by_key: Box::new(|_| {
                Err(
                    "its certificate is not signed by an authority that this host trusts"
                        .to_owned(),
                )
            }),
        }
    }
}

impl fmt::Debug for ServerTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTrust")
            .field("by_certificate", &self.by_certificate)
            .finish_non_exhaustive()
    }
}

/// HTTP client that also keeps the reason for which the last server was not trusted.
#[derive(Clone, Debug)]
pub struct HttpsClient {
    /// Client that checks certificates.
    pub agent: Agent,
    refused: Arc<Mutex<Option<String>>>,
}

impl HttpsClient {
    /// Returns a client of servers that are `known`, with a timeout for each response, and one for its body.
    pub fn new(known: ServerTrust, time_limit: Duration) -> Result<Self, rustls::Error> {
        let refused = Arc::new(Mutex::new(None));
        let verifier = Verifier::new(known, Arc::clone(&refused));
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let connector = TcpConnector::default().chain(Tls(Arc::new(config)));
        let settings = Agent::config_builder()
            .timeout_connect(Some(time_limit))
            .timeout_send_request(Some(time_limit))
            .timeout_send_body(Some(time_limit))
            .timeout_recv_response(Some(time_limit))
            .timeout_recv_body(Some(time_limit))
            // problems come with an error status, and a token must not follow redirects
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let agent = Agent::with_parts(settings, connector, DefaultResolver::default());
        Ok(Self { agent, refused })
    }

    /// Returns and clears the reason for which the last server was not trusted, if that made a request fail.
    pub fn refused(&self) -> Option<String> {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// Returns an HTTP client to fetch the keys of an issuer.
pub fn fetcher() -> Result<Agent, rustls::Error> {
    HttpsClient::new(ServerTrust::certificate(), Duration::from_secs(5)).map(|caller| caller.agent)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Verifier of server certificates.
struct Verifier {
    known: ServerTrust,
    /// Authorities that this host trusts, read when a server is first verified: there are more than a hundred.
    system: OnceLock<Arc<WebPkiServerVerifier>>,
    refused: Arc<Mutex<Option<String>>>,
}

impl Verifier {
    const fn new(known: ServerTrust, refused: Arc<Mutex<Option<String>>>) -> Self {
        Self {
            known,
            system: OnceLock::new(),
            refused,
        }
    }

    /// Returns a verifier of certificates, or none if the host trusts no authority.
    fn system(&self) -> Option<&Arc<WebPkiServerVerifier>> {
        if self.system.get().is_none() {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            let system = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
            // a failure, as without a free file, is not kept
            self.system.set(system.build().ok()?).ok();
        }
        self.system.get()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.known.fmt(f)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let by_certificate = self.known.by_certificate.then(|| self.system()).flatten();
        let verified = by_certificate.map(|system| {
            system.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        });
        if let Some(Ok(verified)) = verified {
            return Ok(verified);
        }
        let key = ParsedCertificate::try_from(end_entity)?.subject_public_key_info();
        (self.known.by_key)(Fingerprint::of(&key)).map_err(|why| {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
            rustls::Error::General(why)
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General(
            "TLS 1.2 is not supported, use TLS 1.3".to_owned(),
        ))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Connector that adds TLS. That of ureq supports no custom verifier.
#[derive(Debug)]
struct Tls(Arc<ClientConfig>);

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default();
        let bare = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = ServerName::try_from(bare).map_err(|_| ureq::Error::HostNotFound)?;
        let mut connection = ClientConnection::new(Arc::clone(&self.0), name).map_err(broken)?;
        let mut adapter =
            TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        adapter.set_timeout(details.timeout);
        connection.complete_io(&mut adapter)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsTransport {
            buffers,
            stream: StreamOwned::new(connection, adapter),
        })))
    }
}

fn broken(error: rustls::Error) -> ureq::Error {
    std::io::Error::other(error).into()
}

/// Connection within TLS.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = &self.buffers.output()[..amount];
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a server for the test")]
    fn body_that_stalls_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (done, wait) = channel::<()>();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // the request is shorter
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            client
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                .unwrap();
            // until the test has ended
            wait.recv().ok();
        });
        let limit = Duration::from_millis(300);
        let client = HttpsClient::new(ServerTrust::certificate(), limit).unwrap();
        let mut response = client.agent.get(&url).call().unwrap();
        let read = response.body_mut().read_to_string();
        assert!(matches!(read, Err(ureq::Error::Timeout(_))), "{read:?}");
        drop(done);
        server.join().unwrap();
    }
}
