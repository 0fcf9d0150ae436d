//! What moves the data: each protocol by its name, and how it goes where a peer or a path does not have it.

use crate::far::Far;
use crate::scratch::{dress, tree};

#[test]
fn every_protocol_copies_a_tree_in_either_direction() {
    let far = Far::start("protocols", &[]);
    let source = far.near.folder("source");
    for nth in 0..40_u64 {
        let file = far.near.file(&format!("source/{nth}"), nth * nth * 3000);
        dress(&file, 0o640, 1_600_000_000 + nth);
    }
    for name in ["rbudp", "tcp", "ptcp"] {
        let options = ["--protocol", name, "--json"];
        let pushed = far.push(&options, &[&source], name).succeeded();
        assert_eq!(tree(&far.target.join(name)), tree(&source), "{name}");
        let back = far.near.at(&format!("back-{name}"));
        let pulled = far.pull(&options, &[name], back.to_str().unwrap());
        assert_eq!(tree(&back), tree(&source), "{name}");
        for outcome in [pushed, pulled.succeeded()] {
            let start = &outcome.events()[0];
            assert_eq!(
                (&start["type"], &start["protocol"]),
                (&"start".into(), &name.into())
            );
        }
    }
}
