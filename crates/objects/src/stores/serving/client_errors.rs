//! Errors for clients of a served bucket. They name paths that clients see, and no bucket, endpoint or key; the log of the
//! daemon has the rest.

use std::path::Path;

use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_session::error::{Code, Error};

use crate::fault::Fault;

/// Returns the error of a failed request for clients, as in "cannot write /store/a". The log gets the whole error with the
/// URL.
pub(crate) fn of_request(error: &CallError, (action, path): (&str, &Path), url: &str) -> Error {
    if error.reason != Reason::Stopped {
        tracing::warn!("{action} {url}: {}", error.text);
    }
    let why = match error.reason {
        Reason::Missing => "the store does not have it any more",
        Reason::Condition => "another program has changed it meanwhile",
        Reason::Denied => "the store refuses it to the daemon, whose log has the reason",
        Reason::Expired => {
            "the credentials of the daemon have expired; let its operator renew them"
        }
        Reason::Busy => "the store is busy; copy again later",
        Reason::Network => "the daemon cannot reach the store; copy again later",
        Reason::Unsupported => "the store cannot do that, and the log of the daemon has the reason",
        Reason::Integrity => "the store has received other bytes than the daemon sent; copy again",
        Reason::Broken => "the daemon does not understand the store, and its log has the reason",
        Reason::Stopped => "the daemon is being stopped; copy again in a moment",
    };
    CallError::new(error.reason, why).during(format!("{action} {}", path.display()))
}

/// Returns the error of an object at `path` that cannot be written, for a reason of this host.
pub(crate) fn unwritten(path: &Path, why: impl Into<String>, code: Code) -> Error {
    Fault::Failed {
        what: format!("cannot write {}", path.display()),
        why: why.into(),
        code,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_learn_neither_urls_nor_texts_of_the_store() {
        for reason in [
            Reason::Missing,
            Reason::Condition,
            Reason::Denied,
            Reason::Expired,
            Reason::Busy,
            Reason::Network,
            Reason::Unsupported,
            Reason::Integrity,
            Reason::Broken,
            Reason::Stopped,
        ] {
            let error = CallError::new(reason, "no access to arn:aws:s3:::secret at inner:9000");
            let at = ("cannot write", Path::new("/store/a"));
            let told = of_request(&error, at, "s3://secret/prefix/a").to_string();
            assert!(told.starts_with("cannot write /store/a: "), "{told}");
            for hidden in ["secret", "prefix", "inner", "arn"] {
                assert!(!told.contains(hidden), "{told}");
            }
        }
    }
}
