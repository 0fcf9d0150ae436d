//! Tests of connections that leave TLS and seal each frame.

use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_io::control::{Control, Frame, Stream};
use lighthaul_io::crypto::cipher::Cipher;
use lighthaul_io::crypto::seal::Key;
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;

use crate::pair::{STREAM, connect};

/// Creates both ends of a connection, each with one stream.
fn ends() -> [(Control, Stream); 2] {
    connect().map(|(tcp, tls)| {
        let control = Control::start(tcp, tls).unwrap();
        let stream = control.open(STREAM).unwrap();
        (control, stream)
    })
}

fn key(secret: u8) -> Key {
    Key::new(Cipher::preferred(), &[secret; 32])
}

fn hear(stream: &Stream) -> Result<Frame, Error> {
    stream.receive(Clock::start(), Instant::ZERO + Duration::from_secs(30))
}

fn frame(rng: &mut Rng, len: usize) -> Frame {
    let mut octets = vec![0; len];
    octets.fill_with(|| rng.next_u64() as u8);
    Frame::message(octets)
}

/// Sends frames of many lengths, and asserts that they arrive unchanged.
fn assert_carries(from: &Stream, to: &Stream, rng: &mut Rng) {
    let lens = [0, 1, 15, 16, 17, 4096, 16_384, 65_536, 200_000];
    let said: Vec<_> = lens.iter().map(|len| frame(rng, *len)).collect();
    for frame in &said {
        from.send(frame).unwrap();
    }
    for frame in &said {
        assert!(hear(to).unwrap() == *frame, "{} octets", frame.octets.len());
    }
}

#[test]
fn frames_after_tls_arrive_in_either_order_of_leaving() {
    const SEED: u64 = 20_261_122;
    println!("seed {SEED}");
    let mut rng = Rng::new(SEED);
    for sealed in [true, false] {
        let [(a, near), (b, far)] = ends();
        assert_carries(&near, &far, &mut rng);
        assert_carries(&far, &near, &mut rng);
        a.leave_tls(sealed.then(|| (key(1), key(2))));
        // The frame waits until the other end has its key.
        let early = frame(&mut rng, 100_000);
        near.send(&early).unwrap();
        let still = frame(&mut rng, 100_000);
        far.send(&still).unwrap();
        assert!(hear(&near).unwrap() == still);
        assert!(far.try_receive().unwrap().is_none());
        b.leave_tls(sealed.then(|| (key(2), key(1))));
        assert!(hear(&far).unwrap() == early);
        for _ in 0..20 {
            assert_carries(&near, &far, &mut rng);
            assert_carries(&far, &near, &mut rng);
        }
    }
}

#[test]
fn frame_with_a_wrong_seal_ends_the_connection() {
    let [(a, near), (b, far)] = ends();
    a.leave_tls(Some((key(1), key(2))));
    b.leave_tls(Some((key(2), key(3))));
    near.send(&Frame::message(b"forged".to_vec())).unwrap();
    let why = hear(&far).unwrap_err();
    assert!(matches!(why, Error::Network(_)), "{why}");
    assert!(why.to_string().contains("failed authentication"), "{why}");
}
