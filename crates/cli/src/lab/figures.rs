//! `lighthaul lab figures`: the papers' figures, simulated, and on request emulated with this command.

use lighthaul_booking_figures::figures::figures as booking_figures;
use lighthaul_grammar::lab::LabFigures;
use lighthaul_io::host::namespace::ignore_interrupts;
use lighthaul_lab::figure::Source;
use lighthaul_lab::figures::figures;
use lighthaul_lab::plan::Case;
use lighthaul_lab::probe;
use lighthaul_session::error::{Code, Error};

use crate::lab::fault::LabFault;
use crate::output::print::{print, say};

/// Draws the figures of a directory again, and reports differences from the accepted tables.
pub(crate) fn run(args: &LabFigures) -> Result<u8, Error> {
    let mut emulate = |case: &Case| probe::emulate(case, say);
    if args.emulate {
        ignore_interrupts();
    }
    let drawn = figures(&args.folder, args.emulate.then_some(&mut emulate));
    let drawn = drawn.and_then(|mut all| {
        all.extend(booking_figures(&args.folder, Source::Simulated)?);
        Ok(all)
    });
    let drawn = drawn.map_err(|e| LabFault::Figures(e.to_string()))?;
    let mut is_as_accepted = true;
    for figure in drawn {
        print(&figure.picture.display().to_string());
        for difference in figure.differences {
            is_as_accepted = false;
            say(&format!("  differs from the accepted table: {difference}"));
        }
    }
    Ok(if is_as_accepted {
        0
    } else {
        Code::Partial as u8
    })
}
