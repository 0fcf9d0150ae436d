//! Capacity that a scheduler reserves.
#![expect(unsafe_code, reason = "exported names and pointers of the program")]

use std::ffi::c_char;
use std::mem::{self, size_of};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul::{
    Bps, Bytes, Client, Error, IsoDuration, NewReservation, PendingStart, Rate, Reservation,
    ReservationState, Shape, Timestamp,
};
use lighthaul_io::error::Error as Io;

use super::client::ClientHandle;
use super::code::{LH_OK, LH_PENDING, ResultCode, result};
use crate::call::run;
use crate::callback;
use crate::handles::{self, Object};
use crate::memory::{self, Request};

/// Reserved capacity. It stays when its handle is closed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReservationHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// State: capacity is held for a limited time.
pub const LH_RESERVED: i32 = 0;
/// State: capacity is promised.
pub const LH_COMMITTED: i32 = 1;
/// State: devices have the circuits.
pub const LH_PROVISIONED: i32 = 2;
/// State: the circuits carry packets.
pub const LH_ACTIVE: i32 = 3;
/// State: it has ended, early or on time.
pub const LH_RELEASED: i32 = 4;
/// State: a user has canceled it, or it was not committed in time.
pub const LH_TERMINATED: i32 = 5;
/// State: a component has failed.
pub const LH_FAILED: i32 = 6;

/// Request for capacity between two hosts of the topology, for `bytes` or for `hold_s`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
// fields: one for each property
pub struct ReservationRequest {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Source host.
    pub from: *const c_char,
    /// Target host.
    pub to: *const c_char,
    /// Highest usable rate, as in 10Gb/s [default: the highest that is free].
    pub rate_max: *const c_char,
    /// Lowest usable rate [default: none].
    pub rate_min: *const c_char,
    /// Amount of data in bytes; 0 to reserve a length of time.
    pub bytes: u64,
    /// Length of time in seconds; 0 to reserve for an amount of data.
    pub hold_s: u64,
    /// Earliest start, in nanoseconds since 1970 [default: now].
    pub start_ns: u64,
    /// Latest end, in nanoseconds since 1970 [default: none].
    pub by_ns: u64,
    /// 1 for one rate from start to end [default: the rate varies with the free capacity].
    pub fixed: i32,
    /// 1 to commit at once.
    pub commit: i32,
}

// SAFETY: the structure begins with its size; pointers and numbers may be zero.
unsafe impl Request for ReservationRequest {
    const NAME: &'static str = "lh_reservation_request";
    const FIRST: usize = size_of::<Self>();
}

/// Reservation, as it was at the last contact with the scheduler. Times follow the clock of the scheduler.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReservationInfo {
    /// Number of the reservation at the scheduler.
    pub number: u64,
    /// Start, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Time by which all data are moved, in nanoseconds since 1970.
    pub end_ns: u64,
    /// Rate at the start, in bits a second.
    pub rate_bps: u64,
    /// State, as in `LH_COMMITTED`.
    pub state: i32,
}

/// Reservation, and a wait for its start. No lock is held during a wait, so that a thread with a time limit does not wait
/// for another one.
struct Open {
    reservation: Mutex<Reservation>,
    start: Mutex<Start>,
}

/// Wait for the start of a reservation.
enum Start {
    /// No thread waits.
    Idle,
    /// Threads wait.
    Pending(Arc<PendingStart>),
    /// The handle is closed.
    Closed,
}

impl Open {
    /// Returns the wait for the start, which all threads share.
    fn start(&self) -> Result<Arc<PendingStart>, Error> {
        let mut start = locked(&self.start);
        match &*start {
            Start::Pending(pending) => Ok(Arc::clone(pending)),
            Start::Closed => Err(Io::Interrupted.into()),
            Start::Idle => {
                let pending = Arc::new(locked(&self.reservation).pending_start()?);
                *start = Start::Pending(Arc::clone(&pending));
                Ok(pending)
            }
        }
    }

    /// Forgets a wait that has ended. A later one reads the reservation again.
    fn forget(&self, ended: &Arc<PendingStart>) {
        let mut start = locked(&self.start);
        if matches!(&*start, Start::Pending(pending) if Arc::ptr_eq(pending, ended)) {
            *start = Start::Idle;
        }
    }
}

impl Object for Open {
    const NAME: &'static str = "reservation";
}

/// Reserves capacity at the scheduler of the client. Without `commit`, it is held for a short time. `info` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_make(
    client: ClientHandle,
    request: *const ReservationRequest,
    reservation: *mut ReservationHandle,
    info: *mut ReservationInfo,
) -> ResultCode {
    result(run(|| {
        memory::require(reservation, "reservation")?;
        let client = handles::get::<Client>(client.id)?;
        let made = client.reserve(&wanted(&memory::request(request)?)?)?;
        memory::store(info, shown(&made));
        memory::store(reservation, opened(made));
        Ok(())
    }))
}

/// Opens the reservation with this number, for example of another program. `info` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_open(
    client: ClientHandle,
    number: u64,
    reservation: *mut ReservationHandle,
    info: *mut ReservationInfo,
) -> ResultCode {
    result(run(|| {
        memory::require(reservation, "reservation")?;
        let client = handles::get::<Client>(client.id)?;
        let found = client.reservation(number)?;
        memory::store(info, shown(&found));
        memory::store(reservation, opened(found));
        Ok(())
    }))
}

/// Reads a reservation again.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_look(
    reservation: ReservationHandle,
    info: *mut ReservationInfo,
) -> ResultCode {
    change(reservation, info, Reservation::refresh)
}

/// Commits a reservation. `info` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_commit(
    reservation: ReservationHandle,
    info: *mut ReservationInfo,
) -> ResultCode {
    change(reservation, info, Reservation::commit)
}

/// Cancels a reservation. `why`, for its journal, and `info` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_cancel(
    reservation: ReservationHandle,
    why: *const c_char,
    info: *mut ReservationInfo,
) -> ResultCode {
    change(reservation, info, |one| one.cancel(&reason(why)?))
}

/// Releases the remaining capacity of a reservation that has started. `why` and `info` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_release(
    reservation: ReservationHandle,
    why: *const c_char,
    info: *mut ReservationInfo,
) -> ResultCode {
    change(reservation, info, |one| one.release(&reason(why)?))
}

/// Waits up to `timeout_ms` milliseconds until a reservation is active; without a limit if that is negative. Returns
/// `LH_PENDING` if it has not started, and `LH_INTERRUPTED` if another thread closes the reservation. `info` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_wait(
    reservation: ReservationHandle,
    timeout_ms: i64,
    info: *mut ReservationInfo,
) -> ResultCode {
    let started = run(|| {
        let open = handles::get::<Open>(reservation.id)?;
        let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        if limit.is_none() {
            callback::forbid()?;
        }
        let pending = open.start()?;
        let done = loop {
            let done = pending.wait_for(limit.unwrap_or(LOOK));
            if done.is_some() || limit.is_some() {
                break done;
            }
        };
        let Some(done) = done else {
            return Ok(false);
        };
        open.forget(&pending);
        let active = done?;
        memory::store(info, shown(&active));
        *locked(&open.reservation) = active;
        Ok(true)
    });
    match started {
        Ok(true) => LH_OK,
        Ok(false) => LH_PENDING,
        Err(code) => i32::from(code as u8),
    }
}

/// Closes a reservation, and ends waits for its start. Its capacity stays reserved.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reservation_close(reservation: ReservationHandle) -> ResultCode {
    result(run(|| {
        let open = handles::close::<Open>(reservation.id)?;
        let start = mem::replace(&mut *locked(&open.start), Start::Closed);
        if let Start::Pending(pending) = start {
            pending.cancel();
        }
        Ok(())
    }))
}

fn opened(reservation: Reservation) -> ReservationHandle {
    let id = handles::open(Open {
        reservation: Mutex::new(reservation),
        start: Mutex::new(Start::Idle),
    });
    ReservationHandle { id }
}

fn change(
    reservation: ReservationHandle,
    info: *mut ReservationInfo,
    act: impl FnOnce(&mut Reservation) -> Result<(), Error>,
) -> ResultCode {
    result(run(|| {
        let open = handles::get::<Open>(reservation.id)?;
        let mut reservation = locked(&open.reservation);
        act(&mut reservation)?;
        memory::store(info, shown(&reservation));
        Ok(())
    }))
}

fn reason(why: *const c_char) -> Result<String, Error> {
    Ok(memory::optional(why, "why")?.unwrap_or_default())
}

fn wanted(request: &ReservationRequest) -> Result<NewReservation, Error> {
    let rate = |text, name| {
        let rate = memory::parsed::<Rate>(text, name, "write it as in 10Gb/s")?;
        Ok::<_, Error>(rate.map(|rate| Bps(rate.as_bps())))
    };
    let above = |number: u64| (number > 0).then_some(number);
    Ok(NewReservation {
        from: memory::optional(request.from, "from")?,
        to: memory::optional(request.to, "to")?,
        rate_max: rate(request.rate_max, "rate_max")?,
        rate_min: rate(request.rate_min, "rate_min")?,
        size: above(request.bytes).map(Bytes),
        hold: above(request.hold_s).map(|seconds| IsoDuration(Duration::from_secs(seconds))),
        start: above(request.start_ns).map(Timestamp),
        by: above(request.by_ns).map(Timestamp),
        shape: if request.fixed != 0 {
            Shape::Fixed
        } else {
            Shape::Varying
        },
        commit: request.commit != 0,
        ..NewReservation::default()
    })
}

fn shown(reservation: &Reservation) -> ReservationInfo {
    let record = reservation.record();
    let first = record.steps.first();
    ReservationInfo {
        number: reservation.id(),
        start_ns: first.map_or(0, |step| step.from.0),
        end_ns: record.promised_end.0,
        rate_bps: first.map_or(0, |step| step.rate_bps),
        state: match reservation.state() {
            ReservationState::Reserved => LH_RESERVED,
            ReservationState::Committed => LH_COMMITTED,
            ReservationState::Provisioned => LH_PROVISIONED,
            ReservationState::Active => LH_ACTIVE,
            ReservationState::Released => LH_RELEASED,
            ReservationState::Terminated => LH_TERMINATED,
            ReservationState::Failed => LH_FAILED,
        },
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interval at which a thread that waits without a limit looks again.
const LOOK: Duration = Duration::from_hours(1);
