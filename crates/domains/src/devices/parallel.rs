//! Devices that are changed in parallel, so that a slow device does not delay the others.
//!
//! ```text
//! thread of the devices --changes--> thread of eth1 --> driver of eth1
//!                       |          \-faults---------
//!                       \--changes--> thread of wan  --> driver of a switch, which waits for light
//! ```
//!
//! Each interface has a thread with its driver. A call hands changes to these threads, and returns the faults of
//! earlier ones. While a driver makes changes, only the latest change of each circuit waits for it. Circuits of several
//! interfaces may share a link. There, an increase waits until the decreases that free its capacity were made.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_circuit::driver::{Capabilities, Driver};
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{Key, RateChange, Segment};

use super::contract::{Carried, DeviceFault, Devices};
use super::driven::DrivenDevices;
use super::link_book::{LinkBook, Listener};
use super::segment_circuit::SegmentCircuit;
use super::shared_link::SharedLink;
use crate::error::Error;
use crate::priority::run_first;

/// Devices with a thread for each interface. The threads end when this is dropped, and the devices keep their rates. A
/// panic waits for no thread.
#[derive(Debug)]
pub struct ParallelDevices {
    capabilities: BTreeMap<String, Capabilities>,
    /// Interfaces of the circuits.
    interfaces: BTreeMap<Segment, String>,
    workers: BTreeMap<String, Worker>,
    clock: Clock,
}

/// Thread of an interface.
#[derive(Debug)]
struct Worker {
    queue: Arc<Queue>,
    /// Ends a call of the driver after the present circuit.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Changes for a thread, and its faults.
#[derive(Debug, Default)]
struct Queue {
    content: Mutex<Content>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Content {
    /// Latest change of each circuit that waits.
    changes: BTreeMap<(Key, u8), RateChange>,
    /// Circuits of reservations that the driver knows.
    known: BTreeSet<(Key, u8)>,
    faults: Vec<DeviceFault>,
    stage: Stage,
    /// True while the driver makes changes, or is about to reset.
    is_busy: bool,
    /// True if the device had no circuit after the last call of the driver.
    is_empty: bool,
    /// Rates of the device after the last call of the driver.
    carried: Arc<Carried>,
    /// Time of the next planned change of any interface, if there is one.
    next_change: Option<Instant>,
    /// True if another interface has freed capacity of a link since the last call of the driver.
    has_freed_link: bool,
    /// Number of requests to inspect the device without delay.
    inspections: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The reset did not come yet.
    #[default]
    New,
    Running,
    Stopping,
}

impl ParallelDevices {
    /// Starts a thread for each driver. Reservations of a pair of ports without a circuit fail when they start.
    pub fn start(
        drivers: BTreeMap<String, Box<dyn Driver>>,
        circuits: &BTreeMap<Segment, SegmentCircuit>,
        links: &[SharedLink],
    ) -> Result<Self, Error> {
        Self::start_looking(LOOK, drivers, circuits, links)
    }

    /// Does the same with a longest wait between two looks at a device.
    fn start_looking(
        look: Duration,
        drivers: BTreeMap<String, Box<dyn Driver>>,
        circuits: &BTreeMap<Segment, SegmentCircuit>,
        links: &[SharedLink],
    ) -> Result<Self, Error> {
        let (links, clock) = (LinkBook::new(links), Clock::start());
        let mut capabilities = BTreeMap::new();
        let mut workers = BTreeMap::new();
        for (interface, driver) in drivers {
            capabilities.insert(interface.clone(), driver.capabilities());
            let here = circuits
                .iter()
                .filter(|(_, one)| one.interface == interface);
            let here: BTreeMap<Segment, SegmentCircuit> =
                here.map(|(segment, one)| (*segment, one.clone())).collect();
            let (can, segments) = (driver.capabilities(), here.keys().copied());
            let about = (interface.as_str(), can.guard());
            links.expect(about, can.rate_max, segments.collect());
            let driver = [(interface.clone(), driver)].into();
            let devices = DrivenDevices::new(driver, here).with_links(links.clone(), clock);
            let worker = Worker::start(devices, look)?;
            let listener: Weak<Queue> = Arc::downgrade(&worker.queue);
            links.tell(listener);
            workers.insert(interface, worker);
        }
        let nothing = DrivenDevices::new(BTreeMap::new(), BTreeMap::new());
        workers.insert(NO_INTERFACE.to_owned(), Worker::start(nothing, look)?);
        let interfaces = circuits.iter();
        let interfaces = interfaces.map(|(segment, one)| (*segment, one.interface.clone()));
        Ok(Self {
            capabilities,
            interfaces: interfaces.collect(),
            workers,
            clock,
        })
    }

    /// Returns the capabilities of the devices, by interface.
    pub const fn capabilities(&self) -> &BTreeMap<String, Capabilities> {
        &self.capabilities
    }

    /// Lets all devices be inspected now, as they are every 30 seconds. Circuits that differ are set again.
    pub fn inspect(&self) {
        for worker in self.workers.values() {
            worker.queue.lock().inspections += 1;
            worker.queue.changed.notify_one();
        }
    }

    /// Gives the changes to the threads.
    fn hand_over(&self, changes: &[RateChange]) {
        for change in changes {
            let interface = self.interfaces.get(&change.segment);
            let worker = interface.and_then(|interface| self.workers.get(interface));
            if let Some(worker) = worker.or_else(|| self.workers.get(NO_INTERFACE)) {
                let mut content = worker.queue.lock();
                content.put(*change);
                worker.queue.changed.notify_one();
            }
        }
    }

    fn take_faults(&mut self) -> Vec<DeviceFault> {
        let workers = self.workers.values_mut();
        workers.flat_map(Worker::take_faults).collect()
    }
}

impl Devices for ParallelDevices {
    fn reset(&mut self, _at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
        self.hand_over(rates);
        for worker in self.workers.values() {
            let mut content = worker.queue.lock();
            (content.stage, content.is_busy) = (Stage::Running, true);
            worker.queue.changed.notify_one();
        }
        self.take_faults()
    }

    fn apply(&mut self, _at: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
        self.hand_over(changes);
        self.take_faults()
    }

    fn next_call(&self) -> Option<Duration> {
        let mut workers = self.workers.values();
        workers
            .any(|worker| worker.queue.lock().is_active())
            .then_some(FAULTS)
    }

    fn empty(&self) -> BTreeSet<String> {
        let workers = self.workers.iter();
        let empty = workers.filter(|(_, worker)| {
            let content = worker.queue.lock();
            content.is_empty && !content.is_busy && content.changes.is_empty()
        });
        empty.map(|(interface, _)| interface.clone()).collect()
    }

    fn note_next(&mut self, next: Option<Duration>) {
        let at = next.map(|next| self.clock.now() + next);
        for worker in self.workers.values() {
            worker.queue.lock().next_change = at;
        }
    }

    fn carried(&self) -> Vec<Arc<Carried>> {
        let workers = self.workers.values();
        let carried = workers.map(|worker| Arc::clone(&worker.queue.lock().carried));
        carried.collect()
    }

    fn waiting(&self) -> usize {
        let workers = self.workers.values();
        let counts = workers.map(|worker| worker.queue.lock().changes.len());
        counts.sum()
    }
}

impl Worker {
    fn start(devices: DrivenDevices, look: Duration) -> Result<Self, Error> {
        let (queue, stop) = (Arc::new(Queue::default()), devices.stop_flag());
        let thread = thread::Builder::new().name("interface".into()).spawn({
            let queue = Arc::clone(&queue);
            move || run(&queue, devices, look)
        });
        let thread = thread.map_err(|why| Error::Resources(why.to_string()))?;
        let thread = Some(thread);
        Ok(Self {
            queue,
            stop,
            thread,
        })
    }

    /// Returns the faults since the last call. Panics if the thread did.
    fn take_faults(&mut self) -> Vec<DeviceFault> {
        let ended = self.thread.take_if(|thread| thread.is_finished());
        if let Some(Err(panic)) = ended.map(JoinHandle::join) {
            resume_unwind(panic);
        }
        std::mem::take(&mut self.queue.lock().faults)
    }
}

impl Drop for ParallelDevices {
    fn drop(&mut self) {
        for worker in self.workers.values() {
            worker.stop.store(true, Ordering::Relaxed);
            worker.queue.lock().stage = Stage::Stopping;
            worker.queue.changed.notify_one();
        }
        if thread::panicking() {
            // the panic is reported first: another interface may never return
            return;
        }
        let threads = self.workers.values_mut();
        let threads = threads.filter_map(|worker| worker.thread.take());
        threads.for_each(|thread| drop(thread.join()));
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_idle` is false, for a limited time. Returns the changes, or `None` once the thread has to end.
    fn changes(
        &self,
        patience: Duration,
        is_idle: impl Fn(&mut Content) -> bool,
    ) -> Option<Vec<RateChange>> {
        let content = self.lock();
        let waited = self.changed.wait_timeout_while(content, patience, is_idle);
        let (mut content, _) = waited.unwrap_or_else(PoisonError::into_inner);
        content.is_busy = content.stage == Stage::Running;
        content.has_freed_link = false;
        (content.stage != Stage::Stopping).then(|| content.take())
    }

    /// Returns true if the device is to be inspected, once.
    fn take_inspection(&self) -> bool {
        std::mem::take(&mut self.lock().inspections) > 0
    }

    fn finish(&self, faults: Vec<DeviceFault>, devices: &DrivenDevices) {
        let (is_empty, carried) = (devices.is_empty(), Arc::new(devices.carried_now()));
        let mut content = self.lock();
        content.faults.extend(faults);
        content.is_empty = is_empty;
        content.carried = carried;
        content.is_busy = false;
    }
}

impl Listener for Queue {
    fn link_freed(&self) {
        self.lock().has_freed_link = true;
        self.changed.notify_one();
    }
}

impl Content {
    /// Adds a change. A circuit that ends before the driver knows it needs none.
    fn put(&mut self, change: RateChange) {
        if change.rate.is_none() && !self.known.contains(&change.circuit) {
            self.changes.remove(&change.circuit);
        } else {
            self.changes.insert(change.circuit, change);
        }
    }

    fn take(&mut self) -> Vec<RateChange> {
        let changes = std::mem::take(&mut self.changes);
        for change in changes.values() {
            if change.rate.is_some() {
                self.known.insert(change.circuit);
            } else {
                self.known.remove(&change.circuit);
            }
        }
        changes.into_values().collect()
    }

    /// Returns true if faults can follow soon.
    fn is_active(&self) -> bool {
        let has_work = self.inspections > 0 || !self.changes.is_empty();
        self.is_busy || has_work || !self.faults.is_empty()
    }
}

fn run(queue: &Queue, mut devices: DrivenDevices, look: Duration) {
    run_first();
    let Some(first) = queue.changes(Duration::MAX, |content| content.stage == Stage::New) else {
        return;
    };
    let faults = devices.reset(Instant::ZERO, &first);
    queue.finish(faults, &devices);
    loop {
        // without changes, this repeats what failed before
        let patience = devices.next_call().map_or(look, |wait| wait.min(look));
        let waits = devices.waits_for_link();
        let is_idle = |content: &mut Content| {
            let is_freed = waits && content.has_freed_link;
            let is_due = is_freed || content.inspections > 0 || !content.changes.is_empty();
            content.stage == Stage::Running && !is_due
        };
        let Some(changes) = queue.changes(patience, is_idle) else {
            return;
        };
        if queue.take_inspection() {
            devices.hasten_inspection();
        }
        devices.note_next_change(queue.lock().next_change);
        let faults = devices.apply(Instant::ZERO, &changes);
        queue.finish(faults, &devices);
    }
}

/// Name of the thread for reservations without a circuit.
const NO_INTERFACE: &str = "";
/// Longest wait between two looks at a device.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks for faults while a driver makes changes.
const FAULTS: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use lighthaul_base::Rate;
    use lighthaul_circuit::circuit::CircuitId;
    use lighthaul_circuit::driver::{Change, InstalledCircuit};
    use lighthaul_circuit::error::Result;
    use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
    use lighthaul_io::host::panics;
    use lighthaul_testkit::allowance;

    use super::*;
    use crate::devices::segment_circuit::id_of;
    use crate::devices::tests::example::{self, CAPABILITIES};

    /// Device that reports each change, and that waits for a permission before it returns.
    #[derive(Debug)]
    struct Slow {
        begun: Sender<Option<Rate>>,
        may_end: Receiver<()>,
        circuits: BTreeMap<CircuitId, InstalledCircuit>,
    }

    impl Driver for Slow {
        fn capabilities(&self) -> Capabilities {
            CAPABILITIES
        }

        fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
            for change in changes {
                self.begun.send(change.rate).unwrap();
                self.may_end.recv().unwrap();
                let id = change.circuit.id;
                let circuit = InstalledCircuit {
                    id,
                    flow: Some(change.circuit.flow),
                    rate: change.rate,
                };
                self.circuits.insert(id, circuit);
            }
            vec![Ok(()); changes.len()]
        }

        fn remove(&mut self, id: CircuitId) -> Result<()> {
            self.circuits.remove(&id);
            Ok(())
        }

        fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
            Ok(self.circuits.values().cloned().collect())
        }
    }

    fn segment(egress: u32) -> Segment {
        example::segment(1, egress)
    }

    fn change(id: u128, egress: u32, mbps: u64) -> RateChange {
        example::change(id, segment(egress), mbps)
    }

    /// Ends of the channels of a device: begins of its changes, and permissions to end them.
    type Ends = (Receiver<Option<Rate>>, Sender<()>);

    /// Returns two devices, whose circuits share a link of this capacity. Nothing but a message wakes their threads within
    /// an hour. The ends must be dropped first: a thread that waits for a permission ends then.
    fn two_devices(mbps: u64) -> (ParallelDevices, Vec<Ends>) {
        let (mut drivers, mut circuits) = (BTreeMap::new(), BTreeMap::new());
        let mut ends = Vec::new();
        for (egress, interface) in [(2, "eth1"), (3, "eth2")] {
            let (begun, has_begun) = channel();
            let (end, may_end) = channel();
            let driver: Box<dyn Driver> = Box::new(Slow {
                begun,
                may_end,
                circuits: BTreeMap::new(),
            });
            drivers.insert(interface.to_owned(), driver);
            let circuit = SegmentCircuit {
                interface: interface.to_owned(),
                flow: format!("udp 10.0.0.{egress} 1").parse().unwrap(),
            };
            circuits.insert(segment(egress), circuit);
            ends.push((has_begun, end));
        }
        let link = SharedLink {
            name: "port 1 in".to_owned(),
            capacity: Rate::from_mbps(mbps),
            routes: [(segment(2), 0), (segment(3), 0)].into(),
        };
        let look = Duration::from_hours(1);
        let devices = ParallelDevices::start_looking(look, drivers, &circuits, &[link]);
        (devices.unwrap(), ends)
    }

    #[test]
    fn waiting_device_delays_no_other_device() {
        let (mut devices, ends) = two_devices(1000);
        let begun = |nth: usize| ends[nth].0.recv_timeout(allowance(30)).unwrap();
        let mbps = |mbps| Some(Rate::from_mbps(mbps));
        let at = Instant::ZERO;
        assert_eq!(devices.reset(at, &[change(1, 2, 100)]), []);
        assert_eq!(begun(0), mbps(100));
        // the first device waits, and the second one makes two changes
        assert_eq!(devices.apply(at, &[change(2, 3, 200)]), []);
        assert_eq!(begun(1), mbps(200));
        ends[1].1.send(()).unwrap();
        assert_eq!(devices.apply(at, &[change(2, 3, 300)]), []);
        assert_eq!(begun(1), mbps(300));
        ends[1].1.send(()).unwrap();
        // what comes meanwhile is made together
        devices.apply(at, &[change(1, 2, 150)]);
        devices.apply(at, &[change(1, 2, 170)]);
        assert!(devices.next_call().is_some());
        ends[0].1.send(()).unwrap();
        assert_eq!(begun(0), mbps(170));
        ends[0].1.send(()).unwrap();
    }

    #[test]
    fn increase_waits_for_the_decrease_at_another_interface_of_its_link() {
        let (mut devices, ends) = two_devices(100);
        let begun = |nth: usize| ends[nth].0.recv_timeout(allowance(30)).unwrap();
        let mbps = |mbps| Some(Rate::from_mbps(mbps));
        let at = Instant::ZERO;
        let first = [change(1, 2, 80), change(2, 3, 10)];
        assert_eq!(devices.reset(at, &first), []);
        for (nth, rate) in [(0, 80), (1, 10)] {
            assert_eq!(begun(nth), mbps(rate));
            ends[nth].1.send(()).unwrap();
        }
        let second = [change(1, 2, 20), change(2, 3, 80), change(3, 3, 0)];
        assert_eq!(devices.apply(at, &second), []);
        assert_eq!(begun(0), mbps(20));
        // the decrease does not end, and what is free is used
        devices.apply(at, &[change(2, 3, 20)]);
        assert_eq!(begun(1), mbps(20));
        ends[1].1.send(()).unwrap();
        devices.apply(at, &[change(2, 3, 80)]);
        let early = ends[1].0.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "{early:?}");
        ends[0].1.send(()).unwrap();
        assert_eq!(begun(1), mbps(80));
        ends[1].1.send(()).unwrap();
    }

    #[test]
    fn increase_is_made_at_the_end_of_a_guard_time() {
        let capabilities = Capabilities {
            reconfiguration: Duration::from_millis(50),
            ..CAPABILITIES
        };
        let calm = FaultModel {
            latency_max: Duration::ZERO,
            fail_ppb: 0,
        };
        let device = SimDevice::new(capabilities, calm, 1);
        let driver: Box<dyn Driver> = Box::new(device.clone());
        let circuit = |egress: u32| SegmentCircuit {
            interface: "eth1".to_owned(),
            flow: format!("udp {egress}").parse().unwrap(),
        };
        let circuits = [2, 3].map(|egress| (segment(egress), circuit(egress)));
        let drivers = [("eth1".to_owned(), driver)].into();
        // nothing else wakes the thread
        let look = Duration::from_hours(1);
        let devices = ParallelDevices::start_looking(look, drivers, &circuits.into(), &[]);
        let mut devices = devices.unwrap();
        let at = Instant::ZERO;
        assert_eq!(devices.reset(at, &[change(1, 2, 800)]), []);
        let becomes = |egress: u32, mbps: u64| {
            let clock = Clock::start();
            let rate = || {
                let circuits = device.circuits();
                circuits
                    .get(&id_of(segment(egress)))
                    .and_then(|one| one.rate)
            };
            while rate() != Rate::from_bps(mbps * 1_000_000) {
                let now = clock.now().since(Instant::ZERO);
                assert!(now < allowance(30), "{:?}", rate());
                thread::yield_now();
            }
        };
        becomes(2, 800);
        devices.apply(at, &[change(1, 2, 100), change(2, 3, 800)]);
        becomes(3, 800);
    }

    #[test]
    fn paths_that_end_while_a_device_waits_are_not_queued() {
        let (mut devices, ends) = two_devices(1000);
        let at = Instant::ZERO;
        let first = [change(1, 2, 10), change(2, 2, 20)];
        assert_eq!(devices.reset(at, &first), []);
        ends[0].0.recv_timeout(allowance(30)).unwrap();
        for id in 3..1000 {
            devices.apply(at, &[change(id, 2, 10)]);
            assert_eq!(devices.waiting(), 1);
            devices.apply(at, &[change(id, 2, 0)]);
            assert_eq!(devices.waiting(), 0);
        }
        // what the device has is removed
        devices.apply(at, &[change(1, 2, 0), change(2, 2, 0)]);
        assert_eq!(devices.waiting(), 2);
    }

    #[test]
    fn panic_of_a_device_is_reported_while_another_device_hangs() {
        let (mut devices, mut ends) = two_devices(1000);
        let both = [change(1, 2, 100), change(2, 3, 100)];
        assert_eq!(devices.reset(Instant::ZERO, &both), []);
        for (begun, _) in &ends {
            begun.recv_timeout(allowance(30)).unwrap();
        }
        // the first device panics, and the second one never returns
        drop(ends.remove(0));
        let (sender, ended) = channel();
        thread::spawn(move || {
            let panicked = panics::catch("devices", || {
                let mut devices = devices;
                while devices.apply(Instant::ZERO, &[]).is_empty() {
                    thread::yield_now();
                }
            });
            sender.send(panicked.is_err()).ok();
        });
        assert_eq!(ended.recv_timeout(allowance(30)), Ok(true));
    }

    #[test]
    fn fault_of_a_pair_of_ports_without_a_circuit_is_reported() {
        let mut devices = ParallelDevices::start(BTreeMap::new(), &BTreeMap::new(), &[]).unwrap();
        let at = Instant::ZERO;
        let mut faults = devices.reset(at, &[change(1, 7, 1)]);
        while faults.is_empty() {
            assert!(devices.next_call().is_some());
            thread::yield_now();
            faults = devices.apply(at, &[]);
        }
        assert_eq!(faults[0].circuit, change(1, 7, 1).circuit);
        assert!(faults[0].why.contains("[[circuit]]"), "{faults:?}");
    }

    #[test]
    fn interface_is_empty_once_its_thread_has_seen_no_circuit() {
        let (mut devices, ends) = two_devices(1000);
        let begun = |nth: usize| ends[nth].0.recv_timeout(allowance(30)).unwrap();
        let wait = |devices: &ParallelDevices, names: &[&str]| {
            let clock = Clock::start();
            while !devices
                .empty()
                .iter()
                .map(String::as_str)
                .eq(names.iter().copied())
            {
                assert!(clock.now().since(Instant::ZERO) < allowance(30));
                thread::yield_now();
            }
        };
        assert_eq!(devices.empty(), BTreeSet::new(), "no device was read yet");
        devices.reset(Instant::ZERO, &[change(1, 2, 300)]);
        begun(0);
        wait(&devices, &["", "eth2"]);
        ends[0].1.send(()).unwrap();
        while devices.next_call().is_some() {
            devices.apply(Instant::ZERO, &[]);
        }
        assert!(!devices.empty().contains("eth1"));
        devices.apply(Instant::ZERO, &[change(1, 2, 0)]);
        wait(&devices, &["", "eth1", "eth2"]);
        drop(ends);
    }
}
