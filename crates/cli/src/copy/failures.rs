//! The list of files that failed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use lighthaul_copy::watch::Summary;
use lighthaul_files::filter::failure_record;
use lighthaul_grammar::copy::Cp;
use lighthaul_grammar::timing::TimingArgs;
use lighthaul_io::host::durable;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::fault::PeerFault;

/// Opens the file of `--failures`. Its content stays until the copy has ended, since the copy may be reading it.
pub(crate) fn open(later: &TimingArgs) -> Result<Option<File>, Error> {
    let Some(path) = &later.failures else {
        return Ok(None);
    };
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(path);
    let failed = |e| Error::file(FileAction::Create, path, &e);
    file.map(Some).map_err(failed)
}

/// Replaces the content of the file with one line for each failure.
pub(crate) fn note(args: &Cp, file: &File, summary: &Summary) -> Result<(), Error> {
    let path = args
        .later
        .failures
        .as_deref()
        .unwrap_or_else(|| Path::new(""));
    let failed = |e| Error::file(FileAction::Write, path, &e);
    let mut lines = Vec::new();
    for failure in &summary.failures {
        let path = from_source(args, &failure.path);
        if !path.is_empty() {
            let error = PeerFault::reported(failure.code, failure.why.clone()).into();
            lines.extend(failure_record(path, &error).as_bytes());
            lines.push(b'\n');
        }
    }
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let mut writer = file;
    let written = if is_file {
        durable::replace(path, &lines)
    } else {
        // for example a pipe
        writer.write_all(&lines)
    };
    written.map_err(failed)
}

/// Returns a path relative to the source, as `--files-from` takes it. The name of the copied directory itself is
/// removed.
fn from_source<'a>(args: &Cp, path: &'a [u8]) -> &'a [u8] {
    let is_named = args.paths.len() == 2 && !args.paths[0].ends_with('/');
    let is_walked = args.choice.files_from.is_none();
    match path.iter().position(|octet| *octet == b'/') {
        Some(end) if is_named && is_walked => &path[end + 1..],
        _ => path,
    }
}
