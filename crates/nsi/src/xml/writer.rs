//! Writer of XML elements.

/// Text of a document to which elements are added.
#[derive(Debug, Default)]
pub(crate) struct Writer(String);

impl Writer {
    /// Returns a document with the XML declaration.
    pub(crate) fn document() -> Self {
        Self("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned())
    }

    /// Adds an element with its attributes, and the content that `inside` adds.
    pub(crate) fn element(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        inside: impl FnOnce(&mut Self),
    ) {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            self.0.push(' ');
            self.0.push_str(attribute);
            self.0.push_str("=\"");
            self.escape(value);
            self.0.push('"');
        }
        self.0.push('>');
        inside(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// Adds an element with a text.
    pub(crate) fn text(&mut self, name: &str, value: impl AsRef<str>) {
        self.element(name, &[], |w| w.escape(value.as_ref()));
    }

    /// Adds an element with a text, if the text is present.
    pub(crate) fn optional(&mut self, name: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Adds a text without markup. Characters that XML 1.0 does not have are replaced.
    pub(crate) fn escape(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                // a reader would turn them into other white space
                '\r' => self.0.push_str("&#13;"),
                '\n' => self.0.push_str("&#10;"),
                '\t' => self.0.push_str("&#9;"),
                '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                letter => self.0.push(letter),
            }
        }
    }

    /// Returns the document.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}
