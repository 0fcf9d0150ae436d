//! `lighthaul mount`: files that are closed or synced before the first write.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Output};

use crate::mounts::{Mounted, daemon, sh};
use crate::running::becomes_true;
use crate::scratch::names;

/// Runs a program in Python with these arguments.
fn python(script: &str, args: &[&Path]) -> Output {
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(args).output().unwrap()
}

#[test]
fn empty_file_is_on_the_server_when_it_is_closed() {
    let far = daemon("mount-empty");
    let test = "empty_file_is_on_the_server_when_it_is_closed";
    if lighthaul_testkit::lacks_tool(test, "python3") {
        return;
    }
    let Some(mut mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    fs::File::create(mounted.at("created")).unwrap();
    assert!(far.target.join("created").exists());
    for shell in ["sh", "bash"] {
        for (name, command) in [("redirected", ": >"), ("touched", "touch")] {
            let name = format!("{shell}-{name}");
            let script = format!("{command} {}", mounted.at(&name).display());
            let output = Command::new(shell).args(["-ec", &script]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(far.target.join(&name).exists(), "{name}");
        }
    }
    // another program can write it at once
    let path = mounted.at("created");
    let mut appended = OpenOptions::new().append(true).open(path).unwrap();
    appended.write_all(b"more").unwrap();
    drop(appended);
    // the program sees the failure
    fs::create_dir(mounted.at("d")).unwrap();
    let script = "import os, shutil, sys\nfile = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n\
                  shutil.rmtree(sys.argv[2])\nos.close(file)";
    let output = python(script, &[&mounted.at("d/lost"), &far.target.join("d")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("FileNotFoundError"), "{output:?}");
    fs::File::create(mounted.at("last")).unwrap();
    mounted.running.as_mut().unwrap().kill();
    let expected = [
        "bash-redirected",
        "bash-touched",
        "created",
        "last",
        "sh-redirected",
        "sh-touched",
    ];
    // the server removes the lock of a writer once it notices the end of the client
    becomes_true("only complete files are there", || {
        names(&far.target) == expected
    });
    assert_eq!(fs::read(far.target.join("created")).unwrap(), b"more");
}

#[test]
fn file_that_was_closed_empty_is_written_through_another_descriptor() {
    let far = daemon("mount-duplicate");
    let test = "file_that_was_closed_empty_is_written_through_another_descriptor";
    if lighthaul_testkit::lacks_tool(test, "python3") {
        return;
    }
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let there = far.target.join("file");
    // it is written anywhere, and complete at the last close
    let script = "import os, sys\nhere, there = sys.argv[1:]\nfile = os.open(here, os.O_CREAT | os.O_WRONLY)\n\
                  other = os.dup(file)\nos.close(file)\nos.write(other, b'0123')\nos.lseek(other, 0, 0)\n\
                  os.write(other, b'ab')\nprint(os.stat(here).st_size, os.stat(there).st_size)\nos.close(other)";
    let output = python(script, &[&mounted.at("file"), &there]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "4 0\n",
        "{output:?}"
    );
    assert_eq!(fs::read(&there).unwrap(), b"ab23");
    // a child writes, after its parent has closed the file
    let script = "import subprocess, sys\nwith open(sys.argv[1], 'wb') as file:\n  \
                  child = subprocess.Popen(['sh', '-c', 'read line; echo $line'], stdin=subprocess.PIPE, stdout=file)\n\
                  child.communicate(b'bytes')";
    let output = python(script, &[&mounted.at("child")]);
    assert!(output.status.success(), "{output:?}");
    becomes_true("the file is complete", || {
        fs::read(far.target.join("child")).unwrap() == b"bytes\n"
    });
    // what another program has appended meanwhile is kept
    let script = "import os, sys\nfile = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\nother = os.dup(file)\n\
                  os.close(file)\nopen(sys.argv[2], 'w').write('foreign')\nos.write(other, b'own')";
    let there = far.target.join("shared");
    let output = python(script, &[&mounted.at("shared"), &there]);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(fs::read(&there).unwrap(), b"foreign");
    let append = format!("exec >> {}; echo a; echo b", mounted.at("log").display());
    sh(&append);
    assert_eq!(fs::read(far.target.join("log")).unwrap(), b"a\nb\n");
}

#[test]
fn redirection_within_a_redirection_does_not_complete_a_new_file() {
    let far = daemon("mount-nested");
    let test = "redirection_within_a_redirection_does_not_complete_a_new_file";
    if lighthaul_testkit::lacks_tool(test, "python3") {
        return;
    }
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    for shell in ["sh", "bash"] {
        let (here, there) = (mounted.at(shell), far.target.join(shell));
        let other = mounted.at(&format!("{shell}-other"));
        let script = format!(
            "{{ true; echo x > {}; env echo 0123; \
             python3 -c 'import os, sys; print(os.stat(sys.argv[1]).st_size, file=sys.stderr); \
             os.lseek(1, 0, 0); os.write(1, b\"ab\")' {}; true; }} > {}",
            other.display(),
            there.display(),
            here.display()
        );
        let output = Command::new(shell).args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "0\n", "{shell}");
        assert_eq!(fs::read(&there).unwrap(), b"ab23\n", "{shell}");
    }
}

#[test]
fn file_that_was_synced_empty_can_be_written_anywhere() {
    let far = daemon("mount-synced");
    let test = "file_that_was_synced_empty_can_be_written_anywhere";
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let there = far.target.join("file");
    let mut file = fs::File::create(mounted.at("file")).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"");
    file.write_all(b"0123").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(b"ab").unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"", "it is not complete");
    file.sync_all().unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"ab23");
}
