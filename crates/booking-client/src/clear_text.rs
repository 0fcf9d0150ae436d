//! Rule for secrets, and for data that others must not change: they go through TLS, or stay on this host.
//!
//! All clients that send a token ask [`stays_private`], so that the rule is the same for all of them.

use std::net::IpAddr;

use ureq::http::Uri;

/// Returns true if a request to `url` cannot be read or changed on the way: it goes through TLS, or to a loopback address.
/// The parser is that of the client.
pub fn stays_private(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else {
        return false;
    };
    match url.scheme_str() {
        Some("https") => true,
        Some("http") => url.host().is_some_and(is_this_host),
        _ => false,
    }
}

/// Returns true for a name or an address that means this host alone.
fn is_this_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        // RFC 6761, section 6.3
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tls_and_this_host_are_private() {
        for url in [
            "https://scheduler.example.org:4811",
            "HTTPS://scheduler.example.org",
            "http://127.0.0.1:4811",
            "http://127.8.0.9",
            "http://[::1]:4811/v1",
            "http://[::ffff:127.0.0.1]:4811",
            "http://LocalHost:4811",
        ] {
            assert!(stays_private(url), "{url}");
        }
        for url in [
            "http://scheduler.example.org:4811",
            "http://10.0.0.1",
            "http://[fe80::1]:4811",
            "http://127.0.0.1.example.org",
            "http://localhost.example.org",
            "http://localhost@example.org",
            "http://127.0.0.1:4811@example.org",
            "ftp://localhost",
            "localhost:4811",
            "",
        ] {
            assert!(!stays_private(url), "{url}");
        }
    }
}
