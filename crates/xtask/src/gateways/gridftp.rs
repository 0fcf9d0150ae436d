//! `GridFTP` as an application without gateway support: `globus-url-copy` to
//! `globus-gridftp-server`, without encryption and login.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use lighthaul_io::net::tcp;

use super::iperf::STREAMS;
use super::route::Route;
use super::site::{SOCKS, Site};
use crate::demo::running::Running;

/// Starts a server, and waits until it accepts connections.
pub(super) fn serve(site: &Site) -> Result<Running, String> {
    let own = address(site)?;
    let mut serve = site
        .lab
        .command("s", "globus-gridftp-server")
        .map_err(|e| failed(&e))?;
    serve.args(["-aa", "-anonymous-user", "root", "-allow-root"]);
    serve.args(["-p", &PORT.to_string(), "-d", "ERROR"]);
    serve.args(["-control-interface", &own, "-data-interface", &own]);
    serve.stdout(Stdio::null()).stderr(Stdio::null());
    let server = serve.spawn().map(Running).map_err(|e| failed(&e))?;
    for _ in 0..TRIES {
        pause(EVERY);
        let host = own.clone();
        let called = site.lab.within("s", move || {
            tcp::connect(&host, PORT).map_err(std::io::Error::other)
        });
        if called.is_ok_and(|socket| is_served(&socket)) {
            return Ok(server);
        }
    }
    Err(failed(&"the server did not start listening"))
}

/// Creates a client that sends zeros until it is stopped. Through gateways, it runs under `lighthaul wrap`, which
/// captures its control and data connections.
pub(super) fn client(site: &Site, route: Route) -> Result<Command, String> {
    let mut client = match route {
        Route::Direct(_) => site.lab.command("c", TOOL).map_err(|e| failed(&e))?,
        Route::Gateways(_) => {
            let wrap = site.lab.command("c", &site.lighthaul);
            let mut wrap = wrap.map_err(|e| failed(&e))?;
            let entry = format!("{}:{SOCKS}", site.entry);
            wrap.args(["wrap", "--socks", &entry, "--", TOOL]);
            wrap
        }
    };
    let target = format!("ftp://{}:{PORT}/dev/null", address(site)?);
    client.args(["-fast", "-p", STREAMS, "file:///dev/zero", &target]);
    Ok(client)
}

/// Waits for the server's greeting. Without it, the server would count this connection as part of
/// the measurement.
fn is_served(socket: &TcpStream) -> bool {
    socket.set_read_timeout(Some(PATIENCE)).is_ok()
        && socket.peek(&mut [0]).is_ok_and(|len| len > 0)
}

fn address(site: &Site) -> Result<String, String> {
    let address = site.lab.address("s").map_err(|e| failed(&e))?;
    Ok(address.to_string())
}

fn failed(why: &dyn std::fmt::Display) -> String {
    format!(
        "GridFTP (Debian packages globus-gass-copy-progs and globus-gridftp-server-progs): {why}"
    )
}

const TOOL: &str = "globus-url-copy";
const PORT: u16 = 2811;
const TRIES: u32 = 50;
const EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);
