//! Programs that cannot be captured, and the messages about them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use lighthaul_testkit::lacks;

use crate::command::{LIGHTHAUL, run, wrap};

const NOBODY: &str = "127.0.0.1:9";

/// A directory that is removed after its test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn program(&self, name: &str, octets: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, octets).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn complaint(program: &Path) -> (Option<i32>, String) {
    let (code, out, err) = run(wrap(NOBODY.parse().unwrap()).arg(program));
    assert_eq!(out, "");
    assert_eq!(err.lines().count(), 1, "one sentence: {err}");
    (code, err)
}

#[test]
fn missing_program_is_reported() {
    for name in ["no-such-program", "/no/such/program", "./no-such-program"] {
        let (code, err) = complaint(Path::new(name));
        assert_eq!(code, Some(127), "{err}");
        assert!(err.contains(name), "{err}");
    }
}

#[test]
fn file_without_execute_permission_is_refused() {
    let scratch = Scratch::new("wrap-text");
    let (code, err) = complaint(&scratch.program("text", b"words", 0o644));
    assert!(
        code == Some(126) && err.contains("is not an executable program"),
        "{err}"
    );
}

#[test]
fn static_programs_and_their_scripts_are_refused() {
    let scratch = Scratch::new("wrap-static");
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let program = scratch.program("static", &elf, 0o755);
    let script = format!("#!{}\n", program.display());
    let script = scratch.program("script", script.as_bytes(), 0o755);
    for path in [&program, &script] {
        let (code, err) = complaint(path);
        assert_eq!(code, Some(126), "{err}");
        assert!(err.contains("static is linked statically"), "{err}");
    }
}

#[test]
fn set_id_programs_are_refused() {
    let name = "set_id_programs_are_refused";
    let scratch = Scratch::new("wrap-setuid");
    let octets = fs::read("/bin/true").unwrap();
    let program = scratch.program("true", &octets, 0o755);
    let given = chown(&program, Some(65534), None);
    if lacks(
        name,
        given.map_err(|why| format!("needs root to give files away: {why}")),
    ) {
        return;
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let (code, err) = complaint(&program);
    assert!(
        code == Some(126) && err.contains("rights of another user"),
        "{err}"
    );
}

#[test]
fn missing_library_is_reported_with_the_searched_paths() {
    let scratch = Scratch::new("wrap-alone");
    let alone = scratch.0.join("lighthaul");
    fs::hard_link(LIGHTHAUL, &alone).unwrap();
    let (code, _, err) = run(std::process::Command::new(&alone).args(["wrap", "--", "true"]));
    assert_eq!(code, Some(125), "{err}");
    assert!(
        err.contains("liblighthaul_wrap.so") && err.contains("make install"),
        "{err}"
    );
}

#[test]
fn earlier_preloads_and_the_exit_status_are_kept() {
    let mut command = wrap(NOBODY.parse().unwrap());
    command.env("LD_PRELOAD", "libc.so.6");
    let said = run(command.args(["sh", "-c", "echo $LD_PRELOAD $LIGHTHAUL_WRAP; exit 7"]));
    assert_eq!(said.0, Some(7), "{said:?}");
    let line = said.1.trim_end();
    assert!(
        line.ends_with("/liblighthaul_wrap.so:libc.so.6 127.0.0.1:9"),
        "{said:?}"
    );
}
