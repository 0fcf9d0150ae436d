//! `lighthaul scheduler`: turns options into settings of the service, and runs it.

use lighthaul_booking::books::Quota;
use lighthaul_grammar::scheduler::{AccessArgs, Device, Interface, Scheduler};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_remote::dial::load_key;
use lighthaul_remote::paths;
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::connections::Limits;
use lighthaul_scheduler::identity::Issuer;
use lighthaul_service::log;
use lighthaul_service::scheduler::{
    self, Access, BookSettings, DriverProgram, RestSettings, Settings,
};
use lighthaul_session::error::Error;

use crate::shared_options;

/// Runs the scheduler until it is stopped.
pub(crate) fn run(args: &Scheduler) -> Result<(), Error> {
    let _log = log::start(shared_options::log_format(args.log))?;
    scheduler::run(&settings(args)?)
}

fn settings(args: &Scheduler) -> Result<Settings, Error> {
    let key = load_key(&args.key.path.clone().unwrap_or_else(paths::host_key))?;
    let interface = |Interface { name, rate }: &Interface| (name.clone(), *rate);
    let device = |device: &Device| DriverProgram {
        device: device.name.clone(),
        program: device.program.clone(),
        arguments: device.arguments.clone(),
    };
    Ok(Settings {
        topology: args.topology.clone(),
        link_capacity: args.link_capacity,
        books: BookSettings {
            store: args.store.clone(),
            accept_restored: args.accept_restored,
            policy: args.policy.clone(),
            quota: Quota {
                reservations: args.reservations_max,
                bytes: args.bytes_max.map_or(u64::MAX, |size| size.0),
                uncommitted: args.uncommitted_max,
            },
            hold: args.hold,
            horizon: args.horizon,
        },
        interfaces: args.shape.iter().map(interface).collect(),
        devices: args.device.iter().map(device).collect(),
        switches: args.switch.clone(),
        given_up: args.give_up.iter().cloned().collect(),
        nsi: args.nsi.clone(),
        jobs: args.jobs.clone(),
        rest: RestSettings {
            listen: args.listen,
            url: args.url.clone(),
            certificate: certificate(args, &key),
            insecure: args.insecure,
            requests_per_second: args.questions_max,
            limits: Limits {
                connections: args.connections_max,
                connections_each: args.connections_each,
                ..Limits::default()
            },
        },
        key,
        access: access(&args.welcome),
    })
}

/// Returns the identity that clients see.
fn certificate(args: &Scheduler, key: &Identity) -> ServerCertificate {
    match (&args.certificate, &args.certificate_key) {
        _ if args.no_tls => ServerCertificate::Plain,
        (Some(chain), Some(key)) => ServerCertificate::Files {
            chain: chain.clone(),
            key: key.clone(),
        },
        _ => ServerCertificate::SelfSigned(key.clone()),
    }
}

fn access(args: &AccessArgs) -> Access {
    let tokens = args.tokens.clone();
    let issuer = |(name, url): (&String, &String)| {
        let issuer = Issuer {
            name: name.clone(),
            audiences: args.audience.clone(),
            users: args.user_scope.clone(),
            operators: args.operator_scope.clone(),
            admins: args.admin_scope.clone(),
        };
        (issuer, url.clone())
    };
    Access {
        tokens: tokens.unwrap_or_else(paths::scheduler_tokens),
        issuer: args.issuer.as_ref().zip(args.jwks.as_ref()).map(issuer),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use lighthaul_grammar::cli::{Cli, Command};

    use super::*;

    #[test]
    fn each_limit_has_its_own_option() {
        let folder = std::env::temp_dir().join(format!("scheduler-limits-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = format!("--key={}", folder.join("key").display());
        let words = [
            "lighthaul",
            "scheduler",
            "--topology=network.toml",
            &key,
            "--hold=901s",
            "--horizon=902s",
            "--reservations-max=903",
            "--bytes-max=904MB",
            "--uncommitted-max=908s",
            "--questions-max=905",
            "--connections-max=906",
            "--connections-each=907",
        ];
        let Some(Command::Scheduler(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command");
        };
        let Settings { books, rest, .. } = settings(&args).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let seconds = [books.hold, books.horizon];
        assert_eq!(seconds, [901, 902].map(Duration::from_secs));
        let quota = Quota {
            reservations: 903,
            bytes: 904_000_000,
            uncommitted: Some(Duration::from_secs(908)),
        };
        assert_eq!((books.quota, rest.requests_per_second), (quota, 905));
        let limits = (rest.limits.connections, rest.limits.connections_each);
        assert_eq!(limits, (906, 907));
    }
}
