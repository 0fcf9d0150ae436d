//! A locked file in the folder where a transfer lands: while it is locked, its writer lives.
//!
//! The numbers of processes tell that only within one start of a host and one space of them, so they
//! say nothing of a daemon whose host or container was started again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lighthaul_io::fs::disk::Root;

use super::names::{Writer, claim_of};

/// The mark of one writer, which is gone, or at least unlocked, when this value goes.
#[derive(Debug)]
pub(crate) struct Claim {
    root: Root,
    name: PathBuf,
    _locked: File,
    /// It is still there then, for the next copy to know.
    stays: bool,
}

/// What the mark says in a folder that was made for the copy, and does not look like its source yet.
const MADE: &[u8] = b"made\n";

impl Claim {
    /// Marks what `writer` leaves below `root`; nothing where no file can be made or locked. In a folder that was `made`
    /// for the copy the mark stays if the copy fails, so that the next one knows.
    pub(crate) fn stake(mut root: Root, writer: &Writer, made: bool) -> Option<Self> {
        let name = writer.claim();
        let locked = root.lock(&name).ok()?;
        // on a full disk it only tells that its writer lives
        let stays = made && locked.write_all_at(MADE, 0).is_ok();
        Some(Self {
            root,
            name,
            _locked: locked,
            stays,
        })
    }

    /// Takes the mark away, and those of earlier copies that failed: the folder is done with.
    pub(crate) fn lift(mut self) {
        if std::mem::take(&mut self.stays) {
            Claims::default().clear(&mut self.root);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.stays {
            self.root.remove(&self.name).ok();
        }
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
        for name in claims(root) {
            let known = self.known.entry(name);
            known.or_insert_with_key(|claim| lock(root, claim));
        }
        for (name, locked) in std::mem::take(&mut self.known) {
            if locked.is_some() {
                root.remove(&name).ok();
            }
        }
    }
}

/// Whether `root` was made for a copy that has not come to its end, and perhaps never will.
pub(crate) fn is_made(root: &mut Root) -> bool {
    claims(root).iter().any(|name| {
        // others may leave what they like in a folder like /tmp
        let is_ours = root
            .look(name)
            .is_ok_and(|meta| meta.is_some_and(|meta| meta.is_ours()));
        let mut says = [0; MADE.len()];
        let read = is_ours
            && root
                .read(name)
                .is_ok_and(|claim| claim.read_at(&mut says, 0).is_ok());
        read && says == MADE
    })
}

/// The names of all claims in `root`.
fn claims(root: &mut Root) -> Vec<PathBuf> {
    let names = root.names(Path::new(""), super::names::PREFIX);
    let names = names.unwrap_or_default().into_iter().map(PathBuf::from);
    names
        .filter(|name| name.extension() == Some(OsStr::new("claim")))
        .collect()
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
        let claim = Claim::stake(root.another().unwrap(), &writer, false).unwrap();
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

    #[test]
    fn a_folder_that_was_made_for_a_copy_is_known_until_one_is_done() {
        let folder = std::env::temp_dir().join(format!("claims-made-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let stake = |number, made| {
            let root = Root::open(&folder).unwrap();
            Claim::stake(root, &Writer::new(number), made).unwrap()
        };
        let plain = stake(1, false);
        assert!(!is_made(&mut root));
        drop(plain);
        let first = stake(2, true);
        assert!(is_made(&mut root), "it may still come");
        drop(first);
        assert!(is_made(&mut root), "it never came");
        let second = stake(3, true);
        assert!(is_made(&mut root));
        second.lift();
        assert!(!is_made(&mut root));
        assert!(root.names(Path::new(""), b"").unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
