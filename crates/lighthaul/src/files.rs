//! Operations on files of this host or of another host: lists, metadata, removal, new directories; remote files.

use lighthaul_files::execute::{Scope, execute};
use lighthaul_files::remote::receive;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_remote::files::connect;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::ask;
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_session::error::Error;
use lighthaul_session::halt::Halt;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::topic::{MESSAGE_MAX, Topic};

use crate::client::Client;
use crate::fault::Fault;

impl Client {
    /// Connects to the files of the host of `place`, to read and write them without copying. `changes` asks for the
    /// right to write.
    pub fn files(&self, place: &Place, changes: bool) -> Result<RemoteFiles, Error> {
        connect(self.route(), place, changes)
    }

    /// Executes `request` on the host of `place`, and passes each part of the reply to `take`. Lists of any length
    /// need little memory. Items that fail are parts of the reply, not errors.
    pub fn execute(
        &self,
        place: &Place,
        request: &FileRequest,
        take: &mut dyn FnMut(FileReply) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Place::Here(_) = place {
            let scope = Scope {
                access: &FileAccess::anywhere(),
                writable: true,
                special: true,
                halt: &Halt::default(),
            };
            return execute(scope, request, take).map(|_| ());
        }
        let hello = Hello::about::<FileReply>(request);
        let refused = hello.request::<FileReply>().is_err();
        if refused || Message::Hello(hello).encode().len() > MESSAGE_MAX {
            return Err(Fault::ManyPlaces.into());
        }
        let far = ask::<FileReply>(self.route(), place, request)?;
        receive(&far.session, &mut |part| {
            take(with_host(place, request, part))
        })
    }
}

/// Returns a part of a reply of the host of `place`, in which failures name the host.
fn with_host(place: &Place, request: &FileRequest, part: FileReply) -> FileReply {
    let FileReply::Failed { code, why } = part else {
        return part;
    };
    let paths: Vec<&[u8]> = request.paths().iter().map(Vec::as_slice).collect();
    let why = place.name_host(&why, &paths);
    FileReply::Failed { code, why }
}
