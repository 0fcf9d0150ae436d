//! Pause requests of a receiver whose host cannot keep up.

use lighthaul_base::Load;

/// Requests a pause when the host's backlog exceeds half of its maximum, and ends the pause below a quarter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverPause {
    /// True if the sender should pause.
    on: bool,
    /// Value of `on` that the sender was last sent.
    told: bool,
}

impl ReceiverPause {
    /// True if the sender should pause.
    #[inline]
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Updates the state from a load sample.
    #[inline]
    pub const fn handle_load(&mut self, load: &Load) {
        if load.backlog_bytes > load.backlog_bytes_max / 2 {
            self.on = true;
        } else if load.backlog_bytes < load.backlog_bytes_max / 4 || load.backlog_bytes == 0 {
            self.on = false;
        }
    }

    /// Returns the new value of [`ReceiverPause::is_on`], if the sender does not have it yet. The caller must send it.
    #[inline]
    pub fn poll(&mut self) -> Option<bool> {
        let is_new = self.on != self.told;
        self.told = self.on;
        is_new.then_some(self.on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlog_between_thresholds_keeps_the_state() {
        let mut hold = ReceiverPause::default();
        for (backlog_bytes, said) in [
            (50, None),
            (51, Some(true)),
            (60, None),
            (25, None),
            (24, Some(false)),
            (0, None),
        ] {
            hold.handle_load(&Load {
                backlog_bytes,
                backlog_bytes_max: 100,
                ..Load::default()
            });
            assert_eq!(hold.poll(), said, "{backlog_bytes}");
        }
    }

    #[test]
    fn host_without_backlog_requests_no_pause() {
        let mut hold = ReceiverPause::default();
        hold.handle_load(&Load::default());
        assert!(!hold.is_on());
    }
}
