//! Limit on the memory of responses, counted until the client has read them.
//!
//! Each identity has at most half of the memory, and each address three quarters. When the memory
//! is full, the newest response of the identity with the most ends for another, as
//! [`lighthaul_base::seats`] defines.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lighthaul_base::seats::{Full, Limits, Seats};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::api_error::ApiError;
use super::peer::Peer;
use crate::connections::Connection;

/// Memory for responses, in KiB.
#[derive(Clone, Debug)]
pub(crate) struct ResponseMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    held: Mutex<Shares>,
    freed: Notify,
}

#[derive(Debug)]
struct Shares {
    seats: Seats<String, 1>,
    /// Connections of the responses, by seat.
    open: BTreeMap<u64, Arc<Connection>>,
}

/// Memory of one response, which is freed on drop.
#[derive(Debug)]
struct ResponseSlot {
    memory: ResponseMemory,
    number: u64,
}

/// Body of a response, and its memory.
struct HeldBody {
    octets: Bytes,
    _slot: ResponseSlot,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Drop for ResponseSlot {
    fn drop(&mut self) {
        let mut shares = self.memory.lock();
        shares.seats.leave(self.number);
        shares.open.remove(&self.number);
        drop(shares);
        self.memory.0.freed.notify_waiters();
    }
}

impl ResponseMemory {
    /// Returns a limit of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let limits = Limits::parts_of((bytes as u64 >> 10).max(2));
        Self(Arc::new(Inner {
            limits,
            held: Mutex::new(Shares {
                seats: Seats::new([limits]),
                open: BTreeMap::new(),
            }),
            freed: Notify::new(),
        }))
    }

    /// Takes memory for a response of `length` bytes to `peer`.
    fn take(&self, peer: Option<&Peer>, length: u64) -> Result<ResponseSlot, Full> {
        // a response longer than the whole share takes all of it
        let kib = (length >> 10).saturating_add(1).min(self.0.limits.identity);
        let name = peer.and_then(|Peer(_, connection)| connection.identity());
        let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(address, _)| {
            *address
        });
        let mut shares = self.lock();
        let seated = shares.seats.take(name, address, [kib])?;
        for connection in seated
            .revoked
            .iter()
            .filter_map(|number| shares.open.remove(number))
        {
            connection.end();
        }
        if let Some(Peer(_, connection)) = peer {
            shares.open.insert(seated.number, Arc::clone(connection));
        }
        drop(shares);
        Ok(ResponseSlot {
            memory: self.clone(),
            number: seated.number,
        })
    }

    /// Waits for memory, for at most the time limit of a response.
    async fn wait(&self, peer: Option<&Peer>, length: u64) -> Option<ResponseSlot> {
        let slot = async {
            loop {
                let mut freed = pin!(self.0.freed.notified());
                freed.as_mut().enable();
                if let Ok(slot) = self.take(peer, length) {
                    return slot;
                }
                freed.await;
            }
        };
        timeout(TIMEOUT, slot).await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a response when memory is available. Small responses and those of unknown length are not limited.
pub(crate) async fn bound(
    State(memory): State<ResponseMemory>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    let response = next.run(request).await;
    let Some(length) = response.body().size_hint().exact() else {
        return response;
    };
    if length <= SMALL {
        return response;
    }
    let (parts, body) = response.into_parts();
    let slot = memory.wait(peer.as_ref(), length).await;
    let (Some(slot), Ok(octets)) = (slot, to_bytes(body, usize::MAX).await) else {
        return ApiError::overloaded().into_response();
    };
    let held = Bytes::from_owner(HeldBody {
        octets,
        _slot: slot,
    });
    // sent in parts, so that no second copy of the body is made
    let parts_of = stream::unfold(held, |mut rest| async move {
        let part = rest.split_to(rest.len().min(PART));
        (!part.is_empty()).then_some((Ok::<_, std::convert::Infallible>(part), rest))
    });
    let mut answer = Response::from_parts(parts, Body::from_stream(parts_of));
    answer.headers_mut().insert(
        axum::http::header::CONTENT_LENGTH,
        axum::http::HeaderValue::from(length),
    );
    answer
}

/// Largest length in bytes that is not limited.
const SMALL: u64 = 16 << 10;
/// Bytes that are written at once.
const PART: usize = 16 << 10;
/// Maximum time that a response waits for memory.
const TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Connections, Limits as CallerLimits};
    use futures_util::FutureExt;

    const MIB: u64 = (1 << 20) - 1;

    fn peer(connections: &Connections, name: &str, host: u8) -> Peer {
        let address = IpAddr::from([10, 0, host, 1]);
        let connection = Arc::new(connections.admit(address).unwrap());
        connection.identify(name);
        Peer(address, connection)
    }

    fn has_ended(Peer(_, connection): &Peer) -> bool {
        connection.ended().now_or_never().is_some()
    }

    #[test]
    fn identity_that_does_not_read_takes_at_most_half_of_the_memory() {
        let connections = Connections::new(CallerLimits::default());
        let memory = ResponseMemory::new(64 << 20);
        let greedy: Vec<_> = (0..40).map(|nth| peer(&connections, "ada", nth)).collect();
        let mut held = Vec::new();
        let more = greedy.iter();
        held.extend(more.filter_map(|peer| memory.take(Some(peer), MIB).ok()));
        assert_eq!(held.len(), 32);
        let other = peer(&connections, "bob", 99);
        assert!(memory.take(Some(&other), MIB).is_ok());
        assert!(!greedy.iter().any(has_ended));
        assert_eq!(memory.lock().open.len(), 32);
    }

    #[test]
    fn unidentified_address_takes_at_most_three_quarters_of_the_memory() {
        let connections = Connections::new(CallerLimits::default());
        let memory = ResponseMemory::new(64 << 20);
        let address = IpAddr::from([10, 0, 0, 1]);
        let stranger = Peer(address, Arc::new(connections.admit(address).unwrap()));
        let mut held = Vec::new();
        held.extend((0..64).filter_map(|_| memory.take(Some(&stranger), MIB).ok()));
        assert_eq!(held.len(), 48);
        assert!(
            memory
                .take(Some(&peer(&connections, "bob", 9)), MIB)
                .is_ok()
        );
    }

    #[test]
    fn newest_response_of_the_largest_identity_ends_for_another_identity() {
        let connections = Connections::new(CallerLimits::default());
        let memory = ResponseMemory::new(64 << 20);
        let mut held = Vec::new();
        let mut greedy = Vec::new();
        for nth in 0..32 {
            for (name, host) in [("ada", nth), ("eve", 100 + nth)] {
                let peer = peer(&connections, name, host);
                held.push(memory.take(Some(&peer), MIB).unwrap());
                greedy.push(peer);
            }
        }
        let other = peer(&connections, "bob", 99);
        let _slot = memory.take(Some(&other), MIB).unwrap();
        let ended: Vec<bool> = greedy.iter().map(has_ended).collect();
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
        assert!(ended[62] || ended[63], "one of the newest");
        assert!(!has_ended(&other));
    }
}
