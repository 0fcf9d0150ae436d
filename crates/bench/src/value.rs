//! Number that was measured several times.

/// Median of several runs, with their spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
    /// Number of runs; `usize::MAX` for an exact number.
    pub(crate) runs: usize,
    /// Number of further runs, which failed.
    pub(crate) failed: usize,
}

impl Value {
    /// Creates the value of several runs. Returns `None` without runs.
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

    /// Returns the value with a number of failed runs.
    pub(crate) const fn beside_failed(self, failed: usize) -> Self {
        Self { failed, ..self }
    }

    /// Creates the value of an exact number.
    pub(crate) const fn exact(number: f64) -> Self {
        Self {
            low: number,
            middle: number,
            high: number,
            runs: usize::MAX,
            failed: 0,
        }
    }

    /// Divides by another value. The spread covers all pairs of runs.
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
    fn ratio_combines_the_spread_of_both_values() {
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
