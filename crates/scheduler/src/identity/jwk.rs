//! Public key in the form of a JSON Web Key (RFC 7517). The checks of its use are in `checks`.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

/// Public key (RFC 7517; RFC 7518, section 6; RFC 8037).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Jwk {
    /// Name of the key in tokens.
    pub(super) kid: Option<String>,
    /// Type of the key.
    pub(super) kty: String,
    /// Only algorithm that the key is for, if any.
    pub(super) alg: Option<String>,
    /// Only use that the key is for, if any.
    #[serde(rename = "use")]
    pub(super) usage: Option<String>,
    /// Elliptic curve.
    pub(super) crv: Option<String>,
    /// Modulus of an RSA key.
    n: Option<String>,
    /// Exponent of an RSA key.
    e: Option<String>,
    /// First coordinate of a point.
    x: Option<String>,
    /// Second coordinate of a point.
    y: Option<String>,
}

impl Jwk {
    /// Returns the modulus and the exponent of an RSA key, in network byte order.
    pub(super) fn rsa(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((octets(self.n.as_ref())?, octets(self.e.as_ref())?))
    }

    /// Returns an uncompressed point (SEC 1, section 2.3.3).
    pub(super) fn point(&self) -> Option<Vec<u8>> {
        let (x, y) = (octets(self.x.as_ref())?, octets(self.y.as_ref())?);
        Some([vec![POINT], x, y].concat())
    }

    /// Returns the octets of an Edwards curve's key (RFC 8037, section 2).
    pub(super) fn edwards(&self) -> Option<Vec<u8>> {
        octets(self.x.as_ref())
    }
}

fn octets(text: Option<&String>) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text?.as_bytes()).ok()
}

/// First octet of an uncompressed point.
const POINT: u8 = 4;
