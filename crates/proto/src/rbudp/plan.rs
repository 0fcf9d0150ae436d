//! Parameters for a stream of objects over RBUDP (section 4.4 of the paper). Objects are gathered into payloads, and
//! each payload is sent fast enough for its last object to arrive within the tolerated delay.
//!
//! [`super::model`] has the equations. They leave out two things. A payload has a whole number of objects. Its
//! first object has waited for the others, so that it is up to `2 D` old on arrival, while the last is within `D`.
//! Each further blast after a loss costs a round trip; the caller may add that many round trips to `rtt`.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;

use super::model::{stream_goodput, stream_objects, stream_rate};

/// Stream to be carried, and its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamDemand {
    /// `S_obj`: length of an object in bytes.
    pub object_len: u64,
    /// `B_obj`: objects per second.
    pub objects_per_second: f64,
    /// `D`: tolerated delay.
    pub delay: Duration,
    /// Round-trip time of the path.
    pub rtt: Duration,
}

/// Parameters of the transfers that carry a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// `N_obj`: objects in a payload.
    pub objects: u32,
    /// `S_total`: length of a payload in bytes.
    pub payload_len: u64,
    /// `B_send`: sending rate of payload.
    pub rate: Rate,
    /// `B`: rate of the objects.
    pub goodput: Rate,
}

/// Reason why no plan exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The delay (first value) does not exceed the round-trip time (second value), or is too short to gather one
    /// object.
    Delay(Duration, Duration),
    /// The objects are empty, or their number per second is not in range.
    Objects,
}

impl StreamDemand {
    /// Returns the plan by equations 8 to 11.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let wanted = self.objects_per_second;
        if self.object_len == 0 || !(wanted > 0.0 && wanted <= OBJECTS_PER_SECOND_MAX) {
            return Err(PlanError::Objects);
        }
        let too_short = PlanError::Delay(self.delay, self.rtt);
        let len = self.object_len as f64;
        // 5e-7 makes up for decimal rounding of the input
        let objects = libm::floor(stream_objects(wanted, self.delay) + 5e-7);
        if self.delay <= self.rtt || objects < 1.0 {
            return Err(too_short);
        }
        // a payload leaves once its objects are complete, which is before D unless D is a multiple of their interval
        let gathered =
            Duration::try_from_secs_f64(objects / wanted).map_err(|_| PlanError::Objects)?;
        if gathered <= self.rtt {
            return Err(too_short);
        }
        let objects = bits(objects).and_then(|objects| u32::try_from(objects).ok());
        let objects = objects.ok_or(PlanError::Objects)?;
        Ok(Plan {
            objects,
            payload_len: self
                .object_len
                .checked_mul(objects.into())
                .ok_or(PlanError::Objects)?,
            rate: rate(stream_rate(len, wanted, self.rtt, gathered))?,
            goodput: rate(stream_goodput(len, wanted))?,
        })
    }
}

fn rate(bps: f64) -> Result<Rate, PlanError> {
    bits(libm::ceil(bps))
        .and_then(Rate::from_bps)
        .ok_or(PlanError::Objects)
}

#[expect(clippy::cast_sign_loss, reason = "the range was checked")]
fn bits(number: f64) -> Option<u64> {
    (0.0..1e18).contains(&number).then_some(number as u64)
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(delay, rtt) => write!(
                f,
                "a delay of {delay:?} is too short for a round trip of {rtt:?} and one object: allow more delay"
            ),
            Self::Objects => f.write_str(
                "objects must not be empty, and their rate must be above zero and at most a million per second",
            ),
        }
    }
}

impl core::error::Error for PlanError {}

const OBJECTS_PER_SECOND_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IMAGES: StreamDemand = StreamDemand {
        object_len: 800 * 600 * 3,
        objects_per_second: 20.0,
        delay: Duration::from_millis(500),
        rtt: Duration::from_millis(100),
    };

    #[test]
    fn plan_for_20_images_per_second_sends_10_at_288_mbps() {
        let plan = Plan {
            objects: 10,
            payload_len: 14_400_000,
            rate: Rate::from_mbps(288),
            goodput: Rate::from_bps(230_400_000).expect("it is above zero"),
        };
        assert_eq!(IMAGES.plan(), Ok(plan));
    }

    #[test]
    fn impossible_stream_is_refused() {
        let ms = Duration::from_millis;
        for (demand, why) in [
            (
                StreamDemand {
                    object_len: 0,
                    ..IMAGES
                },
                PlanError::Objects,
            ),
            (
                StreamDemand {
                    object_len: u64::MAX,
                    ..IMAGES
                },
                PlanError::Objects,
            ),
            (
                StreamDemand {
                    objects_per_second: 0.0,
                    ..IMAGES
                },
                PlanError::Objects,
            ),
            (
                StreamDemand {
                    objects_per_second: f64::NAN,
                    ..IMAGES
                },
                PlanError::Objects,
            ),
            (
                StreamDemand {
                    objects_per_second: f64::INFINITY,
                    ..IMAGES
                },
                PlanError::Objects,
            ),
            (
                StreamDemand {
                    delay: ms(100),
                    ..IMAGES
                },
                PlanError::Delay(ms(100), ms(100)),
            ),
            (
                StreamDemand {
                    delay: Duration::ZERO,
                    ..IMAGES
                },
                PlanError::Delay(ms(0), ms(100)),
            ),
            (
                StreamDemand {
                    delay: ms(149),
                    rtt: ms(120),
                    ..IMAGES
                },
                PlanError::Delay(ms(149), ms(120)),
            ),
        ] {
            assert_eq!(demand.plan(), Err(why), "{demand:?}");
        }
    }

    proptest! {
        /// A payload that is sent as planned arrives before the next one is complete.
        #[test]
        fn planned_payload_arrives_before_next_is_complete(
            object_len in 1_u64..100_000_000, objects_per_second in 0.1_f64..1000.0,
            delay_ms in 1_u64..10_000, rtt_ms in 0_u64..500,
        ) {
            let [delay, rtt] = [delay_ms, rtt_ms].map(Duration::from_millis);
            let demand = StreamDemand { object_len, objects_per_second, delay, rtt };
            if let Ok(plan) = demand.plan() {
                prop_assert!(plan.rate >= plan.goodput);
                let gathered = f64::from(plan.objects) / objects_per_second;
                prop_assert!(gathered <= delay.as_secs_f64() + 1e-5);
                let takes = plan.rate.time_for(plan.payload_len) + rtt;
                prop_assert!(takes.as_secs_f64() <= gathered * 1.000_001 + 1e-6, "{takes:?}");
            }
        }
    }
}
