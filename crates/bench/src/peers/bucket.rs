//! Copies to and from a bucket on the far host.
//!
//! An S3 server, versitygw, keeps the objects there in files. [`Client::Served`] copies through `lighthaul serve` before
//! the bucket. The other clients speak S3 over the whole path.
//!
//! ```text
//! near host ---------- path ---------- far host
//! lighthaul cp ------- RBUDP --------> lighthaul serve -- S3 --> versitygw
//! lighthaul cp, rclone, s5cmd -------- S3 ---------------------> versitygw
//! ```

use std::{fs, io};

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::lighthaul::{login, serve};
use super::peer::{Peer, Service, need};

/// Client of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    /// True to copy from the bucket.
    pub(crate) is_download: bool,
}

/// Programs that copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// `lighthaul cp` through a daemon before the bucket.
    Served,
    /// `lighthaul cp` with S3.
    Direct,
    Rclone,
    S5cmd,
}

/// Returns all clients in both directions.
pub(crate) fn all() -> [Bucket; 8] {
    use Client::{Direct, Rclone, S5cmd, Served};
    let rows = [
        ("bucket-up-served", Served, false),
        ("bucket-up-lighthaul", Direct, false),
        ("bucket-up-rclone", Rclone, false),
        ("bucket-up-s5cmd", S5cmd, false),
        ("bucket-down-served", Served, true),
        ("bucket-down-lighthaul", Direct, true),
        ("bucket-down-rclone", Rclone, true),
        ("bucket-down-s5cmd", S5cmd, true),
    ];
    rows.map(|(name, client, is_download)| Bucket {
        name,
        client,
        is_download,
    })
}

impl Peer for Bucket {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(
            tools,
            &["versitygw"],
            "run scripts/setup-tools FOLDER, and add --programs FOLDER",
        )?;
        match self.client {
            Client::Served | Client::Direct => Ok(()),
            Client::Rclone => need(tools, &["rclone"], "Debian package rclone"),
            Client::S5cmd => need(tools, &["s5cmd"], "a release of github.com/peak/s5cmd"),
        }
    }

    fn moves(&self, data: Data) -> bool {
        data == Data::Gibibyte
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let bucket = self.bucket(trial);
        let folder = trial.files.target.parent().unwrap_or(&trial.files.target);
        // a bucket is a directory
        fs::create_dir_all(folder.join(&bucket))?;
        let server = [
            "--access", KEYS[0], "--secret", KEYS[1], "--port", ":7070", "--quiet", "posix",
        ];
        let server = trial.words("versitygw", &server);
        let mut daemon = serve(trial.tools, false)?;
        daemon.words.push("--store".to_owned());
        daemon.words.push(format!("bench=s3://{bucket}"));
        let program = trial.tools.lighthaul.display();
        let wait = format!(
            "{} {} & for _ in $(seq 100); do {program} ls s3://{bucket} >&2 && break; sleep 0.1; done; ",
            server.join(" "),
            folder.display()
        );
        // what is there from an earlier run stays
        let fill = self
            .is_download
            .then(|| format!("{program} cp {} s3://{bucket}/ && ", trial.source()));
        let fill = fill.unwrap_or_default();
        let script = format!("{wait}{fill}exec {}", daemon.words.join(" "));
        let shell = ["sh", "-c", &script].map(str::to_owned);
        Ok(Service {
            words: [settings("127.0.0.1"), shell.into()].concat(),
            ..daemon
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let (bucket, name) = (self.bucket(trial), trial.name());
        let (here, target) = (trial.source(), format!("{}/", trial.target()));
        let ends = |place: String| {
            if self.is_download {
                [format!("{place}{name}"), target.clone()]
            } else {
                [here.clone(), place]
            }
        };
        let program = trial.tools.lighthaul.to_string_lossy().into_owned();
        let endpoint = format!("--endpoint-url=http://{}:7070", trial.address);
        let (words, ends) = match self.client {
            Client::Served => {
                let words = [vec![program, "cp".to_owned()], login(trial.tools).into()].concat();
                return [words, ends(format!("lh://{}/bench/", trial.address)).into()].concat();
            }
            Client::Direct => (
                vec![program, "cp".to_owned()],
                ends(format!("s3://{bucket}/")),
            ),
            Client::Rclone => (
                trial.words("rclone", &["--config", "/dev/null", "copy"]),
                ends(format!("bench:{bucket}/")),
            ),
            Client::S5cmd => (
                trial.words("s5cmd", &[&endpoint, "cp"]),
                ends(format!("s3://{bucket}/")),
            ),
        };
        [settings(trial.address), words, ends.into()].concat()
    }
}

impl Bucket {
    /// Returns the name of the bucket. That of uploads is the target directory.
    fn bucket(&self, trial: &Trial<'_>) -> String {
        if self.is_download {
            return "stored".to_owned();
        }
        let name = trial.files.target.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// Returns the beginning of a command that sets the variables for the server at `address`.
fn settings(address: &str) -> Vec<String> {
    let endpoint = format!("http://{address}:7070");
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", KEYS[0]),
        ("AWS_SECRET_ACCESS_KEY", KEYS[1]),
        ("AWS_REGION", "us-east-1"),
        ("RCLONE_CONFIG_BENCH_TYPE", "s3"),
        ("RCLONE_CONFIG_BENCH_PROVIDER", "Other"),
        ("RCLONE_CONFIG_BENCH_ENDPOINT", endpoint.as_str()),
        ("RCLONE_CONFIG_BENCH_ENV_AUTH", "true"),
    ];
    let variables = variables.map(|(name, value)| format!("{name}={value}"));
    [vec!["env".to_owned()], variables.into()].concat()
}

/// Access key and secret of the server.
const KEYS: [&str; 2] = ["bench", "secret-of-bench"];
