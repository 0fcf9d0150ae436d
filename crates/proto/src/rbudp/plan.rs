//! How a stream of objects is carried by RBUDP (section 4.4 of the paper): gathered into payloads, each sent fast
//! enough that the last of its objects is there within the delay that is tolerated.
//!
//! [`super::model`] has the equations; here is what follows from them. Two things they leave out: a payload has a
//! whole number of objects, and the first object of a payload has waited for the others, so that it is up to
//! `2 D` old when it arrives, where the last is within `D`. Loss costs a round trip for each further blast; who
//! expects some plans for so many round trips.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;

use super::model::{stream_goodput, stream_objects, stream_rate};

/// What somebody wants carried, and over which path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// `S_obj`: bytes of an object.
    pub object_len: u64,
    /// `B_obj`: objects a second.
    pub objects_per_second: f64,
    /// `D`: the delay that is tolerated.
    pub delay: Duration,
    /// The path's round-trip time.
    pub rtt: Duration,
}

/// How it is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// `N_obj`: objects of a payload.
    pub objects: u32,
    /// `S_total`: bytes of a payload.
    pub payload_len: u64,
    /// `B_send`: bits of payload sent each second.
    pub rate: Rate,
    /// `B`: bits of objects that come each second.
    pub goodput: Rate,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The delay is within the round-trip time, or so little more that not one object comes meanwhile.
    Delay(Duration, Duration),
    /// Nothing is to be carried, or more than numbers hold.
    Objects,
}

impl Wish {
    /// Equations 8 to 11.
    pub fn plan(&self) -> Result<Plan, Impossible> {
        let wanted = self.objects_per_second;
        if self.object_len == 0 || !(wanted > 0.0 && wanted <= OBJECTS_PER_SECOND_MAX) {
            return Err(Impossible::Objects);
        }
        let too_short = Impossible::Delay(self.delay, self.rtt);
        let len = self.object_len as f64;
        // half a millionth is what decimals lose
        let objects = libm::floor(stream_objects(wanted, self.delay) + 5e-7);
        if self.delay <= self.rtt || objects < 1.0 {
            return Err(too_short);
        }
        // a payload leaves when its objects are there, which is sooner than after D where D holds a part of one
        let gathered =
            Duration::try_from_secs_f64(objects / wanted).map_err(|_| Impossible::Objects)?;
        if gathered <= self.rtt {
            return Err(too_short);
        }
        let objects = bits(objects).and_then(|objects| u32::try_from(objects).ok());
        let objects = objects.ok_or(Impossible::Objects)?;
        Ok(Plan {
            objects,
            payload_len: self
                .object_len
                .checked_mul(objects.into())
                .ok_or(Impossible::Objects)?,
            rate: rate(stream_rate(len, wanted, self.rtt, gathered))?,
            goodput: rate(stream_goodput(len, wanted))?,
        })
    }
}

fn rate(bps: f64) -> Result<Rate, Impossible> {
    bits(libm::ceil(bps))
        .and_then(Rate::from_bps)
        .ok_or(Impossible::Objects)
}

#[expect(clippy::cast_sign_loss, reason = "it was compared")]
fn bits(number: f64) -> Option<u64> {
    (0.0..1e18).contains(&number).then_some(number as u64)
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(delay, rtt) => write!(
                f,
                "a delay of {delay:?} does not hold a round trip of {rtt:?} and one object: allow more delay"
            ),
            Self::Objects => f.write_str(
                "objects need bytes, and a number of them a second that is above zero and at most a million",
            ),
        }
    }
}

impl core::error::Error for Impossible {}

const OBJECTS_PER_SECOND_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IMAGES: Wish = Wish {
        object_len: 800 * 600 * 3,
        objects_per_second: 20.0,
        delay: Duration::from_millis(500),
        rtt: Duration::from_millis(100),
    };

    #[test]
    fn twenty_images_a_second_are_sent_ten_at_a_time_at_288_megabits() {
        let plan = Plan {
            objects: 10,
            payload_len: 14_400_000,
            rate: Rate::from_mbps(288),
            goodput: Rate::from_bps(230_400_000).expect("it is above zero"),
        };
        assert_eq!(IMAGES.plan(), Ok(plan));
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        let ms = Duration::from_millis;
        for (wish, why) in [
            (
                Wish {
                    object_len: 0,
                    ..IMAGES
                },
                Impossible::Objects,
            ),
            (
                Wish {
                    object_len: u64::MAX,
                    ..IMAGES
                },
                Impossible::Objects,
            ),
            (
                Wish {
                    objects_per_second: 0.0,
                    ..IMAGES
                },
                Impossible::Objects,
            ),
            (
                Wish {
                    objects_per_second: f64::NAN,
                    ..IMAGES
                },
                Impossible::Objects,
            ),
            (
                Wish {
                    objects_per_second: f64::INFINITY,
                    ..IMAGES
                },
                Impossible::Objects,
            ),
            (
                Wish {
                    delay: ms(100),
                    ..IMAGES
                },
                Impossible::Delay(ms(100), ms(100)),
            ),
            (
                Wish {
                    delay: Duration::ZERO,
                    ..IMAGES
                },
                Impossible::Delay(ms(0), ms(100)),
            ),
            (
                Wish {
                    delay: ms(149),
                    rtt: ms(120),
                    ..IMAGES
                },
                Impossible::Delay(ms(149), ms(120)),
            ),
        ] {
            assert_eq!(wish.plan(), Err(why), "{wish:?}");
        }
    }

    proptest! {
        /// A payload that is sent as planned is there before the next one is complete.
        #[test]
        fn a_plan_keeps_up(
            object_len in 1_u64..100_000_000, objects_per_second in 0.1_f64..1000.0,
            delay_ms in 1_u64..10_000, rtt_ms in 0_u64..500,
        ) {
            let [delay, rtt] = [delay_ms, rtt_ms].map(Duration::from_millis);
            let wish = Wish { object_len, objects_per_second, delay, rtt };
            if let Ok(plan) = wish.plan() {
                prop_assert!(plan.rate >= plan.goodput);
                let gathered = f64::from(plan.objects) / objects_per_second;
                prop_assert!(gathered <= delay.as_secs_f64() + 1e-5);
                let takes = plan.rate.time_for(plan.payload_len) + rtt;
                prop_assert!(takes.as_secs_f64() <= gathered * 1.000_001 + 1e-6, "{takes:?}");
            }
        }
    }
}
