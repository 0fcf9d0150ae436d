//! Checksums of objects that a store knows, by which a copy finds equal files (`--checksum`).

use lighthaul_buckets::attributes::Attributes;
use lighthaul_files::content_sum::ContentSum;

/// Returns the checksums that the store knows of an object, the best first.
pub(crate) fn of(known: &Attributes) -> impl Iterator<Item = ContentSum> + use<> {
    let sums = [
        known.crc.map(ContentSum::Crc64Nvme),
        known.sha256.map(ContentSum::Sha256),
        known.md5.map(ContentSum::Md5),
    ];
    sums.into_iter().flatten()
}

/// Returns the first checksum of the source and one of the target that are of the same kind.
pub(crate) fn common(
    source: &[ContentSum],
    target: &[ContentSum],
) -> Option<(ContentSum, ContentSum)> {
    source.iter().find_map(|one| {
        let other = target.iter().find(|other| one.is_comparable(**other));
        other.map(|other| (*one, *other))
    })
}

/// Returns true if a file is replaced for this reason, a difference of its checksum.
pub(crate) fn is_difference(why: &str) -> bool {
    let all = [
        ContentSum::Blake3([0; 32]),
        ContentSum::Crc64Nvme(0),
        ContentSum::Sha256([0; 32]),
        ContentSum::Md5([0; 16]),
    ];
    all.iter().any(|sum| sum.different() == why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_checksum_that_both_have_is_compared() {
        let known = Attributes {
            crc: Some(7),
            md5: Some([1; 16]),
            ..Attributes::default()
        };
        let all: Vec<_> = of(&known).collect();
        let (crc, md5) = (ContentSum::Crc64Nvme(7), ContentSum::Md5([1; 16]));
        assert_eq!(all, [crc, md5]);
        let other = ContentSum::Crc64Nvme(8);
        assert_eq!(common(&all, &[md5, other]), Some((crc, other)));
        assert_eq!(common(&all, &[md5]), Some((md5, md5)));
        assert_eq!(common(&all, &[ContentSum::Sha256([0; 32])]), None);
        assert_eq!(common(&[], &all), None);
    }
}
