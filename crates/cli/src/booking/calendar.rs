//! `lighthaul calendar`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use lighthaul_base::counted;
use lighthaul_booking_client::json::{CalendarView, Timestamp};
use lighthaul_booking_client::zone::Zone;
use lighthaul_grammar::booking::Calendar;
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::{Error, FileAction};
use lighthaul_timeline::axis::Axis;
use lighthaul_timeline::{blocks, chart};

use super::show;
use crate::error::usage;
use crate::output::print::print;
use crate::shared_options;

/// Draws calendars of links.
pub(crate) fn run(args: &Calendar) -> Result<(), Error> {
    let form = args
        .plot
        .as_deref()
        .map(|path| Ok::<_, Error>((path, form(path)?)))
        .transpose()?;
    let client = reach(&shared_options::scheduler(&args.asking))?;
    let from = match args.from {
        Some(time) => time.0,
        // by the scheduler's clock; the calendar has no past
        None => client.health().map_err(failed)?.now,
    };
    let till = Timestamp::from(from.instant() + args.lasting);
    let links = if args.links.is_empty() {
        let topology = client.topology().map_err(failed)?;
        topology.links.into_iter().map(|link| link.name).collect()
    } else {
        args.links.clone()
    };
    let mut calendars = Vec::new();
    for link in links.iter().take(LINKS_MAX) {
        calendars.push(client.calendar(link, from, till).map_err(failed)?);
    }
    let axis = |columns| Axis::new((from, till), columns, Zone::LOCAL);
    if let Some((path, form)) = form {
        return plot(&calendars, axis(1), path, form);
    }
    for calendar in &calendars {
        if args.asking.output.json {
            show::event("calendar", calendar);
        } else {
            let axis = axis(blocks::columns(terminal_width()));
            for line in blocks::draw(calendar, &axis) {
                print(&line);
            }
        }
    }
    if links.len() > LINKS_MAX && !args.asking.output.json {
        print(&format!(
            "and {}; name the ones to show",
            counted((links.len() - LINKS_MAX) as u64, "more link", "more links")
        ));
    }
    Ok(())
}

/// Format of a picture.
#[derive(Clone, Copy, Debug)]
enum Form {
    Svg,
    Png,
}

fn form(path: &Path) -> Result<Form, Error> {
    match path.extension().and_then(OsStr::to_str) {
        Some("svg") => Ok(Form::Svg),
        Some("png") => Ok(Form::Png),
        _ => {
            let text = format!(
                "unknown picture format of {}: name it FILE.svg or FILE.png",
                path.display()
            );
            Err(usage(text))
        }
    }
}

fn plot(calendars: &[CalendarView], axis: Axis, path: &Path, form: Form) -> Result<(), Error> {
    let picture = chart::draw(calendars, axis);
    let octets = match form {
        Form::Svg => picture.svg().into_bytes(),
        Form::Png => picture
            .png()
            .map_err(|why| usage(format!("the picture is too large: {why}; name fewer links")))?,
    };
    fs::write(path, octets).map_err(|e| Error::file(FileAction::Write, path, &e))
}

/// Returns the width of the terminal in columns, or 100 without a terminal.
pub(crate) fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let size = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns =
        columns.or_else(|| Some(usize::from(size()?.ws_col)).filter(|columns| *columns > 0));
    columns.unwrap_or(100)
}

const LINKS_MAX: usize = 32;
