//! Whether a sender should wait for its receiver's host.

use lighthaul_base::Load;

/// Asks for a pause when more than half of the host's backlog is full, and for more when less than a quarter is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// What the sender should be told, and what it was last told.
    on: bool,
    told: bool,
}

impl Hold {
    /// Whether the sender should wait.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Hears how the host is doing.
    pub const fn handle_load(&mut self, load: &Load) {
        if load.backlog_bytes > load.backlog_bytes_max / 2 {
            self.on = true;
        } else if load.backlog_bytes < load.backlog_bytes_max / 4 || load.backlog_bytes == 0 {
            self.on = false;
        }
    }

    /// What the sender is to be told now, if that is new.
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
    fn between_the_marks_nothing_changes() {
        let mut hold = Hold::default();
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
    fn a_host_that_has_no_backlog_holds_nobody() {
        let mut hold = Hold::default();
        hold.handle_load(&Load::default());
        assert!(!hold.is_on());
    }
}
