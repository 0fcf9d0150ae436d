//! Options that several commands share, as settings of the crates that do the work.
//!
//! The grammar has the options only. A command turns its own options into settings in its own
//! directory, and those that it shares with others here.

use std::sync::Arc;

use lighthaul::{Client, Settings};
use lighthaul_grammar::booking::{ClientArgs, SchedulerArgs};
use lighthaul_grammar::output::{LogArgs, LogFormat};
use lighthaul_grammar::reach::{DaemonArgs, RemoteArgs};
use lighthaul_remote::daemon::Daemon;
use lighthaul_remote::reach::Route;
use lighthaul_remote::scheduler::Scheduler;
use lighthaul_remote::ssh::install::Install;
use lighthaul_remote::ssh::start::PATIENCE;
use lighthaul_remote::user::Terminal;
use lighthaul_service::log::Format;

/// Returns the client for another host.
pub(crate) fn client(args: &RemoteArgs) -> Client {
    let mut settings = Settings::default();
    settings.route = route(args);
    Client::new(settings)
}

/// Returns the route to another host.
pub(crate) fn route(args: &RemoteArgs) -> Route {
    Route {
        ssh: args.ssh.clone(),
        program: args.remote.clone(),
        install: Install::if_requested(args.install, Install::Ask),
        ports: args.port_range,
        patience: PATIENCE,
        is_bulk: false,
        gateway: args.through.gateway.clone(),
        daemon: daemon(&args.far),
    }
}

/// Returns the expected identity of a daemon, and the credentials for it.
pub(crate) fn daemon(args: &DaemonArgs) -> Daemon {
    Daemon {
        pin: args.pin.clone(),
        strict: args.strict,
        token: None,
        token_file: args.token_file.clone(),
        statement: args.statement.clone(),
        key: args.key.path.clone(),
        known_hosts: None,
        user: Arc::new(Terminal),
    }
}

/// Returns the client of a command that asks a scheduler.
pub(crate) fn scheduler_client(args: &ClientArgs) -> Client {
    let mut settings = Settings::default();
    settings.scheduler = Some(scheduler(args));
    Client::new(settings)
}

/// Returns the scheduler of a command that asks one.
pub(crate) fn scheduler(args: &ClientArgs) -> Scheduler {
    Scheduler {
        url: args.scheduler.clone(),
        token_file: args.token_file.clone(),
        pin: args.pin.clone(),
        known_hosts: None,
    }
}

/// Returns the scheduler of a command that books in addition to its own work.
pub(crate) fn booking_scheduler(args: &SchedulerArgs) -> Scheduler {
    Scheduler {
        url: args.scheduler.clone(),
        token_file: args.scheduler_token.clone(),
        pin: None,
        known_hosts: None,
    }
}

/// Returns the format of the log of a service.
pub(crate) const fn log_format(args: LogArgs) -> Format {
    match args.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    }
}
