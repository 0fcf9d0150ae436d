//! Floor 5: Network Service Interface (NSI), the OGF's protocol for circuits across networks.
//!
//! - [`message`]: messages of the Connection Service 2.1 (GFD.237) in SOAP 1.1
//! - [`machine`]: state machines of a connection
//! - [`provider`]: answers requests and reports to requesters
//! - [`requester`]: leases a circuit from a provider
//! - [`topology`]: documents about the network (NML, GFD.206) and about the agent
//! - [`xml`]: reading and writing of documents

pub mod machine;
pub mod message;
pub mod provider;
pub mod requester;
pub mod topology;
pub mod xml;
