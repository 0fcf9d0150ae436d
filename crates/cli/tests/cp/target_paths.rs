//! Places of copies at the target, compared with rsync on the same trees.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_testkit::lacks_tool;

use crate::far::Far;
use crate::scratch::tree;

/// State of the target before a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Folder,
    File,
}

#[test]
fn sources_are_placed_like_in_rsync() {
    if lacks_tool("sources_are_placed_like_in_rsync", "rsync") {
        return;
    }
    let far = Far::start("landing", &[]);
    far.near.folder("dir/inner");
    far.near.file("dir/inner/x", 100);
    far.near.file("dir/y", 10);
    far.near.file("file", 10);
    let sources: [&[&str]; 6] = [
        &["dir"],
        &["dir/"],
        &["file"],
        &["file", "dir"],
        &["dir/inner", "file"],
        &["dir/y"],
    ];
    for sources in sources {
        for before in [Before::Nothing, Before::Folder, Before::File] {
            for slash in ["", "/"] {
                land(&far, sources, before, slash);
            }
        }
    }
}

/// Compares both programs for these sources, in both directions and twice.
fn land(far: &Far, sources: &[&str], before: Before, slash: &str) {
    let case = format!("{sources:?} to t{slash} over {before:?}");
    let here: Vec<PathBuf> = sources.iter().map(|name| far.near.at(name)).collect();
    let [theirs, ours, back] = ["theirs", "target", "back"].map(|name| {
        let folder = far.near.folder(name);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        match before {
            Before::Nothing => {}
            Before::Folder => fs::create_dir(folder.join("t")).unwrap(),
            Before::File => fs::write(folder.join("t"), "t").unwrap(),
        }
        folder
    });
    let target = |folder: &Path| format!("{}/t{slash}", folder.display());
    for _ in 0..2 {
        let mut rsync = Command::new("rsync");
        rsync.arg("-rlpt").args(&here).arg(target(&theirs));
        let expected = rsync.output().unwrap().status.success();
        let paths: Vec<&str> = here.iter().map(|path| path.to_str().unwrap()).collect();
        let place = far.place(&format!("t{slash}"));
        let pushed = far
            .near
            .run(far.usual_copy(&[], &[&paths[..], &[&place]].concat()));
        let there: Vec<String> = paths
            .iter()
            .map(|path| format!("lh://127.0.0.1:{}{path}", far.port))
            .collect();
        let mut there: Vec<&str> = there.iter().map(String::as_str).collect();
        let place = target(&back);
        there.push(&place);
        let pulled = far.near.run(far.usual_copy(&[], &there));
        for (outcome, folder) in [(pushed, &ours), (pulled, &back)] {
            assert_eq!(outcome.code == Some(0), expected, "{case}: {outcome:?}");
            assert_eq!(paths_in(folder), paths_in(&theirs), "{case}: {outcome:?}");
        }
    }
}

fn paths_in(folder: &Path) -> BTreeSet<PathBuf> {
    tree(folder).into_keys().collect()
}

#[test]
fn directory_gets_a_new_name_with_no_target_directory() {
    let far = Far::start("landing-exact", &[]);
    let folder = far.near.folder("dir");
    far.near.file("dir/x", 100);
    for before in ["", "/"] {
        let place = far.place(&format!("t{before}"));
        let words = [folder.to_str().unwrap(), &place];
        far.near
            .run(far.usual_copy(&["-T"], &words))
            .assert_succeeded();
        let expected = ["t", "t/x"].map(PathBuf::from);
        assert!(paths_in(&far.target).iter().eq(&expected));
    }
}

#[test]
fn interrupted_copy_of_a_directory_resumes_in_the_same_directory() {
    let mut far = Far::start("landing-resume", &[]);
    let folder = far.near.folder("dir");
    far.near.file("dir/large", 20 << 20);
    let place = far.place("t");
    let words = [folder.to_str().unwrap(), &place];
    let copy = far.usual_copy(&["--json", "--rate", "60Mb/s"], &words);
    let mut copy = crate::running::Running::start(copy);
    copy.prints("\"type\":\"progress\"");
    far.daemon.kill();
    copy.finish();
    far.restart();
    for _ in 0..2 {
        far.near.run(far.usual_copy(&[], &words)).assert_succeeded();
        let expected = ["t", "t/dir", "t/dir/large"].map(PathBuf::from);
        assert!(paths_in(&far.target).iter().eq(&expected));
    }
}
