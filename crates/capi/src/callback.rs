//! Functions of the program that run now. Waits for copies, streams and reservations in them may never end: the thread
//! that they hold up may be the one that the wait is for.

use std::cell::Cell;

use lighthaul::Error;

use crate::fault::Fault;

/// Kind of a function of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callback {
    /// Progress of a copy, on the thread of the copy.
    Progress,
    /// Notice for the user, on a thread of a copy, a stream or a session.
    Note,
}

thread_local! {
    /// Function of the program that this thread runs.
    static RUNNING: Cell<Option<Callback>> = const { Cell::new(None) };
}

/// Runs a function of the program.
pub(crate) fn within<T>(callback: Callback, function: impl FnOnce() -> T) -> T {
    let outer = RUNNING.replace(Some(callback));
    let result = function();
    RUNNING.set(outer);
    result
}

/// Reports whether this thread runs a function of the program.
pub(crate) fn is_within() -> bool {
    RUNNING.get().is_some()
}

/// Fails within a function of the program.
pub(crate) fn forbid() -> Result<(), Error> {
    let is_free = !is_within();
    is_free.then_some(()).ok_or_else(|| Fault::Callback.into())
}

/// Fails within a function for notices, which may be on the thread that empties the buffer of a stream.
pub(crate) fn forbid_in_note() -> Result<(), Error> {
    let is_free = RUNNING.get() != Some(Callback::Note);
    is_free.then_some(()).ok_or_else(|| Fault::Callback.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_refused_in_functions_of_the_program_only() {
        forbid().unwrap();
        within(Callback::Progress, || {
            forbid().unwrap_err();
            forbid_in_note().unwrap();
            within(Callback::Note, || forbid_in_note().unwrap_err());
            forbid_in_note().unwrap();
        });
        forbid().unwrap();
    }
}
