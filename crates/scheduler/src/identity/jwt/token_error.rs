//! Faults of signed tokens.

/// Fault of a signed token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token does not have three parts.
    #[error("the token does not have three parts separated by dots: ask the issuer for another")]
    Form,
    /// A required claim is missing.
    #[error("the token lacks the claim {0}: ask the issuer for a token with it")]
    Lacks(&'static str),
    /// A claim has a type that RFC 7519 does not allow.
    #[error("the claims of the token do not conform to RFC 7519: ask the issuer for another")]
    Claims,
    /// The subject has control characters.
    #[error("the subject of the token has control characters: ask the issuer for another")]
    Name,
    /// The signature algorithm is not supported.
    #[error(
        "the token is signed with {0}, which is not supported: ask the issuer for RS256, ES256 or EdDSA"
    )]
    Algorithm(String),
    /// The signature is not by a key of the issuer.
    #[error(
        "the signature of the token is not by a key of the issuer: ask the issuer for a new token"
    )]
    Signature,
    /// The token is from another issuer.
    #[error(
        "the token is from {0}, which is not the trusted issuer: ask the operator for the name of that issuer"
    )]
    Issuer(String),
    /// The token is for another audience.
    #[error("the token is for another service: ask the issuer for one with audience {0}")]
    Audience(String),
    /// The token has expired.
    #[error("the token has expired: ask the issuer for a new one")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not valid yet: check the clocks of this host and of the issuer")]
    Early,
    /// The token lacks a required scope or group.
    #[error("the token lacks the scope {0}: ask the issuer for a token with it")]
    Scope(String),
}
