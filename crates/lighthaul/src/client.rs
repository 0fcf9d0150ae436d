//! Clients: settings for connections to other hosts, and copies.

use std::sync::Arc;

use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_remote::reach::Route;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::run::run;
use crate::event::Event;
use crate::plan::Plan;
use crate::request::CopyRequest;
use crate::settings::Settings;
use crate::transfer::Transfer;

/// Client of other hosts and of a scheduler. Clones share its settings.
#[derive(Clone, Debug, Default)]
pub struct Client {
    settings: Arc<Settings>,
}

impl Client {
    /// Returns a client with `settings`.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
        }
    }

    /// Starts a copy in a new thread.
    pub fn copy(&self, request: CopyRequest) -> Result<Transfer, Error> {
        self.copy_observed(request, |_| {})
    }

    /// Starts a copy in a new thread, which calls `observer` for each event.
    pub fn copy_observed(
        &self,
        request: CopyRequest,
        observer: impl FnMut(&Event) + Send + 'static,
    ) -> Result<Transfer, Error> {
        let client = self.clone();
        Transfer::start(
            move |cancellation, observe| client.run_until(cancellation, request, observe),
            observer,
        )
    }

    /// Copies in the calling thread, and calls `observer` for each event. Returns when the copy has ended, or the work
    /// of this thread is cancelled.
    pub fn run(
        &self,
        request: CopyRequest,
        observer: &mut dyn FnMut(Event),
    ) -> Result<Summary, Error> {
        self.run_until(Cancellation::current(), request, observer)
    }

    /// Copies in the calling thread until `cancellation`.
    pub(crate) fn run_until(
        &self,
        cancellation: Cancellation,
        request: CopyRequest,
        observer: &mut dyn FnMut(Event),
    ) -> Result<Summary, Error> {
        let job = Job::new(request, Arc::clone(&self.settings));
        cancellation.cover(|| run(&job, &mut Reporter::new(observer)))
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the route to other hosts.
    pub(crate) fn route(&self) -> &Route {
        &self.settings.route
    }

    /// Returns the number of entries and bytes that a copy would transfer, by a dry run.
    pub fn plan(&self, request: &CopyRequest) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        let mut dry = request.dry();
        dry.retries = 0;
        self.run(dry, &mut |event| {
            if let Event::Copy(CopyEvent::Planned(planned)) = event {
                plan.add(&planned);
            }
        })?;
        Ok(plan)
    }
}
