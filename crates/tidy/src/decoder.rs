//! Detection of source files that decode octets or text from outside.
//!
//! `decodes` looks for two signs in the tokens of a file: a call of a library function that
//! decodes, and a definition that looks like a decoder by its name, parameters and result. It errs
//! on the side of finding too much, because a decoder that is missed would not be fuzzed.
//! `NOT_DECODERS` lists the known false ones with a reason. The rule itself is in `fuzz`.

use crate::sources::Source;
use crate::tokens::{after_group, tokens};

/// Reports whether a file decodes. Recognizes calls over several lines, with type arguments,
/// through an import, or passed as a function.
pub(crate) fn decodes(file: &Source) -> bool {
    let code: Vec<&str> = file.lines().map(|(_, line)| line).collect();
    let code = code.join("\n");
    let tokens = tokens(&code);
    (0..tokens.len()).any(|at| {
        let is_found = is_reader(&tokens, at) || is_function(&tokens, at);
        is_found || (judges_octets(&tokens, at) && !is_exempt(&file.path, tokens[at + 1]))
    })
}

/// Reports whether a function at a token takes octets and may reject them, with any name.
fn judges_octets(tokens: &[&str], at: usize) -> bool {
    let Some((name, _, behind)) = function_at(tokens, at) else {
        return false;
    };
    let taken = &tokens[at..tokens.len() - behind.len()];
    let is_writer = WRITERS.iter().any(|verb| name.starts_with(verb));
    !is_writer && takes_shared_octets(taken) && returns_content_or_failure(behind)
}

/// Reports whether a function of a file is known not to decode.
fn is_exempt(path: &str, function: &str) -> bool {
    let mut exempt = NOT_DECODERS.iter();
    exempt.any(|(file, name, _)| path == *file && function == *name)
}

/// Splits a function at its `fn` into name, parameters, and the tokens after the parameters.
fn function_at<'a>(
    tokens: &'a [&'a str],
    at: usize,
) -> Option<(&'a str, &'a [&'a str], &'a [&'a str])> {
    let (&"fn", name) = (tokens.get(at)?, tokens.get(at + 1)?) else {
        return None;
    };
    let function = &tokens[at..];
    let open = function.iter().position(|token| *token == "(")?;
    let close = after_group(function, open);
    let parameters = function.get(open + 1..close - 1)?;
    Some((name, parameters, &function[close..]))
}

/// Reports whether the token names a library function that decodes.
fn is_reader(tokens: &[&str], at: usize) -> bool {
    let named = tokens[at];
    let behind = at.checked_sub(1).map(|at| tokens[at]);
    let owner = (behind == Some("::"))
        .then(|| at.checked_sub(2).map(|at| tokens[at]))
        .flatten();
    match named {
        "from_bytes" | "take_from_bytes" => !owner.is_some_and(|owner| PLAIN.contains(&owner)),
        "from_slice" | "from_reader" | "DeflateDecoder" | "httparse" | "from_be_bytes"
        | "from_le_bytes" | "from_ne_bytes" => true,
        "from_str" => owner.is_some_and(|owner| FORMATS.contains(&owner)),
        "parse" => owner.is_some_and(|owner| PARSERS.contains(&owner)),
        "decode" => behind == Some("."),
        _ => false,
    }
}

/// Reports whether the token defines a function that decodes: `decode...`; `parse...` or `from_str` of octets or text;
/// `read` or `read_...` of octets or of a stream; `read` that may make its type from something; one that takes a
/// `Reader`; or one of another name that makes its type from octets.
fn is_function(tokens: &[&str], at: usize) -> bool {
    let Some((name, parameters, behind)) = function_at(tokens, at) else {
        return false;
    };
    let function = &tokens[at..];
    let octets = takes_octets(parameters);
    let text = ["str", "String"]
        .iter()
        .any(|kind| parameters.contains(kind));
    let parses = name.starts_with("parse") || name == "from_str";
    let reads = name == "read" || name.starts_with("read_");
    name.starts_with("decode")
        || (parses && (octets || text))
        || (reads && (octets || takes_stream(function, parameters)))
        || (name == "read" && takes_value(parameters) && may_make_itself(behind))
        || parameters.windows(2).any(|pair| pair == ["Reader", "<"])
        || (name != "new" && makes_itself_from_octets(function))
}

/// Reports whether the parameters include octets that the function does not fill.
fn takes_octets(parameters: &[&str]) -> bool {
    let is_filled = |nth: usize| {
        let kind = parameters[..nth].iter().rposition(|token| *token == ":");
        let kind = &parameters[kind.map_or(0, |colon| colon + 1)..];
        let mut kind = kind.iter().filter(|token| !token.starts_with('\''));
        [kind.next(), kind.next()] == [Some(&"&"), Some(&"mut")] && kind.next() != Some(&"&")
    };
    let mut octets = (0..parameters.len()).filter(|nth| parameters[*nth] == "u8");
    octets.any(|nth| !is_filled(nth))
}

/// Reports whether the parameters include a shared slice of octets, or a value that can be borrowed as one.
fn takes_shared_octets(taken: &[&str]) -> bool {
    let kinds = SHARED_OCTETS.map(tokens);
    let is_type = |token: &&str| !token.starts_with('\'') && *token != ",";
    let taken: Vec<&str> = taken.iter().copied().filter(is_type).collect();
    let mut rests = (0..taken.len()).map(|at| &taken[at..]);
    rests.any(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

/// Reports whether an `Option` or a `Result` of more than `()` is returned. The tokens begin behind
/// the parameters.
fn returns_content_or_failure(tokens: &[&str]) -> bool {
    let end = { tokens.iter() }.position(|token| ["{", ";", "where"].contains(token));
    let result = &tokens[..end.unwrap_or(tokens.len())];
    (0..result.len()).any(|at| {
        let may_fail = ["Option", "Result"].contains(&result[at]);
        may_fail && !result[at + 1..].starts_with(&["<", "(", ")"])
    })
}

/// Reports whether a function takes a stream of octets, as `impl Read` or by a bound. A function that
/// only fills a buffer of its caller does not decode. The tokens begin with its `fn`.
fn takes_stream(function: &[&str], parameters: &[&str]) -> bool {
    let mut signature = function
        .iter()
        .take_while(|token| **token != "{" && **token != ";");
    signature.any(|token| ["Read", "BufRead"].contains(token)) && !parameters.contains(&"u8")
}

/// Reports whether parameters are more than the function's own object.
fn takes_value(parameters: &[&str]) -> bool {
    parameters.contains(&":")
}

/// Reports whether a function takes a slice of octets first, and returns `Self`, alone or inside
/// another type. The tokens begin with its `fn`.
fn makes_itself_from_octets(tokens: &[&str]) -> bool {
    let until = |end: &'static [&str]| move |token: &&&str| !end.contains(*token);
    let first = tokens.iter().skip_while(|token| **token != "(");
    let first = first.take_while(until(&[",", ")"]));
    let first = first.skip_while(|token| **token != ":");
    let first = first.filter(|token| **token != "mut" && !token.starts_with('\''));
    if !first.eq([":", "&", "[", "u8", "]"].iter()) {
        return false;
    }
    let behind = tokens.iter().position(|token| *token == ")");
    behind.is_some_and(|behind| makes_itself(&tokens[behind..]))
}

/// Reports whether `Self` is returned inside a type that stands for failure, too.
fn may_make_itself(tokens: &[&str]) -> bool {
    makes_itself(tokens) && tokens.get(2) != Some(&"Self")
}

/// Reports whether `Self` is returned, alone or inside another type. The tokens begin behind the
/// parameters.
fn makes_itself(tokens: &[&str]) -> bool {
    let result = tokens
        .iter()
        .take_while(|token| **token != "{" && **token != ";");
    result.into_iter().any(|token| *token == "Self")
}

/// Types whose `from_bytes` accepts any octets unchanged.
const PLAIN: [&str; 3] = ["OsStr", "OsStrExt", "Hash"];

/// Types of octets that the caller lends.
const SHARED_OCTETS: [&str; 5] = [
    ": &[u8",
    ": &mut &[u8",
    ": &Vec<u8>",
    "AsRef<[u8",
    "Cow<[u8",
];

/// First words in the names of functions that pass their octets on.
const WRITERS: [&str; 3] = ["write", "poll_write", "encode"];

/// Functions that take octets and may fail, but do not decode, with a reason.
const NOT_DECODERS: [(&str, &str, &str); 13] = [
    (
        "crates/domain-links/src/greeting.rs",
        "check",
        "compares octets with those of a greeting, and shows one of them",
    ),
    (
        "crates/booking-client/src/https.rs",
        "verify_server_cert",
        "rustls reads the certificate",
    ),
    (
        "crates/booking-client/src/https.rs",
        "verify_tls12_signature",
        "it refuses all",
    ),
    (
        "crates/booking-client/src/https.rs",
        "verify_tls13_signature",
        "rustls reads the signature",
    ),
    (
        "crates/circuit/src/exec/program.rs",
        "transfer",
        "it passes its own text to a program",
    ),
    (
        "crates/files/src/execute.rs",
        "listed",
        "it only copies the path",
    ),
    (
        "crates/fs/src/disk.rs",
        "names",
        "it only compares its own prefix",
    ),
    (
        "crates/fs/src/metadata/attributes.rs",
        "part",
        "it only compares prefixes",
    ),
    (
        "crates/fs/src/remove.rs",
        "remove",
        "it only passes the path on",
    ),
    (
        "crates/fs/src/remove.rs",
        "empty",
        "it only passes the path on",
    ),
    (
        "crates/io/src/host/competition.rs",
        "throttled_in",
        "a number of the kernel",
    ),
    (
        "crates/io/src/host/competition.rs",
        "field",
        "a number of the kernel",
    ),
    (
        "crates/send/src/contents.rs",
        "digest_of",
        "it hashes any octets",
    ),
];

/// Crates whose `from_str` decodes.
const FORMATS: [&str; 2] = ["serde_json", "toml"];

/// Types whose `parse` decodes.
const PARSERS: [&str; 1] = ["Document"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sources;

    fn is_found(text: &str) -> bool {
        decodes(&Sources::of(&[("a.rs", text)]).files[0])
    }

    #[test]
    fn decoders_are_found_in_all_spellings() {
        for text in [
            "let x = postcard::from_bytes(octets);",
            "let Ok((claim, [])) = postcard::take_from_bytes::<Claim>(claim) else {",
            "postcard\n    ::from_bytes::<Vec<Entry>>(&plain)",
            "use postcard::{from_bytes as read, to_vec};",
            "octets.and_then(postcard::from_bytes)",
            "serde_json::from_slice::<Set>(body)?",
            "serde_json::from_str::<Event>(line)",
            "::toml::from_str(text)",
            "Document::parse(text)",
            "HEXLOWER\n    .decode(text.as_bytes())",
            "pub(crate) const fn decode_runs(mut reader: Reader<'_>) {}",
            "fn parse(octets: &[u8]) -> Option<Self> {",
            "flate2::read::DeflateDecoder::new(packed)",
            "pub fn of(octets: &[u8]) -> Self {",
            "fn read(text: &'a [u8], more: bool) -> Option<(Self, &'a [u8])> {",
            "fn parse(text: &str) -> Vec<u8> {",
            "pub fn parse_step(nth: usize, from: &'a str) -> Option<Step> {",
            "fn from_str(text: &str) -> Result<Self, NotARule> {",
            "fn read(reply: &[u8]) -> io::Result<bool> {",
            "fn read(&mut self, mut text: &[u8]) {",
            "fn read_step(kind: u8, rest: &mut &[u8]) -> Option<u32> {",
            "fn read(read: &dyn Fn(u64, usize) -> Vec<u8>) -> Option<Self> {",
            "fn read<T>(file: &T) -> io::Result<Option<Self>> {",
            "fn record(reader: &mut Reader<'_>) -> Result<Record, Malformed> {",
            "fn answer(request: &[u8], metrics: &Metrics) -> io::Result<Vec<u8>> {",
            "fn word(octets: &[u8]) -> Option<u32> { Self::other() }",
            "fn place(&mut self, now: Instant, head: &'a [u8]) -> Option<Span>;",
            "fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {",
            "fn page(octets: impl AsRef<[u8]>) -> Result<Page, Malformed> {",
            "fn page<T: AsRef<[u8]>>(octets: T) -> Result<Page, Malformed> {",
            "fn page(octets: &Vec<u8>) -> Result<Page, Malformed> {",
            "fn page(octets: Cow<'_, [u8]>) -> Result<Page, Malformed> {",
            "fn page(mut octets: &[u8; 8]) -> Result<Page, Malformed> {",
            "fn page(octets: &[u8]) -> io::Result<Option<()>>\nwhere\n    Self: Sized,\n{",
            "fn parse(words: &[String]) -> Option<Self> {",
            "fn parse_line(line: String) -> Option<Step> {",
            "pub fn read_line<'a>(input: &mut impl Read, marks: &[&'a str]) -> Option<&'a str> {",
            "fn read_head(input: &mut dyn BufRead) -> io::Result<Head> {",
            "fn read<R: Read>(input: &mut R) -> io::Result<Head> {",
            "fn read<R>(input: &mut R) -> io::Result<Head>\nwhere\n    R: io::Read,\n{",
            "len.map(u32::from_be_bytes)",
            "u16::from_ne_bytes([octets[0], octets[1]])",
        ] {
            assert!(is_found(text), "{text}");
        }
    }

    #[test]
    fn exempt_function_is_a_decoder_in_other_files() {
        let (path, name, _) = NOT_DECODERS[0];
        let text = format!("fn {name}(octets: &[u8]) -> Option<u32> {{");
        let is_found = |path| decodes(&Sources::of(&[(path, &text)]).files[0]);
        assert!(!is_found(path) && is_found("crates/io/src/other.rs"));
    }

    #[test]
    fn other_functions_are_not_reported_as_decoders() {
        for text in [
            "Path::new(OsStr::from_bytes(path))",
            "std::os::unix::ffi::OsStrExt::from_bytes(name)",
            "blake3::Hash::from_bytes(*octets)",
            "// postcard::from_bytes(octets)",
            "let x = 1; // postcard::from_bytes(octets)",
            "u32::from_str(word)",
            "head.copy_from_slice(octets)",
            "fn parse(&self, nth: usize) -> Vec<u8> {",
            "fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {",
            "fn read_some(from: &File, into: &mut Vec<u8>) -> io::Result<bool> {",
            "fn read_some(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {",
            "fn parse(words: &[Word]) -> String {",
            "fn ready(input: &mut impl Read) -> bool {",
            "fn read(from: &Path, xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>) -> io::Result<()> {",
            "pub const fn read(fd: RawFd) -> Self {",
            "fn read() -> Option<Self> {",
            "fn read(&self) -> Option<Self> {",
            "fn ready(octets: &[u8]) -> bool {",
            "pub fn new(octets: &[u8]) -> Self {",
            "fn with(mut self, value: &[u8]) -> Self {",
            "fn ring(cipher: Cipher, secret: &[u8]) -> Self {",
            "fn word(octets: &[u8]) -> u32 { Self::other() }",
            "fn check(octets: &[u8]) -> Result<(), Malformed> {",
            "fn write(&mut self, octets: &[u8]) -> io::Result<usize> {",
            "fn poll_write(self: Pin<&mut Self>, octets: &[u8]) -> Poll<io::Result<usize>> {",
            "fn encode(octets: &[u8]) -> Option<Vec<u8>> {",
            "fn offer(&self, frame: Vec<u8>) -> Result<bool, Error> {",
            "fn fill(octets: &mut [u8]) -> io::Result<usize> {",
            "#[cfg(test)]\nmod tests { postcard::from_bytes(octets) }",
        ] {
            assert!(!is_found(text), "{text}");
        }
    }
}
