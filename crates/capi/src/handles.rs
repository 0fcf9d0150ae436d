//! Handles: numbers by which a program names objects of the library.
//!
//! A number is never used twice, so a handle that was closed, or is of another kind, is found to be wrong. An object
//! lives until its handle is closed and no call uses it. A child process has not the threads of its parent, so it can
//! use no handle of it. It has a table of its own, since a thread of the parent may have held the lock of the table.
#![expect(unsafe_code, reason = "pointer to the table of this process")]

use std::any::Any;
use std::collections::BTreeMap;
use std::process;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul::Error;

use crate::fault::Fault;

/// Object that a program can hold.
pub(crate) trait Object: Any + Send + Sync {
    /// Name of the kind, for messages.
    const NAME: &'static str;
}

/// Handles of a process.
struct Table {
    process: u32,
    /// Number of the latest handle of the parent.
    parent: u64,
    objects: Mutex<Objects>,
}

type Objects = BTreeMap<u64, Arc<dyn Any + Send + Sync>>;

/// Table of this process, or of its parent; null before the first call. Tables are never freed.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// Number of the latest handle.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// Returns a new handle to `object`.
pub(crate) fn open<T: Object>(object: T) -> u64 {
    let number = LATEST.fetch_add(1, Relaxed) + 1;
    table().objects().insert(number, Arc::new(object));
    number
}

/// Returns the object of a handle.
pub(crate) fn get<T: Object>(number: u64) -> Result<Arc<T>, Error> {
    let table = table();
    let found = table.objects().get(&number).map(Arc::clone);
    let object = found.and_then(|object| object.downcast::<T>().ok());
    object.ok_or_else(|| {
        if (1..=table.parent).contains(&number) {
            return Fault::Child.into();
        }
        Fault::Handle(T::NAME).into()
    })
}

/// Closes a handle, and returns its object.
pub(crate) fn close<T: Object>(number: u64) -> Result<Arc<T>, Error> {
    let object = get::<T>(number)?;
    // another thread may close it at this moment
    let closed = table().objects().remove(&number);
    closed.map_or_else(|| Err(Fault::Handle(T::NAME).into()), |_| Ok(object))
}

impl Table {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the table of this process.
fn table() -> &'static Table {
    let known = TABLE.load(Acquire);
    // SAFETY: the pointer is null, or of a table that is never freed.
    let table = unsafe { known.as_ref() };
    let process = process::id();
    if let Some(table) = table.filter(|table| table.process == process) {
        return table;
    }
    let own = Box::into_raw(Box::new(Table {
        process,
        parent: table.map_or(0, |_| LATEST.load(Relaxed)),
        objects: Mutex::default(),
    }));
    let stored = TABLE.compare_exchange(known, own, AcqRel, Acquire);
    // a table that another thread has stored is of this process, too
    let current = stored.map_or_else(|other| other, |_| own);
    // SAFETY: as above; it is not null.
    unsafe { &*current }
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
