//! `lighthaul doctor`.

use lighthaul_grammar::doctor::Doctor;
use lighthaul_remote::doctor::{self, Check, Diagnosis};
use lighthaul_remote::ssh::install::Install;
use lighthaul_session::error::Error;
use serde_json::json;

use crate::output::name::shown;
use crate::output::print::{print, print_json};
use crate::shared_options;

/// Prints the result of each check and the overall result. Returns the exit status.
pub(crate) fn run(args: &Doctor) -> Result<u8, Error> {
    let settings = doctor::Doctor {
        host: args.host.clone(),
        ssh: args.via.ssh.clone(),
        program: args.via.remote.clone(),
        // checks ask no questions
        install: Install::if_requested(args.via.install, Install::Never),
        ports: args.via.port_range,
        rate: args.rate,
        gateway: args.via.through.gateway.clone(),
        daemon: shared_options::daemon(&args.via.far),
    };
    let json = args.output.json;
    let diagnosis = doctor::examine(&settings, &mut |check| tell(check, json))?;
    Ok(finish(diagnosis, json))
}

fn tell(check: Check<'_>, json: bool) {
    let Check { name, outcome, .. } = check;
    let (text, advice) = (shown(check.text.as_bytes()), shown(check.advice.as_bytes()));
    if json {
        let advice = (!advice.is_empty()).then_some(advice);
        let event = json!({
            "v": 1, "type": "check", "name": name, "outcome": outcome, "text": text,
            "advice": advice,
        });
        return print_json(&event);
    }
    let advice = if advice.is_empty() {
        advice
    } else {
        format!("; {advice}")
    };
    print(&format!("{outcome:<5} {name:<8} {text}{advice}"));
}

fn finish(diagnosis: Diagnosis, json: bool) -> u8 {
    let Diagnosis { outcome, text, .. } = diagnosis;
    let code = diagnosis.failed.map_or(0, |code| code as u8);
    if json {
        let event = json!({
            "v": 1, "type": "diagnosis", "outcome": outcome, "code": code, "text": text,
        });
        print_json(&event);
    } else {
        print(&format!("{outcome:<5} {text}"));
    }
    code
}
