//! Programs into which the dynamic linker loads the library.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::failure::StartError;

/// Returns the file of a command, with the search of a shell.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, StartError> {
    let is_path = name.as_bytes().contains(&b'/');
    let folders = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let places: Vec<PathBuf> = if is_path {
        vec![name.into()]
    } else {
        env::split_paths(&folders)
            .map(|folder| folder.join(name))
            .collect()
    };
    let mut refused = None;
    for place in places {
        match place.metadata() {
            Ok(metadata) if metadata.is_file() && metadata.mode() & 0o111 != 0 => return Ok(place),
            Ok(_) => refused = Some(place),
            Err(_) => {}
        }
    }
    Err(match refused {
        Some(place) => {
            StartError::blocked(format!("{} is not an executable program", place.display()))
        }
        None => StartError::missing(format!(
            "{} is not found: install it, or give its path",
            name.display()
        )),
    })
}

/// Checks that a program can be captured; a script needs a capturable interpreter.
pub(crate) fn check(path: &Path, library: &Path) -> Result<(), StartError> {
    let unread =
        |why: io::Error| StartError::blocked(format!("cannot read {}: {why}", path.display()));
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let metadata = path.metadata().map_err(unread)?;
        let file = File::open(&path).map_err(|why| {
            StartError::blocked(format!(
                "cannot read {}: {why}; it may be linked so that it cannot be captured: let this user read it, or have \
                 the gateway capture this user",
                path.display()
            ))
        })?;
        if let Some(next) = interpreter(&file).map_err(unread)? {
            path = next;
            continue;
        }
        let linked = linked(&file, library).map_err(unread)?;
        return match foreign_rights(&path, &metadata).or(linked) {
            Some(why) => Err(StartError::blocked(format!("{} {why}", path.display()))),
            None => Ok(()),
        };
    }
    Ok(())
}

/// Returns the interpreter of a script.
fn interpreter(file: &File) -> io::Result<Option<PathBuf>> {
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    let line = head
        .split(|octet| *octet == b'\n')
        .next()
        .unwrap_or_default();
    let Some(words) = line.strip_prefix(b"#!") else {
        return Ok(None);
    };
    // only spaces and tabs surround it, as for the kernel
    let mut words = words.split(|octet| matches!(octet, b' ' | b'\t'));
    let word = words.find(|word| !word.is_empty());
    Ok(word.map(|word| OsStr::from_bytes(word).into()))
}

/// Returns the reason if the program has rights that its caller does not have. The dynamic linker then loads no
/// library of the caller.
fn foreign_rights(path: &Path, metadata: &Metadata) -> Option<String> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mode = metadata.mode();
    let is_user = mode & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let is_group = mode & 0o2000 != 0 && metadata.gid() != group.as_raw();
    let mut room = [0_u8; 64];
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut room[..]).is_ok();
    (is_user || is_group || (has_capabilities && !user.is_root())).then(|| {
        "runs with the rights of another user, so it loads no library of yours and cannot be captured: run it as \
         that user, or have the gateway capture this user"
            .to_owned()
    })
}

/// Returns the reason if the program's linkage bypasses libc's `connect`.
fn linked(file: &File, library: &Path) -> io::Result<Option<String>> {
    let Some(elf) = Elf::read(file)? else {
        return Ok(None);
    };
    let own = Elf::read(&File::open(library)?)?;
    let why = if !elf.has_interpreter {
        "is linked statically, so it loads no library and cannot be captured"
    } else if elf.is_go {
        "is written in Go, which connects without libc, so it cannot be captured"
    } else if own.is_some_and(|own| own.kind != elf.kind) {
        "is of another architecture than this program's library, so it cannot be captured"
    } else {
        return Ok(None);
    };
    Ok(Some(format!(
        "{why}: set the gateway as its proxy, or have the gateway capture this user"
    )))
}

/// Maximum number of nested interpreters that the kernel follows.
const SCRIPTS_MAX: usize = 5;
/// Maximum length of a `#!` line that the kernel reads.
const HEAD: u64 = 256;
