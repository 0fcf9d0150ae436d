//! Environment variables that capture needs, kept for programs that the captured program starts.
//!
//! A program may clear or change its environment, and then the programs that it starts would not be
//! captured. `Kept` has `LD_PRELOAD` and the variable of the gateway as this library was started
//! with them. `complete` returns a copy of an environment with both, for `execve` and its variants.
//! `put_back` and `restore` change the environment of this process. Other libraries in `LD_PRELOAD`
//! stay, after this one.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

use crate::gateway::VARIABLE;

unsafe extern "C" {
    /// Environment of this process.
    pub(crate) static environ: *const *const c_char;
}

/// The variables at the start of this library.
#[derive(Debug)]
pub(crate) struct Kept {
    /// `LIGHTHAUL_WRAP=...`, if that was set.
    gateway: Option<CString>,
    /// `LD_PRELOAD=` and the path of this library.
    preload: CString,
}

/// Environment that has both variables, and the strings that it owns.
#[derive(Debug)]
pub(crate) struct Environment {
    /// Pointers to the entries; the last is null.
    entries: Vec<*const c_char>,
    /// Entry of `LD_PRELOAD` with this library and the libraries of the program's own value.
    preload: Option<CString>,
}

impl Environment {
    pub(crate) const fn as_ptr(&self) -> *const *const c_char {
        self.entries.as_ptr()
    }
}

/// Reads the variables, while the program has only one thread.
pub(crate) fn early() {
    kept();
}

/// Returns the variables, or `None` if this library was not loaded by `LD_PRELOAD`.
fn kept() -> Option<&'static Kept> {
    static KEPT: OnceLock<Option<Kept>> = OnceLock::new();
    KEPT.get_or_init(Kept::read).as_ref()
}

/// Returns a copy of `envp` that has both variables, or `None` if `envp` has them already.
///
/// # Safety
///
/// `envp` is null or an array of C strings that ends with null.
pub(crate) unsafe fn complete(envp: *const *const c_char) -> Option<Environment> {
    let kept = kept()?;
    // SAFETY: the caller guarantees it.
    let entries = unsafe { entries(envp) };
    kept.complete(entries)
}

/// Sets both variables in an environment that was cleared.
pub(crate) fn put_back() {
    let Some(kept) = kept() else { return };
    for entry in kept.gateway.iter().chain([&kept.preload]) {
        // SAFETY: the entry is a C string that stays.
        unsafe { libc::putenv(entry.as_ptr().cast_mut()) };
    }
}

/// Sets both variables in the environment of this process, unless they are set correctly. Libraries that the program
/// has added to `LD_PRELOAD` stay.
///
/// # Safety
///
/// No other thread changes the environment.
pub(crate) unsafe fn restore() {
    let Some(kept) = kept() else { return };
    // SAFETY: it is null or an array of C strings that ends with null.
    let entries = unsafe { entries(environ) };
    let Some(complete) = kept.complete(entries) else {
        return;
    };
    // the environment keeps the entry
    let preload = complete.preload.map(CString::into_raw);
    let preload = preload.unwrap_or_else(|| kept.preload.as_ptr().cast_mut());
    let gateway = kept.gateway.iter().map(|entry| entry.as_ptr().cast_mut());
    for entry in gateway.chain([preload]) {
        // SAFETY: the entry is a C string that stays.
        unsafe { libc::putenv(entry) };
    }
}

/// Returns true for a variable that programs must keep.
pub(crate) fn is_kept(name: &CStr) -> bool {
    [VARIABLE.as_bytes(), b"LD_PRELOAD"].contains(&name.to_bytes())
}

impl Kept {
    fn read() -> Option<Self> {
        let preload = std::env::var_os("LD_PRELOAD")?;
        let own = preload
            .as_encoded_bytes()
            .split(|octet| b" :".contains(octet))
            .find(|path| path.ends_with(LIBRARY))?;
        let gateway = std::env::var_os(VARIABLE);
        let gateway = gateway.and_then(|value| {
            CString::new([VARIABLE.as_bytes(), b"=", value.as_encoded_bytes()].concat()).ok()
        });
        Some(Self {
            gateway,
            preload: CString::new([PRELOAD, own].concat()).ok()?,
        })
    }

    fn complete(&self, mut entries: Vec<&CStr>) -> Option<Environment> {
        let own = &self.preload.to_bytes()[PRELOAD.len()..];
        let preload = entries
            .iter()
            .find_map(|entry| entry.to_bytes().strip_prefix(PRELOAD));
        let mut paths = preload
            .unwrap_or_default()
            .split(|octet| b" :".contains(octet));
        let has_gateway = self
            .gateway
            .as_ref()
            .is_none_or(|gateway| entries.contains(&gateway.as_c_str()));
        if has_gateway && paths.any(|path| path == own) {
            return None;
        }
        let more = preload.filter(|others| !others.is_empty());
        let more = more
            .and_then(|others| CString::new([self.preload.to_bytes(), b":", others].concat()).ok());
        entries.retain(|entry| {
            let name = entry.to_bytes().split(|octet| *octet == b'=').next();
            name != Some(VARIABLE.as_bytes()) && name != Some(b"LD_PRELOAD")
        });
        let mut entries: Vec<*const c_char> = entries.iter().map(|entry| entry.as_ptr()).collect();
        entries.extend(self.gateway.as_ref().map(|gateway| gateway.as_ptr()));
        entries.push(more.as_ref().unwrap_or(&self.preload).as_ptr());
        entries.push(std::ptr::null());
        Some(Environment {
            entries,
            preload: more,
        })
    }
}

/// Reads an array of strings.
///
/// # Safety
///
/// The array is null or ends with null, and its strings outlive the returned value.
unsafe fn entries<'a>(envp: *const *const c_char) -> Vec<&'a CStr> {
    let mut entries = Vec::new();
    if envp.is_null() {
        return entries;
    }
    loop {
        // SAFETY: no entry before this one was null, so there is one more.
        let entry = unsafe { envp.add(entries.len()) };
        // SAFETY: the entry is readable.
        let entry = unsafe { *entry };
        if entry.is_null() {
            return entries;
        }
        // SAFETY: it is a C string.
        entries.push(unsafe { CStr::from_ptr(entry) });
    }
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const LIBRARY: &[u8] = b"liblighthaul_wrap.so";

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(environment: &[&CStr]) -> Option<Vec<String>> {
        let kept = Kept {
            gateway: Some(c"LIGHTHAUL_WRAP=10.0.0.1:1080".to_owned()),
            preload: c"LD_PRELOAD=/lib/liblighthaul_wrap.so".to_owned(),
        };
        let made = kept.complete(environment.to_vec())?;
        // SAFETY: it ends with null, and what it points to is there still.
        let entries = unsafe { entries(made.as_ptr()) };
        let text = |entry: &CStr| entry.to_str().unwrap().to_owned();
        Some(entries.into_iter().map(text).collect())
    }

    #[test]
    fn missing_or_wrong_variables_are_restored() {
        let both = [
            "LIGHTHAUL_WRAP=10.0.0.1:1080",
            "LD_PRELOAD=/lib/liblighthaul_wrap.so",
        ];
        assert_eq!(complete(&[]).unwrap(), both);
        let wrong = [c"LIGHTHAUL_WRAP=", c"A=b", c"LD_PRELOAD="];
        assert_eq!(complete(&wrong).unwrap(), ["A=b", both[0], both[1]]);
        let others = [c"LIGHTHAUL_WRAP=10.0.0.1:1080", c"LD_PRELOAD=x.so:y.so"];
        let more = format!("{}:x.so:y.so", both[1]);
        assert_eq!(complete(&others).unwrap(), [both[0], &more]);
    }

    #[test]
    fn complete_environment_is_unchanged() {
        let both = [
            c"A=b",
            c"LD_PRELOAD=x.so:/lib/liblighthaul_wrap.so",
            c"LIGHTHAUL_WRAP=10.0.0.1:1080",
        ];
        assert_eq!(complete(&both), None);
    }
}
