//! TCP flow that competes with a transfer, without end or in alternating periods of sending and silence.

use std::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Span, Transmit};
use lighthaul_workload::tcp::{Algorithm, Config, Sender};

/// Sender of a competing TCP flow.
#[derive(Debug)]
pub(crate) struct Neighbor {
    sender: Sender,
    /// Duration of a sending or silent period, and the end of the present period.
    turns: Option<(Duration, Instant)>,
    is_resting: bool,
}

impl Neighbor {
    /// Starts a flow. With `turn`, it sends for this time, and rests for as long.
    pub(crate) fn new(
        now: Instant,
        (algorithm, packet_len): (Algorithm, u32),
        turn: Option<Duration>,
        seed: u64,
    ) -> Self {
        let config = Config {
            algorithm,
            packet_len,
        };
        Self {
            sender: Sender::new(now, config, seed),
            turns: turn.map(|turn| (turn, now + turn)),
            is_resting: false,
        }
    }
}

impl Endpoint for Neighbor {
    type Event = ();

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        self.sender.handle_message(now, message)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((turn, end)) = &mut self.turns
            && now >= *end
        {
            *end += *turn;
            self.is_resting = !self.is_resting;
            self.sender.allow_new(!self.is_resting);
        }
        self.sender.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.sender.poll_transmit(now)
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let turn = self.turns.map(|(_, at)| Deadline { at, why: "turn" });
        self.sender.poll_timeout().into_iter().chain(turn).min()
    }
}
