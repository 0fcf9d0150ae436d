//! Measurement of the rates of a disk.

use std::io;
use std::path::Path;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::store::block::Block;

use crate::disk::{InputFile, OutputFile, Root};

/// Measures the rates at which `bytes` are written to the disk under `folder`, sync included, and
/// read back. Returns them in this order.
pub fn measure_disk(folder: &Path, bytes: u64) -> io::Result<(Rate, Rate)> {
    let name = format!(".lighthaul-probe-{}", std::process::id());
    let mut root = Root::open(folder)?;
    let file = root.create(Path::new(&name))?;
    let measured = measure_file(file, &folder.join(&name), bytes);
    root.remove(Path::new(&name))?;
    measured
}

fn measure_file(mut file: OutputFile, path: &Path, bytes: u64) -> io::Result<(Rate, Rate)> {
    let clock = Clock::start();
    let mut block = Block::new(1 << 20);
    block.fill(0x5a);
    file.allocate(bytes)?;
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(block.len() as u64) as usize;
        file.write_at(&block[..len], at)?;
        at += len as u64;
    }
    file.sync()?;
    let written = clock.now();
    let input = InputFile::open(path)?;
    input.forget()?;
    let begun = clock.now();
    at = 0;
    while at < bytes {
        at += input.read_at(&mut block, at)?.max(1) as u64;
    }
    let read = clock.now().since(begun);
    Ok((
        Rate::of(bytes, written.since(Instant::ZERO)),
        Rate::of(bytes, read),
    ))
}
