//! Copies over several hosts on each side: daemons that share directories, and that die.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;

use crate::far::Far;
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{look, noise, tree};
use lighthaul_testkit::allowance;

/// Daemons that share one directory for sources and one for targets.
struct Hosts {
    sources: Vec<Far>,
    targets: Vec<Far>,
}

impl Hosts {
    fn start(name: &str, sources: usize, targets: usize) -> Self {
        Self::start_with(name, sources, (targets, &[]))
    }

    /// Starts daemons; those of targets have these options.
    fn start_with(name: &str, sources: usize, (targets, options): (usize, &[&str])) -> Self {
        let daemon = |name: String, options: &[&str]| Far::start(&name, options);
        let source = |nth| daemon(format!("{name}-s{nth}"), &[]);
        let target = |nth| daemon(format!("{name}-t{nth}"), options);
        let hosts = Self {
            sources: (0..sources).map(source).collect(),
            targets: (0..targets).map(target).collect(),
        };
        let near = &hosts.sources[0].near;
        let key = near.lighthaul(&["key", "--key", near.key().to_str().unwrap()]);
        let key = near.run(key).assert_succeeded().out.concat();
        for far in hosts.sources[1..].iter().chain(&hosts.targets) {
            let mut allow = near.lighthaul(&["allow", &key, "client", "--owners", "--allowed"]);
            allow.arg(far.near.allowed());
            near.run(allow).assert_succeeded();
        }
        hosts
    }

    /// Directory with the sources.
    fn from(&self) -> &Path {
        &self.sources[0].target
    }

    /// Directory with the targets.
    fn to(&self) -> &Path {
        &self.targets[0].target
    }

    fn copy(&self, options: &[&str], from: &str, to: &str) -> Command {
        let place = |hosts: &[Far], folder: &Path, name: &str| {
            let hosts = hosts.iter().map(|far| format!("127.0.0.1:{}", far.port));
            let hosts = hosts.collect::<Vec<_>>().join(",");
            format!("lh://{hosts}{}/{name}", folder.display())
        };
        let near = &self.sources[0].near;
        let mut copy = near.cp(options);
        copy.env("LIGHTHAUL_PROTOCOL", "auto")
            .arg("--key")
            .arg(near.key())
            .arg(place(&self.sources, self.from(), from))
            .arg(place(&self.targets, self.to(), to));
        copy
    }

    fn run(&self, options: &[&str], from: &str, to: &str) -> Outcome {
        let copy = self.copy(options, from, to);
        Running::start(copy).finish_within(allowance(120))
    }
}

/// Fills `folder` with small and large files, with holes and links.
fn fill(folder: &Path, large: &[u64], small: u64) {
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    for (nth, len) in large.iter().enumerate() {
        fs::write(
            folder.join(format!("large{nth}")),
            noise(*len, nth as u64 + 1),
        )
        .unwrap();
    }
    for nth in 0..small {
        let path = folder.join(format!(
            "deep/{}{nth}",
            if nth % 2 == 0 { "er/" } else { "" }
        ));
        fs::write(path, noise(nth * 97 % 70_000, nth)).unwrap();
    }
    let holes = fs::File::create(folder.join("deep/holes")).unwrap();
    holes.set_len(40 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, &noise(1 << 20, 99), 20 << 20).unwrap();
    std::os::unix::fs::symlink("large0", folder.join("deep/link")).unwrap();
}

/// Returns the visible files below `folder`.
fn published(folder: &Path) -> Vec<PathBuf> {
    let all = tree(folder).into_keys();
    let is_published = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with(".lighthaul-") && !folder.join(path).is_dir()
    };
    all.filter(is_published).collect()
}

#[test]
fn several_hosts_copy_a_tree_together() {
    for (sources, targets) in [(2, 3), (3, 1), (1, 2)] {
        let hosts = Hosts::start(&format!("striped-{sources}{targets}"), sources, targets);
        fill(&hosts.from().join("tree"), &[50 << 20, 9 << 20], 60);
        let outcome = hosts.run(&["--json"], "tree", "in/").assert_succeeded();
        let summary = outcome.events().pop().unwrap();
        assert_eq!(summary["verified"], true, "{summary}");
        assert_eq!(summary["unchanged"], 0, "{summary}");
        assert!(tree(&hosts.to().join("in/tree")) == tree(&hosts.from().join("tree")));
        let again = hosts.run(&[], "tree", "in/").assert_succeeded();
        assert!(again.said("up to date"), "{again:?}");
    }
}

#[test]
fn source_that_changes_and_keeps_its_time_is_never_published_as_a_mixture() {
    let hosts = Hosts::start("striped-change", 2, 2);
    let source = hosts.from().join("large");
    fs::write(&source, noise(64 << 20, 1)).unwrap();
    let time = fs::metadata(&source).unwrap().modified().unwrap();
    let running = Running::start(hosts.copy(&["--rate", "100Mb/s"], "large", "in/"));
    let staged = || {
        let files = fs::read_dir(hosts.to().join("in")).into_iter().flatten();
        let used = |file: fs::DirEntry| file.metadata().map_or(0, |one| one.blocks() * 512);
        files.flatten().map(used).max().unwrap_or(0)
    };
    becomes_true("half of the file is staged", || staged() > 32 << 20);
    let file = fs::File::options().write(true).open(&source).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &noise(64 << 20, 2), 0).unwrap();
    file.set_modified(time).unwrap();
    let outcome = running.finish_within(allowance(120));
    let target = hosts.to().join("in/large");
    let is_equal = || fs::read(&target).unwrap() == fs::read(&source).unwrap();
    assert!(!target.exists() || is_equal(), "{outcome:?}");
    hosts.run(&[], "large", "in/").assert_succeeded();
    assert!(is_equal());
}

#[test]
fn files_land_as_in_a_copy_between_two_hosts() {
    let hosts = Hosts::start("striped-land", 2, 2);
    fill(&hosts.from().join("tree"), &[20 << 20], 4);
    for (options, from, to, copy) in [
        (&["-T"][..], "tree", "exact", "exact"),
        (&[], "tree/", "contents", "contents"),
        (&["--sparse", "-H"], "tree", "sparse", "sparse/tree"),
        (
            &["--digest", "blake3", "--verify", "disk"],
            "tree",
            "strong",
            "strong/tree",
        ),
    ] {
        hosts.run(options, from, to).assert_succeeded();
        let (from, to) = (hosts.from().join("tree"), hosts.to().join(copy));
        assert!(tree(&to) == tree(&from), "{options:?}: {to:?}");
    }
    for (from, to, copy) in [
        ("tree/large0", "file", "file"),
        ("tree/large0", "in/", "in/large0"),
    ] {
        hosts.run(&[], from, to).assert_succeeded();
        let (from, to) = (hosts.from().join(from), hosts.to().join(copy));
        assert!(look(&to) == look(&from), "{to:?}");
    }
    let all = tree(hosts.to()).into_keys();
    let left: Vec<_> = all
        .filter(|path| path.to_string_lossy().contains(".lighthaul-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    hosts
        .run(&["--inplace"], "tree", "no")
        .assert_failed(1, "cannot have --inplace");
}

#[test]
fn dead_mover_leaves_its_work_to_the_others() {
    for side in ["source", "target"] {
        let mut hosts = Hosts::start(&format!("striped-dead-{side}"), 3, 3);
        fill(&hosts.from().join("tree"), &[60 << 20, 30 << 20], 40);
        let options = ["--json", "--rate", "120Mb/s", "--retries", "1"];
        let mut copy = Running::start(hosts.copy(&options, "tree", "copy"));
        copy.prints("\"type\":\"progress\"");
        let far = if side == "source" {
            &mut hosts.sources[1]
        } else {
            &mut hosts.targets[1]
        };
        let port = far.port;
        far.daemon.kill();
        let outcome = copy.finish_within(allowance(120)).assert_succeeded();
        let told = outcome.events();
        let is_named = |event: &serde_json::Value| {
            let text = event["text"].as_str().unwrap_or_default();
            event["type"] == "warning" && text.contains(&format!("127.0.0.1:{port}"))
        };
        assert!(told.iter().any(is_named), "{outcome:?}");
        assert!(tree(&hosts.to().join("copy/tree")) == tree(&hosts.from().join("tree")));
    }
}

#[test]
fn copy_without_any_target_publishes_nothing_and_resumes() {
    let mut hosts = Hosts::start("striped-none", 2, 2);
    fill(&hosts.from().join("tree"), &[50 << 20], 20);
    let options = ["--json", "--rate", "100Mb/s", "--retries", "0"];
    let mut copy = Running::start(hosts.copy(&options, "tree", "copy"));
    copy.prints("\"type\":\"progress\"");
    for far in &mut hosts.targets {
        far.daemon.kill();
    }
    let outcome = copy.finish_within(allowance(120));
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    assert!(
        outcome.said("nothing was published, because all hosts failed"),
        "{outcome:?}"
    );
    assert_eq!(published(hosts.to()), Vec::<PathBuf>::new());
    // another process damages what is staged
    for path in tree(hosts.to()).into_keys() {
        let path = hosts.to().join(path);
        let is_log = path.extension().is_some_and(|end| end == "stage");
        if path.is_file() && !is_log {
            let open = fs::File::options().write(true).open(&path).unwrap();
            let at = fs::metadata(&path).unwrap().len() / 3;
            std::os::unix::fs::FileExt::write_all_at(&open, b"damage", at).unwrap();
        }
    }
    for far in &mut hosts.targets {
        far.restart();
    }
    hosts.run(&[], "tree", "copy").assert_succeeded();
    assert!(tree(&hosts.to().join("copy/tree")) == tree(&hosts.from().join("tree")));
}

#[test]
fn targets_without_a_shared_file_system_get_whole_files() {
    let mut hosts = Hosts::start_with("striped-split", 2, (3, &["--root", "ROOT"]));
    fill(
        &hosts.from().join("tree"),
        &[30 << 20, 9 << 20, 9 << 20],
        60,
    );
    let copy = |hosts: &Hosts| {
        let near = &hosts.sources[0].near;
        let place = |hosts: &[Far], path: &str| {
            let hosts = hosts.iter().map(|far| format!("127.0.0.1:{}", far.port));
            format!("lh://{}{path}", hosts.collect::<Vec<_>>().join(","))
        };
        let mut copy = near.cp(&["--split", "--retries", "0"]);
        let from = hosts.from().join("tree");
        copy.env("LIGHTHAUL_PROTOCOL", "auto")
            .arg("--key")
            .arg(near.key())
            .arg(place(&hosts.sources, from.to_str().unwrap()))
            .arg(place(&hosts.targets, "/in/"));
        copy
    };
    // one host is down at first: the others get all files
    hosts.targets[2].daemon.kill();
    let running = Running::start(copy(&hosts));
    running.finish_within(allowance(120)).assert_succeeded();
    let from = tree(&hosts.from().join("tree"));
    let files = |far: &Far| {
        let all = tree(&far.target.join("in/tree"));
        all.into_iter()
            .filter(|(path, _)| !far.target.join("in/tree").join(path).is_dir())
            .collect::<BTreeMap<_, _>>()
    };
    let mut union = files(&hosts.targets[0]);
    for (path, file) in files(&hosts.targets[1]) {
        assert!(
            union.insert(path, file).is_none(),
            "each file is on one host"
        );
    }
    let is_file = |path: &PathBuf| !hosts.from().join("tree").join(path).is_dir();
    let expected: BTreeMap<_, _> = from.into_iter().filter(|(path, _)| is_file(path)).collect();
    assert!(
        union == expected,
        "{:?}\n{:?}",
        union.keys(),
        expected.keys()
    );
    let again = Running::start(copy(&hosts)).finish_within(allowance(120));
    again.assert_succeeded();
    assert_eq!(
        files(&hosts.targets[0]).len() + files(&hosts.targets[1]).len(),
        expected.len()
    );
}

/// Trees, numbers of hosts and moments of kills are random. Nothing is published before the end, and the copies are
/// equal.
#[test]
fn killed_clients_and_daemons_never_leave_half_a_copy() {
    let seed = std::env::var("SEED").map_or_else(|_| unix_nanos(), |seed| seed.parse().unwrap());
    eprintln!("SEED={seed}");
    let mut rng = Rng::new(seed);
    for round in 0..3 {
        let mut below = |most: u64| rng.below(most);
        let (sources, targets) = (1 + below(3) as usize, 1 + below(3) as usize);
        if sources.max(targets) == 1 {
            continue;
        }
        let mut hosts = Hosts::start(&format!("striped-random{round}"), sources, targets);
        let large: Vec<_> = (0..=below(3)).map(|_| below(40 << 20) + 1).collect();
        fill(&hosts.from().join("tree"), &large, below(80));
        for _ in 0..2 {
            let mut copy = Running::start(hosts.copy(&["--rate", "150Mb/s"], "tree", "copy"));
            pause(Duration::from_millis(200 + below(1500)));
            copy.kill();
        }
        let copy = Running::start(hosts.copy(&["--rate", "300Mb/s"], "tree", "copy"));
        pause(Duration::from_millis(200 + below(900)));
        let side = below(2);
        let all = if side == 0 {
            &mut hosts.sources
        } else {
            &mut hosts.targets
        };
        let nth = below(all.len() as u64) as usize;
        all[nth].restart();
        let outcome = copy.finish_within(allowance(120));
        if outcome.code != Some(0) {
            hosts.run(&[], "tree", "copy").assert_succeeded();
        }
        let (from, to) = (hosts.from().join("tree"), hosts.to().join("copy/tree"));
        assert!(tree(&from) == tree(&to), "SEED={seed}, round {round}");
    }
}
