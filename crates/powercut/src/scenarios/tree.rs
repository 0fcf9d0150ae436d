//! Trees to copy, and their comparison.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lighthaul_base::Rng;

/// Entry of a tree, in all that a copy keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryState {
    /// File type and permission bits.
    pub mode: u32,
    /// Modification time in seconds and nanoseconds; zero for directories whose time is not compared.
    pub time: (i64, i64),
    /// Number of hard links; 1 for directories.
    pub names: u64,
    /// Bytes of a file, or target of a symbolic link.
    pub content: Vec<u8>,
}

/// Entries by path.
pub type Tree = BTreeMap<PathBuf, EntryState>;

/// Reads all entries below `folder`, without temporary files of copies.
pub fn read(folder: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for item in fs::read_dir(inner)? {
            let item = item?;
            let name = item.file_name();
            let is_temporary = name.as_encoded_bytes().starts_with(b".lighthaul-");
            if is_temporary || name == PARTIAL || name == "lost+found" {
                continue;
            }
            let path = item.path();
            let meta = fs::symlink_metadata(&path)?;
            let content = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path)?.into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path)?
            };
            let look = EntryState {
                mode: meta.mode(),
                time: (meta.mtime(), meta.mtime_nsec()),
                names: if meta.is_dir() { 1 } else { meta.nlink() },
                content,
            };
            let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            tree.insert(name, look);
        }
    }
    Ok(tree)
}

/// Compares two trees. Fails with the first difference.
pub fn compare(found: &Tree, expected: &Tree) -> Result<(), String> {
    for (path, look) in expected {
        let Some(other) = found.get(path) else {
            return Err(format!("{} is missing", path.display()));
        };
        if let Some(why) = differ(other, look) {
            return Err(format!("{}: {why}", path.display()));
        }
    }
    let more = found.keys().find(|path| !expected.contains_key(*path));
    more.map_or(Ok(()), |path| {
        Err(format!("{} is left over", path.display()))
    })
}

/// Describes the difference of an entry, if any.
pub fn differ(found: &EntryState, expected: &EntryState) -> Option<String> {
    if found.content != expected.content {
        let pairs = found.content.iter().zip(&expected.content);
        let at = pairs.take_while(|(one, other)| one == other).count();
        let (len, whole) = (found.content.len(), expected.content.len());
        return Some(format!(
            "{len} bytes instead of {whole}, first difference at {at}"
        ));
    }
    if found.mode != expected.mode {
        return Some(format!("mode {:o}, not {:o}", found.mode, expected.mode));
    }
    if found.time != expected.time {
        return Some(format!("time {:?}, not {:?}", found.time, expected.time));
    }
    (found.names != expected.names)
        .then(|| format!("{} names, not {}", found.names, expected.names))
}

/// Creates a tree: `large` files of 9 to 12 MiB and `small` short ones, with empty files, directories,
/// and symbolic and hard links.
pub fn make(folder: &Path, large: u64, small: u64, seed: u64) -> io::Result<()> {
    let mut rng = Rng::new(seed);
    fs::create_dir_all(folder)?;
    for nth in 0..large {
        let len = (9 << 20) + rng.below(3 << 20);
        file(&folder.join(format!("large-{nth}")), len, &mut rng)?;
    }
    for nth in 0..small {
        let inner = folder.join(format!("d{}", nth % 7));
        fs::create_dir_all(&inner)?;
        let len = if nth % 20 == 3 { 0 } else { rng.below(20_000) };
        file(&inner.join(format!("small-{nth}")), len, &mut rng)?;
        if nth % 10 == 5 {
            symlink(format!("small-{nth}"), inner.join(format!("link-{nth}")))?;
        }
        if nth % 25 == 6 {
            let name = inner.join(format!("small-{nth}"));
            fs::hard_link(name, folder.join(format!("name-{nth}")))?;
        }
    }
    Ok(())
}

fn file(path: &Path, len: u64, rng: &mut Rng) -> io::Result<()> {
    let mut bytes = vec![0; len as usize];
    rng.fill(&mut bytes);
    fs::write(path, bytes)?;
    let mode = [0o644, 0o600, 0o755, 0o440][rng.below(4) as usize];
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    let time = Duration::new(
        1_000_000_000 + rng.below(500_000_000),
        rng.below(1_000_000_000) as u32,
    );
    let file = fs::File::options().read(true).open(path)?;
    file.set_modified(SystemTime::UNIX_EPOCH + time)
}

/// Name of the directory for incomplete files.
pub const PARTIAL: &str = ".partial";
