//! Why a token lets nobody in.

/// Why a token lets nobody in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is no token of three parts.
    #[error("the token is not one of three parts that a dot divides")]
    Form,
    /// It does not say what every token has to.
    #[error("the token lacks the claim {0}: ask the issuer for one that has it")]
    Lacks(&'static str),
    /// It says something that is not what RFC 7519 has.
    #[error("the claims of the token are not as RFC 7519 has them: ask the issuer for another")]
    Claims,
    /// It names its holder in a way that cannot be shown.
    #[error(
        "the token names its holder with letters that cannot be shown: ask the issuer for another"
    )]
    Name,
    /// It is signed in a way that is not known here.
    #[error("the token is signed with {0}: ask the issuer for one with RS256, ES256 or EdDSA")]
    Algorithm(String),
    /// No key of the issuer made its signature.
    #[error("no key of the issuer has signed the token: ask the issuer for a new one")]
    Signature,
    /// It is of somebody else.
    #[error("the token is from {0}, whose word does not count here")]
    Issuer(String),
    /// It is for somebody else.
    #[error("the token is not for this service: ask the issuer for one for {0}")]
    Audience(String),
    /// It is over.
    #[error("the token has expired: ask the issuer for a new one")]
    Expired,
    /// It does not hold yet.
    #[error("the token does not hold yet: check the clocks of this host and the issuer")]
    Early,
    /// It gives no right to anything here.
    #[error("the token has not the scope {0}: ask the issuer for one that has")]
    Scope(String),
}
