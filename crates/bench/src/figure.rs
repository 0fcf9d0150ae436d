//! Figure of goodput against packet loss.

use std::path::Path;

use lighthaul_lab::error::Result;
use lighthaul_lab::measured::MeasuredPlan;

use super::outcome::Summary;

/// Name of the figure's files.
const NAME: &str = "goodput-loss";

/// Writes the table and the picture into `folder`, which has the plan.
pub(crate) fn keep(summaries: &[Summary], folder: &Path) -> Result<()> {
    let plan = MeasuredPlan::read(&folder.join(format!("{NAME}.toml")))?;
    let samples: Vec<_> = summaries
        .iter()
        .filter_map(|summary| {
            let outcome = summary.median.as_ref().ok()?;
            let column = summary.tool.replace('-', "_");
            Some((column, summary.loss.percent(), outcome.bps() / 1e6))
        })
        .collect();
    plan.keep(folder, plan.table(&samples)).map(drop)
}
