//! Detection of source files that decode octets or text from outside.

use crate::sources::Source;
use crate::tokens::tokens;

/// Reports whether a file decodes. Recognizes calls over several lines, with type arguments,
/// through an import, or passed as a function.
pub(crate) fn decodes(file: &Source) -> bool {
    let code: Vec<&str> = file.lines().map(|(_, line)| line).collect();
    let code = code.join("\n");
    let tokens = tokens(&code);
    (0..tokens.len()).any(|at| is_reader(&tokens, at) || is_function(&tokens, at))
}

/// Reports whether a library function that decodes is named at this token.
fn is_reader(tokens: &[&str], at: usize) -> bool {
    let named = tokens[at];
    let behind = at.checked_sub(1).map(|at| tokens[at]);
    let owner = (behind == Some("::"))
        .then(|| at.checked_sub(2).map(|at| tokens[at]))
        .flatten();
    match named {
        "from_bytes" | "take_from_bytes" => !owner.is_some_and(|owner| PLAIN.contains(&owner)),
        "from_slice" | "from_reader" | "DeflateDecoder" | "httparse" => true,
        "from_str" => owner.is_some_and(|owner| FORMATS.contains(&owner)),
        "parse" => owner.is_some_and(|owner| PARSERS.contains(&owner)),
        "decode" => behind == Some("."),
        _ => false,
    }
}

/// Reports whether a function that decodes is defined at this token: `decode...`, `parse...` of
/// octets, or a function of another name that makes its type from octets.
fn is_function(tokens: &[&str], at: usize) -> bool {
    let (Some(&"fn"), Some(name)) = (tokens.get(at), tokens.get(at + 1)) else {
        return false;
    };
    let mut parameters = tokens[at..].iter().take_while(|token| **token != ")");
    let takes_octets = parameters.any(|token| *token == "u8");
    name.starts_with("decode")
        || (name.starts_with("parse") && takes_octets)
        || (*name != "new" && makes_itself_from_octets(&tokens[at..]))
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
    let result = tokens.iter().skip_while(|token| **token != ")");
    let mut result = result.take_while(until(&["{", ";"]));
    result.any(|token| *token == "Self")
}

/// Types whose `from_bytes` accepts any octets unchanged.
const PLAIN: [&str; 3] = ["OsStr", "OsStrExt", "Hash"];

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
        ] {
            assert!(is_found(text), "{text}");
        }
    }

    #[test]
    fn other_code_is_not_taken_for_a_decoder() {
        for text in [
            "Path::new(OsStr::from_bytes(path))",
            "std::os::unix::ffi::OsStrExt::from_bytes(name)",
            "blake3::Hash::from_bytes(*octets)",
            "// postcard::from_bytes(octets)",
            "let x = 1; // postcard::from_bytes(octets)",
            "u32::from_str(word)",
            "head.copy_from_slice(octets)",
            "fn parse(text: &str) -> Vec<u8> {",
            "pub fn new(octets: &[u8]) -> Self {",
            "fn with(mut self, value: &[u8]) -> Self {",
            "fn ring(cipher: Cipher, secret: &[u8]) -> Self {",
            "fn word(octets: &[u8]) -> Option<u32> { Self::other() }",
            "#[cfg(test)]\nmod tests { postcard::from_bytes(octets) }",
        ] {
            assert!(!is_found(text), "{text}");
        }
    }
}
