//! Requests for `/metrics`.

/// Request of a scraper, reduced to the parts that affect the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrapeRequest {
    /// The metrics.
    Metrics,
    /// Another path, which does not exist.
    OtherPath,
    /// Another method than GET, or no valid request.
    OtherMethod,
}

impl ScrapeRequest {
    /// Reads the first line of the head of an HTTP request (RFC 9112, section 3).
    pub fn of(head: &[u8]) -> Self {
        let line = head.split(|octet| *octet == b'\r').next();
        let mut words = line.unwrap_or_default().split(|octet| *octet == b' ');
        match (words.next(), words.next()) {
            (Some(b"GET"), Some(b"/metrics")) => Self::Metrics,
            (Some(b"GET"), Some(_)) => Self::OtherPath,
            _ => Self::OtherMethod,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_are_read_from_the_first_line_only() {
        for (head, expected) in [
            (
                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                ScrapeRequest::Metrics,
            ),
            ("GET /metrics\r\n\r\n", ScrapeRequest::Metrics),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", ScrapeRequest::OtherPath),
            ("GET \r\n\r\n", ScrapeRequest::OtherPath),
            ("GET  /metrics HTTP/1.1\r\n\r\n", ScrapeRequest::OtherPath),
            ("GET\r\n /metrics\r\n\r\n", ScrapeRequest::OtherMethod),
            ("get /metrics HTTP/1.1\r\n\r\n", ScrapeRequest::OtherMethod),
            ("POST /metrics HTTP/1.1\r\n\r\n", ScrapeRequest::OtherMethod),
            ("\r\n\r\n", ScrapeRequest::OtherMethod),
        ] {
            assert_eq!(ScrapeRequest::of(head.as_bytes()), expected, "{head:?}");
        }
    }
}
