//! Options of a copy that rsync has too: entries that are skipped, replaced, changed or removed.

use clap::Args;
use lighthaul_base::Size;

/// Options of a copy that change its actions on single files.
// fields: one for each option
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub struct ChangeArgs {
    /// Skip files that the target does not have
    #[arg(long, help_heading = "Selection", hide_short_help = true)]
    pub existing: bool,
    /// Skip files that the target has
    #[arg(long, help_heading = "Selection", hide_short_help = true)]
    pub ignore_existing: bool,
    /// Skip files larger than this, as in 10MiB
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub max_size: Option<Size>,
    /// Skip files smaller than this, as in 1B
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub min_size: Option<Size>,
    /// Copy the targets of symbolic links
    ///
    /// A daemon follows links only within its root.
    #[arg(short = 'L', long, help_heading = "Selection", hide_short_help = true)]
    pub copy_links: bool,
    /// Stay on the file system of each source
    ///
    /// Mount points become empty directories. --delete keeps their contents.
    #[arg(short = 'x', long, help_heading = "Selection", hide_short_help = true)]
    pub one_file_system: bool,
    /// Delete at most N items
    ///
    /// If more would be deleted, the command ends with status 25. Such a copy is not retried automatically.
    #[arg(
        long,
        value_name = "N",
        requires = "delete",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub max_delete: Option<u64>,
    /// Remove source files that are in place at the target
    ///
    /// A file is removed after its copy is verified, has its name and is on disk, and only if it has not changed since.
    /// A file that the target already had stays in the source, since both may be the same file.
    #[arg(
        long,
        conflicts_with_all = ["delete", "no_sync"],
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub remove_source_files: bool,
    /// Change permission bits, as in D755,F644 or go-w
    ///
    /// The modes are those of rsync: D for directories, F for other files, then a symbolic or octal mode.
    #[arg(
        long,
        value_name = "MODES",
        help_heading = "Metadata",
        hide_short_help = true
    )]
    pub chmod: Vec<String>,
    /// Keep a backup of each file that is replaced or deleted
    #[arg(
        short,
        long,
        conflicts_with = "inplace",
        help_heading = "Backups",
        hide_short_help = true
    )]
    pub backup: bool,
    /// Directory for backups, relative to the target (implies --backup)
    ///
    /// It must be on the same file system as the target.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "inplace",
        help_heading = "Backups",
        hide_short_help = true
    )]
    pub backup_dir: Option<String>,
    /// Suffix of backups [default: ~, or none with --backup-dir]
    #[arg(
        long,
        value_name = "SUFFIX",
        help_heading = "Backups",
        hide_short_help = true
    )]
    pub suffix: Option<String>,
    /// Hard-link unchanged files to those in DIR, relative to the target
    ///
    /// A file that the target does not have is linked if DIR has it with the same size, time and permissions; with -c
    /// also with the same content. Up to 20 directories are searched in order.
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Backups",
        hide_short_help = true
    )]
    pub link_dest: Vec<String>,
}
