//! Asking for work on files, here or on other hosts.

use lighthaul_files::far::hear;
use lighthaul_files::verb::{Answer, Verb};
use lighthaul_files::work::{Scope, work};
use lighthaul_io::ground::Ground;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::topic::{MESSAGE_MAX, Topic};

use super::args::{Ls, Mkdir, Places, Rm, Stat};
use super::show::{Form, Shower};
use crate::reach::{Via, ask};
use crate::remote::Place;

/// Lists a folder.
pub(crate) fn ls(args: &Ls) -> Result<u8, Error> {
    let form = if args.long { Form::Long } else { Form::Names };
    let verb = |mut paths: Vec<Vec<u8>>| Verb::List {
        path: paths.swap_remove(0),
        hidden: args.all,
    };
    let places = [args.place.clone()];
    each(
        &places,
        &args.via,
        Shower::new(form, args.output, true),
        verb,
    )
}

/// Looks at places.
pub(crate) fn stat(args: &Stat) -> Result<u8, Error> {
    let Places { named, output, via } = &args.at;
    each(
        named,
        via,
        Shower::new(Form::Long, *output, false),
        Verb::Stat,
    )
}

/// Removes what is at places.
pub(crate) fn rm(args: &Rm) -> Result<u8, Error> {
    let verb = |paths| Verb::Remove {
        paths,
        recursive: args.recursive,
    };
    quietly(&args.at, verb)
}

/// Makes folders.
pub(crate) fn mkdir(args: &Mkdir) -> Result<u8, Error> {
    let verb = |paths| Verb::Make {
        paths,
        parents: args.parents,
    };
    quietly(&args.at, verb)
}

fn quietly(at: &Places, verb: impl Fn(Vec<Vec<u8>>) -> Verb) -> Result<u8, Error> {
    let shower = Shower::new(Form::Names, at.output, false);
    each(&at.named, &at.via, shower, verb)
}

/// Has the work done place by place, those in a row behind one door in one session.
fn each(
    places: &[String],
    via: &Via,
    mut shower: Shower,
    verb: impl Fn(Vec<Vec<u8>>) -> Verb,
) -> Result<u8, Error> {
    let places: Vec<Place> = places
        .iter()
        .map(|text| Place::parse(text))
        .collect::<Result<_, _>>()?;
    for row in places.chunk_by(Place::is_with) {
        let paths = row.iter().map(|place| place.path().to_vec()).collect();
        one(&row[0], via, &mut shower, &verb(paths))?;
    }
    shower.finish()
}

fn one(place: &Place, via: &Via, shower: &mut Shower, verb: &Verb) -> Result<(), Error> {
    if let Place::Here(_) = place {
        let scope = Scope {
            ground: &Ground::anywhere(),
            writable: true,
            special: true,
        };
        return work(scope, verb, &mut |answer| shower.take(answer)).map(|_| ());
    }
    let hello = Hello::about::<Answer>(verb);
    if Message::Hello(hello).encode().len() > MESSAGE_MAX {
        let text = "that is too much for one request: name fewer places at a time";
        return Err(Error::new(Code::Usage, text));
    }
    let far = ask::<Answer>(via, place, verb)?;
    hear(&far.session, &mut |answer| shower.take(answer))
}
