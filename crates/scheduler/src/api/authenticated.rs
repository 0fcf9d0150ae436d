//! Authentication and rate limit of requests.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use lighthaul_booking::books::Principal;

use super::api_error::ApiError;
use super::concurrency;
use super::peer::Peer;
use super::state::ApiState;
use crate::connections::site;

/// Client that is authenticated and within its rate limit.
#[derive(Debug)]
pub(crate) struct Authenticated(pub(crate) Principal);

/// Returns the `Authorization` header of a request.
pub(super) fn credential(headers: &HeaderMap) -> Option<String> {
    let shown = headers.get(AUTHORIZATION)?.to_str().ok()?;
    Some(shown.to_owned())
}

impl FromRequestParts<ApiState> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        concurrency::enter().await;
        match state.authenticate(credential(&parts.headers)).await {
            Ok(principal) => {
                if let Some(Peer(_, connection)) = parts.extensions.get::<Peer>() {
                    connection.identify(&principal.name);
                }
                state.check_rate(&principal.name)?;
                concurrency::identify(&principal.name).await;
                Ok(Self(principal))
            }
            Err(refused) => {
                // limits the rate at which a client can guess tokens
                let peer = parts.extensions.get::<Peer>();
                let peer = peer.map_or_else(String::new, |Peer(address, _)| stranger(*address));
                state.check_failed_rate(&peer)?;
                Err(refused)
            }
        }
    }
}

/// Returns the name under which failed authentications from the network of `address` are counted.
fn stranger(address: IpAddr) -> String {
    format!("from {}", site(address).address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_authentications_are_counted_by_network() {
        let of = |text: &str| stranger(text.parse().unwrap());
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
