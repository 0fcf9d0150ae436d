//! A locked file in the folder where a transfer lands: while it is locked, its writer lives.
//!
//! The numbers of processes tell that only within one start of a host and one space of them, so they
//! say nothing of a daemon whose host or container was started again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use lighthaul_io::disk::Root;

use super::names::{Writer, claim_of};

/// The mark of one writer, gone when this value goes.
#[derive(Debug)]
pub(crate) struct Claim {
    root: Root,
    name: PathBuf,
    _locked: File,
}

impl Claim {
    /// Marks what `writer` leaves below `root`; nothing where no file can be made or locked.
    pub(crate) fn stake(mut root: Root, writer: &Writer) -> Option<Self> {
        let name = writer.claim();
        let locked = root.lock(&name).ok()?;
        Some(Self {
            root,
            name,
            _locked: locked,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.root.remove(&self.name).ok();
    }
}

/// What is known of the claims of others.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// By name, locked by us if whoever staked it is dead.
    known: BTreeMap<PathBuf, Option<File>>,
}

impl Claims {
    /// Whether `name` is one that a writer had who staked a claim in `root` and is dead.
    pub(crate) fn is_orphan(&mut self, root: &mut Root, name: &OsStr) -> bool {
        let Some(claim) = claim_of(name) else {
            return false;
        };
        let known = self.known.entry(claim);
        let locked = known.or_insert_with_key(|claim| lock(root, claim));
        locked.is_some()
    }

    /// Removes the claims of the dead, once all that they left has been looked at.
    pub(crate) fn clear(&mut self, root: &mut Root) {
        for name in root
            .names(Path::new(""), super::names::PREFIX)
            .unwrap_or_default()
        {
            if Path::new(&name).extension() == Some(OsStr::new("claim")) {
                let known = self.known.entry(name.into());
                known.or_insert_with_key(|claim| lock(root, claim));
            }
        }
        for (name, locked) in std::mem::take(&mut self.known) {
            if locked.is_some() {
                root.remove(&name).ok();
            }
        }
    }
}

/// The claim, if it is there and nobody holds it.
fn lock(root: &mut Root, claim: &Path) -> Option<File> {
    root.look(claim).ok()??;
    root.lock(claim).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_left_is_an_orphan() {
        let folder = std::env::temp_dir().join(format!("claims-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let writer = Writer::new(1);
        let left = writer.temporary(Path::new("x"), 7).into_os_string();
        assert!(
            !Claims::default().is_orphan(&mut root, &left),
            "nobody staked it"
        );
        let claim = Claim::stake(root.another().unwrap(), &writer).unwrap();
        let mut claims = Claims::default();
        assert!(!claims.is_orphan(&mut root, &left), "its writer lives");
        claims.clear(&mut root);
        drop(claim);
        assert!(root.names(Path::new(""), b"").unwrap().is_empty());
        // what a crash leaves: the file, and no lock
        std::fs::write(folder.join(writer.claim()), "").unwrap();
        let mut claims = Claims::default();
        assert!(claims.is_orphan(&mut root, &left));
        claims.clear(&mut root);
        assert!(root.names(Path::new(""), b"").unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
