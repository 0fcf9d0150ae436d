//! Round-trip times of single octets, as felt when typing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::tcp;

use super::path::Path;
use super::site::{PORTS, SHIFT, Site};
use super::table::Line;

/// Sends octets to an echo server, one after another.
pub(super) fn measure(site: &Site, path: &Path) -> Result<Line, String> {
    let port = PORTS[1] - SHIFT;
    let listener = site
        .lab
        .within("s", move || {
            tcp::listen((Ipv4Addr::UNSPECIFIED, port).into())
        })
        .map_err(|e| e.to_string())?;
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || echo(socket));
        }
    });
    let entry = site.entry.clone();
    let mut times = site
        .lab
        .within("c", move || type_keys(&entry, PORTS[1]))
        .map_err(|e| e.to_string())?;
    times.sort();
    let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
    Ok(Line {
        path: path.name.clone(),
        route: "one octet and its echo".to_owned(),
        value: at(50),
        unit: "ms",
        remark: format!(
            "median; 99 % within {:.1} ms; the path's round-trip time is {} ms",
            at(99),
            path.rtt_ms
        ),
        place: None,
    })
}

fn echo(mut socket: TcpStream) {
    socket.set_nodelay(true).ok();
    let mut octet = [0];
    while matches!(socket.read(&mut octet), Ok(1)) {
        if socket.write_all(&octet).is_err() {
            return;
        }
    }
}

fn type_keys(host: &str, port: u16) -> std::io::Result<Vec<Duration>> {
    let clock = Clock::start();
    let mut socket = tcp::connect(host, port).map_err(std::io::Error::other)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut times = Vec::new();
    for key in 0..KEYS {
        let before = clock.now();
        socket.write_all(&[key as u8])?;
        socket.read_exact(&mut [0])?;
        times.push(clock.now().since(before));
        pause(PAUSE);
    }
    Ok(times)
}

const KEYS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
