//! Credentials of S3: from the environment, a profile, or the host. They are read again when a store says that they have expired.

use std::sync::Arc;

use lighthaul_base::Instant;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::Error;
use object_store::aws::{AmazonS3Builder, AwsCredential, AwsCredentialProvider};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::call_error::{CallError, Reason};
use crate::environment;
use crate::profile::{NoCredentials, Profile};

/// Source of credentials, and those that were read last.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// Requests are not signed (`AWS_SKIP_SIGNATURE`).
    Anonymous,
    /// From the environment, or from a profile, which may change.
    Read(Mutex<Held>),
    /// From a service of the host: a token of its own, its container, or the machine.
    Host(AwsCredentialProvider),
}

/// Credentials that were read.
#[derive(Debug)]
pub(crate) struct Held {
    now: Arc<AwsCredential>,
    clock: Clock,
    /// Result of the last program that printed no other credentials, and the end of the pause after it.
    unchanged: Option<(Result<bool, CallError>, Instant)>,
}

impl Held {
    fn new(now: AwsCredential) -> Self {
        Self {
            now: Arc::new(now),
            clock: Clock::start(),
            unchanged: None,
        }
    }

    /// Takes the result of a renewal, by a program if `is_program`. Returns true if there are other credentials.
    fn take(
        &mut self,
        renewed: Result<Option<AwsCredential>, NoCredentials>,
        is_program: bool,
    ) -> Result<bool, CallError> {
        let unchanged = match renewed {
            Ok(Some(found)) if found != *self.now => {
                (self.now, self.unchanged) = (Arc::new(found), None);
                return Ok(true);
            }
            Ok(_) => Ok(false),
            // the store has said that the present ones have expired
            Err(NoCredentials::Failed(error)) => {
                let text = format!("the credentials have expired, and {}", error.text);
                Err(CallError::new(Reason::Expired, text))
            }
            Err(NoCredentials::Cancelled) => return Err(stopped()),
        };
        if is_program {
            let till = self.clock.now() + PROGRAM_PAUSE;
            self.unchanged = Some((unchanged.clone(), till));
        }
        unchanged
    }
}

impl Credentials {
    /// Finds credentials as other programs do.
    pub(crate) fn find(profile: &Profile, bucket: &str) -> Result<Self, Error> {
        if environment::is_on("AWS_SKIP_SIGNATURE") {
            return Ok(Self::Anonymous);
        }
        let found = match of_environment() {
            Some(found) => Some(found),
            None => profile.credentials().map_err(unread)?,
        };
        if let Some(found) = found {
            return Ok(Self::Read(Mutex::new(Held::new(found))));
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
            Self::Read(held) => Ok(Some(Arc::clone(&held.lock().await.now))),
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
    /// others. Other requests wait meanwhile. A program that prints them is killed when the caller no longer waits.
    pub(crate) async fn renew(&self, expired: Option<&AwsCredential>) -> Result<bool, CallError> {
        let Self::Read(held) = self else {
            return Ok(false);
        };
        let mut held = held.lock().await;
        if expired.is_some_and(|expired| *expired != *held.now) {
            return Ok(true);
        }
        // the environment of a process does not change
        if of_environment().is_some() {
            return Ok(false);
        }
        // each request would wait for the program in turn
        if let Some((unchanged, till)) = &held.unchanged
            && held.clock.now() < *till
        {
            return unchanged.clone();
        }
        let cancellation = Cancellation::current().part();
        let _ends = cancellation.cancel_on_drop();
        let reading = spawn_blocking(move || cancellation.cover(renewed));
        match reading.await {
            Ok((renewed, is_program)) => held.take(renewed, is_program),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(stopped()),
            },
        }
    }
}

/// Reads the credentials of the profile again, and returns true with them if it has a program. A profile that cannot be
/// read has none.
fn renewed() -> (Result<Option<AwsCredential>, NoCredentials>, bool) {
    match Profile::read() {
        Ok(profile) => (profile.credentials(), profile.has_program()),
        Err(_) => (Ok(None), false),
    }
}

/// Returns the error of a copy whose credentials cannot be read.
fn unread(reason: NoCredentials) -> Error {
    match reason {
        NoCredentials::Failed(error) => error.during(CANNOT),
        NoCredentials::Cancelled => World::Interrupted.into(),
    }
}

fn stopped() -> CallError {
    CallError::new(Reason::Stopped, "the request was cancelled")
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

/// Time after a program without other credentials during which it is not run again.
const PROGRAM_PAUSE: std::time::Duration = std::time::Duration::from_mins(1);
