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

#[test]
fn ranges_to_the_end_of_files_are_complete_and_passed_on_once() {
    let host = Host::start("ranges-to-end", &["a"]);
    let files = host.client("a").files(&host.place(""), true).unwrap();
    let mut wanted = Vec::new();
    let mut expected = Vec::new();
    // sizes around the number of bytes that are requested before the size is known
    for size in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_000] {
        let content: Vec<u8> = (0..size).map(|nth| (nth % 251) as u8).collect();
        let path = format!("/{size}").into_bytes();
        let writer = files.create(&path, None, true).unwrap();
        for (nth, piece) in content.chunks(1 << 20).enumerate() {
            writer.write(piece, (nth as u64) << 20).unwrap();
        }
        writer.commit(None).unwrap();
        for (offset, len) in [
            (0, ByteRange::TO_END),
            (3, ByteRange::TO_END),
            (size, ByteRange::TO_END),
            (2, 4),
        ] {
            wanted.push(ByteRange {
                path: path.clone(),
                offset,
                len,
            });
            let end = offset.saturating_add(len).min(size);
            expected.push(content[offset.min(end) as usize..end as usize].to_vec());
        }
    }
    let mut found = vec![None; wanted.len()];
    files.cat_each(&wanted, &mut |range, bytes| {
        assert!(found[range].replace(bytes.unwrap()).is_none());
    });
    for (range, (found, expected)) in wanted.iter().zip(found.into_iter().zip(expected)) {
        assert!(found.as_ref() == Some(&expected), "{range:?}");
    }
}
