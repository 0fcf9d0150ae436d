//! Rates of circuits, and of other traffic beside them.

use crate::testbed::{Testbed, apply, circuit};
use crate::traffic::send;

/// Share of goodput: 1448 of 1514 bytes of a TCP stream on Ethernet, less the losses of a busy machine.
const GOODPUT: std::ops::Range<f64> = 0.87..0.97;

#[test]
fn circuits_have_their_rates_in_addition_to_other_traffic() {
    let Some(testbed) = Testbed::quiet("circuits_have_their_rates_in_addition_to_other_traffic")
    else {
        return;
    };
    let mut shaper = testbed.shaper(400).unwrap();
    apply(&mut shaper, &circuit(5001, "0s-9s 1G"), 250).unwrap();
    apply(&mut shaper, &circuit(5002, "0s-9s 1G"), 100).unwrap();
    let rates = send(
        &testbed,
        &["10.9.0.2:5001", "10.9.0.2:5002", "10.9.0.2:6000"],
    );
    println!("250, 100, the rest of 400 Mb/s: {rates:.1?}");
    assert!(GOODPUT.contains(&(rates[0] / 250.0)), "{rates:?}");
    assert!(GOODPUT.contains(&(rates[1] / 100.0)), "{rates:?}");
    assert!((0.5..1.1).contains(&(rates[2] / 50.0)), "{rates:?}");
    // other traffic borrows unused bandwidth; a circuit borrows none
    let rest = send(&testbed, &["10.9.0.2:6000"]);
    println!("the rest alone: {rest:.1?}");
    assert!(GOODPUT.contains(&(rest[0] / 400.0)), "{rest:?}");
    let alone = send(&testbed, &["10.9.0.2:5002"]);
    assert!(GOODPUT.contains(&(alone[0] / 100.0)), "{alone:?}");
}

#[test]
fn packets_of_a_closed_circuit_are_sent_as_other_traffic() {
    let Some(testbed) = Testbed::quiet("packets_of_a_closed_circuit_are_sent_as_other_traffic")
    else {
        return;
    };
    let mut shaper = testbed.shaper(200).unwrap();
    let wanted = circuit(5001, "0s-9s 1G");
    apply(&mut shaper, &wanted, 0).unwrap();
    let closed = send(&testbed, &["10.9.0.2:5001"]);
    apply(&mut shaper, &wanted, 50).unwrap();
    let open = send(&testbed, &["10.9.0.2:5001"]);
    apply(&mut shaper, &wanted, 0).unwrap();
    let again = send(&testbed, &["10.9.0.2:5001"]);
    println!("closed, 50, closed of 200 Mb/s: {closed:.1?} {open:.1?} {again:.1?}");
    assert!(GOODPUT.contains(&(closed[0] / 200.0)), "{closed:?}");
    assert!(GOODPUT.contains(&(open[0] / 50.0)), "{open:?}");
    assert!(GOODPUT.contains(&(again[0] / 200.0)), "{again:?}");
}
