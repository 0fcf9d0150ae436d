//! Man pages, written by the `lighthaul` command.

use std::path::Path;
use std::process::Command;

/// Writes the man pages of all commands to `target/man`.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "lighthaul-cli", "--", "man"])
        .arg(root.join("target/man"))
        .current_dir(root)
        .status()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("cannot write the man pages".to_owned())
    }
}
