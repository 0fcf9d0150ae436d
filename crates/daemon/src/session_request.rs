//! Request of a client with its parameters.

use lighthaul_session::error::Error;
use lighthaul_session::message::Hello;

use crate::request::Request;
use crate::request_limits;

/// Request of a client with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionRequest {
    /// First message of the client, without the request.
    pub(crate) hello: Hello,
    /// Decoded request.
    pub(crate) request: Request,
}

impl SessionRequest {
    /// Decodes the request of `hello`, and limits its parameters.
    pub(crate) fn of(mut hello: Hello) -> Result<Self, Error> {
        let mut request = Request::of(&hello)?;
        request_limits::apply(&mut request);
        hello.request = Vec::new();
        Ok(Self { hello, request })
    }
}
