//! Commands `lighthaul domains` and `lighthaul path`.

use std::path::PathBuf;

use lighthaul_domains::control::{PathId, PathView, Question, StatusView};
use lighthaul_grammar::domains::{
    Domains, DomainsAction, DomainsServe, DomainsStatus, Path, PathAction, PathCancel, SocketArgs,
};
use lighthaul_grammar::output::OutputArgs;
use lighthaul_remote::paths;
use lighthaul_remote::scheduler::{Scheduler, reach};
use lighthaul_service::domain::{self, Settings};
use lighthaul_service::{log, path_offer};
use lighthaul_session::error::Error;
use lighthaul_timeline::{domain_tree, path_drawing};

use super::{events, request};
use crate::booking::calendar::terminal_width;
use crate::output::print::print;
use crate::shared_options;

/// Shows a domain, or runs its service until it is stopped.
pub(crate) fn domains(args: &Domains) -> Result<(), Error> {
    match &args.action {
        Some(DomainsAction::Serve(serve)) => run_service(serve),
        Some(DomainsAction::Status(args)) => show_status(args),
        None => show_status(&args.status),
    }
}

/// Sets up a path, shows its preview, or runs a subcommand for paths.
pub(crate) fn path(args: &Path) -> Result<(), Error> {
    match &args.action {
        Some(PathAction::List(list)) => show_list(&status(&list.at)?, list.output),
        Some(PathAction::Show(args)) => {
            for digits in &args.ids {
                show_path(&find(&args.at, digits)?, args.output);
            }
        }
        Some(PathAction::Cancel(args)) => {
            // no path is canceled if an ID is wrong
            for id in whole_ids(args)? {
                let path = ask_path(&args.at, &Question::Release(id))?;
                if args.output.json {
                    events::path(&path);
                } else {
                    print(&path_drawing::headline(&path));
                }
            }
        }
        None => {
            let request = request::request(args)?;
            let question = if args.when {
                Question::Preview(request)
            } else {
                Question::Path(request)
            };
            let scheduler = args.offer_to.as_ref().map(|url| Scheduler {
                url: url.clone(),
                token_file: args.scheduler_token.clone(),
                pin: None,
                known_hosts: None,
            });
            // a wrong URL or token file reserves no path
            let scheduler = scheduler.as_ref().map(reach).transpose()?;
            let path = ask_path(&args.at, &question)?;
            show_path(&path, args.output);
            if let Some((scheduler, link)) = scheduler.zip(args.link.as_deref()) {
                let say = |line: &str| {
                    if !args.output.json {
                        print(line);
                    }
                };
                path_offer::keep(&socket(&args.at), &path, (&scheduler, link), say)?;
            }
        }
    }
    Ok(())
}

fn run_service(args: &DomainsServe) -> Result<(), Error> {
    if args.show_key {
        print(&domain::key(&args.config)?);
        return Ok(());
    }
    let _log = log::start(shared_options::log_format(args.log))?;
    domain::run(&Settings {
        config: args.config.clone(),
        socket: socket(&args.at),
        accept_clock: args.accept_clock,
    })
}

fn show_status(args: &DomainsStatus) -> Result<(), Error> {
    let status = status(&args.at)?;
    if args.output.json {
        events::domain(&status);
        return Ok(());
    }
    for line in domain_tree::draw(&status) {
        print(&line);
    }
    print("");
    show_list(&status, args.output);
    Ok(())
}

fn show_list(status: &StatusView, output: OutputArgs) {
    if output.json {
        return status.paths.iter().for_each(events::path);
    }
    for line in path_drawing::list(&status.paths) {
        print(&line);
    }
}

fn show_path(path: &PathView, output: OutputArgs) {
    if output.json {
        return events::path(path);
    }
    for line in path_drawing::draw(path, terminal_width()) {
        print(&line);
    }
}

/// Returns the IDs of paths to cancel. Only first digits are looked up.
fn whole_ids(args: &PathCancel) -> Result<Vec<PathId>, Error> {
    let whole = |digits: &String| match digits.parse() {
        Ok(whole) => Ok(whole),
        Err(_) => find(&args.at, digits).map(|path| path.id),
    };
    args.ids.iter().map(whole).collect()
}

/// Returns the only path whose ID begins with `digits`.
fn find(at: &SocketArgs, digits: &str) -> Result<PathView, Error> {
    ask_path(at, &Question::Find(digits.to_owned()))
}

fn status(at: &SocketArgs) -> Result<StatusView, Error> {
    lighthaul_remote::domain::status(&socket(at))
}

fn ask_path(at: &SocketArgs, question: &Question) -> Result<PathView, Error> {
    lighthaul_remote::domain::ask(&socket(at), question)
}

fn socket(at: &SocketArgs) -> PathBuf {
    at.socket.clone().unwrap_or_else(paths::domain_socket)
}
