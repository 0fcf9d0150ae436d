//! Sending side of a copy without encryption.

use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::walk::Walk;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_send::{self as send, send};
use lighthaul_session::error::Error;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

/// Sends `source` to the server of a session, and passes each event to `watch`.
pub(crate) fn send_plain(
    session: &Session,
    source: PathBuf,
    options: Options,
    mut watch: impl FnMut(CopyEvent),
) -> Result<Summary, Error> {
    let access = Arc::new(FileAccess::anywhere());
    let walk = Walk::new(access, &[source], Rules::default())?;
    let settings = send::Settings {
        plain: true,
        options,
        ..send::Settings::default()
    };
    let entries = SourceEntries::from_walk(walk);
    send(session, Role::Client(false), entries, settings, &mut watch)
}
