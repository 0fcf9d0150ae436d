//! Records of a stream: a key and a payload. Some are out of order.

use lighthaul_base::Rng;

/// Length of a record in bytes; the first eight are the key.
pub(crate) const RECORD_LEN: usize = 100;
/// Records of one message, which fit in a datagram.
pub(crate) const RECORDS: usize = 13;

/// Returns the keys of a stream of `count` records, of which `percent` percent come later, by up to `delay_max` records.
pub(crate) fn keys(
    count: u64,
    percent: u64,
    delay_max: u64,
    seed: u64,
) -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(seed);
    let mut late: Vec<Vec<u64>> = vec![Vec::new(); delay_max as usize + 1];
    let mut ready: Vec<u64> = Vec::new();
    let mut next = 0;
    // a ring of records that are due at a position of the stream
    std::iter::from_fn(move || {
        loop {
            if let Some(key) = ready.pop() {
                return Some(key);
            }
            if next >= count + delay_max {
                return None;
            }
            let slot = (next % (delay_max + 1)) as usize;
            ready = std::mem::take(&mut late[slot]);
            if next < count {
                if rng.below(100) < percent {
                    let due = next + 1 + rng.below(delay_max);
                    late[(due % (delay_max + 1)) as usize].push(next);
                } else {
                    ready.push(next);
                }
            }
            next += 1;
        }
    })
}

/// Returns the messages of a stream.
pub(crate) fn messages(keys: impl Iterator<Item = u64>) -> impl Iterator<Item = Vec<u8>> {
    let mut keys = keys.peekable();
    std::iter::from_fn(move || {
        keys.peek()?;
        let mut message = Vec::with_capacity(RECORDS * RECORD_LEN);
        for key in keys.by_ref().take(RECORDS) {
            message.extend_from_slice(&key.to_be_bytes());
            message.resize(message.len() + RECORD_LEN - 8, key as u8);
        }
        Some(message)
    })
}

/// Returns the records of a message: keys and payloads.
pub(crate) fn records(message: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    message.chunks_exact(RECORD_LEN).map(|record| {
        let (key, payload) = record.split_at(8);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(key);
        (u64::from_be_bytes(bytes), payload)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_comes_once_and_late_ones_are_as_many_as_asked() {
        for percent in [0, 2, 33, 100] {
            let found: Vec<u64> = keys(10_000, percent, 500, percent).collect();
            let late = found
                .iter()
                .zip(found.iter().skip(1))
                .filter(|(one, next)| one > next);
            assert!(late.count() as u64 <= 100 * percent + 200, "{percent}");
            let mut sorted = found.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..10_000), "{percent}");
        }
    }

    #[test]
    fn records_of_messages_are_those_of_the_stream() {
        let all = messages(keys(1000, 10, 50, 1)).flat_map(|message| {
            let found = records(&message).map(|(key, payload)| {
                assert!(
                    payload.len() == RECORD_LEN - 8
                        && payload.iter().all(|byte| *byte == key as u8)
                );
                key
            });
            found.collect::<Vec<_>>()
        });
        assert!(all.eq(keys(1000, 10, 50, 1)));
    }
}
