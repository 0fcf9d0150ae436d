//! Mounting a directory of another host.

use std::path::Path;

use lighthaul_remote::reach::Route;
use lighthaul_session::error::Error;

#[cfg(feature = "fuse")]
use crate::served::serve;

/// Mounts the directory at `place` on `folder`, and serves the mount until a signal or umount(8). Changes are refused
/// if `read_only`; other users of this host can use the mount if `allow_other`.
pub fn run(
    route: &Route,
    place: (&str, &Path),
    (read_only, allow_other): (bool, bool),
) -> Result<(), Error> {
    serve(route, place, (read_only, allow_other))
}

#[cfg(not(feature = "fuse"))]
fn serve(_: &Route, _: (&str, &Path), _: (bool, bool)) -> Result<(), Error> {
    use lighthaul_session::error::Code;
    let code = Code::Usage;
    let text = "this program was built without mounts; build it with `--features mount`".to_owned();
    Err(lighthaul_remote::error::Fault::Named { code, text }.into())
}
