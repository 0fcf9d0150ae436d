//! Credentials of S3: from the environment, a profile, or the host. They are read again when a store says that they have expired.

use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_session::error::Error;
use object_store::aws::{AmazonS3Builder, AwsCredential, AwsCredentialProvider};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::call_error::{CallError, Reason};
use crate::environment;
use crate::profile::Profile;

/// Source of credentials, and those that were read last.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// Requests are not signed (`AWS_SKIP_SIGNATURE`).
    Anonymous,
    /// From the environment, or from a profile, which may change.
    Read(Mutex<Arc<AwsCredential>>),
    /// From a service of the host: a token of its own, its container, or the machine.
    Host(AwsCredentialProvider),
}

impl Credentials {
    /// Finds credentials as other programs do.
    pub(crate) fn find(profile: &Profile, bucket: &str) -> Result<Self, Error> {
        if environment::is_on("AWS_SKIP_SIGNATURE") {
            return Ok(Self::Anonymous);
        }
        let found = match of_environment() {
            Some(found) => Some(found),
            None => profile
                .credentials()
                .map_err(|error| error.during(CANNOT))?,
        };
        if let Some(found) = found {
            return Ok(Self::Read(Mutex::new(Arc::new(found))));
        }
        let retry = RetryConfig {
            max_retries: 1,
            backoff: BackoffConfig::default(),
            retry_timeout: HOST_PATIENCE,
        };
        let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        let builder = builder.with_retry(retry);
        let options = ClientOptions::new()
            .with_timeout(HOST_PATIENCE)
            .with_allow_http(true);
        let store = builder.with_client_options(options).build();
        let store = store.map_err(|error| CallError::of_store(&error).during(CANNOT))?;
        Ok(Self::Host(Arc::clone(store.credentials())))
    }

    /// Returns the present credentials; none to sign nothing.
    pub(crate) async fn current(&self) -> Result<Option<Arc<AwsCredential>>, CallError> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Read(held) => Ok(Some(Arc::clone(
                &held.lock().unwrap_or_else(PoisonError::into_inner),
            ))),
            Self::Host(provider) => {
                let found = provider.get_credential().await;
                found.map(Some).map_err(|_| {
                    let text = "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE \
                                (AWS_SKIP_SIGNATURE=true for a public bucket)";
                    CallError::new(Reason::Denied, text)
                })
            }
        }
    }

    /// Reads the credentials again, since a store says that `expired` are not valid any more. Returns true if there are
    /// others.
    pub(crate) fn renew(&self, expired: Option<&AwsCredential>) -> bool {
        let Self::Read(held) = self else {
            return false;
        };
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if expired.is_some_and(|expired| *expired != **held) {
            return true;
        }
        // the environment of a process does not change
        let found = match of_environment() {
            None => Profile::read()
                .ok()
                .and_then(|profile| profile.credentials().ok()?),
            Some(_) => None,
        };
        let Some(found) = found.filter(|found| *found != **held) else {
            return false;
        };
        *held = Arc::new(found);
        true
    }
}

fn of_environment() -> Option<AwsCredential> {
    Some(AwsCredential {
        key_id: environment::text("AWS_ACCESS_KEY_ID")?,
        secret_key: environment::text("AWS_SECRET_ACCESS_KEY")?,
        token: environment::text("AWS_SESSION_TOKEN"),
    })
}

const CANNOT: &str = "cannot read the credentials of the object store";

/// Time for a service of the host that has credentials. Most hosts have none.
const HOST_PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
