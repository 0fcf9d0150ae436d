//! Analytical model of RBUDP (sections 4.1 and 4.3 of the paper) as plain functions.
//!
//! Rates are in bits per second, sizes in bytes, times in seconds. `rate` is the paper's `B_send`, the rate of
//! payload without headers. Limits of the equations:
//!
//! - Equation 6 stops when the *expected* number of missing packets is below one. The actual number is random: at 12
//!   % loss the mean number of blasts lies between 0.25 below and 0.75 above `N + 1`. For small payloads on long
//!   paths blasts account for nearly all of the time. [`blasts_expected`] is the exact mean.
//! - Equation 3 computes `T_ack` from `B_send`, although a tally is sent over TCP at another rate. The error is
//!   negligible: a bitmap is about 1/12000 of the payload.
//! - Equation 5 omits `T_ack` and loss, so it is an upper bound.
//! - A blast begins a round trip after the previous one ends (equation 2). So loss costs little for large payloads
//!   and much for small ones.

use core::time::Duration;

/// Path and packet size of a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// `B_send`: rate of payload in bits per second.
    pub rate: f64,
    /// `RTT`: round-trip time, twice `T_prop`.
    pub rtt: Duration,
    /// `S_packet`: payload of a packet in bytes.
    pub packet_len: f64,
    /// `L`: fraction of packets lost in each blast.
    pub loss: f64,
}

/// Returns the goodput by equation 1: `B_achievable = S_total / T_total`.
pub fn goodput(total: f64, path: &Path) -> f64 {
    total * 8.0 / time_total(total, path)
}

/// Returns `T_total` by equations 2, 3, 6 and 7: the time from the first packet sent to the last tally received.
pub fn time_total(total: f64, path: &Path) -> f64 {
    let resends = resends(total, path);
    time_with(
        total,
        path,
        resends + 1.0,
        resent(total, path.loss, resends),
    )
}

/// Returns the time by equation 2 with the exact mean number of blasts instead of equation 6.
pub fn time_expected(total: f64, path: &Path) -> f64 {
    let resent = total * path.loss / (1.0 - path.loss);
    time_with(total, path, blasts_expected(total, path), resent)
}

/// Returns the time of a tally by equation 3: `T_ack = S_ack / B_send`, `S_ack = S_total / (8 S_packet)`.
pub fn time_ack(total: f64, path: &Path) -> f64 {
    total / (8.0 * path.packet_len) * 8.0 / path.rate
}

/// Returns the goodput without loss, `B_best`, by equation 4.
pub fn goodput_best(total: f64, path: &Path) -> f64 {
    total * 8.0 / (total * 8.0 / path.rate + time_ack(total, path) + path.rtt.as_secs_f64())
}

/// Returns `B_best / B_send` by equation 5, which neglects the size of the tally.
pub fn efficiency(total: f64, rate: f64, rtt: Duration) -> f64 {
    1.0 / (1.0 + rtt.as_secs_f64() * rate / (total * 8.0))
}

/// Returns the smallest payload that reaches `efficiency`, by equation 5.
pub fn total_for(efficiency: f64, rate: f64, rtt: Duration) -> f64 {
    rtt.as_secs_f64() * rate / 8.0 * efficiency / (1.0 - efficiency)
}

/// Returns the number of resends by equation 6: `N = floor(log_L(S_packet / S_total))`.
pub fn resends(total: f64, path: &Path) -> f64 {
    if path.loss <= 0.0 || total <= path.packet_len {
        return 0.0;
    }
    libm::floor(libm::log(path.packet_len / total) / libm::log(path.loss))
}

/// Returns the bytes resent by equation 7: `S_resend = S_total L (1 - L^N) / (1 - L)`.
pub fn resent(total: f64, loss: f64, resends: f64) -> f64 {
    total * loss * (1.0 - libm::pow(loss, resends)) / (1.0 - loss)
}

/// Returns the exact mean number of blasts until every packet has arrived, for independent loss.
///
/// The probability that all of `n` packets have arrived after `k` blasts is `(1 - L^k)^n`.
pub fn blasts_expected(total: f64, path: &Path) -> f64 {
    let packets = libm::ceil(total / path.packet_len).max(1.0);
    let (mut blasts, mut lost) = (1.0, path.loss);
    while lost * packets > 1e-9 {
        // ln(1 - x) by log1p keeps its precision for small x
        blasts -= libm::expm1(packets * libm::log1p(-lost));
        lost *= path.loss;
    }
    blasts
}

/// Returns the payload that gathers all objects of `delay` seconds, by equations 8 and 9: `S_total = S_obj B_obj D`.
pub fn stream_total(object: f64, objects_per_second: f64, delay: Duration) -> f64 {
    object * stream_objects(objects_per_second, delay)
}

/// Returns the number of objects in a payload by equation 9: `N_obj = B_obj D`.
pub fn stream_objects(objects_per_second: f64, delay: Duration) -> f64 {
    objects_per_second * delay.as_secs_f64()
}

/// Returns the rate of objects in bits per second by equation 10: `B = B_obj S_obj`.
pub fn stream_goodput(object: f64, objects_per_second: f64) -> f64 {
    objects_per_second * object * 8.0
}

/// Returns the sending rate by equation 11: `B_send = B_obj S_obj / (1 - RTT / D)`. It is infinite if `delay` is at
/// most a round trip.
pub fn stream_rate(object: f64, objects_per_second: f64, rtt: Duration, delay: Duration) -> f64 {
    let share = 1.0 - rtt.as_secs_f64() / delay.as_secs_f64();
    if share > 0.0 {
        stream_goodput(object, objects_per_second) / share
    } else {
        f64::INFINITY
    }
}

/// Returns the time by equation 2 for a given number of blasts and of bytes resent.
fn time_with(total: f64, path: &Path, blasts: f64, resent: f64) -> f64 {
    let sending = (total + resent) * 8.0 / path.rate;
    sending + blasts * (path.rtt.as_secs_f64() + time_ack(total, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(110);

    fn path(mbps: f64, loss: f64) -> Path {
        Path {
            rate: mbps * 1e6,
            rtt: RTT,
            packet_len: 1500.0,
            loss,
        }
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= right.abs() * 1e-3
    }

    #[test]
    fn efficiency_of_90_percent_at_600_mbps_needs_67_5_megabytes() {
        let rtt = Duration::from_millis(100);
        assert!(close(total_for(0.9, 600e6, rtt), 67.5e6));
        assert!(close(efficiency(67.5e6, 600e6, rtt), 0.9));
    }

    #[test]
    fn stream_of_20_images_per_second_needs_288_mbps_and_10_per_payload() {
        let (object, rtt) = (800.0 * 600.0 * 3.0, Duration::from_millis(100));
        let delay = Duration::from_millis(500);
        assert!(close(stream_objects(20.0, delay), 10.0));
        assert!(close(stream_total(object, 20.0, delay), 14.4e6));
        assert!(close(stream_goodput(object, 20.0), 230.4e6));
        assert!(close(stream_rate(object, 20.0, rtt, delay), 288e6));
        assert!(stream_rate(object, 20.0, delay, delay).is_infinite());
    }

    #[test]
    fn equations_2_and_4_agree_without_loss() {
        for mbps in [100.0, 611.0, 900.0] {
            let path = path(mbps, 0.0);
            assert!(close(goodput(450e6, &path), goodput_best(450e6, &path)));
            assert!(close(time_expected(450e6, &path), time_total(450e6, &path)));
            let bound = efficiency(450e6, path.rate, RTT) * path.rate;
            assert!(close(goodput_best(450e6, &path), bound));
            assert!(goodput_best(450e6, &path) < bound);
        }
    }

    #[test]
    fn loss_of_12_percent_takes_5_resends_for_450_megabytes() {
        let path = path(682.0, 0.12);
        assert!(close(resends(450e6, &path), 5.0));
        assert!(close(resent(450e6, 0.12, 5.0), 61.36e6));
        assert!(close(time_total(450e6, &path), 6.661));
        let blasts = blasts_expected(450e6, &path);
        assert!((6.0..7.0).contains(&blasts), "{blasts}");
        // the number of transmissions of a packet is geometrically distributed
        assert!(close(blasts_expected(1500.0, &path), 1.0 / 0.88));
    }

    #[test]
    fn equation_6_is_within_one_blast_of_the_exact_mean() {
        for total in [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9] {
            for loss in [0.001, 0.01, 0.12, 0.3] {
                let path = path(682.0, loss);
                let off = blasts_expected(total, &path) - (resends(total, &path) + 1.0);
                assert!((-0.6..1.0).contains(&off), "{total} {loss}: {off}");
            }
        }
    }
}
