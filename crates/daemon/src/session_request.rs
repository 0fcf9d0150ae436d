//! What a caller asks for, decoded by its topic and bounded.

use lighthaul_session::error::Error;
use lighthaul_session::message::Hello;

use crate::request::Request;
use crate::request_limits;

/// What a caller asks for, and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionRequest {
    /// What it said, but for its request.
    pub(crate) hello: Hello,
    /// Its request.
    pub(crate) request: Request,
}

impl SessionRequest {
    /// Decodes and bounds what `hello` asks for.
    pub(crate) fn of(mut hello: Hello) -> Result<Self, Error> {
        let mut request = Request::of(&hello)?;
        caps::apply(&mut request);
        hello.request = Vec::new();
        Ok(Self { hello, request })
    }
}
