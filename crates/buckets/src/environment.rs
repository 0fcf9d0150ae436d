//! Settings of object stores in the environment, with the names that other programs use.

use std::env;
use std::path::PathBuf;

/// Returns a variable that is set and not empty.
pub(crate) fn text(name: &str) -> Option<String> {
    let value = env::var_os(name)?.into_string().ok()?;
    (!value.is_empty()).then_some(value)
}

/// Returns the first of these variables that is set.
pub(crate) fn first(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text(name))
}

/// Returns true if the variable says yes.
pub(crate) fn is_on(name: &str) -> bool {
    text(name).is_some_and(|value| ["1", "true", "yes"].contains(&value.to_lowercase().as_str()))
}

/// Returns the home directory of this user.
pub(crate) fn home() -> Option<PathBuf> {
    text("HOME").map(PathBuf::from)
}
