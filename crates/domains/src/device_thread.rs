//! Thread that changes the rates of the devices at their times, so that a slow device delays no message.
//!
//! It has the whole vectors ([`Agent`]). They end at the devices even if the signaling has stopped.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::trc::Trc;
use lighthaul_stargate::{Agent, Key, Segment};

use crate::devices::{DeviceFault, Devices};
use crate::error::Error;
use crate::wall_clock::wall_now;

/// Receiver of faults of devices.
pub(crate) type Report = Box<dyn Fn(DeviceFault) + Send>;

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
    is_stopping: bool,
}

/// Change of the vectors.
#[derive(Debug)]
enum Order {
    Program((Key, u8), Segment, Trc),
    Unprogram((Key, u8)),
    KeepOnly(Vec<(Key, u8)>),
}

impl DeviceOrders {
    /// Adds a circuit, or replaces its vector.
    pub(crate) fn program(&self, circuit: (Key, u8), segment: Segment, vector: Trc) {
        self.push(Order::Program(circuit, segment, vector));
    }

    /// Ends a circuit.
    pub(crate) fn unprogram(&self, circuit: (Key, u8)) {
        self.push(Order::Unprogram(circuit));
    }

    /// Ends all circuits but these.
    pub(crate) fn keep_only(&self, circuits: Vec<(Key, u8)>) {
        self.push(Order::KeepOnly(circuits));
    }

    fn push(&self, order: Order) {
        self.0.lock().orders.push(order);
        self.0.changed.notify_one();
    }
}

impl DeviceThread {
    /// Starts the thread. It first makes the present rates of the vectors the only ones, so the restart of the machine
    /// must be complete.
    pub(crate) fn start(
        orders: DeviceOrders,
        devices: Box<dyn Devices>,
        report: Report,
    ) -> Result<Self, Error> {
        let shared = Arc::clone(&orders.0);
        let thread = thread::Builder::new()
            .name("devices".into())
            .spawn(move || run(&shared, devices, &report));
        let thread = thread.map_err(|why| Error::Resources(why.to_string()))?;
        let thread = Some(thread);
        Ok(Self { orders, thread })
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
        (!pending.is_stopping).then(|| std::mem::take(&mut pending.orders))
    }
}

fn run(shared: &Shared, mut devices: Box<dyn Devices>, report: &Report) {
    let mut agent = Agent::default();
    let mut is_first = true;
    let mut patience = Duration::ZERO;
    while let Some(orders) = shared.orders(patience) {
        for order in orders {
            match order {
                Order::Program(circuit, segment, vector) => {
                    agent.program(circuit, segment, vector);
                }
                Order::Unprogram(circuit) => agent.unprogram(circuit),
                Order::KeepOnly(circuits) => agent.keep_only(&circuits),
            }
        }
        let now = wall_now();
        let changes = agent.changes(now);
        let faults = if is_first {
            devices.reset(now, &changes)
        } else if changes.is_empty() {
            Vec::new()
        } else {
            devices.apply(now, &changes)
        };
        is_first = false;
        faults.into_iter().for_each(report);
        let now = wall_now();
        let next = agent.poll_timeout(now).map(|next| next.since(now));
        // a clock that was set is noticed after this time
        patience = next.map_or(LOOK, |next| next.min(LOOK));
    }
}

/// Longest wait between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);
