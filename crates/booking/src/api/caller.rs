//! Who asks.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::desk::Desk;
use super::refused::Refused;
use crate::books::Who;
use crate::callers::{Connection, site};

/// Somebody who was let in, and has not asked too often.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Who);

/// Where a request is from.
#[derive(Clone, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr, pub(crate) Arc<Connection>);

/// Returns the credential that a request shows.
pub(super) fn credential(headers: &HeaderMap) -> Option<String> {
    let shown = headers.get(AUTHORIZATION)?.to_str().ok()?;
    Some(shown.to_owned())
}

impl FromRequestParts<Desk> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, desk: &Desk) -> Result<Self, Refused> {
        match desk.judge(credential(&parts.headers)).await {
            Ok(who) => {
                if let Some(Peer(_, connection)) = parts.extensions.get::<Peer>() {
                    connection.identify(&who.name);
                }
                desk.take(&who.name)?;
                Ok(Self(who))
            }
            Err(refused) => {
                // who guesses is told less and less often that it was wrong
                let peer = parts.extensions.get::<Peer>();
                let peer = peer.map_or_else(String::new, |Peer(address, _)| stranger(*address));
                desk.take_of_stranger(&peer)?;
                Err(refused)
            }
        }
    }
}

/// Returns the name under which wrong tokens from the network of `address` are counted.
fn stranger(address: IpAddr) -> String {
    format!("from {}", site(address).address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_of_one_network_of_ipv6_have_one_share_of_guesses() {
        let of = |text: &str| stranger(text.parse().unwrap());
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
