//! Secrets in the words of a command, which are not shown: signatures of URLs, and passwords.
//!
//! A signed URL of a web server admits its bearer by its query. A URL, or the value of `--gateway`, may have a password
//! before its host.

use std::borrow::Cow;

/// Returns a word of a command without its secrets.
pub fn masked(word: &str) -> Cow<'_, str> {
    let word = match word.split_once("://") {
        Some((scheme, rest)) => masked_url(word, scheme, rest),
        None => Cow::Borrowed(word),
    };
    match masked_gateway(&word) {
        Some(masked) => masked.into(),
        None => word,
    }
}

/// Returns the words of a command without their secrets.
pub fn masked_words(command: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::with_capacity(command.len());
    for word in command {
        let follows = words.last().is_some_and(|before| before == GATEWAY);
        let word = masked(word).into_owned();
        words.push(match masked_user(&word).filter(|_| follows) {
            Some(masked) => masked,
            None => word,
        });
    }
    words
}

/// Returns the stored words of a command without their secrets, or none if it has no secrets.
pub(crate) fn masked_command(stored: &str) -> Option<String> {
    if !stored.contains(['?', '@']) {
        return None;
    }
    let words: Vec<String> = serde_json::from_str(stored).ok()?;
    let masked = masked_words(&words);
    (masked != words).then(|| serde_json::to_string(&masked).unwrap_or_default())
}

/// Words of a command with secrets, each with the form in which it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    words: Vec<(String, String)>,
}

impl Secrets {
    /// Returns the secrets of a command.
    pub(crate) fn of(command: &[String]) -> Self {
        let masked = masked_words(command);
        let words = command.iter().cloned().zip(masked);
        Self {
            words: words.filter(|(word, masked)| word != masked).collect(),
        }
    }

    /// Returns a line of output without the secrets.
    pub(crate) fn hide<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let mut line = Cow::Borrowed(line);
        for (word, masked) in &self.words {
            if line.contains(word) {
                line = line.replace(word, masked).into();
            }
            // a part of the secret may be in a message, without the rest of the word
            let query = word.split_once('?').map(|(_, query)| query);
            if let Some(query) =
                query.filter(|query| query.len() >= QUERY_MIN && line.contains(query))
            {
                line = line.replace(query, HIDDEN).into();
            }
        }
        line
    }
}

/// Returns a URL without its password, and without its query if a web server has it.
fn masked_url<'a>(word: &'a str, scheme: &str, rest: &str) -> Cow<'a, str> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (server, path) = rest.split_at(end);
    let server = masked_user(server);
    let is_web = scheme.ends_with("http") || scheme.ends_with("https");
    let query = path.split_once('?').filter(|_| is_web);
    if server.is_none() && query.is_none() {
        return Cow::Borrowed(word);
    }
    let server = server.unwrap_or_else(|| rest[..end].to_owned());
    let path = query.map_or_else(|| path.to_owned(), |(path, _)| format!("{path}?{HIDDEN}"));
    format!("{scheme}://{server}{path}").into()
}

/// Returns the option of a gateway without its password.
fn masked_gateway(word: &str) -> Option<String> {
    let value = word.strip_prefix(GATEWAY)?.strip_prefix('=')?;
    Some(format!("{GATEWAY}={}", masked_user(value)?))
}

/// Returns a server without the password before it, or none if it has no password.
fn masked_user(server: &str) -> Option<String> {
    let (user, host) = server.rsplit_once('@')?;
    let (name, _) = user.split_once(':')?;
    Some(format!("{name}:{HIDDEN}@{host}"))
}

/// Option with a gateway, and perhaps its password.
const GATEWAY: &str = "--gateway";
/// Text instead of a secret.
const HIDDEN: &str = "(hidden)";
/// Fewest octets of a query that is a secret.
const QUERY_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn signatures_and_passwords_are_hidden() {
        for (word, shown) in [
            ("https://b/a?X-Amz-Signature=12", "https://b/a?(hidden)"),
            ("https://me:pw@b/a?s#x", "https://me:(hidden)@b/a?(hidden)"),
            ("lh://me:pw@far/a?b", "lh://me:(hidden)@far/a?b"),
            ("--x=https://b?sig", "--x=https://b?(hidden)"),
            (
                "--gateway=me:p@w@gate:1080",
                "--gateway=me:(hidden)@gate:1080",
            ),
        ] {
            assert_eq!(masked(word), shown);
        }
        for word in [
            "lh://far/a?.txt",
            "host:a@b",
            "s3://b/k?x",
            "--gateway=gate:1080",
            "me@host:p",
            "a?b",
        ] {
            assert_eq!(masked(word), word);
        }
        let command = words(&["cp", "--gateway", "me:pw@gate:1", "a:b@c", "lh://far/"]);
        let shown = words(&[
            "cp",
            "--gateway",
            "me:(hidden)@gate:1",
            "a:b@c",
            "lh://far/",
        ]);
        assert_eq!(masked_words(&command), shown);
    }

    #[test]
    fn output_shows_no_secret_of_the_command() {
        let secrets = Secrets::of(&words(&["cp", "https://b/a?Signature=1234", "lh://far/"]));
        let line = "cannot read https://b/a?Signature=1234: denied";
        assert_eq!(
            secrets.hide(line),
            "cannot read https://b/a?(hidden): denied"
        );
        let line = "GET /a?Signature=1234: 403";
        assert_eq!(secrets.hide(line), "GET /a?(hidden): 403");
        assert_eq!(secrets.hide("copied to lh://far/"), "copied to lh://far/");
    }

    #[test]
    fn stored_command_without_secrets_stays() {
        assert_eq!(masked_command(r#"["cp","a@b","lh://far/c?"]"#), None);
        let masked = masked_command(r#"["cp","https://b/a?s","x"]"#);
        assert_eq!(
            masked.as_deref(),
            Some(r#"["cp","https://b/a?(hidden)","x"]"#)
        );
    }
}
