//! The most that a caller may ask for, whatever it says.

use lighthaul_transfer::message::{Hello, Request};

/// How long a peer may say nothing before its session ends, in seconds; a session that has stalled holds its seat.
const STALL_MAX: u32 = 600;
/// How long a raw measurement may last, in milliseconds.
const MEASURE_MAX: u32 = 600_000;
/// Bytes that a measurement may move.
const MEASURED_MAX: u64 = 1 << 40;

/// Bounds what `hello` asks for.
pub(crate) fn apply(hello: &mut Hello) {
    hello.options.stall = hello.options.stall.min(STALL_MAX);
    if let Request::Probe(ask) = &mut hello.request {
        ask.millis = ask.millis.min(MEASURE_MAX);
        ask.bytes = ask.bytes.min(MEASURED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_transfer::measure::{Ask, What};
    use lighthaul_transfer::message::VERSION;
    use lighthaul_transfer::options::Options;

    use super::*;

    #[test]
    fn years_are_cut_to_minutes_and_what_is_usual_stays() {
        for (asked, granted) in [(u32::MAX, STALL_MAX), (0, 0), (20, 20)] {
            let ask = Ask {
                what: What::Network,
                bytes: u64::MAX,
                millis: u32::MAX,
                rate_bps: None,
            };
            let mut hello = Hello {
                version: VERSION,
                request: Request::Probe(ask),
                plain: true,
                rate_bps: None,
                limit: String::new(),
                options: Options {
                    stall: asked,
                    ..Options::default()
                },
                protocols: Vec::new(),
            };
            apply(&mut hello);
            assert_eq!(hello.options.stall, granted);
            assert!(matches!(hello.request, Request::Probe(ask) if ask.millis == MEASURE_MAX));
        }
    }
}
