//! What every session of a daemon shares.

use std::sync::Arc;

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_transfer::credential::Credential;
use lighthaul_transfer::error::{Code, Error};

use crate::acquaintances::Acquaintances;
use crate::dispatch::Sessions;
use crate::hall::Hall;
use crate::invitation::Invitations;
use crate::joins::Joins;
use crate::lobby::Lobby;
use crate::metrics::Metrics;
use crate::refused::Refused;
use crate::rights::Rights;
use crate::settings::{Settings, Welcome};
use crate::standing::Judge;
use crate::tries::Tries;

/// What every session of a daemon shares.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) invitations: Invitations,
    pub(crate) joins: Joins,
    pub(crate) tries: Tries,
    pub(crate) judge: Judge,
    pub(crate) hall: Arc<Hall>,
    pub(crate) known: Arc<Acquaintances>,
    pub(crate) lobby: Arc<Lobby>,
    pub(crate) refused: Refused,
    pub(crate) clock: Clock,
}

impl Service {
    /// What the holder of `key` may do now, for as long as that is asked.
    pub(crate) fn rights(
        &self,
        key: Fingerprint,
        credential: Option<&Credential>,
    ) -> Result<Rights, Error> {
        let rights = self.judge.rights(key, credential);
        let (rights, _) = rights.map_err(|why| why.tell(key, self.allow_options()))?;
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
        if !is_stopped || matches!(self.settings.welcome, Welcome::Only(_)) {
            return error;
        }
        Error::new(
            Code::Network,
            "the daemon there is being stopped; try again in a moment",
        )
    }
}
