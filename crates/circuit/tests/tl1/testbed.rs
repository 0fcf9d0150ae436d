//! Switch, settings and driver of a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::Result;
use lighthaul_circuit::tl1::{SwitchConfig, Tl1};
use lighthaul_io::host::clock::Clock;
use lighthaul_testkit::Turn;

use crate::emulator::{Emulator, Patch, Vendor};

pub(crate) const VENDORS: [Vendor; 3] = [Vendor::Calient, Vendor::Glimmerglass, Vendor::Cisco];

/// Time limits of the settings, in a form that a slow host keeps.
pub(crate) const PATIENT: &str = "timeout = \"20s\"\nlist_timeout = \"20s\"";

/// Emulated switch with the driver of an interface of four channels.
pub(crate) struct Testbed {
    pub(crate) switch: Emulator,
    pub(crate) driver: Option<Tl1>,
    settings: PathBuf,
    folder: PathBuf,
    _turn: Turn,
}

impl Testbed {
    pub(crate) fn new(vendor: Vendor) -> Self {
        Self::with(vendor, PATIENT)
    }

    /// Creates the driver with these lines in its settings.
    pub(crate) fn with(vendor: Vendor, lines: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tl1-{}-{nth}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let switch = Emulator::start(vendor);
        let login = folder.join("login");
        fs::write(&login, "ada\nsecret\n").unwrap();
        let pairs: Vec<String> = (0..4)
            .map(|nth| {
                let (from, to, _) = channel(vendor, nth);
                format!("[\"{from}\", \"{to}\"]")
            })
            .collect();
        let vendor = match vendor {
            Vendor::Calient => "dialect = \"calient\"\ndirection = \"two-way\"",
            Vendor::Glimmerglass => "dialect = \"glimmerglass\"",
            Vendor::Cisco => "dialect = \"cisco\"\nsignal = \"sts3c\"\ndirection = \"two-way\"",
        };
        let text = format!(
            "address = \"{}\"\n{vendor}\nlogin = \"{}\"\nrecords = \"{}\"\nchannel_rate = \"10Gb/s\"\n\
             reconfiguration = \"10ms\"\n{lines}\n[interfaces]\nwan = [{}]\n",
            switch.address(),
            login.display(),
            folder.display(),
            pairs.join(", ")
        );
        let settings = folder.join("switch.toml");
        fs::write(&settings, text).unwrap();
        let mut testbed = Self {
            switch,
            driver: None,
            settings,
            folder,
            _turn: Turn::beside_others(),
        };
        testbed.restart();
        testbed
    }

    /// Ends the driver, and starts another one from its record.
    pub(crate) fn restart(&mut self) {
        self.driver = None;
        let config = SwitchConfig::read(&self.settings).unwrap();
        let mut drivers = Tl1::open_all(Clock::start(), &config).unwrap();
        let (name, driver) = drivers.remove(0);
        assert_eq!((name.as_str(), drivers.len()), ("wan", 0));
        self.driver = Some(driver);
    }

    /// Returns the path of the settings.
    pub(crate) fn settings(&self) -> &Path {
        &self.settings
    }

    /// Returns the path of the driver's record.
    pub(crate) fn record(&self) -> PathBuf {
        self.folder.join("wan.json")
    }

    /// Replaces text in the settings, for the next start of the driver.
    pub(crate) fn edit_settings(&self, from: &str, to: &str) {
        let text = fs::read_to_string(&self.settings).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&self.settings, text.replace(from, to)).unwrap();
    }

    pub(crate) fn write_login(&self, login: &str) {
        fs::write(self.folder.join("login"), login).unwrap();
    }

    pub(crate) fn driver(&mut self) -> &mut Tl1 {
        self.driver.as_mut().unwrap()
    }

    /// Gives a circuit the rate of some channels.
    pub(crate) fn set(&mut self, id: u64, channels: u64) -> Result<()> {
        let circuit = circuit(id);
        let change = Change {
            circuit: &circuit,
            rate: Rate::from_bps(channels * CHANNEL),
            timer: None,
        };
        self.driver().apply(&[change]).remove(0)
    }

    /// Gives circuits the rates of some channels in one call.
    pub(crate) fn set_all(&mut self, rates: &[(u64, u64)]) -> Vec<Result<()>> {
        let circuits = rates.iter().map(|(id, channels)| {
            let rate = Rate::from_bps(channels * CHANNEL);
            (circuit(*id), rate)
        });
        let circuits: Vec<_> = circuits.collect();
        self.driver().apply(&Change::list(&circuits))
    }

    /// Returns the number of channels of each circuit.
    pub(crate) fn inspect(&mut self) -> Result<BTreeMap<u64, u64>> {
        let circuits = self.driver().inspect()?;
        let counts = circuits.into_iter().map(|installed| {
            assert_eq!(installed.flow, Some(circuit(installed.id.0).flow));
            let bits = installed.rate.map_or(0, Rate::as_bps);
            assert_eq!(bits % CHANNEL, 0);
            (installed.id.0, bits / CHANNEL)
        });
        Ok(counts.collect())
    }

    /// Returns these channels as the switch keeps them.
    pub(crate) fn channels(&self, all: &[u64]) -> BTreeSet<Patch> {
        let vendor = self.switch.vendor();
        all.iter().map(|nth| channel(vendor, *nth)).collect()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.driver = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns a channel of the interface.
pub(crate) fn channel(vendor: Vendor, nth: u64) -> Patch {
    let (from, to) = match vendor {
        Vendor::Calient => (format!("1.1.{nth}"), format!("2.1.{nth}")),
        Vendor::Glimmerglass => (format!("1000{nth}"), format!("2000{nth}")),
        Vendor::Cisco => (format!("STS-1-1-{nth}"), format!("STS-2-1-{nth}")),
    };
    (from, to, vendor != Vendor::Glimmerglass)
}

pub(crate) fn circuit(id: u64) -> Circuit {
    Circuit {
        id: CircuitId(id),
        interface: "wan".to_owned(),
        flow: format!("udp {}", 5000 + id).parse().unwrap(),
        trc: "0s-900s 10Gb/s".parse().unwrap(),
    }
}

/// Rate of a channel in bits a second.
const CHANNEL: u64 = 10_000_000_000;
