//! The analytical model of RBUDP (section 4.1 and 4.3 of the paper) as plain functions.
//!
//! Rates are in bits a second, sizes in bytes, times in seconds. `rate` is the paper's `B_send`:
//! what is sent of the payload itself, without headers. Where the equations mislead:
//!
//! - Equation 6 stops when less than one packet is *expected* to be missing. The last packet is a
//!   matter of luck, so at 12 % loss the mean number of blasts is between 0.25 below and 0.75 above
//!   `N + 1`, and for small payloads over long paths blasts are all the time there is.
//!   [`blasts_expected`] is the exact mean.
//! - Equation 3 writes `T_ack` with `B_send`; a tally crosses on TCP at whatever rate that has. A
//!   bitmap is one twelve-thousandth of the payload, so nobody notices.
//! - Equation 5 drops `T_ack` and ignores loss: it bounds from above.
//! - A blast does not begin when the last one ends but a whole round trip later; equation 2 has
//!   this right, and it is why loss costs little on large payloads and much on small ones.

use core::time::Duration;

/// What a prediction starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// `B_send`: payload bits sent each second.
    pub rate: f64,
    /// `RTT`: twice `T_prop`.
    pub rtt: Duration,
    /// `S_packet`: payload bytes of a packet.
    pub packet_len: f64,
    /// `L`: the share of packets lost in each blast.
    pub loss: f64,
}

/// Equation 1: `B_achievable = S_total / T_total`.
pub fn goodput(total: f64, path: &Path) -> f64 {
    total * 8.0 / time_total(total, path)
}

/// Equation 2 with 3, 6 and 7: `T_total`, the time from the first packet sent to the last tally
/// received.
pub fn time_total(total: f64, path: &Path) -> f64 {
    let resends = resends(total, path);
    time_with(
        total,
        path,
        resends + 1.0,
        resent(total, path.loss, resends),
    )
}

/// Equation 2 with the exact mean number of blasts in place of equation 6.
pub fn time_expected(total: f64, path: &Path) -> f64 {
    let resent = total * path.loss / (1.0 - path.loss);
    time_with(total, path, blasts_expected(total, path), resent)
}

/// Equation 3: `T_ack = S_ack / B_send`, `S_ack = S_total / (8 S_packet)`.
pub fn time_ack(total: f64, path: &Path) -> f64 {
    total / (8.0 * path.packet_len) * 8.0 / path.rate
}

/// Equation 4: `B_best`, without loss.
pub fn goodput_best(total: f64, path: &Path) -> f64 {
    total * 8.0 / (total * 8.0 / path.rate + time_ack(total, path) + path.rtt.as_secs_f64())
}

/// Equation 5: `B_best / B_send`, the tally's own size neglected.
pub fn efficiency(total: f64, rate: f64, rtt: Duration) -> f64 {
    1.0 / (1.0 + rtt.as_secs_f64() * rate / (total * 8.0))
}

/// Equation 5 turned around: the smallest payload that reaches `efficiency`.
pub fn total_for(efficiency: f64, rate: f64, rtt: Duration) -> f64 {
    rtt.as_secs_f64() * rate / 8.0 * efficiency / (1.0 - efficiency)
}

/// Equation 6: `N = floor(log_L(S_packet / S_total))`, how often something is resent.
pub fn resends(total: f64, path: &Path) -> f64 {
    if path.loss <= 0.0 || total <= path.packet_len {
        return 0.0;
    }
    libm::floor(libm::log(path.packet_len / total) / libm::log(path.loss))
}

/// Equation 7: `S_resend = S_total L (1 - L^N) / (1 - L)`.
pub fn resent(total: f64, loss: f64, resends: f64) -> f64 {
    total * loss * (1.0 - libm::pow(loss, resends)) / (1.0 - loss)
}

/// The exact mean number of blasts until every packet has come, each lost alone with the same
/// chance.
///
/// All of `n` packets came after `k` blasts with probability `(1 - L^k)^n`.
pub fn blasts_expected(total: f64, path: &Path) -> f64 {
    let packets = libm::ceil(total / path.packet_len).max(1.0);
    let (mut blasts, mut lost) = (1.0, path.loss);
    while lost * packets > 1e-9 {
        // ln(1 - x) keeps its digits where 1 - x does not
        blasts -= libm::expm1(packets * libm::log1p(-lost));
        lost *= path.loss;
    }
    blasts
}

/// Equation 8 with 9: `S_total = S_obj B_obj D`, the payload that gathers what comes in `delay`.
pub fn stream_total(object: f64, objects_per_second: f64, delay: Duration) -> f64 {
    object * stream_objects(objects_per_second, delay)
}

/// Equation 9: `N_obj = B_obj D`, the objects in one payload.
pub fn stream_objects(objects_per_second: f64, delay: Duration) -> f64 {
    objects_per_second * delay.as_secs_f64()
}

/// Equation 10: `B = B_obj S_obj`, in bits a second.
pub fn stream_goodput(object: f64, objects_per_second: f64) -> f64 {
    objects_per_second * object * 8.0
}

/// Equation 11: `B_send = B_obj S_obj / (1 - RTT / D)`; infinite when the delay allowed is within a
/// round trip.
pub fn stream_rate(object: f64, objects_per_second: f64, rtt: Duration, delay: Duration) -> f64 {
    let share = 1.0 - rtt.as_secs_f64() / delay.as_secs_f64();
    if share > 0.0 {
        stream_goodput(object, objects_per_second) / share
    } else {
        f64::INFINITY
    }
}

/// Equation 2 for a number of blasts and of bytes resent.
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
    fn ninety_percent_of_600_mbps_needs_67_5_megabytes() {
        let rtt = Duration::from_millis(100);
        assert!(close(total_for(0.9, 600e6, rtt), 67.5e6));
        assert!(close(efficiency(67.5e6, 600e6, rtt), 0.9));
    }

    #[test]
    fn twenty_images_a_second_need_288_mbps_and_ten_a_payload() {
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
    fn twelve_percent_loss_takes_five_resends_of_450_megabytes() {
        let path = path(682.0, 0.12);
        assert!(close(resends(450e6, &path), 5.0));
        assert!(close(resent(450e6, 0.12, 5.0), 61.36e6));
        assert!(close(time_total(450e6, &path), 6.661));
        let blasts = blasts_expected(450e6, &path);
        assert!((6.0..7.0).contains(&blasts), "{blasts}");
        // one packet is sent a geometric number of times
        assert!(close(blasts_expected(1500.0, &path), 1.0 / 0.88));
    }

    #[test]
    fn equation_6_is_within_a_blast_of_the_mean() {
        for total in [1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9] {
            for loss in [0.001, 0.01, 0.12, 0.3] {
                let path = path(682.0, loss);
                let off = blasts_expected(total, &path) - (resends(total, &path) + 1.0);
                assert!((-0.6..1.0).contains(&off), "{total} {loss}: {off}");
            }
        }
    }
}
