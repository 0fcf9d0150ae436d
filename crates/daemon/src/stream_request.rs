//! Streams between a client and a pipe or file of the daemon.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use lighthaul_base::Rate;
use lighthaul_copy::watch::Summary;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::Error;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use lighthaul_stream as stream;
use lighthaul_stream::message::StreamRequest;

use crate::error::Fault;
use crate::rights::Rights;

/// Carries a stream between a client and a pipe or file.
pub(crate) fn serve_stream(
    (session, role): (&Session, &Role),
    wanted: &StreamRequest,
    hello: &Hello,
    (rights, access): (&Rights, &FileAccess),
) -> Result<Summary, Error> {
    let path = PathBuf::from(OsStr::from_bytes(&wanted.path));
    let file = stream::end::open(access, &path, wanted.to)?;
    // the name may have meant another file before
    if !rights.special && is_device(&file) {
        return Err(Fault::Device(path).into());
    }
    session.say(&Message::Welcome)?;
    let settings = stream::run::Settings {
        plain: hello.plain,
        rate: hello.rate_bps.and_then(Rate::from_bps),
    };
    let report = if wanted.to {
        stream::run::receive(session, role, wanted, file, settings)?
    } else {
        stream::run::send(session, role, wanted, file, settings)?
    };
    Ok(Summary {
        entries: report.delivered,
        bytes: report.bytes,
        ..Summary::default()
    })
}

/// Returns true if `file` is a block or character device, or if that is not known.
fn is_device(file: &File) -> bool {
    let kind = file.metadata().map(|meta| meta.file_type());
    kind.map_or(true, |kind| kind.is_block_device() || kind.is_char_device())
}
