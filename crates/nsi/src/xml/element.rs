//! Elements of a document that was read.
//!
//! [`with_root`] parses a document of limited length, depth and number of nodes. Namespace
//! declarations and the attributes of an element are limited before parsing, since the time and
//! memory of the parser grow with their squares. Document type declarations are refused, so a
//! document has no entities of its own. The methods of [`Element`] name the element that is missing,
//! doubled or wrong.

use std::str::FromStr;

use lighthaul_booking_client::json::Timestamp;
use roxmltree::{Document, Node, ParsingOptions};

/// Fault of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The document exceeds the given maximum of bytes.
    #[error("the document has more than {0} bytes: send a shorter one")]
    TooLong(usize),
    /// The octets are not UTF-8.
    #[error("the document is not UTF-8: encode it in UTF-8")]
    NotUtf8,
    /// The text is not well-formed, has a document type declaration, or has too many nodes.
    #[error("the document is not well-formed XML, or has a document type: {0}")]
    NotXml(String),
    /// Elements exceed the given maximum depth.
    #[error("elements are nested more than {0} levels deep: send a flatter document")]
    TooDeep(usize),
    /// The document exceeds the given maximum of namespaces.
    #[error("the document has more than {0} namespace declarations: declare them at the root")]
    TooManyNamespaces(usize),
    /// An element exceeds the given maximum of attributes.
    #[error("an element has more than {0} attributes: send fewer")]
    TooManyAttributes(usize),
    /// The root or the body of the envelope is another element.
    #[error("the element {found} is not expected here: send {expected}")]
    Unexpected {
        /// Name of the element.
        found: String,
        /// Expected elements.
        expected: &'static str,
    },
    /// A required element or attribute is missing.
    #[error("the element {0} is missing: add it")]
    Missing(&'static str),
    /// An element occurs more often than the schema permits.
    #[error("the element {0} occurs more often than the schema permits: send it once")]
    Repeated(&'static str),
    /// The content of an element does not have the expected type.
    #[error("the content of {element} is wrong: send {expected}")]
    Value {
        /// Name of the element.
        element: &'static str,
        /// Description of the expected type.
        expected: &'static str,
    },
}

/// Element of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a>(Node<'a, 'a>);

/// Parses a document and calls `act` with its root element.
pub(crate) fn with_root<T>(
    octets: &[u8],
    length_max: usize,
    act: impl FnOnce(Element<'_>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    if octets.len() > length_max {
        return Err(DecodeError::TooLong(length_max));
    }
    let text = std::str::from_utf8(octets).map_err(|_| DecodeError::NotUtf8)?;
    check_names(text)?;
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options)
        .map_err(|why| DecodeError::NotXml(why.to_string()))?;
    check_depth(document.root_element())?;
    act(Element(document.root_element()))
}

/// Refuses many namespace declarations, and many attributes of an element.
///
/// The parser copies the declarations of an element to each child that has its own, and compares
/// each attribute with all others of its element.
fn check_names(text: &str) -> Result<(), DecodeError> {
    if text.matches("xmlns").nth(NAMESPACES_MAX).is_some() {
        return Err(DecodeError::TooManyNamespaces(NAMESPACES_MAX));
    }
    // the value of an attribute has no `<`
    for tag in text.split('<').skip(1) {
        let (mut quote, mut attributes) = (None, 0);
        for letter in tag.chars() {
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (None, '"' | '\'') => quote = Some(letter),
                (None, '=') => attributes += 1,
                (None, '>') => break,
                (Some(_) | None, _) => {}
            }
        }
        if attributes > ATTRIBUTES_MAX {
            return Err(DecodeError::TooManyAttributes(ATTRIBUTES_MAX));
        }
    }
    Ok(())
}

/// Refuses deep nesting.
fn check_depth(root: Node<'_, '_>) -> Result<(), DecodeError> {
    let (mut node, mut depth) = (root, 0);
    loop {
        if let Some(child) = node.first_child() {
            (node, depth) = (child, depth + 1);
            if depth > DEPTH_MAX {
                return Err(DecodeError::TooDeep(DEPTH_MAX));
            }
            continue;
        }
        while node != root && node.next_sibling().is_none() {
            (node, depth) = (node.parent().unwrap_or(root), depth - 1);
        }
        match node.next_sibling().filter(|_| node != root) {
            Some(next) => node = next,
            None => return Ok(()),
        }
    }
}

impl<'a> Element<'a> {
    /// Returns the local name.
    pub(crate) fn name(self) -> &'a str {
        self.0.tag_name().name()
    }

    /// Returns true if the element has the given name.
    pub(crate) fn is(self, space: &str, name: &str) -> bool {
        self.0.has_tag_name((space, name))
    }

    /// Returns the child elements.
    pub(crate) fn children(self) -> impl Iterator<Item = Self> + use<'a> {
        self.0.children().filter(Node::is_element).map(Element)
    }

    /// Returns the children named `name` without a namespace.
    pub(crate) fn all(self, name: &'static str) -> impl Iterator<Item = Self> + use<'a> {
        // a default namespace that was taken back is an empty name
        let bare = |of: Self| of.0.tag_name().namespace().unwrap_or_default().is_empty();
        self.children()
            .filter(move |child| bare(*child) && child.name() == name)
    }

    /// Returns the only child with the given name in a namespace, if any.
    pub(crate) fn qualified(
        self,
        space: &str,
        name: &'static str,
    ) -> Result<Option<Self>, DecodeError> {
        let mut found = self.children().filter(|child| child.is(space, name));
        let first = found.next();
        match found.next() {
            Some(_) => Err(DecodeError::Repeated(name)),
            None => Ok(first),
        }
    }

    /// Returns the only child named `name` without a namespace, if any.
    pub(crate) fn optional(self, name: &'static str) -> Result<Option<Self>, DecodeError> {
        let mut found = self.all(name);
        let first = found.next();
        match found.next() {
            Some(_) => Err(DecodeError::Repeated(name)),
            None => Ok(first),
        }
    }

    /// Returns the only child named `name` without a namespace.
    pub(crate) fn required(self, name: &'static str) -> Result<Self, DecodeError> {
        self.optional(name)?.ok_or(DecodeError::Missing(name))
    }

    /// Returns the text of a required child.
    pub(crate) fn text(self, name: &'static str) -> Result<String, DecodeError> {
        self.required(name)?.content(name)
    }

    /// Returns the text of an optional child. A child that is marked as nil counts as missing.
    pub(crate) fn optional_text(self, name: &'static str) -> Result<Option<String>, DecodeError> {
        let child = self.optional(name)?;
        let child = child.filter(|child| child.0.attribute((XSI, "nil")) != Some("true"));
        child.map(|child| child.content(name)).transpose()
    }

    /// Returns the value of a required child.
    pub(crate) fn value<T: FromStr>(
        self,
        element: &'static str,
        expected: &'static str,
    ) -> Result<T, DecodeError> {
        let text = self.text(element)?;
        text.parse()
            .map_err(|_| DecodeError::Value { element, expected })
    }

    /// Returns the value of an optional child.
    pub(crate) fn optional_value<T: FromStr>(
        self,
        element: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, DecodeError> {
        let text = self.optional_text(element)?;
        let value = text.map(|text| text.parse());
        value
            .transpose()
            .map_err(|_| DecodeError::Value { element, expected })
    }

    /// Returns the boolean of a required child.
    pub(crate) fn boolean(self, element: &'static str) -> Result<bool, DecodeError> {
        truth(element, &self.text(element)?)
    }

    /// Returns the boolean of an optional child.
    pub(crate) fn optional_boolean(
        self,
        element: &'static str,
    ) -> Result<Option<bool>, DecodeError> {
        let text = self.optional_text(element)?;
        text.map(|text| truth(element, &text)).transpose()
    }

    /// Returns the time of a required child.
    pub(crate) fn time(self, element: &'static str) -> Result<Timestamp, DecodeError> {
        self.value(element, TIME)
    }

    /// Returns the time of an optional child.
    pub(crate) fn optional_time(
        self,
        element: &'static str,
    ) -> Result<Option<Timestamp>, DecodeError> {
        self.optional_value(element, TIME)
    }

    /// Returns an attribute.
    pub(crate) fn attribute(self, name: &str) -> Option<&'a str> {
        self.0.attribute(name)
    }

    /// Returns the text of the element, which must have no child elements.
    pub(crate) fn content(self, element: &'static str) -> Result<String, DecodeError> {
        let mut text = String::new();
        for child in self.0.children() {
            if child.is_element() {
                let expected = "a text without elements";
                return Err(DecodeError::Value { element, expected });
            }
            text.push_str(child.text().filter(|_| child.is_text()).unwrap_or_default());
        }
        let text = text.trim();
        if text.len() > TEXT_MAX {
            let expected = "a text of at most 4096 bytes";
            return Err(DecodeError::Value { element, expected });
        }
        Ok(text.to_owned())
    }
}

fn truth(element: &'static str, text: &str) -> Result<bool, DecodeError> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(DecodeError::Value {
            element,
            expected: "true or false",
        }),
    }
}

const TIME: &str = "a time with an offset, as in 2031-05-01T06:00:00Z";
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Maximum number of nodes of a document.
const NODES_MAX: u32 = 20_000;
/// Maximum depth of nested elements.
const DEPTH_MAX: usize = 64;
/// Maximum number of namespace declarations of a document.
const NAMESPACES_MAX: usize = 64;
/// Maximum number of attributes of an element.
const ATTRIBUTES_MAX: usize = 64;
/// Maximum length of the text of an element in bytes.
pub(crate) const TEXT_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, DecodeError> {
        with_root(text.as_bytes(), 1 << 20, |root| root.text("a"))
    }

    #[test]
    fn documents_with_entities_or_beyond_any_limit_are_refused() {
        let bomb = "<!DOCTYPE r [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><r><a>&b;</a></r>";
        assert!(matches!(read(bomb), Err(DecodeError::NotXml(_))));
        let external = "<!DOCTYPE r SYSTEM \"file:///etc/passwd\"><r><a/></r>";
        assert!(matches!(read(external), Err(DecodeError::NotXml(_))));
        let deep = format!("{}{}", "<r>".repeat(9000), "</r>".repeat(9000));
        assert_eq!(read(&deep), Err(DecodeError::TooDeep(DEPTH_MAX)));
        let wide = format!("<r>{}</r>", "<b/>".repeat(30_000));
        assert!(matches!(read(&wide), Err(DecodeError::NotXml(_))));
        let long = with_root(&[b' '; 9], 8, |root| root.text("a"));
        assert_eq!(long, Err(DecodeError::TooLong(8)));
        assert_eq!(
            with_root(&[0xff], 8, |root| root.text("a")),
            Err(DecodeError::NotUtf8)
        );
    }

    #[test]
    fn documents_at_their_limits_are_read() {
        let text = "<r><a>x</a></r>";
        let exact = with_root(text.as_bytes(), text.len(), |root| root.text("a"));
        assert_eq!(exact, Ok("x".to_owned()));
        let nested = |levels: usize| format!("{}{}", "<b>".repeat(levels), "</b>".repeat(levels));
        // the root is not nested
        let of = |levels: usize| read(&format!("<r><a/>{}</r>", nested(levels)));
        assert_eq!(of(DEPTH_MAX), Ok(String::new()));
        assert_eq!(of(DEPTH_MAX + 1), Err(DecodeError::TooDeep(DEPTH_MAX)));
        let long = |length: usize| read(&format!("<r><a>{}</a></r>", "x".repeat(length)));
        assert_eq!(long(TEXT_MAX).unwrap().len(), TEXT_MAX);
        assert!(matches!(
            long(TEXT_MAX + 1),
            Err(DecodeError::Value { element: "a", .. })
        ));
    }

    #[test]
    fn documents_with_many_namespaces_or_attributes_are_refused() {
        let names = |count: usize| -> String {
            let names = (0..count).map(|nth| format!(" xmlns:n{nth}='u{nth}'"));
            names.collect()
        };
        let nested = format!("<r{}>{}<a/></r>", names(60), "<b xmlns='u'/>".repeat(4500));
        let expected = Err(DecodeError::TooManyNamespaces(NAMESPACES_MAX));
        assert_eq!(read(&nested), expected);
        assert_eq!(read(&format!("<r{}><a/></r>", names(3000))), expected);
        assert_eq!(
            read(&format!("<r{}><a>x</a></r>", names(64))),
            Ok("x".into())
        );
        let attributes = |count: usize| -> String {
            let attributes = (0..count).map(|nth| format!(" n{nth} = 'a>\"'"));
            attributes.collect()
        };
        assert_eq!(
            read(&format!("<r><a{}/></r>", attributes(5000))),
            Err(DecodeError::TooManyAttributes(ATTRIBUTES_MAX))
        );
        let many = format!("<r><a{}>{}</a></r>", attributes(64), "=".repeat(99));
        assert_eq!(read(&many), Ok("=".repeat(99)));
    }

    #[test]
    fn children_are_found_by_name_and_namespace() {
        assert_eq!(read("<r><a> x &amp; y </a></r>"), Ok("x & y".to_owned()));
        assert_eq!(read("<r/>"), Err(DecodeError::Missing("a")));
        assert_eq!(
            read("<r xmlns='u'><a/></r>"),
            Err(DecodeError::Missing("a"))
        );
        assert_eq!(read("<r><a/><a/></r>"), Err(DecodeError::Repeated("a")));
        assert!(matches!(
            read("<r><a><b/></a></r>"),
            Err(DecodeError::Value { .. })
        ));
        assert_eq!(read("<r><a><![CDATA[<]]></a></r>"), Ok("<".to_owned()));
    }
}
