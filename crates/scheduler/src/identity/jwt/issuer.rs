//! Trusted issuer of signed tokens, and the roles that its tokens give.

/// Trusted issuer of signed tokens, and the roles that its tokens give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Name in the claim `iss` (exact match).
    pub name: String,
    /// Names of this service in the claim `aud`.
    pub audiences: Vec<String>,
    /// Scope or group that users need, if any.
    pub users: Option<String>,
    /// Scope or group of operators.
    pub operators: Option<String>,
    /// Scope or group of administrators.
    pub admins: Option<String>,
}

impl Issuer {
    /// Returns the name of the issuer without `https://`, for the names of clients.
    pub(crate) fn short_name(&self) -> &str {
        let name = self.name.strip_prefix("https://").unwrap_or(&self.name);
        name.trim_end_matches('/')
    }
}
