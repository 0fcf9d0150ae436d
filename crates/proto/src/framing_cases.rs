//! Framings that the configuration of every protocol refuses.

use lighthaul_parts::Framing;
use lighthaul_parts::packet_layout::PacketLayoutError;

/// Asserts that `check`, which returns the fault of a framing, refuses invalid variants of `valid`.
pub(crate) fn assert_checks_framing<const HEAD_LEN: usize>(
    valid: Framing<HEAD_LEN>,
    check: impl Fn(Framing<HEAD_LEN>) -> Option<PacketLayoutError>,
) {
    assert_eq!(check(valid), None);
    let packet_len = (u16::MAX as usize - HEAD_LEN) as u32 - valid.overhead_len;
    let long = |packet_len| Framing {
        packet_len,
        ..valid
    };
    assert_eq!(check(long(packet_len)), None);
    let fault = |len| Some(PacketLayoutError::PacketLen(len));
    assert_eq!(check(long(packet_len + 1)), fault(packet_len + 1));
    let overhead_len = u32::MAX;
    let full = Framing {
        overhead_len,
        ..valid
    };
    assert_eq!(check(full), fault(valid.packet_len));
    let object_len = u64::MAX;
    let huge = Framing {
        object_len,
        ..valid
    };
    assert!(matches!(
        check(huge),
        Some(PacketLayoutError::Packets { .. })
    ));
}
