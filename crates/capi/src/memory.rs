//! Memory of the program, as references, slices and strings.
//!
//! Each function checks for null. The program must ensure that other pointers lead to memory of the right type, which
//! this library cannot check.
#![expect(unsafe_code, reason = "the program passes pointers")]

use std::ffi::{CStr, c_char, c_void};
use std::mem::{MaybeUninit, size_of};
use std::str::FromStr;
use std::{ptr, slice};

use lighthaul::{Error, Place};

use crate::fault::{Fault, invalid};

/// Structure of a request, which begins with its own size. Older programs may pass a shorter one.
///
/// # Safety
///
/// The structure begins with a `usize`, and all fields may be zero.
pub unsafe trait Request {
    /// Name of the structure, for messages.
    const NAME: &'static str;
    /// Size in the first version.
    const FIRST: usize;
}

/// Pointer that a program passes to its own callbacks.
#[derive(Clone, Copy, Debug)]
pub struct Data(*mut c_void);

// SAFETY: the library never follows the pointer, and `lighthaul.h` says which threads call a callback with it.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    /// Returns a pointer for the callbacks of the program.
    pub const fn new(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// Returns the pointer.
    pub const fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// Returns a copy of a request, in which fields that the program does not know are zero.
pub(crate) fn request<T: Request + Copy>(pointer: *const T) -> Result<T, Error> {
    if pointer.is_null() {
        return Err(Fault::Null(T::NAME).into());
    }
    // SAFETY: the pointer is not null, and each structure begins with its size.
    let size = unsafe { ptr::read_unaligned(pointer.cast::<usize>()) };
    let expected = size_of::<T>();
    if !(T::FIRST..=expected).contains(&size) {
        let name = T::NAME;
        return Err(Fault::Size {
            name,
            size,
            expected,
        }
        .into());
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: the program has `size` bytes there, and the copy has at least as many.
    unsafe { ptr::copy_nonoverlapping(pointer.cast::<u8>(), copy.as_mut_ptr().cast(), size) };
    // SAFETY: all fields may be zero, and the others are those of the program.
    Ok(unsafe { copy.assume_init() })
}

/// Stores a result at `place`. Nothing is stored if that is null.
pub(crate) fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the program has a value of this type there, which may be uninitialized.
        unsafe { ptr::write_unaligned(place, value) };
    }
}

/// Fails if the pointer for a result is null.
pub(crate) fn require<T>(place: *mut T, name: &'static str) -> Result<(), Error> {
    (!place.is_null())
        .then_some(())
        .ok_or_else(|| Fault::Null(name).into())
}

/// Returns the bytes of a string.
pub(crate) fn bytes(text: *const c_char, name: &'static str) -> Result<Vec<u8>, Error> {
    if text.is_null() {
        return Err(Fault::Null(name).into());
    }
    // SAFETY: the pointer is not null, and the string ends with zero.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(text.to_bytes().to_vec())
}

/// Returns a string.
pub(crate) fn text(text: *const c_char, name: &'static str) -> Result<String, Error> {
    let text = String::from_utf8(bytes(text, name)?);
    text.map_err(|_| Fault::Text(name).into())
}

/// Returns a string, or none for null.
pub(crate) fn optional(
    pointer: *const c_char,
    name: &'static str,
) -> Result<Option<String>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    text(pointer, name).map(Some)
}

/// Parses a place. Text that is not UTF-8 is a local path.
pub(crate) fn place(pointer: *const c_char, name: &'static str) -> Result<Place, Error> {
    use std::os::unix::ffi::OsStringExt;

    match String::from_utf8(bytes(pointer, name)?) {
        Ok(text) => Place::parse(&text),
        Err(other) => {
            let path = std::ffi::OsString::from_vec(other.into_bytes());
            Ok(Place::Here(path.into()))
        }
    }
}

/// Returns the strings of a list.
pub(crate) fn list<'a>(
    strings: *const *const c_char,
    count: usize,
    name: &'static str,
) -> Result<&'a [*const c_char], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if strings.is_null() {
        return Err(Fault::Null(name).into());
    }
    // SAFETY: the program has `count` pointers there, for as long as the call takes.
    Ok(unsafe { slice::from_raw_parts(strings, count) })
}

/// Returns bytes that the program sends.
pub(crate) fn input<'a>(
    data: *const c_void,
    len: usize,
    name: &'static str,
) -> Result<&'a [u8], Error> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Fault::Null(name).into());
    }
    // SAFETY: the program has `len` bytes there, for as long as the call takes.
    Ok(unsafe { slice::from_raw_parts(data.cast(), len) })
}

/// Copies `bytes` into a buffer of the program, which must have room for them.
pub(crate) fn output(
    bytes: &[u8],
    (buffer, capacity): (*mut c_void, usize),
    name: &'static str,
) -> Result<(), Error> {
    if bytes.is_empty() {
        return Ok(());
    }
    if buffer.is_null() {
        return Err(Fault::Null(name).into());
    }
    let len = bytes.len();
    if len > capacity {
        return Err(Fault::Buffer { len, capacity }.into());
    }
    // SAFETY: the program has `capacity` bytes there, which are no memory of this library.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), len) };
    Ok(())
}

/// Returns the value of an option's text, or none for null.
pub(crate) fn parsed<T: FromStr>(
    text: *const c_char,
    name: &'static str,
    allowed: &'static str,
) -> Result<Option<T>, Error> {
    let Some(text) = optional(text, name)? else {
        return Ok(None);
    };
    let value = text.parse();
    value.map(Some).map_err(|_| invalid(name, &text, allowed))
}
