//! Limits of the parameters in a request.

use crate::request::Request;

/// Maximum stall timeout in seconds. A stalled session holds its resources that long.
const STALL_MAX: u32 = 600;
/// Maximum duration of a measurement, in milliseconds.
const MEASURE_MAX: u32 = 600_000;
/// Maximum number of bytes of a measurement.
const MEASURED_MAX: u64 = 1 << 40;

/// Limits the parameters of a request.
pub(crate) fn apply(request: &mut Request) {
    if let Some(options) = request.options_mut() {
        options.stall = options.stall.min(STALL_MAX);
    }
    if let Request::Probe(ask) = request {
        ask.millis = ask.millis.min(MEASURE_MAX);
        ask.bytes = ask.bytes.min(MEASURED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_files::options::Options;
    use lighthaul_session::measure::{MeasureMode, MeasureRequest};

    use super::*;

    #[test]
    fn only_excessive_parameters_are_limited() {
        for (asked, granted) in [(u32::MAX, STALL_MAX), (0, 0), (20, 20)] {
            let mut request = Request::Send {
                paths: Vec::new(),
                options: Options {
                    stall: asked,
                    ..Options::default()
                },
            };
            apply(&mut request);
            assert_eq!(
                request.options().map(|options| options.stall),
                Some(granted)
            );
        }
        let most = (1 << 40, 600_000);
        for (asked, granted) in [
            ((u64::MAX, u32::MAX), most),
            ((most.0 + 1, most.1 + 1), most),
            (most, most),
            ((0, 20), (0, 20)),
        ] {
            let mut request = Request::Probe(MeasureRequest {
                mode: MeasureMode::Network,
                bytes: asked.0,
                millis: asked.1,
                rate_bps: None,
            });
            apply(&mut request);
            let Request::Probe(ask) = request else {
                panic!("the request became another one");
            };
            assert_eq!((ask.bytes, ask.millis), granted, "{asked:?}");
        }
    }
}
