//! Floor 10: copies between hosts, for programs.
