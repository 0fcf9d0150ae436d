//! Differences between an entry and the target, as `--itemize-changes` of rsync shows them.

use serde::{Deserialize, Serialize};

/// Differences of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Kind of the update.
    pub update: Update,
    /// Kind of the entry.
    pub kind: ItemKind,
    /// True if the target did not have the entry.
    pub new: bool,
    /// Changed attributes of an entry that the target had.
    pub changed: Changed,
}

/// Kinds of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Update {
    /// Data of a file are sent.
    Data,
    /// The entry is created or changed without data.
    Local,
    /// The entry is a hard link to another entry.
    HardLink,
    /// Only attributes change.
    Attributes,
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemKind {
    /// File.
    File,
    /// Directory.
    Folder,
    /// Symbolic link.
    Link,
}

/// Attributes that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an attribute")]
pub struct Changed {
    /// Content of a file by digest, or target of a link.
    pub value: bool,
    /// Size of a file.
    pub size: bool,
    /// Modification time.
    pub time: bool,
    /// Permission bits.
    pub mode: bool,
    /// User.
    pub user: bool,
    /// Group.
    pub group: bool,
    /// Access time.
    pub accessed: bool,
    /// Access lists or other extended attributes.
    pub attributes: bool,
}

impl Item {
    /// Returns the eleven characters of rsync. `sends` is true if this side sends the data.
    pub fn text(&self, sends: bool) -> String {
        let update = match self.update {
            Update::Data if sends => '<',
            Update::Data => '>',
            Update::Local => 'c',
            Update::HardLink => 'h',
            Update::Attributes => '.',
        };
        let kind = match self.kind {
            ItemKind::File => 'f',
            ItemKind::Folder => 'd',
            ItemKind::Link => 'L',
        };
        if self.new {
            return format!("{update}{kind}+++++++++");
        }
        let Changed {
            value,
            size,
            time,
            mode,
            user,
            group,
            accessed,
            attributes,
        } = self.changed;
        let letters = [
            (value, 'c'),
            (size, 's'),
            (time, 't'),
            (mode, 'p'),
            (user, 'o'),
            (group, 'g'),
            (accessed, 'u'),
            (false, 'a'),
            (attributes, 'x'),
        ];
        let letters = letters.map(|(differs, letter)| if differs { letter } else { '.' });
        let letters: String = letters.into_iter().collect();
        format!("{update}{kind}{letters}")
    }
}

impl Changed {
    /// Returns true if an attribute differs.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_the_letters_of_rsync() {
        let mut item = Item {
            update: Update::Data,
            kind: ItemKind::File,
            new: true,
            changed: Changed::default(),
        };
        assert_eq!(item.text(true), "<f+++++++++");
        item.new = false;
        item.changed.size = true;
        item.changed.time = true;
        assert_eq!(item.text(false), ">f.st......");
        item.update = Update::Attributes;
        item.kind = ItemKind::Folder;
        item.changed = Changed {
            mode: true,
            user: true,
            group: true,
            ..Changed::default()
        };
        assert_eq!(item.text(true), ".d...pog...");
    }
}
