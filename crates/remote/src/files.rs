//! Remote files of a place: the connection to them, and `cat`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use lighthaul_remote_files::client::connector::{Connected, Connector};
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_remote_files::message::{Message, Request};
use lighthaul_remote_files::span::FileSpan;
use lighthaul_session::error::{Code, Error, FileAction};
use lighthaul_session::message::Hello;

use crate::error::Fault;
use crate::notice::say;
use crate::place::Place;
use crate::reach::{Agreement, Reached, Route, open};

/// Bytes that `cat` reads at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Connector to the files of a place.
#[derive(Debug)]
struct PlaceConnector {
    route: Route,
    place: Place,
}

impl Connector for PlaceConnector {
    fn connect(&self, request: &Request) -> Result<Connected, Error> {
        let hello = |_: &Reached| Ok(Hello::about::<Message>(request));
        let reached = open::<Message>(&self.route, &self.place, hello, Agreement::Expected)?;
        let Reached {
            session,
            through_ssh,
            started,
        } = reached;
        Ok(Connected {
            session,
            keep: Box::new((through_ssh, started)),
        })
    }
}

/// Connects to the files of the host of `place`. `changes` asks for the right to write.
pub fn connect(route: &Route, place: &Place, changes: bool) -> Result<RemoteFiles, Error> {
    let connector = PlaceConnector {
        route: Route {
            is_bulk: true,
            ..route.clone()
        },
        place: place.clone(),
    };
    let request = Request {
        joins: true,
        changes,
    };
    RemoteFiles::connect(Box::new(connector), request)
}

/// Prints the bytes of files on standard output, one file after the other. A file that cannot be read is reported, and
/// the others follow. Returns the exit status. A reader of the output that has enough is no failure.
pub fn cat(route: &Route, places: &[String], span: Option<FileSpan>) -> Result<u8, Error> {
    let mut out = stdout().lock();
    let mut has_reader = true;
    let mut put = |bytes: &[u8]| {
        out.write_all(bytes).map_err(|error| {
            has_reader = error.kind() != ErrorKind::BrokenPipe;
            Error::file(FileAction::Print, Path::new("standard output"), &error)
        })
    };
    let result = cat_to(route, places, span, &mut put);
    if has_reader { result } else { Ok(0) }
}

/// Passes the bytes of files to `put`. Fails if `put` does.
fn cat_to(
    route: &Route,
    places: &[String],
    span: Option<FileSpan>,
    put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<u8, Error> {
    let places: Result<Vec<Place>, Error> = places.iter().map(|text| Place::parse(text)).collect();
    let span = span.unwrap_or(FileSpan::From(0, None));
    let (mut codes, mut done) = (Vec::new(), 0);
    for row in places?.chunk_by(Place::is_with) {
        let files = match &row[0] {
            Place::Here(_) => Ok(None),
            place @ (Place::Ssh { .. } | Place::Daemon { .. }) => {
                connect(route, place, false).map(Some)
            }
        };
        for place in row {
            let printed = match &files {
                Ok(files) => print(files.as_ref(), place, span, put)?,
                Err(error) => Err(error.clone()),
            };
            match printed {
                Ok(()) => done += 1,
                Err(error) => {
                    say(&format!("lighthaul: {error}"));
                    codes.push(error.code() as u8);
                }
            }
        }
    }
    codes.dedup();
    Ok(match codes[..] {
        [] => 0,
        [code] if done == 0 => code,
        _ => Code::Partial as u8,
    })
}

/// Prints one file. Fails if `put` does; the inner error is about the file.
fn print(
    files: Option<&RemoteFiles>,
    place: &Place,
    span: FileSpan,
    put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Result<(), Error>, Error> {
    let Some(files) = files else {
        return print_here(place, span, put);
    };
    let named = |error: Error| -> Result<Result<(), Error>, Error> {
        let (code, text) = (error.code(), error.text());
        let text = place.name_host(&text, &[place.path()]);
        Ok(Err(Fault::Named { code, text }.into()))
    };
    let reader = match files.open(place.path()) {
        Ok(reader) => reader,
        Err(failure) => return named(failure.into()),
    };
    let Some((mut at, end)) = span.within(reader.size()) else {
        return Ok(Err(past_end(place, reader.size())));
    };
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(PIECE_BYTES);
        match reader.read_at(at, len.min(PIECE_BYTES)) {
            Ok(bytes) => {
                put(&bytes)?;
                at += bytes.len() as u64;
            }
            Err(failure) => return named(failure.into()),
        }
    }
    Ok(Ok(()))
}

fn print_here(
    place: &Place,
    span: FileSpan,
    put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Result<(), Error>, Error> {
    let path = Path::new(OsStr::from_bytes(place.path()));
    let failed = |action, error| Ok(Err(Error::file(action, path, &error)));
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (size, file) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(FileAction::Open, error),
    };
    let Some((mut at, end)) = span.within(size) else {
        return Ok(Err(past_end(place, size)));
    };
    let mut buffer = vec![0; PIECE_BYTES];
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(PIECE_BYTES);
        match file.read_at(&mut buffer[..len.min(PIECE_BYTES)], at) {
            Ok(0) => break,
            Ok(count) => {
                put(&buffer[..count])?;
                at += count as u64;
            }
            Err(error) => return failed(FileAction::Read, error),
        }
    }
    Ok(Ok(()))
}

fn past_end(place: &Place, size: u64) -> Error {
    let path = place.with_host(&String::from_utf8_lossy(place.path()));
    Fault::PastEnd { path, size }.into()
}
