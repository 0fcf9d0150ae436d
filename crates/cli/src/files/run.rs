//! Requests for operations on files, on this host or others: `ls`, `du`, `stat`, `rm`, `mkdir`.
//!
//! Each command becomes one `FileRequest`, which the library executes: here, by a daemon, or over ssh.
//! The reply comes in parts, so that lists of any length need little memory. Consecutive places on
//! one host share a session. A failed item or an error of a session sets the exit status, and the
//! other items and hosts continue. An interruption ends the command.

use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_grammar::files::{Du, Ls, Mkdir, PlaceArgs, Rm, Stat};
use lighthaul_grammar::reach::RemoteArgs;
use lighthaul_io::host::interrupt;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error};

use crate::files::show::{EntryPrinter, Form};
use crate::files::usage::UsagePrinter;
use crate::shared_options;

/// Lists a directory.
pub(crate) fn ls(args: &Ls) -> Result<u8, Error> {
    let form = if args.long {
        Form::Long {
            readable: args.human_readable,
        }
    } else {
        Form::Names
    };
    let request = |mut paths: Vec<Vec<u8>>| FileRequest::List {
        path: paths.swap_remove(0),
        hidden: args.all,
        recursive: args.recursive,
    };
    let places = [args.place.clone()];
    each(
        &places,
        &args.via,
        EntryPrinter::new(form, args.output, true),
        request,
    )
}

/// Shows the sizes of places.
pub(crate) fn du(args: &Du) -> Result<u8, Error> {
    let PlaceArgs { named, output, via } = &args.at;
    let mut printer = UsagePrinter::new(*output, args.max_depth);
    for (text, place) in named.iter().zip(places_of(named)?) {
        let request = FileRequest::List {
            path: place.path().to_vec(),
            hidden: true,
            recursive: true,
        };
        let mut take = |part| {
            printer.take(part);
            Ok(())
        };
        if let Err(error) = fetch(&place, via, &request, &mut take) {
            printer.fail(&continued(error)?);
        }
        let shown = text.split('?').next().filter(|_| place.has_query());
        printer.end(shown.unwrap_or(text));
    }
    Ok(printer.finish())
}

/// Shows the metadata of places.
pub(crate) fn stat(args: &Stat) -> Result<u8, Error> {
    let PlaceArgs { named, output, via } = &args.at;
    each(
        named,
        via,
        EntryPrinter::new(Form::Long { readable: false }, *output, false),
        |paths| FileRequest::Stat { paths },
    )
}

/// Removes places.
pub(crate) fn rm(args: &Rm) -> Result<u8, Error> {
    let request = |paths| FileRequest::Remove {
        paths,
        recursive: args.recursive,
    };
    quietly(&args.at, request)
}

/// Creates directories.
pub(crate) fn mkdir(args: &Mkdir) -> Result<u8, Error> {
    let request = |paths| FileRequest::Make {
        paths,
        parents: args.parents,
    };
    quietly(&args.at, request)
}

fn quietly(at: &PlaceArgs, request: impl Fn(Vec<Vec<u8>>) -> FileRequest) -> Result<u8, Error> {
    let printer = EntryPrinter::new(Form::Names, at.output, false);
    each(&at.named, &at.via, printer, request)
}

/// Executes the operation for each place. Consecutive places on one host share a session.
fn each(
    places: &[String],
    via: &RemoteArgs,
    mut printer: EntryPrinter,
    request: impl Fn(Vec<Vec<u8>>) -> FileRequest,
) -> Result<u8, Error> {
    let places = places_of(places)?;
    for row in places.chunk_by(Place::is_with) {
        let paths = row.iter().map(|place| place.path().to_vec()).collect();
        let request = request(paths);
        let mut is_printed = true;
        let fetched = fetch(&row[0], via, &request, &mut |part| {
            let taken = printer.take(part);
            is_printed = taken.is_ok();
            taken
        });
        match fetched {
            Ok(()) => {}
            Err(error) if is_printed => printer.fail(&continued(error)?)?,
            Err(error) => return Err(error),
        }
    }
    printer.finish()
}

fn places_of(texts: &[String]) -> Result<Vec<Place>, Error> {
    texts.iter().map(|text| Place::parse(text)).collect()
}

/// Returns an error after which the command continues with the next host. Fails if the error ends
/// the command.
fn continued(error: Error) -> Result<Error, Error> {
    if error.code() == Code::Interrupted {
        return Err(error);
    }
    Ok(error)
}

/// Executes the request at `place`, and passes each part of the reply to `take`.
pub(crate) fn fetch(
    place: &Place,
    via: &RemoteArgs,
    request: &FileRequest,
    take: &mut dyn FnMut(FileReply) -> Result<(), Error>,
) -> Result<(), Error> {
    if let Place::Object { .. } = place {
        // a program that prints credentials ends with the command; without a handler, the signal ends the command only
        interrupt::handle_signals().ok();
    }
    shared_options::client(via).execute(place, request, take)
}
