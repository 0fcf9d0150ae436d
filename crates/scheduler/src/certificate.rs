//! Certificate of the server: from a file, or self-signed with the key of the host.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_booking::error::{Result, SetupError};
use lighthaul_io::crypto::identity::Identity;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519, SanType};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

/// Certificate of the server.
#[derive(Clone, Debug)]
pub enum ServerCertificate {
    /// None: plain HTTP.
    Plain,
    /// Self-signed with the key of this host, which clients recognize by its fingerprint.
    SelfSigned(Identity),
    /// Certificate chain and private key in PEM files.
    Files {
        /// Certificates, that of the server first.
        chain: PathBuf,
        /// Private key.
        key: PathBuf,
    },
}

impl ServerCertificate {
    /// Returns the TLS configuration, if TLS is used.
    pub(crate) fn config(&self) -> Result<Option<Arc<ServerConfig>>> {
        let (chain, key) = match self {
            Self::Plain => return Ok(None),
            Self::SelfSigned(identity) => own(identity).map_err(|e| broken(&e))?,
            Self::Files { chain, key } => {
                let wrong = |path: &PathBuf, why: &dyn std::fmt::Display| SetupError::Pem {
                    path: path.clone(),
                    why: why.to_string(),
                };
                let read = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect);
                let read: Vec<_> = read.map_err(|e| wrong(chain, &e))?;
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, &e))?;
                (read, secret)
            }
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| broken(&e))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| broken(&e))?;
        Ok(Some(Arc::new(config)))
    }
}

/// Returns a self-signed certificate that contains the key and `localhost`.
fn own(
    identity: &Identity,
) -> std::result::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = PrivatePkcs8KeyDer::from(identity.pkcs8().to_vec());
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519)?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    for address in ["127.0.0.1", "::1"]
        .iter()
        .filter_map(|text| text.parse::<IpAddr>().ok())
    {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "lighthaul scheduler");
    params.distinguished_name = name;
    let certificate = params.self_signed(&pair)?;
    Ok((vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key)))
}

fn broken(why: &dyn std::fmt::Display) -> SetupError {
    SetupError::Tls(why.to_string())
}
