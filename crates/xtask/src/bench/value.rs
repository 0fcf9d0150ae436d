//! A number that was measured several times.

/// The median of several runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
    /// How many runs; what is known exactly has as many as one likes.
    pub(crate) runs: usize,
    /// How many more gave nothing, since they failed.
    pub(crate) failed: usize,
}

impl Value {
    /// What these runs gave; nothing if there are none.
    pub(crate) fn of(runs: impl Iterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = runs.collect();
        all.sort_by(f64::total_cmp);
        let (low, high) = (*all.first()?, *all.last()?);
        Some(Self {
            low,
            middle: all[(all.len() - 1) / 2],
            high,
            runs: all.len(),
            failed: 0,
        })
    }

    /// The same, where so many more runs failed.
    pub(crate) const fn beside_failed(self, failed: usize) -> Self {
        Self { failed, ..self }
    }

    /// A number that needs no measuring.
    pub(crate) const fn exact(number: f64) -> Self {
        Self {
            low: number,
            middle: number,
            high: number,
            runs: usize::MAX,
            failed: 0,
        }
    }

    /// This divided by another, and the furthest that any two runs make of it.
    pub(crate) fn over(self, other: Self) -> Self {
        Self {
            low: self.low / other.high,
            middle: self.middle / other.middle,
            high: self.high / other.low,
            runs: self.runs.min(other.runs),
            failed: self.failed + other.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_as_uncertain_as_both_its_sides() {
        let value = |runs: &[f64]| Value::of(runs.iter().copied()).unwrap();
        let ratio = value(&[9.0, 6.0, 8.0]).over(value(&[2.0, 4.0]));
        assert_eq!(
            ratio,
            Value {
                low: 1.5,
                middle: 4.0,
                high: 4.5,
                runs: 2,
                failed: 0
            }
        );
        assert!(Value::of(std::iter::empty()).is_none());
        let failed = value(&[1.0])
            .beside_failed(1)
            .over(value(&[1.0]).beside_failed(2));
        assert_eq!(failed.failed, 3);
    }
}
