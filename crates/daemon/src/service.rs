//! State that all sessions of a daemon share.

use std::sync::Arc;

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::known_path::Paths;

use crate::accept_queue::HostRecords;
use crate::attempts::Attempts;
use crate::authorizer::Authorizer;
use crate::error::Fault;
use crate::handshakes::Handshakes;
use crate::invitation::Invitations;
use crate::joins::Joins;
use crate::metrics::Metrics;
use crate::probe_router::ProbeRouter;
use crate::refused_keys::RefusedKeys;
use crate::resource_pool::ResourcePool;
use crate::rights::Rights;
use crate::settings::{AccessPolicy, Settings};

/// State that all sessions of a daemon share.
#[derive(Debug)]
// fields: what all sessions of a daemon share
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) probes: ProbeRouter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) invitations: Invitations,
    pub(crate) joins: Joins,
    pub(crate) attempts: Attempts,
    pub(crate) authorizer: Authorizer,
    pub(crate) pool: Arc<ResourcePool>,
    pub(crate) known: HostRecords,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) refused_keys: RefusedKeys,
    pub(crate) clock: Clock,
    /// Paths to clients that copies have measured.
    pub(crate) paths: Arc<Paths>,
}

impl Service {
    /// Returns the current rights of the holder of `key`.
    pub(crate) fn rights(
        &self,
        key: Fingerprint,
        credential: Option<&Credential>,
    ) -> Result<Rights, Error> {
        let rights = self.authorizer.rights(key, credential);
        let (rights, _) = rights.map_err(|why| why.to_error(key, self.allow_options()))?;
        Ok(self.beneath(rights))
    }

    /// Returns `rights` beneath the daemon's own root.
    pub(crate) fn beneath(&self, rights: Rights) -> Rights {
        rights.beneath(self.settings.root.as_deref())
    }

    /// Returns the options that `lighthaul allow` needs to admit a client to this daemon.
    pub(crate) const fn allow_options(&self) -> &'static str {
        if self.settings.gateway.is_some() {
            "--gateway "
        } else {
            ""
        }
    }

    /// Returns the error of a session for its client; if the daemon is stopping, the error asks to try again.
    pub(crate) fn ended(&self, error: Error) -> Error {
        let is_stopped = error.code() == Code::Interrupted && interrupt::is_requested();
        if !is_stopped || matches!(self.settings.access, AccessPolicy::Only(_)) {
            return error;
        }
        Fault::Stopping("daemon").into()
    }
}
