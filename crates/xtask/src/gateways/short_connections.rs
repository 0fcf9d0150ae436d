//! Many short connections: all must complete, and all their files must be closed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, thread};

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::tcp;

use super::args::Args;
use super::path::Path;
use super::site::{PORTS, SHIFT, Site, memory_mib, process};
use super::table::Line;
use crate::demo::running::Running;

/// Makes connections that send a message, receive it back and close.
pub(super) fn measure(site: &Site, path: &Path, args: &Args) -> Result<Line, String> {
    let port = PORTS[2] - SHIFT;
    let listener = site
        .lab
        .within("s", move || {
            tcp::listen((Ipv4Addr::UNSPECIFIED, port).into())
        })
        .map_err(|e| e.to_string())?;
    for _ in 0..SERVERS {
        let listener = listener.try_clone().map_err(|e| e.to_string())?;
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                answer(socket).ok();
            }
        });
    }
    // Reuse ports in TIME_WAIT, since there are fewer ports than connections.
    for host in ["c", "ga", "gb"] {
        let again = || fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1");
        site.lab.within(host, again).map_err(|e| e.to_string())?;
    }
    let before = [&site.ingress, &site.egress].map(files);
    let clock = Clock::start();
    let (done, failed, next) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let work = || {
                    loop {
                        let nth = next.fetch_add(1, Relaxed);
                        if nth >= args.count {
                            return Ok(());
                        }
                        let due = Duration::from_secs_f64(f64::from(nth) / RATE);
                        let now = clock.now().since(lighthaul_base::Instant::ZERO);
                        pause(due.saturating_sub(now));
                        match ask(&site.entry, PORTS[2], nth) {
                            Ok(true) => done.fetch_add(1, Relaxed),
                            Ok(false) | Err(_) => failed.fetch_add(1, Relaxed),
                        };
                    }
                };
                site.lab.within("c", work).ok();
            });
        }
    });
    let seconds = clock.now().as_secs_f64();
    pause(SETTLE);
    let after = [&site.ingress, &site.egress].map(files);
    let (done, failed) = (done.into_inner(), failed.into_inner());
    Ok(Line {
        path: path.name.clone(),
        route: format!("{} short connections", args.count),
        value: f64::from(done) / seconds,
        unit: "/s",
        remark: format!(
            "{done} complete, {failed} failed; open files {before:?} before and {after:?} after; {} and {} MiB",
            memory_mib(&site.ingress),
            memory_mib(&site.egress)
        ),
        place: None,
    })
}

fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut said = Vec::new();
    (&mut socket).take(1 << 16).read_to_end(&mut said)?;
    socket.write_all(&said)?;
    socket.shutdown(Shutdown::Write)
}

fn ask(host: &str, port: u16, nth: u32) -> std::io::Result<bool> {
    let mut socket = tcp::connect(host, port).map_err(std::io::Error::other)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let said = nth.to_be_bytes().repeat(25);
    socket.write_all(&said)?;
    socket.shutdown(Shutdown::Write)?;
    let mut heard = Vec::new();
    socket.read_to_end(&mut heard)?;
    Ok(heard == said)
}

/// Counts the open files of a process.
fn files(running: &Running) -> usize {
    fs::read_dir(format!("/proc/{}/fd", process(running))).map_or(0, Iterator::count)
}

const RATE: f64 = 1000.0;
const CLIENTS: usize = 120;
const SERVERS: usize = 120;
/// Time for the last connections to close.
const SETTLE: Duration = Duration::from_secs(3);
