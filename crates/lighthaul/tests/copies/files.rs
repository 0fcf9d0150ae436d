//! Operations on files of a host.

use lighthaul::{ByteRange, Error, FailureKind, FileReply, FileRequest, Place};

use crate::host::{Host, names};

/// Returns the replies of the host of `place`.
fn replies(host: &Host, place: &Place, request: &FileRequest) -> Result<Vec<FileReply>, Error> {
    let mut replies = Vec::new();
    let client = host.client("a");
    client.execute(place, request, &mut |part| {
        replies.push(part);
        Ok(())
    })?;
    Ok(replies)
}

#[test]
fn directory_is_created_and_removed_on_both_hosts() {
    let host = Host::start("files", &["a"]);
    let here = Place::Here(host.folder.join("a/new"));
    for place in [host.place("new"), here] {
        let paths = || vec![place.path().to_vec()];
        let make = FileRequest::Make {
            paths: paths(),
            parents: false,
        };
        replies(&host, &place, &make).unwrap();
        assert_eq!(names(&host.folder.join("a")), ["new"]);
        let again = replies(&host, &place, &make).unwrap();
        let is_failure = |part: &FileReply| matches!(part, FileReply::Failed { .. });
        assert!(again.iter().any(is_failure), "{again:?}");
        let remove = FileRequest::Remove {
            paths: paths(),
            recursive: true,
        };
        replies(&host, &place, &remove).unwrap();
        assert!(names(&host.folder.join("a")).is_empty());
    }
}

#[test]
fn remote_files_are_written_and_read_by_ranges() {
    let host = Host::start("remote", &["a"]);
    let files = host.client("a").files(&host.place(""), true).unwrap();
    let writer = files.create(b"/x", None, true).unwrap();
    writer.write(b"0123456789", 0).unwrap();
    writer.commit(None).unwrap();
    let range = |path: &[u8]| ByteRange {
        path: path.to_vec(),
        offset: 8,
        len: 5,
    };
    let found = files.cat_ranges(&[range(b"/x"), range(b"/absent")]);
    assert_eq!(found[0], Ok(b"89".to_vec()));
    let failure = found[1].as_ref().unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound, "{failure}");
}
