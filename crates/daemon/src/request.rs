//! Requests of clients, decoded by their topics.

use lighthaul_copy::message::{self, Target, Way};
use lighthaul_copy::relay::{self, Relay};
use lighthaul_files::options::Options;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_remote_files as remote_files;
use lighthaul_session::checkup;
use lighthaul_session::error::Error;
use lighthaul_session::measure::{self, MeasureRequest};
use lighthaul_session::message::Hello;
use lighthaul_session::topic::Topic;
use lighthaul_stream as stream;
use lighthaul_stream::message::StreamRequest;

use crate::error::Fault;
use crate::link_message::{self, Greeting};

/// Request of any topic that a daemon serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// Receive files.
    Receive { target: Target, options: Options },
    /// Send the files at the given paths.
    Send {
        paths: Vec<Vec<u8>>,
        options: Options,
    },
    /// Take part in a measurement.
    Probe(MeasureRequest),
    /// List, create or remove files.
    Files(FileRequest),
    /// Take part in a checkup.
    Checkup,
    /// Send files to another daemon, and report the progress.
    Relay { relay: Relay, options: Options },
    /// Admit the holder of the key with this fingerprint once, to send files to this daemon.
    Expect {
        key: [u8; 32],
        target: Target,
        options: Options,
    },
    /// Carry a stream.
    Stream(StreamRequest),
    /// Carry sessions of programs on a link.
    Gateway(Greeting),
    /// Serve ranges of files, and write files.
    RemoteFiles(remote_files::message::Request),
}

impl Request {
    /// Decodes the request of `hello`.
    pub(crate) fn of(hello: &Hello) -> Result<Self, Error> {
        Ok(match hello.topic {
            message::Message::NUMBER => {
                let message::Request { way, options } = hello.request::<message::Message>()?;
                match way {
                    Way::Receive(target) => Self::Receive { target, options },
                    Way::Send(paths) => Self::Send { paths, options },
                }
            }
            FileReply::NUMBER => Self::Files(hello.request::<FileReply>()?),
            stream::message::Message::NUMBER => {
                Self::Stream(hello.request::<stream::message::Message>()?)
            }
            relay::Message::NUMBER => match hello.request::<relay::Message>()? {
                relay::Request::Send { relay, options } => Self::Relay { relay, options },
                relay::Request::Expect {
                    key,
                    target,
                    options,
                } => Self::Expect {
                    key,
                    target,
                    options,
                },
            },
            checkup::message::Message::NUMBER => {
                hello.request::<checkup::message::Message>()?;
                Self::Checkup
            }
            measure::Message::NUMBER => Self::Probe(hello.request::<measure::Message>()?),
            link_message::Message::NUMBER => {
                Self::Gateway(hello.request::<link_message::Message>()?)
            }
            remote_files::message::Message::NUMBER => {
                Self::RemoteFiles(hello.request::<remote_files::message::Message>()?)
            }
            _ => return Err(Fault::UnknownTopic.into()),
        })
    }

    /// Returns the options of a copy.
    pub(crate) const fn options(&self) -> Option<&Options> {
        match self {
            Self::Receive { options, .. }
            | Self::Send { options, .. }
            | Self::Relay { options, .. }
            | Self::Expect { options, .. } => Some(options),
            Self::Probe(_)
            | Self::Files(_)
            | Self::Checkup
            | Self::Stream(_)
            | Self::Gateway(_)
            | Self::RemoteFiles(_) => None,
        }
    }

    /// Returns the options of a copy, to limit them.
    pub(crate) const fn options_mut(&mut self) -> Option<&mut Options> {
        match self {
            Self::Receive { options, .. }
            | Self::Send { options, .. }
            | Self::Relay { options, .. }
            | Self::Expect { options, .. } => Some(options),
            Self::Probe(_)
            | Self::Files(_)
            | Self::Checkup
            | Self::Stream(_)
            | Self::Gateway(_)
            | Self::RemoteFiles(_) => None,
        }
    }
}
