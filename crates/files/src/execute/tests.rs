//! Tests of requests that must be refused.

use super::*;

#[test]
fn read_only_scope_rejects_changes() {
    let access = FileAccess::anywhere();
    let scope = Scope {
        access: &access,
        writable: false,
        special: false,
        halt: &Halt::default(),
    };
    let paths = vec![b"lighthaul-is-not-made".to_vec()];
    let requests = [
        FileRequest::Make {
            paths: paths.clone(),
            parents: true,
        },
        FileRequest::Remove {
            paths,
            recursive: true,
        },
    ];
    for request in requests {
        let mut say = |answer| panic!("{answer:?}");
        let error = execute(scope, &request, &mut say).unwrap_err();
        assert_eq!(error.code(), Code::Permission);
    }
    assert!(!Path::new("lighthaul-is-not-made").exists());
    let paths = vec![b".".to_vec()];
    let request = FileRequest::Stat { paths };
    assert_eq!(execute(scope, &request, &mut |_| Ok(())), Ok(1));
}

#[test]
fn removal_ends_when_the_session_is_halted() {
    let top = std::env::temp_dir().join(format!("lighthaul-halted-{}", std::process::id()));
    for name in ["a", "b", "c"] {
        std::fs::create_dir_all(top.join(name)).unwrap();
    }
    let (access, halt) = (FileAccess::anywhere(), Halt::default());
    let scope = Scope {
        access: &access,
        writable: true,
        special: false,
        halt: &halt,
    };
    let paths = vec![top.as_os_str().as_bytes().to_vec()];
    let request = FileRequest::Remove {
        paths,
        recursive: true,
    };
    let denied = Error::from(Fault::ReadOnly);
    halt.stop(denied.clone());
    assert_eq!(execute(scope, &request, &mut |_| Ok(())), Err(denied));
    assert_eq!(std::fs::read_dir(&top).unwrap().count(), 3);
    std::fs::remove_dir_all(&top).unwrap();
}
