//! Names of the entries of a directory, one after the other in memory. Directories with many names have most of them in
//! a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use lighthaul_io::crypto::identity::random_octets;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Names of one directory. Each has its length before it.
#[derive(Debug, Default)]
pub struct PackedNames {
    here: Vec<u8>,
    /// Ranges of the file.
    spilled: Vec<(u64, u64)>,
}

/// File without a name for the names that do not stay in memory.
#[derive(Debug)]
pub struct NameFile {
    file: File,
    end: u64,
}

impl PackedNames {
    /// Adds a name, of at most 65,535 octets.
    pub fn push(&mut self, name: &[u8]) {
        let len = u16::try_from(name.len()).unwrap_or(u16::MAX);
        self.here.extend(len.to_le_bytes());
        self.here.extend(&name[..usize::from(len)]);
    }

    /// Returns the number of octets in memory.
    pub fn here(&self) -> usize {
        self.here.len()
    }

    /// Returns the number of octets in memory and in the file.
    pub fn octets(&self) -> u64 {
        let spilled: u64 = self.spilled.iter().map(|(from, till)| till - from).sum();
        spilled + self.here.len() as u64
    }

    /// Returns the end of the last range of the file, or zero.
    pub fn end(&self) -> u64 {
        self.spilled.last().map_or(0, |(_, till)| *till)
    }

    /// Moves the names from memory to the file.
    pub fn spill(&mut self, to: &mut NameFile) -> io::Result<()> {
        let from = to.end;
        to.file.write_all_at(&self.here, from)?;
        to.end += self.here.len() as u64;
        self.spilled.push((from, to.end));
        self.here = Vec::new();
        Ok(())
    }

    /// Passes each name to `take`.
    pub fn each(&self, from: Option<&NameFile>, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let lost = || io::Error::from(io::ErrorKind::UnexpectedEof);
        for (start, end) in &self.spilled {
            let mut octets = vec![0; usize::try_from(end - start).map_err(|_| lost())?];
            let file = from.ok_or_else(lost)?;
            file.file.read_exact_at(&mut octets, *start)?;
            each(&octets, take);
        }
        each(&self.here, take);
        Ok(())
    }
}

fn each(mut octets: &[u8], take: &mut dyn FnMut(&[u8])) {
    while let Some((len, rest)) = octets.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (name, rest) = rest.split_at(len);
        take(name);
        octets = rest;
    }
}

impl NameFile {
    /// Creates a file that is gone when it is dropped.
    pub fn create() -> io::Result<Self> {
        let large = Path::new("/var/tmp");
        let file = unnamed(large).or_else(|_| unnamed(&std::env::temp_dir()))?;
        Ok(Self { file, end: 0 })
    }

    /// Returns the size in octets, with names that are no longer in use between others.
    pub const fn size(&self) -> u64 {
        self.end
    }

    /// Frees what is after the last range that is in use, which ends at `end`.
    pub fn shorten(&mut self, end: u64) {
        if end < self.end {
            // it only needs space
            self.file.set_len(end).ok();
            self.end = end;
        }
    }
}

fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let unique = u64::from_ne_bytes(random_octets());
            let path = folder.join(format!(".lighthaul-names-{unique:016x}"));
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = rustix::fs::open(&path, flags, mode)?;
            std::fs::remove_file(&path)?;
            Ok(file.into())
        }
        opened => Ok(opened?.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(names: &PackedNames, file: Option<&NameFile>) -> io::Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        names.each(file, &mut |name| all.push(name.to_vec()))?;
        Ok(all)
    }

    #[test]
    fn names_come_back_from_memory_and_from_the_file() {
        let mut file = NameFile::create().unwrap();
        let mut names = [PackedNames::default(), PackedNames::default()];
        let name = |of: usize, nth: usize| format!("{of}-{nth}-{}", "x".repeat(nth)).into_bytes();
        for nth in 0..40 {
            for (of, names) in names.iter_mut().enumerate() {
                names.push(&name(of, nth));
                if nth % 9 == of {
                    names.spill(&mut file).unwrap();
                    assert_eq!(names.here(), 0);
                }
            }
        }
        for (of, names) in names.iter().enumerate() {
            let expected: Vec<_> = (0..40).map(|nth| name(of, nth)).collect();
            assert_eq!(all(names, Some(&file)).unwrap(), expected);
            let octets: usize = expected.iter().map(|name| name.len() + 2).sum();
            assert_eq!(names.octets(), octets as u64);
        }
        let [first, second] = names;
        assert!(all(&first, None).is_err());
        file.shorten(first.end());
        assert_eq!(file.end, first.end());
        assert_eq!(all(&first, Some(&file)).unwrap().len(), 40);
        assert!(all(&second, Some(&file)).is_err());
    }
}
