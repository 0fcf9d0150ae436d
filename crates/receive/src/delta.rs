//! Messages of the sender about deltas.

use lighthaul_copy::delta_message::{DeltaStretch, SumsRequest};
use lighthaul_copy::report::Report;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;

use super::basis::Basis;
use super::held::HeldRange;
use super::job::Job;
use super::queues::Queues;
use super::receiver::Receiving;

impl Receiving<'_, '_> {
    /// Handles a request for the sums of a basis.
    pub(super) fn take_request(&self, request: SumsRequest, queues: &Queues) -> Result<(), Error> {
        let transfer = self.transfer;
        let file = transfer.table.with_basis(request.entry)?;
        let basis = Basis::new(file, request)?;
        transfer.monitor.delta().files += 1;
        if queues.bases.try_send(basis).is_err() {
            transfer.threads.check()?;
            return Err(PeerFault::Invalid("more deltas than the limit").into());
        }
        Ok(())
    }

    /// Handles a stretch of a file that has a basis.
    pub(super) fn take_stretch(
        &self,
        mut stretch: DeltaStretch,
        queues: &Queues,
    ) -> Result<(), Error> {
        let transfer = self.transfer;
        self.take_reasons(std::slice::from_mut(&mut stretch.report));
        let DeltaStretch {
            entry,
            span,
            copies,
            report,
        } = stretch;
        if let Report::Failed { code, why } = report {
            let error = PeerFault::reported(code, why).into();
            // a publisher that has stopped has reported the reason
            queues.jobs.send(Job::Failed(entry, error)).ok();
            return Ok(());
        }
        let (file, sent) = transfer.table.decide(entry, span, &copies)?;
        if file.has_delta() {
            transfer.monitor.delta().add(span.1 - span.0 - sent, sent);
        }
        if copies.is_empty() {
            return Ok(());
        }
        let range = HeldRange {
            file,
            span,
            copies,
            report,
        };
        if queues.held.try_send(range).is_err() {
            transfer.threads.check()?;
            return Err(PeerFault::Invalid("more digests than the limit").into());
        }
        Ok(())
    }
}
