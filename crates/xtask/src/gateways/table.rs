//! Results of the measurements.

use std::fmt;

/// Result of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) path: String,
    pub(super) route: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) remark: String,
    /// Cell in a figure: column, and value of the variable.
    pub(super) place: Option<(String, f64)>,
}

/// All results.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) lines: Vec<Line>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            route,
            value,
            unit,
            remark,
            ..
        } = self;
        write!(f, "{path:<28} {route:<26} {value:>9.1} {unit:<5} {remark}")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
