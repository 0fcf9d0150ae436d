//! Commands that need a feature which this build does not have.

use lighthaul_session::error::Error;

use crate::error::usage;

/// Returns the error of a program without `what`, which the feature would add.
pub(crate) fn error(what: &str, feature: &str) -> Error {
    usage(format!(
        "this program was built without {what}; build it with `--features {feature}`"
    ))
}
