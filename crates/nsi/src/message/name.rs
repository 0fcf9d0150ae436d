//! Names of elements and namespaces.

/// SOAP 1.1.
pub const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";
/// Header of NSI messages.
pub const HEADERS: &str = "http://schemas.ogf.org/nsi/2013/12/framework/headers";
/// Types that all NSI services share.
pub const FRAMEWORK: &str = "http://schemas.ogf.org/nsi/2013/12/framework/types";
/// Messages of the Connection Service.
pub const CONNECTION: &str = "http://schemas.ogf.org/nsi/2013/12/connection/types";
/// Point-to-point service.
pub const POINT_TO_POINT: &str = "http://schemas.ogf.org/nsi/2013/12/services/point2point";
/// Protocol version of requests and their responses.
pub const PROVIDER_PROTOCOL: &str = "application/vnd.ogf.nsi.cs.v2.provider+soap";
/// Protocol version of confirmations and notifications.
pub const REQUESTER_PROTOCOL: &str = "application/vnd.ogf.nsi.cs.v2.requester+soap";
/// Service type of Ethernet circuits with a VLAN, the usual one.
pub const ETHERNET_SERVICE: &str = "http://services.ogf.org/nsi/2013/12/descriptions/EVTS.A-GOLE";

/// Returns the `SOAPAction` of a message.
pub fn soap_action(message: &str) -> String {
    format!("http://schemas.ogf.org/nsi/2013/12/connection/service/{message}")
}
