//! Ordered writes and flushes of a block device, and the images that a power cut can leave.
//!
//! A cut at an event of the recording keeps every write before the last flush. Of later writes,
//! each page of 4 KiB is kept or lost independently. A torn page keeps any subset of its sectors of
//! 512 bytes.

use std::sync::Arc;

use lighthaul_base::Rng;

use crate::image::{Image, PagePart, parts};

/// Size of a sector in bytes, which a device writes atomically.
pub const SECTOR: usize = 512;

/// Events of a device since it was switched on.
#[derive(Clone, Debug)]
pub struct Recording {
    base: Image,
    now: Image,
    events: Vec<Event>,
}

#[derive(Clone, Debug)]
enum Event {
    Write(u64, Arc<[u8]>),
    Flush,
}

/// Outcome of a power cut for a page that was written but not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// The page is on the device.
    Kept,
    /// The page is lost.
    Lost,
    /// Only the sectors whose bits are set are on the device.
    Torn(u8),
}

impl Recording {
    /// Starts a recording of a device with the contents `base`.
    pub fn new(base: Image) -> Self {
        Self {
            now: base.clone(),
            base,
            events: Vec::new(),
        }
    }

    /// Returns the contents as seen by the host, including unflushed writes.
    pub const fn now(&self) -> &Image {
        &self.now
    }

    /// Records a write of `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.now.write(offset, bytes);
        self.events.push(Event::Write(offset, bytes.into()));
    }

    /// Records a flush, which makes all earlier writes durable.
    pub fn flush(&mut self) {
        self.events.push(Event::Flush);
    }

    /// Returns the number of recorded events, which is a position for a cut.
    pub const fn place(&self) -> usize {
        self.events.len()
    }

    /// Returns the number of flushes before `place`.
    pub fn flushes(&self, place: usize) -> usize {
        let events = &self.events[..place];
        let is_flush = |event: &&Event| matches!(event, Event::Flush);
        events.iter().filter(is_flush).count()
    }

    /// Computes the image after a cut at `place`. Calls `outcome` for each page that was not flushed.
    pub fn cut(&self, place: usize, outcome: &mut dyn FnMut() -> PageOutcome) -> Image {
        let events = &self.events[..place.min(self.events.len())];
        let is_flush = |event: &Event| matches!(event, Event::Flush);
        let flushed = events.iter().rposition(is_flush).unwrap_or(0);
        let mut image = self.base.clone();
        for (nth, event) in events.iter().enumerate() {
            match event {
                Event::Flush => {}
                Event::Write(offset, bytes) if nth < flushed => image.write(*offset, bytes),
                Event::Write(offset, bytes) => {
                    for part in parts(*offset, bytes.len()) {
                        keep(&mut image, part, &bytes[part.from..part.till], outcome());
                    }
                }
            }
        }
        image
    }
}

/// Writes the part of a page that survives `outcome`.
fn keep(image: &mut Image, part: PagePart, bytes: &[u8], outcome: PageOutcome) {
    let offset = part.page * crate::image::PAGE as u64 + part.at as u64;
    match outcome {
        PageOutcome::Kept => image.write(offset, bytes),
        PageOutcome::Lost => {}
        PageOutcome::Torn(sectors) => {
            for (nth, sector) in bytes.chunks(SECTOR).enumerate() {
                if sectors >> nth & 1 == 1 {
                    image.write(offset + (nth * SECTOR) as u64, sector);
                }
            }
        }
    }
}

/// Random outcomes of pages. Each cut has one probability that pages are kept: none, few, half, most or all.
#[derive(Debug)]
pub struct RandomOutcomes {
    rng: Rng,
    kept_of_8: u64,
    tears: bool,
}

impl RandomOutcomes {
    /// Creates outcomes from `seed`. Pages are torn only if `tears` is set.
    pub fn new(seed: u64, tears: bool) -> Self {
        let mut rng = Rng::new(seed);
        let kept_of_8 = [0, 1, 4, 7, 8][rng.below(5) as usize];
        Self {
            rng,
            kept_of_8,
            tears,
        }
    }

    /// Draws the next outcome.
    pub fn outcome(&mut self) -> PageOutcome {
        if self.tears && !matches!(self.kept_of_8, 0 | 8) && self.rng.below(16) == 0 {
            return PageOutcome::Torn(self.rng.next_u64() as u8);
        }
        if self.rng.below(8) < self.kept_of_8 {
            PageOutcome::Kept
        } else {
            PageOutcome::Lost
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::PAGE;
    use proptest::prelude::*;

    const LEN: usize = 5 * PAGE;

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, Vec<u8>),
        Flush,
    }

    fn step() -> impl Strategy<Value = Step> {
        let sectors = LEN / SECTOR;
        let write = (0..sectors, 1..20_usize, any::<u8>()).prop_map(move |(at, count, byte)| {
            let count = count.min(sectors - at);
            let bytes = (0..count * SECTOR).map(|nth| byte.wrapping_add(nth as u8));
            Step::Write(at * SECTOR, bytes.collect())
        });
        prop_oneof![4 => write, 1 => Just(Step::Flush)]
    }

    fn record(steps: &[Step]) -> Recording {
        let mut recording = Recording::new(Image::zeros(LEN as u64));
        for step in steps {
            match step {
                Step::Write(offset, bytes) => recording.write(*offset as u64, bytes),
                Step::Flush => recording.flush(),
            }
        }
        recording
    }

    fn bytes(image: &Image) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        image.read(0, &mut bytes);
        bytes
    }

    /// Writes all of `steps` into an array, as a reference without pages.
    fn apply(steps: &[Step]) -> Vec<u8> {
        let mut array = vec![0; LEN];
        for step in steps {
            if let Step::Write(offset, bytes) = step {
                array[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
        }
        array
    }

    fn last_flush(steps: &[Step]) -> usize {
        let is_flush = |step: &Step| matches!(step, Step::Flush);
        steps.iter().rposition(is_flush).unwrap_or(0)
    }

    proptest! {
        #[test]
        fn host_reads_every_write(steps in prop::collection::vec(step(), 0..30)) {
            prop_assert_eq!(bytes(record(&steps).now()), apply(&steps));
        }

        #[test]
        fn cut_without_unflushed_pages_leaves_the_last_flush(
            steps in prop::collection::vec(step(), 0..30),
            place in 0..30_usize,
        ) {
            let place = place.min(steps.len());
            let image = record(&steps).cut(place, &mut || PageOutcome::Lost);
            prop_assert_eq!(bytes(&image), apply(&steps[..last_flush(&steps[..place])]));
            let image = record(&steps).cut(place, &mut || PageOutcome::Kept);
            prop_assert_eq!(bytes(&image), apply(&steps[..place]));
        }

        #[test]
        fn sectors_after_a_cut_are_flushed_or_written_later(
            steps in prop::collection::vec(step(), 0..30),
            place in 0..30_usize,
            seed in any::<u64>(),
        ) {
            let steps = &steps[..place.min(steps.len())];
            let mut outcomes = RandomOutcomes::new(seed, true);
            let found = bytes(&record(steps).cut(steps.len(), &mut || outcomes.outcome()));
            let flushed = last_flush(steps);
            for (nth, sector) in found.chunks(SECTOR).enumerate() {
                let span = nth * SECTOR..(nth + 1) * SECTOR;
                let could_be = |till: usize| apply(&steps[..till])[span.clone()] == *sector;
                prop_assert!((flushed..=steps.len()).any(could_be), "sector {}", nth);
            }
        }

        #[test]
        fn pages_are_atomic_without_tearing(
            steps in prop::collection::vec(step(), 0..12),
            seed in any::<u64>(),
        ) {
            let mut decisions = Vec::new();
            let mut outcomes = RandomOutcomes::new(seed, false);
            let recording = record(&steps);
            let image = recording.cut(steps.len(), &mut || {
                decisions.push(outcomes.outcome());
                decisions[decisions.len() - 1]
            });
            // Apply the same outcomes to an array, byte by byte.
            let flushed = last_flush(&steps);
            let mut array = apply(&steps[..flushed]);
            let mut decisions = decisions.into_iter();
            for step in &steps[flushed..] {
                let Step::Write(offset, bytes) = step else { continue };
                let (mut page, mut outcome) = (usize::MAX, PageOutcome::Lost);
                for (nth, byte) in bytes.iter().enumerate() {
                    if (offset + nth) / PAGE != page {
                        page = (offset + nth) / PAGE;
                        outcome = decisions.next().unwrap();
                    }
                    if outcome == PageOutcome::Kept {
                        array[offset + nth] = *byte;
                    }
                }
            }
            prop_assert_eq!(bytes(&image), array);
        }
    }
}
