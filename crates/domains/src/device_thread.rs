//! Thread that changes the rates of the devices on time, so that a slow device delays no message.
//!
//! It has the whole vectors ([`Agent`]). They end at the devices even if the signaling has stopped.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;
use lighthaul_domain_links::text_of;
use lighthaul_io::host::panics;
use lighthaul_stargate::{Agent, Key, Segment};

use crate::devices::{Carried, DeviceFault, Devices};
use crate::error::Error;
use crate::priority::run_first;
use lighthaul_io::host::wall_clock::WallClock;

/// Receiver of faults of devices.
pub(crate) type Report = Box<dyn Fn(DeviceReport) + Send>;

/// Fault of a device, or of the thread.
#[derive(Debug)]
pub(crate) enum DeviceReport {
    /// Change that a device refused.
    Fault(DeviceFault),
    /// Message of a panic, which has ended the thread.
    Panicked(String),
}

/// Vectors for the thread of the devices. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceOrders(Arc<Shared>);

/// Thread of the devices. It ends when this is dropped, and the devices keep their rates.
#[derive(Debug)]
pub(crate) struct DeviceThread {
    orders: DeviceOrders,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    orders: Vec<Order>,
    /// Number of changes that wait for a device.
    waiting: usize,
    /// True if no circuit had a rate, now or later, after the last turn of the thread.
    is_idle: bool,
    /// Interfaces whose devices had no circuit after the last turn of the thread.
    empty: BTreeSet<String>,
    /// Rates of the devices after the last turn of the thread; none before the first one.
    carried: Option<Vec<Arc<Carried>>>,
    is_stopping: bool,
}

/// Change of the vectors.
#[derive(Debug)]
enum Order {
    Program((Key, u8), (Segment, u8), Trc),
    Unprogram((Key, u8)),
    KeepOnly(Vec<(Key, u8)>),
}

impl DeviceOrders {
    /// Adds a circuit on a route between two ports, or replaces its vector.
    pub(crate) fn program(&self, circuit: (Key, u8), route: (Segment, u8), vector: Trc) {
        self.push(Order::Program(circuit, route, vector));
    }

    /// Ends a circuit.
    pub(crate) fn unprogram(&self, circuit: (Key, u8)) {
        self.push(Order::Unprogram(circuit));
    }

    /// Ends all circuits except `circuits`.
    pub(crate) fn keep_only(&self, circuits: Vec<(Key, u8)>) {
        self.push(Order::KeepOnly(circuits));
    }

    /// Fails if too many orders wait for the thread, or changes for a device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let pending = self.0.lock();
        let waiting = pending.orders.len() + pending.waiting;
        drop(pending);
        if waiting > ORDERS_MAX {
            return Err(Error::DevicesBehind(waiting));
        }
        Ok(())
    }

    /// Returns the interfaces whose devices have no circuit, and get none before the next order.
    pub(crate) fn empty(&self) -> BTreeSet<String> {
        let pending = self.0.lock();
        let nothing = BTreeSet::new();
        let empty = Some(&pending.empty).filter(|_| pending.orders.is_empty());
        empty.unwrap_or(&nothing).clone()
    }

    /// Returns the rate in b/s that the devices carry for a circuit; `None` if it is not known.
    pub(crate) fn carried(&self, circuit: (Key, u8)) -> Option<u64> {
        let lists = self.0.lock().carried.clone()?;
        let found = lists.iter().find_map(|list| list.get(&circuit).copied());
        found.unwrap_or(Some(0))
    }

    fn push(&self, order: Order) {
        self.0.lock().orders.push(order);
        self.0.changed.notify_one();
    }
}

impl DeviceThread {
    /// Starts the thread. It first makes the present rates of the vectors the only ones, so the restart of the machine
    /// must be complete. `clock` leaves out steps, so that vectors end when they should.
    pub(crate) fn start(
        orders: DeviceOrders,
        devices: Box<dyn Devices>,
        report: Report,
        clock: WallClock,
    ) -> Result<Self, Error> {
        let shared = Arc::clone(&orders.0);
        let thread = thread::Builder::new()
            .name("devices".into())
            .spawn(move || {
                let ended = panics::catch("devices", || run(&shared, devices, &report, clock));
                if let Err(panic) = ended {
                    report(DeviceReport::Panicked(text_of(panic)));
                }
            });
        let thread = thread.map_err(|why| Error::Resources(why.to_string()))?;
        let thread = Some(thread);
        Ok(Self { orders, thread })
    }
}

impl DeviceThread {
    /// Returns true if the devices have no circuit to change any more, or if the thread has ended.
    pub(crate) fn is_idle(&self) -> bool {
        let pending = self.orders.0.lock();
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        has_ended || pending.is_idle && pending.orders.is_empty()
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        self.orders.0.lock().is_stopping = true;
        self.orders.0.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `patience` for an order. Returns `None` once the thread has to end.
    fn orders(&self, patience: Duration) -> Option<Vec<Order>> {
        let is_idle = |pending: &mut Pending| pending.orders.is_empty() && !pending.is_stopping;
        let pending = self.lock();
        let waited = self.changed.wait_timeout_while(pending, patience, is_idle);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.is_idle = false;
        pending.empty.clear();
        (!pending.is_stopping).then(|| std::mem::take(&mut pending.orders))
    }
}

fn run(shared: &Shared, mut devices: Box<dyn Devices>, report: &Report, mut clock: WallClock) {
    run_first();
    let mut agent = Agent::default();
    let mut is_first = true;
    let mut patience = Duration::ZERO;
    let mut repeat_at = Instant::ZERO;
    let mut next_call = Instant::NEVER;
    while let Some(orders) = shared.orders(patience) {
        for order in orders {
            match order {
                Order::Program(circuit, route, vector) => {
                    agent.program(circuit, route, vector);
                }
                Order::Unprogram(circuit) => agent.unprogram(circuit),
                Order::KeepOnly(circuits) => agent.keep_only(&circuits),
            }
        }
        let now = clock.steady_now();
        let changes = agent.changes(now);
        let elapsed = Instant::ZERO + clock.elapsed();
        let faults = if is_first {
            devices.reset(now, &changes)
        } else if changes.is_empty() && elapsed < repeat_at.min(next_call) {
            Vec::new()
        } else {
            // without changes, this repeats what failed before
            devices.apply(now, &changes)
        };
        if is_first || elapsed >= repeat_at {
            repeat_at = elapsed + LOOK;
        }
        is_first = false;
        let (waiting, until_call) = (devices.waiting(), devices.next_call());
        let (empty, carried) = (devices.empty(), devices.carried());
        let mut pending = shared.lock();
        pending.waiting = waiting;
        pending.empty = empty;
        pending.carried = Some(carried);
        pending.is_idle = agent.is_empty() && waiting == 0 && until_call.is_none();
        drop(pending);
        next_call = until_call.map_or(Instant::NEVER, |wait| {
            Instant::ZERO + clock.elapsed().saturating_add(wait)
        });
        faults.into_iter().map(DeviceReport::Fault).for_each(report);
        let now = clock.steady_now();
        let next = agent.poll_timeout(now).map(|next| next.since(now));
        devices.note_next(next);
        // what failed is repeated after this time
        patience = next.map_or(LOOK, |next| next.min(LOOK));
        patience = until_call.map_or(patience, |wait| wait.min(patience));
    }
}

/// Longest wait between two looks at the devices.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of orders and changes that wait.
const ORDERS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use lighthaul_base::Rate;
    use lighthaul_stargate::{CorrelationId, DomainId, PortId, RateChange};

    use super::*;
    use crate::priority::tests::{lacks_priority, runs_first};
    use lighthaul_io::host::wall_clock::wall_now;

    /// Devices that only pass on the number of changes of each call.
    #[derive(Debug)]
    struct Counting(Sender<usize>);

    impl Devices for Counting {
        fn reset(&mut self, at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
            self.apply(at, rates)
        }

        fn apply(&mut self, _: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
            self.0.send(changes.len()).ok();
            Vec::new()
        }
    }

    const SEGMENT: Segment = Segment {
        ingress: PortId(1),
        egress: PortId(2),
    };

    fn circuit() -> (Key, u8) {
        let key = Key {
            source: DomainId(1),
            id: CorrelationId(1),
            attempt: 0,
            leg: 0,
        };
        (key, 0)
    }

    fn vector() -> Trc {
        let step = lighthaul_base::trc::Step {
            from: wall_now(),
            till: wall_now() + Duration::from_hours(1),
            rate: Rate::from_mbps(1),
        };
        Trc::new(vec![step]).unwrap()
    }

    #[test]
    fn devices_are_queried_again_without_changes() {
        let orders = DeviceOrders::default();
        orders.program(circuit(), (SEGMENT, 0), vector());
        let (sender, calls) = channel();
        let devices = Box::new(Counting(sender));
        let clock = WallClock::start(LOOK);
        let report = Box::new(|_: DeviceReport| ());
        let _thread = DeviceThread::start(orders, devices, report, clock).unwrap();
        let next = || calls.recv_timeout(LOOK * 30);
        assert_eq!([next(), next(), next()], [Ok(1), Ok(0), Ok(0)]);
    }

    /// Devices with an increase that waits for a short guard time, again and again.
    #[derive(Debug)]
    struct Waiting(Sender<usize>);

    impl Devices for Waiting {
        fn reset(&mut self, at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
            self.apply(at, rates)
        }

        fn apply(&mut self, _: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
            self.0.send(changes.len()).ok();
            Vec::new()
        }

        fn next_call(&self) -> Option<Duration> {
            Some(Duration::from_micros(100))
        }
    }

    #[test]
    fn devices_are_called_at_the_end_of_a_guard_time() {
        let (sender, calls) = channel();
        let orders = DeviceOrders::default();
        let (devices, clock) = (Box::new(Waiting(sender)), WallClock::start(LOOK));
        let report = Box::new(|_: DeviceReport| ());
        let thread = DeviceThread::start(orders, devices, report, clock).unwrap();
        // with looks alone, these calls would take a quarter of an hour
        let since = lighthaul_io::host::clock::Clock::start();
        for _ in 0..1000 {
            assert_eq!(calls.recv_timeout(LOOK * 30), Ok(0));
        }
        let took = since.now().since(Instant::ZERO);
        assert!(took < lighthaul_testkit::allowance(60), "{took:?}");
        drop(thread);
    }

    /// Devices that report if the calling thread runs before ordinary threads.
    #[derive(Debug)]
    struct Preferred(Sender<bool>);

    impl Devices for Preferred {
        fn reset(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
            self.0.send(runs_first()).ok();
            Vec::new()
        }

        fn apply(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
            Vec::new()
        }
    }

    #[test]
    fn thread_of_the_devices_runs_before_ordinary_threads() {
        if lacks_priority("thread_of_the_devices_runs_before_ordinary_threads") {
            return;
        }
        let (sender, calls) = channel();
        let (devices, clock) = (Box::new(Preferred(sender)), WallClock::start(LOOK));
        let report = Box::new(|_: DeviceReport| ());
        let orders = DeviceOrders::default();
        let _thread = DeviceThread::start(orders, devices, report, clock).unwrap();
        assert_eq!(calls.recv_timeout(LOOK * 30), Ok(true));
    }

    #[test]
    fn devices_are_idle_once_all_vectors_have_ended() {
        let orders = DeviceOrders::default();
        let (sender, calls) = channel();
        let devices = Box::new(Counting(sender));
        let clock = WallClock::start(LOOK);
        let report = Box::new(|_: DeviceReport| ());
        orders.program(circuit(), (SEGMENT, 0), vector());
        let thread = DeviceThread::start(orders.clone(), devices, report, clock).unwrap();
        assert_eq!(calls.recv_timeout(LOOK * 30), Ok(1));
        assert!(!thread.is_idle());
        orders.unprogram(circuit());
        while !thread.is_idle() {
            let changes = calls.recv_timeout(LOOK * 30);
            assert!(changes.is_ok(), "{changes:?}");
        }
    }

    /// Devices of which one never returns.
    #[derive(Debug)]
    struct Hung;

    impl Devices for Hung {
        fn reset(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
            Vec::new()
        }

        fn apply(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
            Vec::new()
        }

        fn waiting(&self) -> usize {
            ORDERS_MAX + 1
        }
    }

    #[test]
    fn queued_changes_of_a_stuck_device_are_bounded() {
        let orders = DeviceOrders::default();
        let clock = WallClock::start(LOOK);
        let report = Box::new(|_: DeviceReport| ());
        let thread = DeviceThread::start(orders.clone(), Box::new(Hung), report, clock).unwrap();
        let why = loop {
            if let Err(why) = orders.check() {
                break why;
            }
            thread::yield_now();
        };
        assert!(matches!(why, Error::DevicesBehind(_)), "{why}");
        drop(thread);
    }

    #[test]
    fn orders_that_wait_for_the_thread_are_bounded() {
        let orders = DeviceOrders::default();
        for _ in 0..ORDERS_MAX {
            orders.unprogram(circuit());
        }
        assert!(orders.check().is_ok());
        orders.unprogram(circuit());
        let why = orders.check().unwrap_err();
        assert!(matches!(why, Error::DevicesBehind(_)), "{why}");
    }

    /// Devices of an interface without circuits.
    #[derive(Debug)]
    struct Empty;

    impl Devices for Empty {
        fn reset(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
            Vec::new()
        }

        fn apply(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
            Vec::new()
        }

        fn empty(&self) -> BTreeSet<String> {
            ["eth1".to_owned()].into()
        }
    }

    #[test]
    fn devices_with_a_new_order_are_not_reported_as_empty() {
        let orders = DeviceOrders::default();
        let report = Box::new(|_: DeviceReport| ());
        let clock = WallClock::start(LOOK);
        let thread = DeviceThread::start(orders.clone(), Box::new(Empty), report, clock);
        while orders.empty().is_empty() {
            thread::yield_now();
        }
        // without its thread, the order waits
        drop(thread.unwrap());
        orders.unprogram(circuit());
        assert_eq!(orders.empty(), BTreeSet::new());
    }
}
