//! Scripts of the shell `sh` as commands for any login shell: sh, bash, zsh, fish, csh or tcsh.

/// Returns the command that runs `script` in `sh`, whichever shell reads the command.
///
/// These shells agree on text between single quotes if it has no single quote, backslash, exclamation mark or line end.
pub(super) fn command(script: &str) -> String {
    debug_assert!(!script.contains(['\'', '\\', '!', '\n']), "{script}");
    format!("sh -c '{script}'")
}
