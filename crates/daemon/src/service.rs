//! What every session of a daemon shares.

use std::sync::Arc;

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Code, Error};

use crate::attempts::Attempts;
use crate::authorizer::Authorizer;
use crate::handshakes::Handshakes;
use crate::invitation::Invitations;
use crate::joins::Joins;
use crate::metrics::Metrics;
use crate::probe_router::ProbeRouter;
use crate::recent_hosts::RecentHosts;
use crate::refused_keys::RefusedKeys;
use crate::resource_pool::ResourcePool;
use crate::rights::Rights;
use crate::settings::{AccessPolicy, Settings};

/// What every session of a daemon shares.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) probes: ProbeRouter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) invitations: Invitations,
    pub(crate) joins: Joins,
    pub(crate) attempts: Attempts,
    pub(crate) authorizer: Authorizer,
    pub(crate) pool: Arc<ResourcePool>,
    pub(crate) recent_hosts: Arc<RecentHosts>,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) refused_keys: RefusedKeys,
    pub(crate) clock: Clock,
}

impl Service {
    /// What the holder of `key` may do now, for as long as that is asked.
    pub(crate) fn rights(
        &self,
        key: Fingerprint,
        credential: Option<&Credential>,
    ) -> Result<Rights, Error> {
        let rights = self.authorizer.rights(key, credential);
        let (rights, _) = rights.map_err(|why| why.to_error(key, self.allow_options()))?;
        Ok(self.beneath(rights))
    }

    /// Rights as far as the daemon's own root lets them go.
    pub(crate) fn beneath(&self, rights: Rights) -> Rights {
        rights.beneath(self.settings.root.as_deref())
    }

    /// Options of `lighthaul allow` that a caller needs here.
    pub(crate) const fn allow_options(&self) -> &'static str {
        if self.settings.gateway.is_some() {
            "--gateway "
        } else {
            ""
        }
    }

    /// Why a session ended, as its caller is to take it: a daemon that is stopped is one to try again.
    pub(crate) fn ended(&self, error: Error) -> Error {
        let is_stopped = error.code == Code::Interrupted && interrupt::is_requested();
        if !is_stopped || matches!(self.settings.access, AccessPolicy::Only(_)) {
            return error;
        }
        Error::new(
            Code::Network,
            "the daemon there is being stopped; try again in a moment",
        )
    }
}
