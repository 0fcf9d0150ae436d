//! Origin of a request.

use std::net::IpAddr;
use std::sync::Arc;

use crate::connections::Connection;

/// Address and connection that a request comes from.
#[derive(Clone, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr, pub(crate) Arc<Connection>);
