//! Pages that are damaged on the path.

use crate::pair::Pair;
use crate::programs::{hear, tell};
use crate::running::becomes_true;
use crate::scratch::noise;
use crate::status::shown;

/// Sends enough data that some of it is damaged on the path, and asserts that it arrives unchanged.
fn carry_damaged(name: &str, every: u32, options: &[&str]) -> Option<Pair> {
    let pair = Pair::start_with(name, options, options)?;
    let mut ends = pair.session();
    damage(&pair, every);
    let said = noise(20_000_000, 9);
    let sayer = tell(&ends.target, said.clone());
    let (heard, end) = hear(&mut ends.program);
    assert!(end.is_ok(), "{end:?}");
    assert!(heard == said, "what came is not what was said");
    assert!(sayer.join().is_ok_and(|said| said.is_ok()));
    Some(pair)
}

/// Changes two octets in one of `every` packets to `a`, and corrects their checksums. The kernel may have joined many
/// datagrams in a packet.
fn damage(pair: &Pair, every: u32) {
    let rule = format!(
        "nft add table inet damage && \
         nft 'add chain inet damage in {{ type filter hook prerouting priority -150; }}' && \
         nft 'add rule inet damage in udp length > 1000 numgen inc mod {every} == {} @th,6400,16 set 0x6c68'",
        every - 1
    );
    let words = ["sh", "-c", &rule];
    assert!(
        pair.stage
            .lab
            .run("a", &words)
            .is_ok_and(|status| status.success())
    );
}

#[test]
fn damaged_slabs_are_retransmitted() {
    let plain = ["--plain"];
    if let Some(mut pair) = carry_damaged("damaged_slabs_are_retransmitted", 500, &plain) {
        pair.ingress.says("was damaged and is sent again");
    }
}

#[test]
fn altered_encrypted_pages_are_treated_as_lost() {
    let name = "altered_encrypted_pages_are_treated_as_lost";
    if let Some(pair) = carry_damaged(name, 100, &[]) {
        becomes_true("some came again", || {
            shown(&pair.scratch, "b")["datagrams_resent"]
                .as_u64()
                .is_some_and(|count| count > 0)
        });
    }
}
