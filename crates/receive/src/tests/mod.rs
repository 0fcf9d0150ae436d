//! Tests of the receiving side: copies between two directories in this process.
//!
//! - `bench`: copies
//! - `copied`: parts of files that are copied from old versions
//! - `entry_checker`: lists of entries, handled by `checked_list`
//! - `folded_names`: targets that ignore case
//! - `hostile_lists`: lists of a peer that lists what it must not; `compared_digests`: comparison by digests
//! - `in_place`: files that are written under their final names; `link_dest`: links to files of other directories
//! - `rejected_list`: lists that are rejected; `dry_run`: lists in a dry run
//! - `moved`: files that are removed at the source, and options that lose data together
//! - `mounts`: directories on other file systems
//! - `panics`: copies in which a part of the program panics
//! - `publish`: received files, published or rejected by the publisher in `stage`
//! - `resume`: large files that an earlier run has left unfinished
//! - `sink`: bytes that arrive for files; `special_link`: links to devices as targets
//! - `striped`: files that parts of a striped copy stage
//! - `temp_files`: temporary files, and comparison of held ranges; `modification_check`: files that change before
//!   they are published
mod bench;
mod checked_list;
mod compared_digests;
mod copied;
mod dry_run;
mod entry_checker;
mod folded_names;
mod hostile_lists;
mod in_place;
mod link_dest;
mod mounts;
mod moved;
mod panics;
mod publish;
mod rejected_list;
mod resume;
mod sink;
mod special_link;
mod stage;
mod striped;
mod temp_files;
mod written;
