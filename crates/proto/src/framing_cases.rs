//! Framings for tests of configurations: a valid framing, and framings that every protocol refuses.

use core::fmt::Debug;

use lighthaul_parts::Framing;
use lighthaul_parts::packet_layout::PacketLayoutError;

/// Returns the framing of an object of eleven packets.
pub(crate) const fn eleven_packets<const HEAD_LEN: usize>() -> Framing<HEAD_LEN> {
    Framing {
        object_len: 10_001,
        packet_len: 1000,
        overhead_len: 28,
    }
}

/// Asserts that `check` accepts `valid`, and refuses invalid variants of it with the right error.
pub(crate) fn assert_checks_framing<const HEAD_LEN: usize, E: Debug + PartialEq>(
    valid: Framing<HEAD_LEN>,
    check: impl Fn(Framing<HEAD_LEN>) -> Result<(), E>,
    error: impl Fn(PacketLayoutError) -> E,
) {
    assert_eq!(check(valid), Ok(()));
    let of_len = |packet_len| Framing {
        packet_len,
        ..valid
    };
    let fault = |len| Err(error(PacketLayoutError::PacketLen(len)));
    let longest = (u16::MAX as usize - HEAD_LEN) as u32 - valid.overhead_len;
    assert_eq!(check(of_len(longest)), Ok(()));
    assert_eq!(check(of_len(longest + 1)), fault(longest + 1));
    let full = Framing {
        overhead_len: u32::MAX,
        ..valid
    };
    assert_eq!(check(full), fault(valid.packet_len));
    let huge = Framing {
        object_len: u64::MAX,
        ..valid
    };
    assert!(check(huge).is_err(), "too many packets");
}
