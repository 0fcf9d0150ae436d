//! Search of a path by the source domain: candidate paths, their offers, and the best candidate.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;

use crate::key::{DomainId, Hop, Segment};
use crate::offer::Offer;
use crate::refusal::Refusal;
use crate::request::{Protection, Request, Signaling};
use crate::resources::Resources;
use crate::routes::is_disjoint;

/// Search of a path for one request.
// fields: the request, its candidates, and the state of the search
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) request: Request,
    pub(crate) candidates: Vec<Candidate>,
    /// True if the search reserves nothing.
    pub(crate) is_preview: bool,
    /// Candidates of the present attempt.
    pub(crate) used: Vec<usize>,
    pub(crate) phase: Phase,
    /// Earliest start of a vector in this round.
    pub(crate) start_min: Instant,
    /// End of the phase.
    pub(crate) till: Instant,
    pub(crate) retry_at: Instant,
    pub(crate) retry_every: Duration,
    pub(crate) round: u8,
    pub(crate) attempt: u8,
    /// Last reason of a domain.
    pub(crate) refusal: Refusal,
    /// Time of the timer that is set.
    pub(crate) wake: Instant,
}

/// Phase of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for offers.
    Querying,
    /// Waits for the reservation of the best candidate.
    Reserving,
    /// Waits before the next round, since all candidates were refused.
    Waiting,
}

/// Candidate path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) hops: Vec<Hop>,
    pub(crate) legs: Vec<Leg>,
    /// False once a domain has refused the candidate.
    pub(crate) is_open: bool,
    /// Attempts of all rounds in which a domain did not hold what it had offered.
    pub(crate) broken: usize,
}

/// Part of a candidate path that the domain asks one neighbor for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    pub(crate) hops: Vec<Hop>,
    pub(crate) number: u64,
    pub(crate) offer: Option<Offer>,
}

/// Vector and the candidates that carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) candidates: Vec<usize>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) legs: Vec<Vec<Hop>>,
    pub(crate) vector: Trc,
    /// Longest guard time of the candidates' devices.
    pub(crate) guard: Duration,
}

impl Candidate {
    pub(crate) fn new(hops: Vec<Hop>, signaling: Signaling) -> Self {
        let leg = |hops: &[Hop]| Leg {
            hops: hops.to_vec(),
            number: 0,
            offer: None,
        };
        let rest = hops.get(1..).unwrap_or(&[]);
        let legs = match signaling {
            Signaling::Chain if rest.is_empty() => Vec::new(),
            Signaling::Chain => [leg(rest)].into(),
            Signaling::Tree => rest.chunks(1).map(leg).collect(),
        };
        Self {
            hops,
            legs,
            is_open: true,
            broken: 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.legs.iter().all(|leg| leg.offer.is_some())
    }

    /// Returns the neighbors that are asked.
    pub(crate) fn neighbors(&self) -> impl Iterator<Item = DomainId> + '_ {
        self.legs.iter().map(|leg| leg.hops[0].domain)
    }
}

impl Search {
    pub(crate) const fn new(request: Request, candidates: Vec<Candidate>) -> Self {
        Self {
            request,
            candidates,
            is_preview: false,
            used: Vec::new(),
            phase: Phase::Querying,
            start_min: Instant::ZERO,
            till: Instant::ZERO,
            retry_at: Instant::NEVER,
            retry_every: Duration::ZERO,
            round: 0,
            attempt: 0,
            refusal: Refusal::NoAnswer,
            wake: Instant::NEVER,
        }
    }

    /// Returns true if every open candidate has all its offers.
    pub(crate) fn is_complete(&self) -> bool {
        let mut open = self.candidates.iter().filter(|one| one.is_open);
        open.all(Candidate::is_complete)
    }

    pub(crate) fn next_timer(&self) -> Instant {
        match self.phase {
            Phase::Querying => self.till.min(self.retry_at),
            Phase::Reserving => Instant::NEVER,
            Phase::Waiting => self.till,
        }
    }

    /// Closes the candidates of the present attempt, which was refused.
    pub(crate) fn close_used(&mut self, refusal: Refusal) {
        for nth in self.used.drain(..) {
            self.candidates[nth].is_open = false;
            self.candidates[nth].broken += 1;
        }
        self.refusal = refusal;
    }

    /// Returns the choice with the fewest broken offers; among these, the choice with the earliest end, and among equal
    /// ends, the choice with the fewest hops.
    pub(crate) fn best(&mut self, resources: &mut impl Resources) -> Option<Choice> {
        let open =
            |nth: &usize| self.candidates[*nth].is_open && self.candidates[*nth].is_complete();
        let open: Vec<usize> = (0..self.candidates.len()).filter(open).collect();
        let groups: Vec<Vec<usize>> = match self.request.protection {
            Protection::None => open.iter().map(|nth| [*nth].into()).collect(),
            Protection::Disjoint => {
                let pairs = open
                    .iter()
                    .flat_map(|one| open.iter().map(move |two| (*one, *two)));
                let hops = |nth: usize| self.candidates[nth].hops.as_slice();
                let pairs =
                    pairs.filter(|(one, two)| one < two && is_disjoint(hops(*one), hops(*two)));
                pairs.map(|(one, two)| [one, two].into()).collect()
            }
        };
        let mut best: Option<((usize, Instant, usize), Choice)> = None;
        for group in groups {
            match self.choice(&group, resources) {
                Ok(choice) => {
                    let used = || group.iter().map(|nth| &self.candidates[*nth]);
                    let broken = used().map(|one| one.broken).sum();
                    let hops = used().map(|one| one.hops.len()).sum();
                    let rank = (broken, choice.vector.end(), hops);
                    if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                        best = Some((rank, choice));
                    }
                }
                Err(refusal) => self.refusal = refusal,
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Fits the request into the capacity that all domains of some candidates have in common.
    fn choice(&self, group: &[usize], resources: &mut impl Resources) -> Result<Choice, Refusal> {
        let from = self.start_min.max(self.request.from);
        let mut offers = Vec::new();
        let mut segments = Vec::new();
        let mut legs = Vec::new();
        for nth in group {
            let candidate = &self.candidates[*nth];
            let segment = candidate.hops[0].segment;
            let till = self.request.till;
            offers.push(if group.len() > 1 {
                resources.free_twice(segment, (from, till), self.request.ingress)?
            } else {
                resources.free(segment, from, till)?
            });
            segments.push(segment);
            for leg in &candidate.legs {
                offers.extend(leg.offer.clone());
                legs.push(leg.hops.clone());
            }
        }
        let all = offers.into_iter().map(Some);
        let all = all.reduce(|one, two| one?.intersect(&two?)).flatten();
        let all = all.ok_or(Refusal::NoCapacity)?;
        let vector = all.fit(&self.request.demand, from)?;
        if vector.end() > self.request.till {
            return Err(Refusal::MissesDeadline);
        }
        Ok(Choice {
            candidates: group.to_vec(),
            segments,
            legs,
            vector,
            guard: all.losses().guard,
        })
    }
}
