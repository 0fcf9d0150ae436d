//! BPF program that selects the packets of a circuit, for the kernel's `bpf` classifier.
//!
//! It is classic BPF: the kernel verifies and compiles it, and it needs no further privileges. The kernel keeps no
//! names for such filters. Words behind the last return, which are never executed, contain the circuit and its flow.

use std::net::IpAddr;

use lighthaul_base::prefix::Prefix;

use crate::circuit::CircuitId;
use crate::flow::{Flow, Protocol};

/// Circuit of a filter, as stored in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) id: CircuitId,
    pub(crate) flow: Flow,
    /// True if the filter takes packets.
    pub(crate) is_open: bool,
}

/// Content of a filter with the mark of this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Unchanged program with the given label.
    Whole(Label),
    /// Program that was changed.
    Broken(CircuitId),
}

impl Label {
    /// Encodes the program as `struct sock_filter`.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut program = Vec::new();
        if self.is_open {
            if self.flow == Flow::ALL {
                program.push(Step::return_value(TAKE));
            } else {
                program.extend(v4(&self.flow));
                program.extend(v6(&self.flow));
            }
        }
        program.push(Step::return_value(LEAVE));
        program.extend(self.words().map(Step::word));
        program.push(Step::return_value(LEAVE));
        program.iter().flat_map(|step| step.octets()).collect()
    }

    /// Decodes a program; returns none for a program without the mark of this driver.
    pub(crate) fn read(program: &[u8]) -> Option<Found> {
        let trailer = program.len().checked_sub((WORDS + 1) * STEP)?;
        let mut words = [0; WORDS];
        for (word, step) in words.iter_mut().zip(program[trailer..].chunks_exact(STEP)) {
            let bits: [u8; 4] = step[4..].try_into().ok()?;
            *word = u32::from_ne_bytes(bits);
        }
        if words[0] != MARK {
            return None;
        }
        let id = CircuitId(u64::from(words[1]) << 32 | u64::from(words[2]));
        let is_open = trailer > STEP;
        let label = flow(&words).map(|flow| Self { id, flow, is_open });
        let whole = label.filter(|label| label.write() == program);
        Some(whole.map_or(Found::Broken(id), Found::Whole))
    }

    fn words(&self) -> [u32; WORDS] {
        let flow = &self.flow;
        let protocol = flow.protocol().map_or(0, |protocol| protocol as u32);
        let (family, len, address) = match flow.target() {
            None => (0, 0, 0),
            Some(target) => match target.address() {
                IpAddr::V4(address) => (4, target.bits(), u128::from(u32::from(address))),
                IpAddr::V6(address) => (6, target.bits(), u128::from(address)),
            },
        };
        let (first, last) = flow.ports().unwrap_or((0, 0));
        [
            MARK,
            (self.id.0 >> 32) as u32,
            self.id.0 as u32,
            protocol | family << 8 | u32::from(len) << 16,
            u32::from(first) << 16 | u32::from(last),
            (address >> 96) as u32,
            (address >> 64) as u32,
            (address >> 32) as u32,
            address as u32,
        ]
    }
}

/// Returns the flow that these words encode.
fn flow(words: &[u32; WORDS]) -> Option<Flow> {
    let [protocol, family, len, _] = words[3].to_le_bytes();
    let protocol = match protocol {
        0 => None,
        6 => Some(Protocol::Tcp),
        17 => Some(Protocol::Udp),
        _ => return None,
    };
    let address = words[5..]
        .iter()
        .fold(0, |sum: u128, word| sum << 32 | u128::from(*word));
    let address: Option<IpAddr> = match family {
        0 => None,
        4 => Some(IpAddr::V4((address as u32).into())),
        6 => Some(IpAddr::V6(address.into())),
        _ => return None,
    };
    let target = match address {
        Some(address) => Some(Prefix::new(address, len)?),
        None => None,
    };
    let ports = Some(((words[4] >> 16) as u16, words[4] as u16)).filter(|ports| *ports != (0, 0));
    Flow::new(protocol, target, ports).ok()
}

/// Returns the steps that take the IPv4 packets of `flow`. Later fragments have no ports, and match no flow with ports.
fn v4(flow: &Flow) -> Vec<Step> {
    let target = match flow
        .target()
        .map(|target| (target.address(), target.bits()))
    {
        Some((IpAddr::V6(_), _)) => return Vec::new(),
        Some((IpAddr::V4(address), len)) => Some((u32::from(address), len)),
        None => None,
    };
    let mut tests = family(0x0800);
    tests.extend(protocol(flow, 9));
    if let Some((address, len)) = target {
        tests.extend(masked(16, address, len));
    }
    if let Some(ports) = flow.ports() {
        tests.extend([
            Step::load(LOAD_HALF, NET + 6),
            Step::test(IF_ANY_BIT, FRAGMENT, Side::Fails),
            Step::load(LOAD_HEAD_LEN, NET),
            Step::load(LOAD_HALF_BEHIND_HEAD, NET + 2),
        ]);
        tests.extend(between(ports));
    }
    branch(tests)
}

/// Returns the steps that take the IPv6 packets of `flow` without extension headers.
fn v6(flow: &Flow) -> Vec<Step> {
    let target = match flow
        .target()
        .map(|target| (target.address(), target.bits()))
    {
        Some((IpAddr::V4(_), _)) => return Vec::new(),
        Some((IpAddr::V6(address), len)) => Some((u128::from(address), len)),
        None => None,
    };
    let mut tests = family(0x86dd);
    tests.extend(protocol(flow, 6));
    if let Some((address, len)) = target {
        for part in 0..4_u8 {
            let bits = (address >> (96 - 32 * part)) as u32;
            let len = len.saturating_sub(32 * part).min(32);
            tests.extend(masked(24 + 4 * u32::from(part), bits, len));
        }
    }
    if let Some(ports) = flow.ports() {
        tests.push(Step::load(LOAD_HALF, NET + 42));
        tests.extend(between(ports));
    }
    branch(tests)
}

fn family(kind: u32) -> Vec<Step> {
    vec![
        Step::load(LOAD_HALF, PROTOCOL),
        Step::test(IF_EQUAL, kind, Side::Holds),
    ]
}

/// Tests the octet at `at`, which contains the transport protocol.
fn protocol(flow: &Flow, at: u32) -> Vec<Step> {
    let load = Step::load(LOAD_OCTET, NET + at);
    match (flow.protocol(), flow.ports()) {
        (Some(protocol), _) => vec![load, Step::test(IF_EQUAL, protocol as u32, Side::Holds)],
        (None, Some(_)) => {
            let mut is_tcp = Step::test(IF_EQUAL, Protocol::Tcp as u32, Side::Neither);
            is_tcp.is_true = 1;
            let is_udp = Step::test(IF_EQUAL, Protocol::Udp as u32, Side::Holds);
            vec![load, is_tcp, is_udp]
        }
        (None, None) => vec![],
    }
}

/// Tests the first `len` bits of the word at `at`.
fn masked(at: u32, bits: u32, len: u8) -> Vec<Step> {
    if len == 0 {
        return vec![];
    }
    let mut tests = vec![Step::load(LOAD_WORD, NET + at)];
    if len < 32 {
        tests.push(Step::load(AND, u32::MAX << (32 - len)));
    }
    tests.push(Step::test(IF_EQUAL, bits, Side::Holds));
    tests
}

fn between((first, last): (u16, u16)) -> [Step; 2] {
    [
        Step::test(IF_AT_LEAST, first.into(), Side::Holds),
        Step::test(IF_ABOVE, last.into(), Side::Fails),
    ]
}

/// Takes packets that pass every test, and continues behind the branch with all others.
fn branch(mut tests: Vec<Step>) -> Vec<Step> {
    let len = tests.len();
    for (nth, test) in tests.iter_mut().enumerate() {
        let out = (len - nth) as u8;
        match test.goes_on {
            Side::Holds => test.is_false = out,
            Side::Fails => test.is_true = out,
            Side::Neither => {}
        }
    }
    tests.push(Step::return_value(TAKE));
    tests
}

/// BPF instruction.
#[derive(Clone, Copy, Debug)]
struct Step {
    code: u16,
    is_true: u8,
    is_false: u8,
    value: u32,
    goes_on: Side,
}

/// Outcome of a test after which the packet may still belong to the flow.
#[derive(Clone, Copy, Debug)]
enum Side {
    Holds,
    Fails,
    Neither,
}

impl Step {
    const fn load(code: u16, value: u32) -> Self {
        Self::test(code, value, Side::Neither)
    }

    const fn test(code: u16, value: u32, goes_on: Side) -> Self {
        Self {
            code,
            is_true: 0,
            is_false: 0,
            value,
            goes_on,
        }
    }

    const fn return_value(value: u32) -> Self {
        Self::load(RETURN, value)
    }

    const fn word(value: u32) -> Self {
        Self::load(LOAD_VALUE, value)
    }

    fn octets(self) -> [u8; STEP] {
        let mut octets = [0; STEP];
        octets[0..2].copy_from_slice(&self.code.to_ne_bytes());
        octets[2..4].copy_from_slice(&[self.is_true, self.is_false]);
        octets[4..8].copy_from_slice(&self.value.to_ne_bytes());
        octets
    }
}

/// Mark "LHCT" at the end of the program, which no other program has by chance.
const MARK: u32 = 0x4c48_4354;
const WORDS: usize = 9;
/// Length of `struct sock_filter`.
const STEP: usize = 8;
/// Return value of a filter for a packet that belongs to its class.
const TAKE: u32 = u32::MAX;
/// Return value of a filter for all other packets.
const LEAVE: u32 = 0;
/// Offset of the IP header (`SKF_NET_OFF`).
const NET: u32 = 0xfff0_0000;
/// Offset of the protocol that the kernel detected (`SKF_AD_OFF` and `SKF_AD_PROTOCOL`).
const PROTOCOL: u32 = 0xffff_f000;
/// Bits of the fragment offset.
const FRAGMENT: u32 = 0x1fff;
const LOAD_VALUE: u16 = 0x00;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const LOAD_HALF_BEHIND_HEAD: u16 = 0x48;
const LOAD_HEAD_LEN: u16 = 0xb1;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;
const IF_EQUAL: u16 = 0x15;
const IF_ABOVE: u16 = 0x25;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::tests::flows;
    use proptest::prelude::*;

    const TEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    /// Packet: family, protocol, target, port, and whether it is a later fragment.
    #[derive(Clone, Copy, Debug)]
    struct Packet {
        target: IpAddr,
        protocol: u8,
        port: u16,
        options: u8,
        is_later: bool,
    }

    impl Packet {
        fn octets(&self) -> Vec<u8> {
            let port = self.port.to_be_bytes();
            match self.target {
                IpAddr::V4(target) => {
                    let head = 20 + 4 * usize::from(self.options);
                    let mut octets = vec![0; head + 8];
                    octets[0] = 0x40 | (head / 4) as u8;
                    octets[6..8]
                        .copy_from_slice(&(0x4000 + u16::from(self.is_later)).to_be_bytes());
                    octets[9] = self.protocol;
                    octets[16..20].copy_from_slice(&target.octets());
                    octets[head + 2..head + 4].copy_from_slice(&port);
                    octets
                }
                IpAddr::V6(target) => {
                    let mut octets = vec![0; 48];
                    octets[6] = self.protocol;
                    octets[24..40].copy_from_slice(&target.octets());
                    octets[42..44].copy_from_slice(&port);
                    octets
                }
            }
        }

        /// Returns true if the packet belongs to `flow`, by direct comparison.
        fn belongs(&self, flow: &Flow) -> bool {
            let is_known = matches!(self.protocol, 6 | 17);
            let of_protocol = flow
                .protocol()
                .is_none_or(|protocol| protocol as u8 == self.protocol);
            let to_target = flow.target().is_none_or(|target| {
                target.address().is_ipv4() == self.target.is_ipv4()
                    && Prefix::new(self.target, target.bits()).unwrap() == target
            });
            let is_whole = !(self.is_later && self.target.is_ipv4());
            let to_port = flow.ports().is_none_or(|(first, last)| {
                is_known && is_whole && (first..=last).contains(&self.port)
            });
            of_protocol && to_target && to_port
        }
    }

    /// Executes a program as the kernel does.
    fn run(program: &[u8], packet: &Packet) -> u32 {
        let octets = packet.octets();
        let (mut sum, mut behind, mut at) = (0_u32, 0_usize, 0);
        let place = |value: u32| (value - NET) as usize;
        loop {
            let step = &program[at * STEP..(at + 1) * STEP];
            let code = u16::from_ne_bytes([step[0], step[1]]);
            let value = u32::from_ne_bytes(step[4..8].try_into().unwrap());
            let read = |from: usize, len: usize| {
                octets[from..from + len]
                    .iter()
                    .fold(0, |sum, octet| sum << 8 | u32::from(*octet))
            };
            at += 1;
            let holds = match code {
                LOAD_VALUE => {
                    sum = value;
                    continue;
                }
                LOAD_HALF if value == PROTOCOL => {
                    sum = if packet.target.is_ipv4() {
                        0x0800
                    } else {
                        0x86dd
                    };
                    continue;
                }
                LOAD_WORD => {
                    sum = read(place(value), 4);
                    continue;
                }
                LOAD_HALF => {
                    sum = read(place(value), 2);
                    continue;
                }
                LOAD_OCTET => {
                    sum = read(place(value), 1);
                    continue;
                }
                LOAD_HALF_BEHIND_HEAD => {
                    sum = read(behind + place(value), 2);
                    continue;
                }
                LOAD_HEAD_LEN => {
                    behind = 4 * (read(place(value), 1) & 15) as usize;
                    continue;
                }
                AND => {
                    sum &= value;
                    continue;
                }
                RETURN => return value,
                IF_EQUAL => sum == value,
                IF_ABOVE => sum > value,
                IF_AT_LEAST => sum >= value,
                IF_ANY_BIT => sum & value != 0,
                _ => panic!("{code:#x} is not an instruction of these programs"),
            };
            at += usize::from(if holds { step[2] } else { step[3] });
        }
    }

    fn packets(flow: Flow) -> impl Strategy<Value = Packet> {
        // close to the flow, so that every bit matters
        let near = flow.target().map_or(TEN, Prefix::address);
        let flip = |address: IpAddr, bit: u8| match address {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) ^ (1 << (bit % 32))).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) ^ (1 << (bit % 128))).into()),
        };
        let address = prop_oneof![
            Just(near),
            any::<u8>().prop_map(move |bit| flip(near, bit)),
            any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
            any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
        ];
        let (first, last) = flow.ports().unwrap_or((1000, 2000));
        let ports = vec![
            first.wrapping_sub(1),
            first,
            last,
            last.wrapping_add(1),
            first / 2 + last / 2,
        ];
        let port = prop::sample::select(ports);
        let protocol = prop::sample::select(vec![1, 6, 17]);
        (
            address,
            protocol,
            port,
            0_u8..=10,
            prop::bool::weighted(0.1),
        )
            .prop_map(|(target, protocol, port, options, is_later)| Packet {
                target,
                protocol,
                port,
                options,
                is_later,
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn program_takes_exactly_the_packets_of_its_flow(
            (flow, packet) in flows().prop_flat_map(|flow| (Just(flow), packets(flow))), id: u64, is_open: bool,
        ) {
            let label = Label { id: CircuitId(id), flow, is_open };
            let program = label.write();
            let taken = run(&program, &packet);
            prop_assert!(taken == TAKE || taken == LEAVE);
            prop_assert_eq!(taken == TAKE, is_open && packet.belongs(&flow));
            prop_assert_eq!(Label::read(&program), Some(Found::Whole(label)));
        }

        #[test]
        fn changed_octet_is_detected(flow in flows(), id: u64, at: prop::sample::Index, by in 1_u8..) {
            let label = Label { id: CircuitId(id), flow, is_open: true };
            let mut program = label.write();
            let at = at.index(program.len());
            program[at] ^= by;
            prop_assert_ne!(Label::read(&program), Some(Found::Whole(label)));
        }

        #[test]
        fn any_octets_are_decoded_or_refused(octets: Vec<u8>) {
            prop_assert_eq!(Label::read(&octets), None);
        }
    }
}
