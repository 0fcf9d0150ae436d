//! Clients: identity, known hosts and routes of the calling program.
#![expect(unsafe_code, reason = "exported names and pointers of the program")]

use std::ffi::{c_char, c_void};
use std::fmt::{self, Debug, Formatter};
use std::mem::offset_of;
use std::sync::Arc;

use lighthaul::{Client, Error, Install, Scheduler, Settings, Token, User};

use super::code::{ResultCode, result};
use crate::call::{c_string, run};
use crate::callback::{self, Callback};
use crate::handles::{self, Object};
use crate::memory::{self, Data, Request};

/// Client that connects to other hosts. It has a private key and a list of known hosts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Function that receives notices, for example about the key of a new host. The library may call it in any thread.
pub type NoteFunction = Option<extern "C" fn(data: *mut c_void, text: *const c_char)>;

/// Settings of a client. Settings that are not given come from the user's files, as for the command.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
// fields: one for each setting
pub struct ClientRequest {
    /// Size of this structure in bytes.
    pub size: usize,
    /// File with the private key of this program, which is created if missing.
    pub key: *const c_char,
    /// File with the keys of known hosts.
    pub known_hosts: *const c_char,
    /// Key that the daemon must have, as in sha256:...
    pub pin: *const c_char,
    /// Token for the daemon.
    pub token: *const c_char,
    /// File with the statement of an authority.
    pub statement: *const c_char,
    /// Command for hosts without a daemon [default: ssh].
    pub ssh: *const c_char,
    /// Program on hosts without a daemon [default: lighthaul].
    pub remote: *const c_char,
    /// Gateway on the path, as in `socks5://HOST:PORT`.
    pub gateway: *const c_char,
    /// File with rates that earlier copies have measured.
    pub known_paths: *const c_char,
    /// 1 to refuse daemons whose key is not known.
    pub strict: i32,
    /// 1 to install the program on a host without it.
    pub install: i32,
    /// Function that receives notices; null for none.
    pub note: NoteFunction,
    /// First argument of that function. It must stay valid until the client and all that it opened are closed.
    pub data: *mut c_void,
    /// URL of the scheduler that reserves capacity, as in <https://books.example.org:4811>.
    pub scheduler: *const c_char,
    /// File with a token for the scheduler.
    pub scheduler_token_file: *const c_char,
    /// Key that the scheduler must have, instead of a certificate.
    pub scheduler_pin: *const c_char,
}

// SAFETY: the structure begins with its size; pointers, numbers and functions may be zero.
unsafe impl Request for ClientRequest {
    const NAME: &'static str = "lh_client_request";
    const FIRST: usize = offset_of!(Self, scheduler);
}

// programs read the size at the beginning
const _: () = assert!(offset_of!(ClientRequest, size) == 0);

impl Object for Client {
    const NAME: &'static str = "client";
}

/// Interaction with the user: notices go to a function of the program.
struct Notes {
    function: extern "C" fn(*mut c_void, *const c_char),
    data: Data,
}

impl User for Notes {
    fn tell(&self, note: &str) {
        let note = c_string(note);
        callback::within(Callback::Note, || {
            (self.function)(self.data.pointer(), note.as_ptr());
        });
    }

    fn agrees(&self, _question: &str) -> Result<bool, Error> {
        Ok(false)
    }
}

impl Debug for Notes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Notes")
    }
}

/// Opens a client. If `request` is null, the client has the defaults of the command. No connection is opened yet.
#[unsafe(no_mangle)]
pub extern "C" fn lh_client_open(
    request: *const ClientRequest,
    client: *mut ClientHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(client, "client")?;
        let settings = if request.is_null() {
            settings_without_install()
        } else {
            settings(&memory::request(request)?)?
        };
        let id = handles::open(Client::new(settings));
        memory::store(client, ClientHandle { id });
        Ok(())
    }))
}

/// Closes a client. Its copies, files and streams continue.
#[unsafe(no_mangle)]
pub extern "C" fn lh_client_close(client: ClientHandle) -> ResultCode {
    result(run(|| handles::close::<Client>(client.id).map(drop)))
}

fn settings_without_install() -> Settings {
    let mut settings = Settings::default();
    settings.route.install = Install::Never;
    settings
}

fn settings(request: &ClientRequest) -> Result<Settings, Error> {
    let mut settings = settings_without_install();
    let route = &mut settings.route;
    let path = |text, name| memory::optional(text, name).map(|path| path.map(Into::into));
    let daemon = &mut route.daemon;
    daemon.key = path(request.key, "key")?;
    daemon.known_hosts = path(request.known_hosts, "known_hosts")?;
    daemon.pin = memory::optional(request.pin, "pin")?;
    daemon.token = memory::optional(request.token, "token")?.map(Token);
    daemon.statement = path(request.statement, "statement")?;
    daemon.strict = request.strict != 0;
    if let Some(function) = request.note {
        let data = Data::new(request.data);
        daemon.user = Arc::new(Notes { function, data });
    }
    if let Some(ssh) = memory::optional(request.ssh, "ssh")? {
        route.ssh = ssh;
    }
    if let Some(program) = memory::optional(request.remote, "remote")? {
        route.program = program;
    }
    if request.install != 0 {
        route.install = Install::Always;
    }
    route.gateway = memory::parsed(request.gateway, "gateway", "write socks5://HOST:PORT")?;
    settings.known_paths = path(request.known_paths, "known_paths")?;
    if let Some(url) = memory::optional(request.scheduler, "scheduler")? {
        settings.scheduler = Some(Scheduler {
            url,
            token_file: path(request.scheduler_token_file, "scheduler_token_file")?,
            pin: memory::optional(request.scheduler_pin, "scheduler_pin")?,
            known_hosts: path(request.known_hosts, "known_hosts")?,
        });
    }
    Ok(settings)
}
