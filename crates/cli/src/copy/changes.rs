//! Options that rsync has too, as both sides of a session agree on them.

use std::fs;

use lighthaul_files::mode_changes::ModeChanges;
use lighthaul_files::options::{Backup, Options, REFERENCES_MAX, SUFFIX_MAX};
use lighthaul_files::skip::Skip;
use lighthaul_grammar::changes::ChangeArgs;
use lighthaul_grammar::copy::Cp;
use lighthaul_session::error::Error;

use crate::error::usage;

/// Permission bits that new files lack if the system's umask is unknown.
const UMASK: u32 = 0o022;

/// Adds the options of the command line to `options`.
pub(super) fn with_changes(args: &Cp, options: Options) -> Result<Options, Error> {
    let change = &args.choice.change;
    check(args)?;
    let mut chmod = ModeChanges::default();
    for text in &change.chmod {
        chmod.extend(ModeChanges::parse(text, umask())?)?;
    }
    Ok(Options {
        skip: Skip {
            missing: change.existing,
            existing: change.ignore_existing,
            size_min: change.min_size.map(|size| size.0),
            size_max: change.max_size.map(|size| size.0),
        },
        max_delete: change.max_delete,
        copy_links: change.copy_links,
        one_file_system: change.one_file_system,
        remove_source: change.remove_source_files,
        chmod,
        backup: backup(change)?,
        link_dest: change
            .link_dest
            .iter()
            .map(|dir| dir.clone().into_bytes())
            .collect(),
        itemize: args.verbose || args.itemize_changes,
        ..options
    })
}

/// Refuses options that contradict each other.
fn check(args: &Cp) -> Result<(), Error> {
    let change = &args.choice.change;
    let refuse = |text: &'static str| Err(usage(text));
    if change.link_dest.len() > REFERENCES_MAX {
        return refuse("--link-dest can be given at most 20 times");
    }
    if change.link_dest.iter().any(String::is_empty) {
        return refuse("--link-dest needs the name of a directory");
    }
    if change.remove_source_files && args.choice.verify == lighthaul_grammar::choice::Verify::None {
        return refuse("--remove-source-files removes only what was verified; omit --verify=none");
    }
    // settings in files are defaults, whose contradictions the parser of options does not see
    let backup = change.backup || change.backup_dir.is_some();
    if args.choice.inplace && (backup || args.choice.update || change.ignore_existing) {
        return refuse(
            "--inplace writes into the file at the target; omit --backup, --update and --ignore-existing",
        );
    }
    if args.choice.inplace && !change.link_dest.is_empty() {
        return refuse(
            "--inplace would write into the files that --link-dest shares; omit one of them",
        );
    }
    if change.remove_source_files && backup {
        return refuse(
            "--remove-source-files cannot be combined with --backup: a backup can replace a file that was just moved",
        );
    }
    if change.remove_source_files && (args.choice.delete || args.no_sync) {
        return refuse("--remove-source-files cannot be combined with --delete or --no-sync");
    }
    Ok(())
}

/// Returns the place of backups, if the user asked for backups.
fn backup(change: &ChangeArgs) -> Result<Option<Backup>, Error> {
    if !change.backup && change.backup_dir.is_none() {
        return Ok(None);
    }
    let usual = match change.backup_dir {
        Some(_) => "",
        None => "~",
    };
    let suffix = change.suffix.as_deref().unwrap_or(usual);
    let refuse = |text: &'static str| Err(usage(text));
    if suffix.contains('/') || suffix.len() > SUFFIX_MAX {
        return refuse("--suffix is an addition to names: up to 255 bytes without slashes");
    }
    if suffix.is_empty() && change.backup_dir.is_none() {
        return refuse("an empty --suffix needs --backup-dir");
    }
    if change.backup_dir.as_deref().is_some_and(str::is_empty) {
        return refuse("--backup-dir needs the name of a directory");
    }
    Ok(Some(Backup {
        folder: change.backup_dir.clone().map(String::into_bytes),
        suffix: suffix.as_bytes().to_vec(),
    }))
}

/// Returns the permission bits that new files of this process lack.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    mask.unwrap_or(UMASK)
}
