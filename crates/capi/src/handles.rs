//! Handles: numbers by which a program names objects of the library.
//!
//! A number is never used twice, so a closed handle or one of another kind is detected. An object lives until its
//! handle is closed and no call uses it. A child process has a copy of the table, but not the threads of its parent. So
//! it cannot use any handle.

use std::any::Any;
use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul::Error;

use crate::fault::Fault;

/// Object that a program can hold.
pub(crate) trait Object: Any + Send + Sync {
    /// Name of the kind, for messages.
    const NAME: &'static str;
}

struct Table {
    /// Number of the latest handle.
    last: u64,
    objects: BTreeMap<u64, Entry>,
}

struct Entry {
    object: Arc<dyn Any + Send + Sync>,
    /// Process that created the object.
    process: u32,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    last: 0,
    objects: BTreeMap::new(),
});

/// Returns a new handle to `object`.
pub(crate) fn open<T: Object>(object: T) -> u64 {
    let mut table = table();
    table.last += 1;
    let number = table.last;
    let entry = Entry {
        object: Arc::new(object),
        process: process::id(),
    };
    table.objects.insert(number, entry);
    number
}

/// Returns the object of a handle.
pub(crate) fn get<T: Object>(number: u64) -> Result<Arc<T>, Error> {
    let table = table();
    let entry = table.objects.get(&number).ok_or(Fault::Handle(T::NAME))?;
    let object = Arc::clone(&entry.object).downcast::<T>();
    let object = object.map_err(|_| Fault::Handle(T::NAME))?;
    if entry.process != process::id() {
        return Err(Fault::Child.into());
    }
    Ok(object)
}

/// Closes a handle, and returns its object.
pub(crate) fn close<T: Object>(number: u64) -> Result<Arc<T>, Error> {
    let object = get::<T>(number)?;
    // another thread may close it at this moment
    let entry = table().objects.remove(&number);
    entry.map_or_else(|| Err(Fault::Handle(T::NAME).into()), |_| Ok(object))
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;
    struct Other;

    impl Object for One {
        const NAME: &'static str = "one";
    }

    impl Object for Other {
        const NAME: &'static str = "other";
    }

    #[test]
    fn closed_and_wrong_handles_are_errors() {
        let one = open(One);
        assert!(get::<One>(one).is_ok());
        let wrong = get::<Other>(one).map(drop).unwrap_err();
        assert!(wrong.text().starts_with("this is no open other"), "{wrong}");
        close::<Other>(one).map(drop).unwrap_err();
        let object = close::<One>(one).unwrap();
        assert_eq!(Arc::strong_count(&object), 1);
        get::<One>(one).map(drop).unwrap_err();
        close::<One>(one).map(drop).unwrap_err();
        get::<One>(0).map(drop).unwrap_err();
        assert_ne!(open(One), one);
    }
}
