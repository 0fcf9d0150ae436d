//! Extended attributes, including POSIX access control lists.

use rustix::buffer::spare_capacity;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::metadata::extras::{Extras, Keep};
use crate::metadata::not_kept::{MetadataKind, NotKept};

/// Appends the attributes of the file at `path` to `xattrs`, sorted by name. Failures go to
/// `not_kept`.
pub(crate) fn read(
    path: &str,
    keep: Keep,
    xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>,
    not_kept: &mut Vec<NotKept>,
) {
    let mut octets = 0;
    for name in names(path, keep, not_kept) {
        let Some(part) = part(&name, keep) else {
            continue;
        };
        let mut value = Vec::with_capacity(VALUE_MAX);
        match getxattr(path, name.as_slice(), spare_capacity(&mut value)) {
            Ok(len)
                if octets + name.len() + len <= Extras::OCTETS_MAX
                    && xattrs.len() < Extras::COUNT_MAX =>
            {
                octets += name.len() + len;
                value.shrink_to_fit();
                xattrs.push((name, value));
            }
            Ok(_) => not_kept.push(NotKept::new(part, Errno::TOOBIG)),
            // The attribute was removed after it was listed.
            Err(Errno::NODATA) => {}
            Err(error) => not_kept.push(NotKept::new(part, error)),
        }
    }
}

/// Sets `xattrs` on the file at `path`. Removes all other `user.*` attributes and access lists that
/// `keep` covers, but no attributes that the system sets. Failures go to `not_kept`.
pub(crate) fn apply(
    path: &str,
    keep: Keep,
    xattrs: &[(Vec<u8>, Vec<u8>)],
    not_kept: &mut Vec<NotKept>,
) {
    let wanted = |name: &[u8]| xattrs.iter().any(|(own, _)| own == name);
    for name in names(path, keep, &mut Vec::new()) {
        let is_ours = matches!(
            part(&name, keep),
            Some(MetadataKind::UserAttributes | MetadataKind::Acls)
        );
        if is_ours
            && !wanted(&name)
            && let Err(error) = removexattr(path, name.as_slice())
            && let Some(part) = part(&name, keep)
        {
            not_kept.push(NotKept::new(part, error));
        }
    }
    for (name, value) in xattrs {
        let Some(part) = part(name, keep) else {
            continue;
        };
        if let Err(error) = setxattr(path, name.as_slice(), value, XattrFlags::empty()) {
            not_kept.push(NotKept::new(part, error));
        }
    }
    not_kept.sort_unstable();
    not_kept.dedup();
}

/// Reports whether [`apply`] would change a file that has the attributes `there`.
pub(crate) fn differ(keep: Keep, xattrs: &[Attribute], there: &[Attribute]) -> bool {
    let lacks = xattrs
        .iter()
        .any(|own| part(&own.0, keep).is_some() && !there.contains(own));
    let is_ours = |name| {
        matches!(
            part(name, keep),
            Some(MetadataKind::UserAttributes | MetadataKind::Acls)
        )
    };
    lacks
        || there
            .iter()
            .any(|(name, _)| is_ours(name.as_slice()) && !xattrs.iter().any(|(own, _)| own == name))
}

/// Returns the names of all attributes, sorted. Empty if the file system has no attributes.
fn names(path: &str, keep: Keep, not_kept: &mut Vec<NotKept>) -> Vec<Vec<u8>> {
    let mut list = Vec::with_capacity(LIST_MAX);
    match listxattr(path, spare_capacity(&mut list)) {
        Ok(_) => {
            let names = list.split(|octet| *octet == 0);
            let mut names: Vec<_> = names
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            names.sort_unstable();
            names
        }
        // A file system without attributes loses none.
        Err(Errno::OPNOTSUPP) => Vec::new(),
        Err(error) => {
            let part = if keep.xattrs {
                MetadataKind::UserAttributes
            } else {
                MetadataKind::Acls
            };
            not_kept.push(NotKept::new(part, error));
            Vec::new()
        }
    }
}

/// Returns the class of the attribute `name`, or `None` if `keep` does not cover it.
fn part(name: &[u8], keep: Keep) -> Option<MetadataKind> {
    if name.starts_with(b"system.posix_acl_") {
        keep.acls.then_some(MetadataKind::Acls)
    } else if name.starts_with(b"user.") {
        keep.xattrs.then_some(MetadataKind::UserAttributes)
    } else if name.starts_with(b"security.") || name.starts_with(b"trusted.") {
        (keep.xattrs && geteuid().is_root()).then_some(MetadataKind::RootAttributes)
    } else {
        None
    }
}

/// Name and value of an extended attribute.
type Attribute = (Vec<u8>, Vec<u8>);

/// Maximum length of a value in bytes (`XATTR_SIZE_MAX` of Linux).
const VALUE_MAX: usize = 64 << 10;
/// Maximum length of a list of names in bytes (`XATTR_LIST_MAX` of Linux).
const LIST_MAX: usize = 64 << 10;
