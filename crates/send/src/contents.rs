//! Contents of small files, which the sender includes in its list; see [`lighthaul_copy::contents`].

use std::path::Path;

use lighthaul_copy::contents::{Content, ContentsLimit};
use lighthaul_files::digest::{Digest, DigestKind, Digester};
use lighthaul_files::manifest::Entry;
use lighthaul_files::source_store::Sources;
use lighthaul_fs::meta::Meta;

/// Reader of contents.
#[derive(Debug)]
pub(super) struct ContentsReader<'a> {
    pub(super) sources: &'a Sources,
    /// Kind of the contents' digests.
    pub(super) digest: DigestKind,
    pub(super) limit: ContentsLimit,
}

impl ContentsReader<'_> {
    /// Returns the content of file `number`, if the limit allows it. Returns none if the file cannot be read, or has
    /// changed since `meta` was read. The receiver then requests the file, and a lane reports the reason.
    pub(super) fn read(
        &mut self,
        number: u64,
        entry: &Entry,
        (place, meta): (&Path, Option<&Meta>),
    ) -> Option<Content> {
        let len = entry.size();
        if len == 0 || entry.data.is_some() || !self.limit.take(len) {
            return None;
        }
        let file = self.sources.file(place).ok()?;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        let read = file.read_at(&mut bytes, 0).ok()?;
        let is_unchanged = read == bytes.len() && file.version().ok()? == meta?.version();
        is_unchanged.then_some(Content {
            number,
            digest: self.digest_of(&bytes)?,
            bytes,
        })
    }

    fn digest_of(&self, bytes: &[u8]) -> Option<Digest> {
        let mut digester = Digester::new(self.digest, bytes.len() as u64);
        digester.update(0, bytes);
        digester.finish()
    }
}
