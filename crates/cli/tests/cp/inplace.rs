//! Files that are written where they will stay, or in a folder of their own until they are whole.
