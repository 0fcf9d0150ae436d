//! Functions of the program that run now, in which waits for copies and streams would never end.

use std::cell::Cell;

use lighthaul::Error;

use crate::fault::Fault;

thread_local! {
    /// True while this thread runs a function of the program.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function of the program.
pub(crate) fn within<T>(function: impl FnOnce() -> T) -> T {
    let outer = IS_WITHIN.replace(true);
    let result = function();
    IS_WITHIN.set(outer);
    result
}

/// Reports whether this thread runs a function of the program.
pub(crate) fn is_within() -> bool {
    IS_WITHIN.get()
}

/// Fails within a function of the program.
pub(crate) fn forbid() -> Result<(), Error> {
    let is_free = !is_within();
    is_free.then_some(()).ok_or_else(|| Fault::Callback.into())
}
