//! Programs that captured programs start, with environments that have lost what captures them.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use lighthaul_testkit::{lacks_root, lacks_tool};

use crate::command::{LIBRARY, LIGHTHAUL, run, wrap};
use crate::gateway::Gateway;
use crate::refusals::Scratch;

/// A bash command that prints the data of another host.
const HEAR: &str = "exec 3<>/dev/tcp/203.0.113.7/80 && cat <&3";

/// Asserts that the command runs a program that connects through the gateway.
fn assert_captured(words: &[&str]) {
    let gateway = Gateway::start(0, "hello");
    let said = run(wrap(gateway.address).args(words));
    assert_eq!(
        said,
        (Some(0), "hello".to_owned(), String::new()),
        "{words:?}"
    );
    assert_eq!(gateway.wanted(), "203.0.113.7:80", "{words:?}");
}

#[test]
fn cleared_environment_keeps_children_captured() {
    let path = "PATH=/usr/bin:/bin";
    assert_captured(&["env", "-i", path, "bash", "-c", HEAR]);
    assert_captured(&["env", "-u", "LD_PRELOAD", "bash", "-c", HEAR]);
    assert_captured(&["env", "-u", "LIGHTHAUL_WRAP", "bash", "-c", HEAR]);
    assert_captured(&[
        "env",
        "LD_PRELOAD=",
        "LIGHTHAUL_WRAP=127.0.0.1:9",
        "bash",
        "-c",
        HEAR,
    ]);
    assert_captured(&[
        "sh",
        "-c",
        "unset LD_PRELOAD LIGHTHAUL_WRAP; exec bash -c \"$0\"",
        HEAR,
    ]);
    assert_captured(&["env", "-i", path, "env", "-i", path, "bash", "-c", HEAR]);
}

#[test]
fn every_exec_function_keeps_children_captured() {
    if lacks_tool("every_exec_function_keeps_children_captured", "python3") {
        return;
    }
    let arguments = format!("['bash', '-c', '{HEAR}']");
    // more than registers take
    let list = format!("b'bash', b'-c', b'{HEAR}', *[b'more'] * 9, None");
    for call in [
        format!("os.execve('/bin/bash', {arguments}, {{}})"),
        format!("os.execvpe('bash', {arguments}, {{'PATH': '/bin'}})"),
        format!("os.execve(os.open('/bin/bash', os.O_RDONLY), {arguments}, {{}})"),
        format!("os.environ.clear(); os.execv('/bin/bash', {arguments})"),
        format!(
            "os.environ.clear(); sys.exit(os.system('exec 3<>/dev/null; /bin/bash -c \"{HEAR}\"'))"
        ),
        format!("os.environ.clear(); ctypes.CDLL(None).execl(b'/bin/bash', {list})"),
        format!("os.environ.clear(); ctypes.CDLL(None).execlp(b'bash', {list})"),
        format!(
            "ctypes.CDLL(None).execle(b'/bin/bash', {list}, (ctypes.c_char_p * 2)(b'A=b', None))"
        ),
        format!(
            "ctypes.CDLL(None).execle(b'/bin/bash', b'bash', b'-c', b'{HEAR}', None, (ctypes.c_char_p * 1)(None))"
        ),
        format!("subprocess.run({arguments}, env={{}}, check=True)"),
        format!("subprocess.run({arguments}, env={{}}, check=True, close_fds=False)"),
        format!("os.waitpid(os.posix_spawn('/bin/bash', {arguments}, {{}}), 0)"),
        format!("os.waitpid(os.posix_spawnp('bash', {arguments}, {{}}), 0)"),
        format!(
            "ctypes.CDLL(None).clearenv(); sys.exit(ctypes.CDLL(None).system(b'/bin/bash -c \"{HEAR}\"'))"
        ),
    ] {
        let script = format!("import ctypes, os, subprocess, sys\n{call}");
        assert_captured(&["python3", "-c", &script]);
    }
}

#[test]
fn shells_that_libc_starts_are_captured_in_a_lost_environment() {
    let test = "shells_that_libc_starts_are_captured_in_a_lost_environment";
    if lacks_tool(test, "python3") {
        return;
    }
    let command = format!("b'/bin/bash -c \"{HEAR}\"'");
    for lose in [
        "ctypes.c_void_p.in_dll(libc, 'environ').value = None",
        "ctypes.POINTER(ctypes.c_void_p).in_dll(libc, 'environ')[0] = None",
        "libc.setenv(b'LD_PRELOAD', b'', 1)",
        "libc.setenv(b'LIGHTHAUL_WRAP', b'127.0.0.1:9', 1)",
    ] {
        for call in [
            format!("libc.system({command})"),
            format!("libc.pclose(ctypes.c_void_p(libc.popen({command}, b'w')))"),
            // the substituted text has what the command prints
            format!(
                "libc.wordexp(b'$(' + {command} + b')', words, 0); print(ctypes.cast(words[1], \
                 ctypes.POINTER(ctypes.c_char_p))[0].decode(), end='')"
            ),
        ] {
            let script = format!(
                "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.popen.restype = ctypes.c_void_p\n\
                 words = (ctypes.c_void_p * 3)()\n{lose}\n{call}"
            );
            assert_captured(&["python3", "-c", &script]);
        }
    }
}

#[test]
fn shell_that_cannot_be_captured_is_not_started_by_libc() {
    let test = "shell_that_cannot_be_captured_is_not_started_by_libc";
    if lacks_root(test) || lacks_tool(test, "python3") {
        return;
    }
    let scratch = Scratch::new("wrap-shell");
    let program = scratch.program("static", &without_interpreter(), 0o755);
    let in_place = "mount --bind \"$0\" /bin/sh && exec python3 -c \"$1\"";
    for (call, result) in [
        ("system(b'true')", "32512"),
        ("popen(b'true', b'r')", "0"),
        ("wordexp(b'$(true)', (ctypes.c_void_p * 3)(), 0)", "4"),
    ] {
        let script = format!("import ctypes\nprint(ctypes.CDLL(None).{call})");
        let mut command = wrap("127.0.0.1:9".parse().unwrap());
        command.args(["unshare", "-m", "bash", "-c", in_place]);
        let (code, out, err) = run(command.arg(&program).arg(&script));
        let expected = format!("{result}\n");
        assert_eq!((code, out.as_str()), (Some(0), &*expected), "{call}: {err}");
        assert!(err.contains("is linked statically"), "{call}: {err}");
    }
}

/// `true` without `PT_INTERP`: a program that the kernel starts without a dynamic linker.
fn without_interpreter() -> Vec<u8> {
    let mut elf = fs::read("/bin/true").unwrap();
    let count = usize::from(u16::from_le_bytes([elf[56], elf[57]]));
    for header in elf[64..64 + count * 56].chunks_mut(56) {
        if header[0] == 3 {
            header[0] = 0;
        }
    }
    elf
}

#[test]
fn uncapturable_programs_are_not_started_by_children() {
    let scratch = Scratch::new("wrap-children");
    let program = scratch.program("static", &without_interpreter(), 0o755);
    let script = scratch.program(
        "script",
        format!("#!{}\n", program.display()).as_bytes(),
        0o755,
    );
    for path in [&program, &script] {
        let words = ["sh", "-c", "\"$0\"; echo status $?"];
        let (_, out, err) = run(wrap("127.0.0.1:9".parse().unwrap()).args(words).arg(path));
        assert_eq!(out, "status 126\n", "{err}");
        assert_eq!(err.matches("is linked statically").count(), 1, "{err}");
    }
}

/// `true` with other content for the part that the entry at `line` describes: a note, or names of sections.
fn with_part(line: usize, part: &[u8]) -> Vec<u8> {
    let mut elf = fs::read("/bin/true").unwrap();
    let at = elf.len() as u64;
    // entries of segments and of sections have offset and length at different places
    let is_segment = line < 64 + 56 * 64;
    let (offset, len) = if is_segment { (8, 32) } else { (24, 32) };
    elf[line + offset..][..8].copy_from_slice(&at.to_le_bytes());
    elf[line + len..][..8].copy_from_slice(&(part.len() as u64).to_le_bytes());
    elf.extend(part);
    elf
}

/// Two copies of `true` that look like output of Go's linker: by a note, and by a section.
fn of_go() -> [Vec<u8>; 2] {
    let elf = fs::read("/bin/true").unwrap();
    let short = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let mut segments = (0..short(56)).map(|nth| 64 + nth * 56);
    let note = segments.find(|at| elf[*at] == 4).unwrap();
    let sections = u64::from_le_bytes(elf[40..48].try_into().unwrap()) as usize;
    [
        with_part(note, b"\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0"),
        with_part(sections + short(62) * 64, b"\0.text\0.go.buildinfo\0"),
    ]
}

#[test]
fn go_programs_are_not_started_by_captured_programs() {
    let scratch = Scratch::new("wrap-go");
    let nobody = "127.0.0.1:9".parse().unwrap();
    let plain = scratch.program("plain", &fs::read("/bin/true").unwrap(), 0o755);
    assert_eq!(run(wrap(nobody).args(["env"]).arg(&plain)).0, Some(0));
    for (nth, elf) in of_go().iter().enumerate() {
        let program = scratch.program(&format!("go-{nth}"), elf, 0o755);
        let (code, _, err) = run(&mut Command::new(&program));
        assert_eq!(code, Some(0), "it runs where nothing is captured: {err}");
        let words = ["sh", "-c", "\"$0\"; echo status $?"];
        let (_, out, err) = run(wrap(nobody).args(words).arg(&program));
        assert_eq!(out, "status 126\n", "{err}");
        assert_eq!(err.matches("is written in Go").count(), 1, "{err}");
        let (code, _, err) = run(wrap(nobody).arg(&program));
        assert!(
            code == Some(126) && err.contains("is written in Go"),
            "{err}"
        );
    }
}

#[test]
fn programs_that_cannot_be_read_are_not_started() {
    let name = "programs_that_cannot_be_read_are_not_started";
    if lacks_root(name) {
        return;
    }
    wrap("127.0.0.1:9".parse().unwrap()); // builds the library
    let scratch = Scratch::new("wrap-unreadable");
    for file in [Path::new(LIGHTHAUL), &LIBRARY] {
        fs::copy(file, scratch.0.join(file.file_name().unwrap())).unwrap();
    }
    let program = scratch.program("unreadable", &without_interpreter(), 0o711);
    let program = program.to_str().unwrap();
    for words in [&[program][..], &["sh", "-c", "\"$0\"", program]] {
        let mut command = Command::new(scratch.0.join("lighthaul"));
        command.env("XDG_CONFIG_HOME", scratch.0.join("config"));
        command.args(["wrap", "--socks", "127.0.0.1:9", "--"]);
        let (code, out, err) = run(command.args(words).uid(65534).gid(65534));
        assert_eq!((code, out.as_str()), (Some(126), ""), "{err}");
        assert!(err.contains("cannot") && err.contains("read"), "{err}");
    }
}

#[test]
fn execl_functions_do_not_start_uncapturable_programs() {
    if lacks_tool(
        "execl_functions_do_not_start_uncapturable_programs",
        "python3",
    ) {
        return;
    }
    let scratch = Scratch::new("wrap-lists");
    let program = scratch.program("static", &without_interpreter(), 0o755);
    let path = format!("b'{}'", program.display());
    for call in [
        format!("execl({path}, {path}, None)"),
        format!("execlp({path}, {path}, None)"),
        format!("execle({path}, {path}, None, (ctypes.c_char_p * 1)(None))"),
    ] {
        let script = format!("import ctypes\nprint(ctypes.CDLL(None).{call})");
        let (code, out, err) =
            run(wrap("127.0.0.1:9".parse().unwrap()).args(["python3", "-c", &script]));
        assert_eq!((code, out.as_str()), (Some(0), "-1\n"), "{call}: {err}");
        assert!(err.contains("is linked statically"), "{call}: {err}");
    }
}

/// libc continues its search in `PATH` behind what the kernel does not execute.
#[test]
fn search_in_path_does_not_end_at_a_file_that_cannot_be_executed() {
    let name = "search_in_path_does_not_end_at_a_file_that_cannot_be_executed";
    if lacks_tool(name, "python3") {
        return;
    }
    let scratch = Scratch::new("wrap-path");
    for folder in ["last", "script", "closed", "folder/tool"] {
        fs::create_dir_all(scratch.0.join(folder)).unwrap();
    }
    scratch.program("last/tool", &without_interpreter(), 0o755);
    scratch.program("script/tool", b"#!/missing/interpreter\n", 0o755);
    scratch.program("closed/tool", b"#!/bin/sh\n", 0o644);
    scratch.program("file", b"", 0o644);
    let argv = "(ctypes.c_char_p * 2)(b'tool', None)";
    for first in ["folder", "script", "closed", "file", "absent"] {
        let [first, last] = [first, "last"].map(|name| scratch.0.join(name));
        let path = format!("{}:{}", first.display(), last.display());
        for call in [
            format!("ctypes.CDLL(None).execvp(b'tool', {argv})"),
            "os.posix_spawnp('tool', ['tool'], os.environ)".to_owned(),
        ] {
            let code = format!("import ctypes, os\nos.environ['PATH'] = '{path}'\n{call}");
            let words = ["python3", "-c", &code];
            let (_, _, err) = run(wrap("127.0.0.1:9".parse().unwrap()).args(words));
            assert!(
                err.contains("is linked statically"),
                "{path}: {call}: {err}"
            );
        }
    }
}

#[test]
fn set_id_programs_are_not_started_by_children() {
    let name = "set_id_programs_are_not_started_by_children";
    if lacks_root(name) {
        return;
    }
    let scratch = Scratch::new("wrap-setuid-child");
    let program = scratch.program("true", &fs::read("/bin/true").unwrap(), 0o755);
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    scratch.program("true", &fs::read("/bin/true").unwrap(), 0o4755);
    let words = ["sh", "-c", "\"$0\"; echo status $?"];
    let (_, out, err) = run(wrap("127.0.0.1:9".parse().unwrap())
        .args(words)
        .arg(&program));
    assert_eq!(out, "status 126\n", "{err}");
    assert!(
        err.contains("runs with the rights of another user"),
        "{err}"
    );
}

#[test]
fn missing_gateway_variable_refuses_connections() {
    // this builds the library
    let _ = wrap("127.0.0.1:9".parse().unwrap());
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = own.local_addr().unwrap().port();
    let server = std::thread::spawn(move || own.accept().unwrap().0.write_all(b"own"));
    for gateway in [None, Some(""), Some("nonsense")] {
        let mut command = Command::new("bash");
        let twice = format!("({HEAR}); {HEAR}");
        command
            .args(["-c", &twice])
            .env("LD_PRELOAD", LIBRARY.as_path())
            .env("LC_ALL", "C");
        command.env_remove("LIGHTHAUL_WRAP");
        command.envs(gateway.map(|gateway| ("LIGHTHAUL_WRAP", gateway)));
        let (code, out, err) = run(&mut command);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("Permission denied"), "{err}");
        let told = err
            .matches("lighthaul wrap: connections are refused")
            .count();
        assert_eq!(told, 2, "once for each process: {err}");
    }
    let mut command = Command::new("bash");
    let words = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3");
    command
        .args(["-c", &words])
        .env("LD_PRELOAD", LIBRARY.as_path());
    assert_eq!(
        run(&mut command),
        (Some(0), "own".to_owned(), String::new())
    );
    server.join().unwrap().unwrap();
}
