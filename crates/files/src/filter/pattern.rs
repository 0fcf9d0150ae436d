//! Pattern of a filter, as in rsync(1) under "PATTERN MATCHING RULES".
//!
//! [`Pattern`] must decide as rsync does, for every name that a file system allows; tests compare
//! both. Patterns may come from a peer. Matching therefore takes at most the length of the path
//! times that of the pattern.

/// Parsed pattern. It matches octets, since names need not be UTF-8.
///
/// Matching tracks all positions in the pattern at once. Its time is at most the length of the path
/// times the length of the pattern, even for patterns that a peer chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
    sets: Vec<Set>,
    scope: Scope,
    is_wild: bool,
    folders_only: bool,
    /// True for a pattern that ends in `/***`, which also matches the directory before the slash.
    whole_folder: bool,
}

/// Place in a path at which a match may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Root of the transfer.
    Root,
    /// The given number of names before the end.
    Tail(usize),
    /// After any slash.
    Anywhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Octet(u8),
    /// `?`
    Any,
    /// `*`
    Star,
    /// `**`
    Deep,
    /// Set `[...]`, by number.
    Set(u16),
    /// Matches no character, like a bracket without an end in rsync.
    Never,
}

/// Octets that a bracket matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set([u64; 4]);

impl Pattern {
    /// Parses a pattern.
    pub fn new(text: &[u8]) -> Self {
        let (text, folders_only) = match text {
            [head @ .., b'/'] if !head.is_empty() => (head, true),
            _ => (text, false),
        };
        let is_wild = text.iter().any(|octet| b"*?[".contains(octet));
        let deep = is_wild && text.windows(2).any(|pair| pair == b"**");
        let slashes = text.iter().filter(|octet| **octet == b'/').count();
        let (body, scope) = match text {
            [b'/', body @ ..] => (body, Scope::Root),
            _ if deep => (text, Scope::Anywhere),
            _ => (text, Scope::Tail(slashes + 1)),
        };
        let mut pattern = Self {
            tokens: Vec::with_capacity(body.len()),
            sets: Vec::new(),
            scope,
            is_wild,
            folders_only,
            whole_folder: is_wild && text.ends_with(b"***"),
        };
        if is_wild {
            pattern.read(body);
        } else {
            pattern.tokens = body.iter().copied().map(Token::Octet).collect();
        }
        pattern
    }

    /// Returns true if the pattern matches `path`, relative to the root of the transfer. `folder`
    /// is true for directories.
    pub fn matches(&self, path: &[u8], folder: bool) -> bool {
        if self.folders_only && !folder {
            return false;
        }
        // `**/x` also matches x at the root, and `x/***` the directory x
        let before = matches!(self.tokens.first(), Some(Token::Deep)) && self.scope != Scope::Root;
        let behind = folder && self.whole_folder;
        let path = match self.scope {
            Scope::Root | Scope::Anywhere => path,
            Scope::Tail(names) => match tail(path, names) {
                Some(tail) => tail,
                None => return false,
            },
        };
        // most paths end differently, and need no further matching
        if let Some(Token::Octet(last)) = self.tokens.last()
            && path.last() != Some(last)
        {
            return false;
        }
        if !self.is_wild {
            return self
                .tokens
                .iter()
                .copied()
                .eq(path.iter().copied().map(Token::Octet));
        }
        let octets = before.then_some(b'/').into_iter();
        let octets = octets.chain(path.iter().copied());
        self.run(octets.chain(behind.then_some(b'/')))
    }

    /// Matches `octets` with the tokens. A place is the number of tokens before it.
    fn run(&self, octets: impl Iterator<Item = u8>) -> bool {
        let mut places = Vec::with_capacity(8);
        let mut next = Vec::with_capacity(8);
        self.enter(&mut places, 0);
        for octet in octets {
            if octet == b'/' && self.scope == Scope::Anywhere {
                self.enter(&mut next, 0);
            }
            for place in places.drain(..) {
                let stays = match self.tokens.get(place) {
                    Some(Token::Deep) => true,
                    Some(Token::Star) => octet != b'/',
                    _ => false,
                };
                if stays {
                    self.enter(&mut next, place);
                } else if self.includes(place, octet) {
                    self.enter(&mut next, place + 1);
                }
            }
            std::mem::swap(&mut places, &mut next);
            if places.is_empty() && self.scope != Scope::Anywhere {
                return false;
            }
        }
        places.last() == Some(&self.tokens.len())
    }

    /// Adds a place, and also the next place after a star, which may match an empty text. Places are added in rising
    /// order, at most two farther than the last, so the last two show which are present.
    fn enter(&self, places: &mut Vec<usize>, place: usize) {
        let is_star = matches!(self.tokens.get(place), Some(Token::Star | Token::Deep));
        for place in place..=place + usize::from(is_star) {
            if !places.iter().rev().take(2).any(|other| *other == place) {
                places.push(place);
            }
        }
    }

    fn includes(&self, place: usize, octet: u8) -> bool {
        match self.tokens.get(place) {
            Some(Token::Octet(own)) => *own == octet,
            Some(Token::Any) => octet != b'/',
            Some(Token::Set(set)) => self.sets[usize::from(*set)].has(octet),
            Some(Token::Star | Token::Deep | Token::Never) | None => false,
        }
    }

    /// Parses the tokens of a pattern with wildcards.
    fn read(&mut self, mut text: &[u8]) {
        while let [first, rest @ ..] = text {
            text = rest;
            let token = match first {
                b'*' => {
                    let stars = text.iter().take_while(|octet| **octet == b'*').count();
                    text = &text[stars..];
                    if stars == 0 { Token::Star } else { Token::Deep }
                }
                b'?' => Token::Any,
                b'\\' => match text {
                    [octet, rest @ ..] => {
                        text = rest;
                        Token::Octet(*octet)
                    }
                    [] => Token::Never,
                },
                b'[' => match Set::read(text) {
                    Some((set, rest)) => {
                        text = rest;
                        let number = u16::try_from(self.sets.len());
                        self.sets.push(set);
                        // patterns have a maximum length, so they have fewer sets
                        number.map_or(Token::Never, Token::Set)
                    }
                    None => Token::Never,
                },
                octet => Token::Octet(*octet),
            };
            self.tokens.push(token);
        }
    }
}

impl Set {
    /// Parses the text after a `[`. Returns the text after its `]`.
    fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let (negated, mut text) = match text {
            [b'!' | b'^', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let mut set = Self::default();
        let mut previous = None;
        let mut first = true;
        loop {
            match text {
                [b']', rest @ ..] if !first => {
                    text = rest;
                    break;
                }
                [b'[', b':', rest @ ..] if rest.contains(&b']') => {
                    text = set.class(text, rest)?;
                    previous = None;
                }
                [b'-', till, rest @ ..] if previous.is_some() && *till != b']' => {
                    let (till, rest) = unescaped(*till, rest)?;
                    (previous.take()?..=till).for_each(|octet| set.insert(octet));
                    text = rest;
                }
                [octet, rest @ ..] => {
                    let (octet, rest) = unescaped(*octet, rest)?;
                    set.insert(octet);
                    previous = Some(octet);
                    text = rest;
                }
                [] => return None,
            }
            first = false;
        }
        if negated {
            set.0 = set.0.map(|word| !word);
        }
        set.remove(b'/');
        Some((set, text))
    }

    /// Adds a class such as `[:digit:]`, whose name begins at `inner`. Without its end, the bracket
    /// stands for itself.
    fn class<'a>(&mut self, text: &'a [u8], inner: &'a [u8]) -> Option<&'a [u8]> {
        let end = inner.iter().position(|octet| *octet == b']')?;
        let [name @ .., b':'] = &inner[..end] else {
            self.insert(b'[');
            return Some(&text[1..]);
        };
        let holds: fn(&u8) -> bool = match name {
            b"alnum" => u8::is_ascii_alphanumeric,
            b"alpha" => u8::is_ascii_alphabetic,
            b"blank" => |octet| b" \t".contains(octet),
            b"cntrl" => u8::is_ascii_control,
            b"digit" => u8::is_ascii_digit,
            b"graph" => u8::is_ascii_graphic,
            b"lower" => u8::is_ascii_lowercase,
            b"print" => |octet| octet.is_ascii_graphic() || *octet == b' ',
            b"punct" => u8::is_ascii_punctuation,
            b"space" => |octet| octet.is_ascii_whitespace() || *octet == 0x0b,
            b"upper" => u8::is_ascii_uppercase,
            b"xdigit" => u8::is_ascii_hexdigit,
            _ => return None,
        };
        (0..=u8::MAX)
            .filter(holds)
            .for_each(|octet| self.insert(octet));
        Some(&inner[end + 1..])
    }

    fn insert(&mut self, octet: u8) {
        self.0[usize::from(octet >> 6)] |= 1 << (octet & 63);
    }

    fn remove(&mut self, octet: u8) {
        self.0[usize::from(octet >> 6)] &= !(1 << (octet & 63));
    }

    fn has(&self, octet: u8) -> bool {
        self.0[usize::from(octet >> 6)] >> (octet & 63) & 1 == 1
    }
}

/// Returns `octet`, or the next one if `octet` is a backslash.
fn unescaped(octet: u8, rest: &[u8]) -> Option<(u8, &[u8])> {
    match (octet, rest) {
        (b'\\', [octet, rest @ ..]) => Some((*octet, rest)),
        (b'\\', []) => None,
        _ => Some((octet, rest)),
    }
}

/// Returns the last `names` names of `path`, or none if `path` has fewer names.
fn tail(path: &[u8], names: usize) -> Option<&[u8]> {
    let mut starts = path
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, octet)| **octet == b'/')
        .map(|(at, _)| at + 1)
        .chain(std::iter::once(0));
    starts.nth(names - 1).map(|start| &path[start..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let folder = path.ends_with('/');
        Pattern::new(pattern.as_bytes()).matches(path.trim_end_matches('/').as_bytes(), folder)
    }

    #[test]
    fn patterns_match_as_in_the_manual_of_rsync() {
        for (pattern, yes, no) in [
            ("*.o", "a/b.o", "a.o/b"),
            ("/foo", "foo", "a/foo"),
            ("foo/", "a/foo/", "a/foo"),
            ("/foo/*/bar", "foo/x/bar", "foo/x/y/bar"),
            ("/foo/**/bar", "foo/x/y/bar", "foo/bar"),
            ("foo/bar", "a/foo/bar", "afoo/bar"),
            ("**/bar", "bar", "xbar"),
            ("foo/***", "a/foo/", "a/foo"),
            ("foo/***", "foo/x/y", "foo"),
            ("foo/**", "foo/x", "foo/"),
            ("a?c", "abc", "a/c"),
            ("[a-c]x", "bx", "dx"),
            ("[!a-c]x", "dx", "bx"),
            ("[]-]x", "-x", "ax"),
            ("[[:digit:]-]", "7", "a"),
            ("a\\*b", "a*b", "axb"),
            ("a\\b", "a\\b", "ab"),
            ("[a", "nothing else", "[a"),
        ] {
            assert!(pattern == "[a" || matches(pattern, yes), "{pattern} {yes}");
            assert!(!matches(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn matching_time_of_many_stars_is_bounded() {
        let pattern = Pattern::new("*a".repeat(2000).as_bytes());
        let path = vec![b'a'; 1999];
        assert!(!pattern.matches(&path, false));
    }

    /// Reference implementation of the manual by exhaustive search. `text` is the pattern without
    /// its anchor.
    fn matches_slowly(text: &[u8], path: &[u8]) -> bool {
        match text {
            [] => path.is_empty(),
            [b'*', b'*', ..] => {
                let stars = text.iter().take_while(|octet| **octet == b'*').count();
                (0..=path.len()).any(|from| matches_slowly(&text[stars..], &path[from..]))
            }
            [b'*', rest @ ..] => (0..=path.len())
                .take_while(|from| !path[..*from].contains(&b'/'))
                .any(|from| matches_slowly(rest, &path[from..])),
            [b'?', rest @ ..] => {
                path.first().is_some_and(|octet| *octet != b'/') && matches_slowly(rest, &path[1..])
            }
            [octet, rest @ ..] => path.first() == Some(octet) && matches_slowly(rest, &path[1..]),
        }
    }

    fn matches_exhaustively(pattern: &str, path: &str, folder: bool) -> bool {
        let (pattern, folders_only) = match pattern.strip_suffix('/') {
            Some(head) if !head.is_empty() => (head, true),
            _ => (pattern, false),
        };
        if folders_only && !folder {
            return false;
        }
        let mut paths = vec![path.to_owned()];
        if folder && pattern.ends_with("***") {
            paths.push(format!("{path}/"));
        }
        if let Some(anchored) = pattern.strip_prefix('/') {
            return paths
                .iter()
                .any(|path| matches_slowly(anchored.as_bytes(), path.as_bytes()));
        }
        if pattern.starts_with("**") {
            paths = paths.iter().map(|path| format!("/{path}")).collect();
        }
        // every suffix of the path that begins with a name
        paths.iter().any(|path| {
            let starts = path.match_indices('/').map(|(at, _)| at + 1);
            std::iter::once(0)
                .chain(starts)
                .any(|start| matches_slowly(pattern.as_bytes(), &path.as_bytes()[start..]))
        })
    }

    proptest! {
        #[test]
        fn patterns_agree_with_exhaustive_search(
            pattern in "/?[ab*?/]{1,8}",
            path in "[ab]{1,3}(/[ab]{1,3}){0,3}",
            folder: bool,
        ) {
            prop_assume!(!pattern.contains("//"));
            let found = Pattern::new(pattern.as_bytes()).matches(path.as_bytes(), folder);
            prop_assert_eq!(found, matches_exhaustively(&pattern, &path, folder));
        }

        #[test]
        fn pattern_that_matches_a_file_matches_a_folder_of_that_name(pattern: Vec<u8>, path: Vec<u8>) {
            let pattern = Pattern::new(&pattern);
            prop_assert!(pattern.matches(&path, true) || !pattern.matches(&path, false));
        }
    }
}
