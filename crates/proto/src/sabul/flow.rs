//! Flow window: the limit on unacknowledged packets (sections 3.4 and 3.5).

use super::config::Memory;
use super::config::Mode;

/// Maximum number of unacknowledged packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowWindow {
    packets: u64,
    packets_max: u64,
    grows: bool,
}

impl FlowWindow {
    /// Returns the initial window: one packet in the paper's mode without a known loss, and the maximum otherwise.
    pub const fn new(packets_max: u32, memory: &Memory, mode: Mode) -> Self {
        let packets_max = packets_max as u64;
        let is_known = memory.has_lost || matches!(mode, Mode::Swift);
        Self {
            packets: if is_known { packets_max } else { 1 },
            packets_max,
            grows: !is_known,
        }
    }

    /// Grows the window after an ACK. `acked` is the total of packets acknowledged.
    pub fn handle_ack(&mut self, acked: u64) {
        if self.grows {
            self.packets = self.packets.max(acked).min(self.packets_max);
        }
    }

    /// Opens the window to its maximum permanently after a loss.
    pub const fn handle_nak(&mut self) {
        self.grows = false;
        self.packets = self.packets_max;
    }

    /// Changes the maximum. A window at its maximum follows.
    pub const fn resize(&mut self, packets_max: u64) {
        if self.is_largest() || self.packets > packets_max {
            self.packets = packets_max;
        }
        self.packets_max = packets_max;
    }

    /// True if one more packet may be sent while `unacked` are in flight.
    pub const fn admits(&self, unacked: u64) -> bool {
        unacked < self.packets
    }

    /// True if the window has reached its maximum.
    pub const fn is_largest(&self) -> bool {
        self.packets == self.packets_max
    }

    /// True if no loss has been seen and the window may still grow.
    pub const fn grows(&self) -> bool {
        self.grows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use lighthaul_base::Rate;

    #[test]
    fn window_doubles_until_loss_or_maximum() {
        let mut memory = Memory::new(Rate::from_mbps(1), Duration::ZERO);
        let mut window = FlowWindow::new(6, &memory, Mode::Paper);
        let mut acked = 0;
        for packets in [1, 1, 2, 4, 6, 6] {
            assert!(window.admits(packets - 1) && !window.admits(packets));
            acked += packets;
            window.handle_ack(acked);
        }
        let mut window = FlowWindow::new(6, &memory, Mode::Paper);
        window.handle_nak();
        assert!(window.is_largest() && !window.grows());
        let mut swift = FlowWindow::new(6, &memory, Mode::Swift);
        assert!(swift.is_largest());
        for packets in [9, 5] {
            swift.resize(packets);
            assert!(swift.is_largest() && swift.admits(packets - 1) && !swift.admits(packets));
        }
        memory.has_lost = true;
        assert!(FlowWindow::new(6, &memory, Mode::Paper).is_largest());
    }
}
