//! Objects that a copy reads: single ones, and all below a prefix.

use lighthaul_buckets::attributes::Attributes;
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::Bucket;
use lighthaul_files::naming::Naming;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error};

use crate::fault::Fault;
use crate::stores::job::Job;
use crate::stores::keys;

/// Source of a copy.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) bucket: Bucket,
    /// Key of the object, or prefix of all objects.
    pub(crate) key: String,
    /// Name among the entries; empty for the contents of a prefix.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Kind of a source.
#[derive(Debug)]
pub(crate) enum Kind {
    /// One object.
    Object(Attributes),
    /// A file of a web server whose ranges could come from several versions. Its size is zero if it is unknown.
    Stream(Attributes, StreamSize),
    /// All objects below a prefix.
    Folder,
}

/// Knowledge about the size of a file of a web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamSize {
    Known,
    Unknown,
}

/// Looks at all sources. A key with a slash at its end stands for what is below it.
pub(crate) async fn find(job: &Job) -> Result<(Vec<Source>, Naming), Error> {
    let mut sources: Vec<Source> = Vec::new();
    for place in &job.sources {
        let source = look(place, job).await?;
        if source.name.is_empty() && job.sources.len() > 1 {
            let text = format!(
                "{} stands for its contents: copy it by itself",
                place.with_host(&source.key)
            );
            return Err(Fault::Request(text).into());
        }
        if sources.iter().any(|other| other.name == source.name) {
            let text = format!(
                "several sources have the name {}: copy them one after the other",
                source.name
            );
            return Err(Fault::Request(text).into());
        }
        sources.push(source);
    }
    let naming = match sources.as_slice() {
        [one] if one.name.is_empty() => Naming::Contents,
        [one] if matches!(one.kind, Kind::Folder) => Naming::Folder,
        [_] => Naming::File,
        _ => Naming::Several,
    };
    Ok((sources, naming))
}

async fn look(place: &Place, job: &Job) -> Result<Source, Error> {
    let (bucket, key) = job.open(place)?;
    if job.options.listed {
        return base(bucket, &key);
    }
    let url = bucket.url(&key);
    let failed = |error: CallError| error.during(format!("cannot read {url}"));
    if let Some(web) = bucket.web() {
        let file = web.look(&key).await.map_err(failed)?;
        let kind = if file.has_ranges {
            Kind::Object(file.attributes)
        } else {
            let size = if file.has_size {
                StreamSize::Known
            } else {
                StreamSize::Unknown
            };
            Kind::Stream(file.attributes, size)
        };
        let name = web_name(&key).ok_or_else(|| nameless(&url))?;
        return Ok(Source {
            bucket,
            key,
            name,
            kind,
        });
    }
    let none = || {
        let text = "there is no such object, and none below it";
        failed(CallError::new(Reason::Missing, text))
    };
    if key.is_empty() || key.ends_with('/') {
        // a copy of nothing would succeed, and with --delete it would empty the target
        if !key.is_empty() && !bucket.has_any(&key).await.map_err(failed)? {
            return Err(none());
        }
        let (name, kind) = (String::new(), Kind::Folder);
        return Ok(Source {
            bucket,
            key,
            name,
            kind,
        });
    }
    let name = keys::name(&key).to_owned();
    keys::check(&name).map_err(|_| nameless(&url))?;
    if let Some(found) = bucket.attributes(&key).await.map_err(failed)? {
        let kind = Kind::Object(found);
        return Ok(Source {
            bucket,
            key,
            name,
            kind,
        });
    }
    let prefix = keys::folder(&key);
    if !bucket.has_any(&prefix).await.map_err(failed)? {
        return Err(none());
    }
    let (key, kind) = (prefix, Kind::Folder);
    Ok(Source {
        bucket,
        key,
        name,
        kind,
    })
}

/// Returns the prefix to which the paths of a list are relative.
fn base(bucket: Bucket, key: &str) -> Result<Source, Error> {
    if bucket.web().is_some() {
        let text = "a list of paths (--files-from) needs a bucket or a directory, not a web server";
        return Err(Fault::Request(text.to_owned()).into());
    }
    Ok(Source {
        bucket,
        key: keys::folder(key),
        name: String::new(),
        kind: Kind::Folder,
    })
}

/// Returns the name of a file of a web server: the last part of its path, without the query.
fn web_name(path: &str) -> Option<String> {
    let path = path.split(['?', '#']).next()?;
    let name = keys::name(path);
    let name = lighthaul_remote::place::percent_decoded(name);
    let name = String::from_utf8(name).ok()?;
    (!name.contains('/') && keys::check(&name).is_ok()).then_some(name)
}

fn nameless(url: &str) -> Error {
    Fault::Failed {
        what: format!(
            "cannot copy {}",
            lighthaul_base::escape::escape_name(url.as_bytes())
        ),
        why: "its last part is no name of a file".to_owned(),
        code: Code::Usage,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_web_file_is_its_last_part() {
        for (path, name) in [
            ("a/b.tar?sig=x/y", Some("b.tar")),
            ("b%20c", Some("b c")),
            ("a/", None),
            ("", None),
            ("..", None),
            ("a/%2e%2e", None),
            ("a/x%2fy", None),
            ("a/x%00", None),
        ] {
            assert_eq!(web_name(path).as_deref(), name, "{path}");
        }
    }
}
