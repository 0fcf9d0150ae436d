//! Reservations of capacity: quotes, reservations, their state, and the wait for their start.
//!
//! ```text
//! reserve -> Reservation -> commit -> PendingStart -> Active -> release
//!                \_ cancel, at any time
//! ```
//!
//! A copy can reserve its own capacity: see [`Booking`](crate::Booking). All times here follow the scheduler's clock.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lighthaul_booking_client::client::{Client as Connection, ClientError, Filter};
use lighthaul_booking_client::json::{NewReservation, Quote, Reservation as Record};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::{Code, Error};

use crate::client::Client;
use crate::copy::retry::sleep;
use crate::fault::Fault;
use crate::task::Task;

/// Capacity that the scheduler of a [`Client`] has reserved.
///
/// The reservation stays when this value is dropped: [`Reservation::cancel`] or [`Reservation::release`] ends it.
#[derive(Clone, Debug)]
pub struct Reservation {
    scheduler: Connection,
    record: Record,
}

impl Client {
    /// Returns the grant that a request would get now. Nothing is reserved.
    pub fn quote(&self, request: &NewReservation) -> Result<Quote, Error> {
        self.scheduler()?.quote(request).map_err(failed)
    }

    /// Reserves capacity. Repeats the request if the response is lost, without reserving twice.
    pub fn reserve(&self, request: &NewReservation) -> Result<Reservation, Error> {
        let scheduler = self.scheduler()?;
        let record = scheduler.reserve(request).map_err(failed)?;
        Ok(Reservation { scheduler, record })
    }

    /// Returns the reservation with this number.
    pub fn reservation(&self, id: u64) -> Result<Reservation, Error> {
        let scheduler = self.scheduler()?;
        let record = scheduler.reservation(id).map_err(failed)?;
        Ok(Reservation { scheduler, record })
    }

    /// Passes the selected reservations to `take`, up to a hundred at a time. `take` gets an empty part if there are
    /// none.
    pub fn reservations(
        &self,
        filter: &Filter,
        take: &mut dyn FnMut(&[Record]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let scheduler = self.scheduler()?;
        let mut after = None;
        loop {
            let page = scheduler.reservations(filter, after).map_err(failed)?;
            take(&page.items)?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns a connection to the scheduler of the settings.
    pub(crate) fn scheduler(&self) -> Result<Connection, Error> {
        let scheduler = self.settings().scheduler.as_ref();
        reach(scheduler.ok_or(Fault::NoScheduler)?)
    }
}

impl Reservation {
    /// Returns the number of the reservation.
    pub const fn id(&self) -> u64 {
        self.record.id
    }

    /// Returns the state at the last contact with the scheduler.
    pub const fn state(&self) -> ReservationState {
        self.record.state
    }

    /// Returns all fields, as they were at the last contact with the scheduler.
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Reads the reservation again.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.update(Connection::reservation)
    }

    /// Commits a reservation that was made without a commit.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.update(|scheduler, id| scheduler.commit(id, ""))
    }

    /// Cancels the reservation. `why` is for its journal.
    pub fn cancel(&mut self, why: &str) -> Result<(), Error> {
        self.update(|scheduler, id| scheduler.cancel(id, why))
    }

    /// Releases the remaining capacity of a reservation that has started. `why` is for its journal.
    pub fn release(&mut self, why: &str) -> Result<(), Error> {
        self.update(|scheduler, id| scheduler.release(id, why))
    }

    /// Starts to wait until the reservation is active. The scheduler may move it meanwhile.
    pub fn pending_start(&self) -> Result<PendingStart, Error> {
        let waiting = self.clone();
        let task = Task::start("start", move |cancellation| {
            cancellation.cover(|| waiting.until_active())
        })?;
        Ok(PendingStart { task })
    }

    /// Waits until the reservation is active.
    fn until_active(mut self) -> Result<Self, Error> {
        let clock = Clock::start();
        let (mut ahead, mut heard) = (None, clock.now());
        loop {
            let asked = self.ask_state(&mut ahead);
            let now = clock.now();
            match asked {
                Ok(()) => heard = now,
                // it may be started again, or another takes its place
                Err(error) if error.code() == Code::Network && now.since(heard) < SILENCE_MAX => {
                    sleep(LOOK_MAX)?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let state = self.state();
            if state == ReservationState::Active {
                return Ok(self);
            }
            if state.is_final() {
                let (id, why) = (self.id().to_string(), format!("it is {state}"));
                return Err(Fault::Reservation { id, why }.into());
            }
            let now = unix_nanos().saturating_add_signed(ahead.unwrap_or(0));
            let start = self.record.steps.first().map_or(now, |step| step.from.0);
            let left = Duration::from_nanos(start.saturating_sub(now));
            sleep(left.clamp(LOOK_MIN, LOOK_MAX))?;
        }
    }

    /// Reads the reservation again, and the scheduler's clock once. `ahead` is the time by which it is ahead, in
    /// nanoseconds.
    fn ask_state(&mut self, ahead: &mut Option<i64>) -> Result<(), Error> {
        if ahead.is_none() {
            let (nanos, _) = self.scheduler.clock_offset().map_err(failed)?;
            *ahead = Some(nanos);
        }
        self.refresh()
    }

    fn update(
        &mut self,
        ask: impl FnOnce(&Connection, u64) -> Result<Record, ClientError>,
    ) -> Result<(), Error> {
        self.record = ask(&self.scheduler, self.record.id).map_err(failed)?;
        Ok(())
    }
}

/// Wait for the start of a reservation. It is also a future, which needs no async runtime.
///
/// The wait ends when this value is dropped. The reservation stays.
#[derive(Debug)]
#[must_use = "the wait ends when this value is dropped"]
pub struct PendingStart {
    task: Task<Reservation>,
}

impl PendingStart {
    /// Waits until the reservation is active, and returns it. Fails if it ends before.
    pub fn wait(self) -> Result<Reservation, Error> {
        self.task.wait()
    }

    /// Waits like [`PendingStart::wait`], for `timeout` at most. Returns none if it has not started by then.
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<Reservation, Error>> {
        self.task.wait_for(timeout)
    }

    /// Ends the wait with [`Code::Interrupted`](crate::Code::Interrupted).
    pub fn cancel(&self) {
        self.task.cancel();
    }
}

impl Future for PendingStart {
    type Output = Result<Reservation, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll(context)
    }
}

/// Shortest and longest interval at which the reservation is read.
const LOOK_MIN: Duration = Duration::from_millis(200);
const LOOK_MAX: Duration = Duration::from_secs(4);
/// Time after which a scheduler that cannot be reached is given up.
const SILENCE_MAX: Duration = Duration::from_mins(10);
