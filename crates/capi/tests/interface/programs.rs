//! Programs in C and C++ that use a daemon.

use std::fs;
use std::path::Path;
use std::process::Output;

use lighthaul_io::crypto::identity::Identity;
use lighthaul_testkit::lacks_tool;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::books::TestBooks;
use crate::built::{Built, project};
use crate::serve::serve;

/// Libraries of the system that a static library of Rust needs.
const STATIC: [&str; 6] = [
    "-l:liblighthaul.a",
    "-lgcc_s",
    "-lutil",
    "-lrt",
    "-lm",
    "-ldl",
];

/// Runs a program with the arguments: place of a daemon, its key, the key file of the client, and a directory.
fn run(built: &Built, program: &Path) -> (Output, Vec<String>) {
    run_with(built, program, &[])
}

/// Does the same with more arguments.
fn run_with(built: &Built, program: &Path, more: &[&str]) -> (Output, Vec<String>) {
    let there = built.at("there");
    fs::remove_dir_all(&there).ok();
    fs::create_dir_all(&there).unwrap();
    mkfifoat(CWD, there.join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let key = built.at("key");
    let ours = Identity::load_or_generate(&key).unwrap();
    let (port, pin) = serve(&there, &ours).unwrap();
    let mut command = built.command(program);
    command.arg(format!("lh://127.0.0.1:{port}/")).arg(pin);
    command.arg(key).arg(built.at("")).args(more);
    // without a configuration of the user
    command
        .env("HOME", built.at(""))
        .env_remove("XDG_CONFIG_HOME");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::to_owned).collect();
    (output, lines)
}

fn program(name: &str) -> std::path::PathBuf {
    project().join("programs").join(name)
}

#[test]
fn program_in_c_copies_and_uses_files_and_streams() {
    let test = "program_in_c_copies_and_uses_files_and_streams";
    if lacks_tool(test, "cc") {
        return;
    }
    let built = Built::new("tour-c");
    let tours = [("shared", &["-llighthaul"][..]), ("static", &STATIC)];
    for (name, libraries) in tours {
        let tour = built.compile(&program("tour.c"), name, libraries);
        let (output, lines) = run(&built, &tour);
        assert!(output.status.success(), "{name}: {output:?}");
        let expected = [
            "12 bytes, done",
            "12 bytes, done",
            "world",
            "",
            "kind 1",
            "notes.txt 5",
            "pipe 0",
            "there.txt 12",
            "one of 2",
            "7 bytes are needed",
            "message",
            "end",
        ];
        assert_eq!(lines, expected, "{name}");
        let back = fs::read_to_string(built.at("back.txt")).unwrap();
        assert_eq!(back, "hello world\n");
        fs::remove_file(built.at("back.txt")).unwrap();
    }
}

#[test]
fn program_in_cpp_has_objects_and_exceptions() {
    let test = "program_in_cpp_has_objects_and_exceptions";
    if lacks_tool(test, "c++") {
        return;
    }
    let built = Built::new("tour-cpp");
    let tour = built.compile(&program("tour.cpp"), "tour", &["-llighthaul"]);
    let (output, lines) = run(&built, &tour);
    assert!(output.status.success(), "{output:?}");
    let absent = lines.iter().position(|line| line.starts_with("3 "));
    let absent = &lines[absent.unwrap()];
    assert!(
        absent.contains("/absent") && absent.contains("127.0.0.1"),
        "{absent}"
    );
    let rest: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| line != absent)
        .collect();
    let expected = [
        "12 bytes",
        "world",
        "notes.txt 5",
        "pipe 0",
        "there.txt 12",
        "3 bytes",
        "1400 bytes",
        "the exception of the function arrived",
        "4194304 bytes, 0 failures",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn program_in_c_sends_typed_messages_and_filters_copies() {
    let test = "program_in_c_sends_typed_messages_and_filters_copies";
    if lacks_tool(test, "cc") {
        return;
    }
    let built = Built::new("typed-c");
    let typed = built.compile(&program("typed.c"), "typed", &["-llighthaul"]);
    let (output, lines) = run(&built, &typed);
    assert!(output.status.success(), "{output:?}");
    let expected = [
        "the value of the field frame does not fit into u16",
        "arm at 1.5: 3 joints, the last is 2.00",
        "end",
        "2 entries",
        "no message yet",
    ];
    assert_eq!(lines, expected);
    let copied = built.at("there/results");
    assert!(copied.join("kept.h5").exists() && !copied.join("left.tmp").exists());
}

#[test]
fn program_in_cpp_sends_typed_messages_and_reserves_capacity() {
    let test = "program_in_cpp_sends_typed_messages_and_reserves_capacity";
    if lacks_tool(test, "c++") {
        return;
    }
    let built = Built::new("typed-cpp");
    let typed = built.compile(&program("typed.cpp"), "typed", &["-llighthaul"]);
    let books = TestBooks::start("capi-books");
    let token = books.token_file("ada");
    let more = [&books.url(), token.to_str().unwrap()];
    let (output, lines) = run_with(&built, &typed, &more);
    assert!(output.status.success(), "{output:?}");
    let expected = [
        "100 joints, sum 25, offset -3, image abc",
        "2.5 1",
        "3 bytes of text",
        "1 a path or an option has a zero byte",
        "2 the sender has another schema than this program: its field joints is [f64], and [f32] is expected; use the same \
         schema on both sides",
        "promised: 1, 100000000 b/s",
        "active: 1",
        "released: 1",
        "started: 0",
        "the wait ended: 20",
        "canceled: 1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn messages_of_cpp_have_the_octets_of_the_vectors() {
    let test = "messages_of_cpp_have_the_octets_of_the_vectors";
    if lacks_tool(test, "c++") {
        return;
    }
    let built = Built::new("vectors");
    let vectors = built.compile(&program("vectors.cpp"), "vectors", &["-llighthaul"]);
    let messages = project().join("../packing/tests/vectors.txt");
    let output = built.command(&vectors).arg(messages).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6 messages\n");
}

#[test]
fn wrong_arguments_are_errors() {
    let test = "wrong_arguments_are_errors";
    if lacks_tool(test, "cc") {
        return;
    }
    let built = Built::new("faults");
    let faults = built.compile(
        &project().join("tests/faults.c"),
        "faults",
        &["-llighthaul"],
    );
    let (output, lines) = run(&built, &faults);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines.last().map(String::as_str), Some("all are errors"));
}
