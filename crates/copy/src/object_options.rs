//! Options of copies that have no meaning for objects: these have no owners, modes, links and holes, and are replaced as a
//! whole.

use lighthaul_files::mode_changes::ModeChanges;
use lighthaul_files::options::{DeltaMode, Options};

/// Returns the first option that is set and has no meaning for objects, with its name on the command line.
pub fn refused(options: &Options) -> Option<&'static str> {
    let keep = options.keep;
    first(&[
        (keep.owner, "--archive"),
        (keep.accessed, "--atimes"),
        (keep.xattrs, "--xattrs"),
        (keep.acls, "--acls"),
        (options.hard_links, "--hard-links"),
        (options.sparse, "--sparse"),
        (options.remove_source, "--remove-source-files"),
        (options.chmod != ModeChanges::default(), "--chmod"),
        (options.backup.is_some(), "--backup"),
        (!options.link_dest.is_empty(), "--link-dest"),
        (options.replace_special, "--replace-special"),
        (options.inplace, "--inplace"),
        (options.partial_dir.is_some(), "--partial-dir"),
        (options.verify_disk, "--verify=disk"),
        (!options.hash.is_empty(), "--hash"),
        (options.delta == DeltaMode::Always, "--delta=always"),
    ])
}

/// Returns the name of the first option that is set.
pub fn first(options: &[(bool, &'static str)]) -> Option<&'static str> {
    let set = options.iter().find(|(is_set, _)| *is_set);
    set.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_objects_cannot_have_are_found_by_name() {
        assert_eq!(refused(&Options::default()), None);
        let options = Options {
            sparse: true,
            inplace: true,
            ..Options::default()
        };
        assert_eq!(refused(&options), Some("--sparse"));
        let options = Options {
            update: true,
            checksum: true,
            delete: true,
            ..Options::default()
        };
        assert_eq!(refused(&options), None);
    }
}
