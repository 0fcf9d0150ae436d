//! Max-min fair shares of a host's resources: sessions, connections, links, memory, threads and open files.
//!
//! A holder has one seat, which uses a number of units of each resource. A group is the seats of an identity,
//! authority, host or site, or of all together; each has limits. An authority can create any number of identities.
//!
//! If a group is full, a new holder first revokes the seat in it that has been idle longest. Otherwise it revokes the
//! newest seat of the identity that uses the most in the group. That identity must use more than the new holder will
//! use. If none does and all seats are taken, sites are compared in the same way. A holder without an identity never
//! takes the seat of an identity then.
//!
//! Shares converge to equal shares (max-min fairness), first of identities, then of sites. So no set of greedy
//! identities can lock another identity out, and no site another site.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::prefix::Prefix;

/// Maximum numbers of units of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum for all identities together.
    pub all: u64,
    /// Maximum for one identity.
    pub identity: u64,
    /// Maximum for all identities that one authority vouches for.
    pub authority: u64,
    /// Maximum for one host: an IPv4 address, or an IPv6 /64.
    pub host: u64,
    /// Maximum for one site: an IPv4 /24, or an IPv6 /56 or /48.
    pub site: u64,
}

impl Limits {
    /// Returns the usual parts of `all` units: half for one identity, three quarters for an authority or a host, seven
    /// eighths for a site.
    pub const fn parts_of(all: u64) -> Self {
        Self {
            all,
            identity: all / 2,
            authority: all - all / 4,
            host: all - all / 4,
            site: all - all / 8,
        }
    }
}

/// Group of holders without room for a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// The holders of the newcomer's identity.
    Identity,
    /// Holders with the authority of the newcomer.
    Authority,
    /// Holders on the host of the newcomer.
    Host,
    /// Holders at the site of the newcomer.
    Site,
    /// All holders.
    All,
}

/// Reason for the refusal of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Index of the resource in the limits.
    pub resource: usize,
    /// Group of holders that has used up the resource.
    pub within: Within,
    /// Limit that was reached.
    pub most: u64,
}

/// A seat that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seated {
    /// Number of the seat, to be passed to [`Seats::leave`].
    pub number: u64,
    /// Numbers of the seats that were revoked to make room. The caller must end their holders.
    pub revoked: Vec<u64>,
}

/// Seats and their holders. `I` is the type of an identity, `N` the number of resources.
#[derive(Debug)]
pub struct Seats<I, const N: usize> {
    limits: [Limits; N],
    /// Holders by seat number: the highest number is the newest seat.
    held: BTreeMap<u64, Holder<I, N>>,
    next: u64,
    /// True if no seat is ever revoked.
    is_lasting: bool,
}

#[derive(Clone, Debug)]
struct Holder<I, const N: usize> {
    /// Identity of the holder; `None` for an unknown client.
    identity: Option<I>,
    /// Authority that vouches for the identity.
    authority: Option<I>,
    places: [Prefix; 3],
    uses: [u64; N],
    /// Start of the holder's idle time; `None` while the holder keeps its seat when idle.
    idle: Option<u64>,
}

impl<I: Clone + Ord, const N: usize> Seats<I, N> {
    /// Returns an empty set of seats, with `limits` for each resource.
    pub const fn new(limits: [Limits; N]) -> Self {
        Self {
            limits,
            held: BTreeMap::new(),
            next: 0,
            is_lasting: false,
        }
    }

    /// Returns an empty set of seats that are never revoked. A newcomer to a full group is refused.
    pub const fn lasting(limits: [Limits; N]) -> Self {
        let mut seats = Self::new(limits);
        seats.is_lasting = true;
        seats
    }

    /// Returns the number of taken seats.
    pub fn taken(&self) -> usize {
        self.held.len()
    }

    /// Takes a seat that uses the given units of each resource. `identity` is `None` for an unknown client.
    pub fn take(
        &mut self,
        identity: Option<I>,
        address: IpAddr,
        uses: [u64; N],
    ) -> Result<Seated, Full> {
        self.take_for((identity, None), address, uses)
    }

    /// Takes a seat like [`Self::take`], for an identity that `authority` vouches for, if any.
    pub fn take_vouched(
        &mut self,
        (identity, authority): (I, Option<I>),
        address: IpAddr,
        uses: [u64; N],
    ) -> Result<Seated, Full> {
        self.take_for((Some(identity), authority), address, uses)
    }

    fn take_for(
        &mut self,
        (identity, authority): (Option<I>, Option<I>),
        address: IpAddr,
        uses: [u64; N],
    ) -> Result<Seated, Full> {
        let newcomer = Holder {
            identity,
            authority,
            places: Prefix::all(address),
            uses,
            idle: None,
        };
        let number = self.next;
        let revoked = self.seat(number, newcomer)?;
        self.next += 1;
        Ok(Seated { number, revoked })
    }

    /// Changes the units that seat `number` uses, and returns the seats that were revoked to free them. An error leaves
    /// all as it was. A seat that another holder got stays with it.
    pub fn reuse(&mut self, number: u64, uses: [u64; N]) -> Result<Vec<u64>, Full> {
        self.change(number, |holder| holder.uses = uses)
    }

    /// Assigns seat `number` of an unknown client to `identity`, and returns the seats that were revoked.
    pub fn identify(&mut self, number: u64, identity: I) -> Result<Vec<u64>, Full> {
        self.change(number, |holder| holder.identity = Some(identity))
    }

    /// Sets the start of the idle time of seat `number`. The least number is idle longest.
    pub fn note_idle(&mut self, number: u64, since: Option<u64>) {
        if let Some(holder) = self.held.get_mut(&number) {
            holder.idle = since;
        }
    }

    /// Returns the identity that holds seat `number`; none for a free seat and for an unknown client.
    pub fn identity(&self, number: u64) -> Option<&I> {
        self.held.get(&number)?.identity.as_ref()
    }

    /// Revokes the seat that has been idle longest, and returns its number.
    pub fn take_idle(&mut self) -> Option<u64> {
        let idle = longest_idle(self.held.iter())?;
        self.held.remove(&idle);
        Some(idle)
    }

    /// Returns the units of a resource that seat `number` could use besides without a revocation.
    pub fn spare(&self, number: u64, resource: usize) -> u64 {
        let Some(holder) = self.held.get(&number) else {
            return 0;
        };
        let spare = |(within, group): (Within, Group<'_, I>)| {
            let most = self.limits[resource].of(within);
            most.saturating_sub(self.used(resource, &group, |_| true))
        };
        holder
            .groups()
            .into_iter()
            .flatten()
            .map(spare)
            .min()
            .unwrap_or(0)
    }

    /// Releases a seat. A number that was released or revoked before is ignored.
    pub fn leave(&mut self, number: u64) {
        self.held.remove(&number);
    }

    fn change(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Holder<I, N>),
    ) -> Result<Vec<u64>, Full> {
        let Some(mut holder) = self.held.get(&number).cloned() else {
            return Ok(Vec::new());
        };
        change(&mut holder);
        self.seat(number, holder)
    }

    /// Gives seat `number` to `newcomer`, which may hold it already, and returns the seats that were revoked.
    fn seat(&mut self, number: u64, newcomer: Holder<I, N>) -> Result<Vec<u64>, Full> {
        let leaving = self.make_room(number, &newcomer)?;
        self.held.retain(|number, _| !leaving.contains(number));
        self.held.insert(number, newcomer);
        Ok(leaving)
    }

    fn make_room(&self, number: u64, newcomer: &Holder<I, N>) -> Result<Vec<u64>, Full> {
        let mut leaving = Vec::new();
        for (resource, limits) in self.limits.iter().enumerate() {
            let wanted = newcomer.uses[resource];
            for (within, group) in newcomer.groups().into_iter().flatten() {
                let most = limits.of(within);
                let full = Full {
                    resource,
                    within,
                    most,
                };
                loop {
                    let stays = |other: u64| other != number && !leaving.contains(&other);
                    let used = self.used(resource, &group, stays);
                    if wanted == 0 || used.saturating_add(wanted) <= most {
                        break;
                    }
                    let victim = self.victim((resource, wanted), newcomer, &group, stays);
                    leaving.push(victim.ok_or(full)?);
                }
            }
        }
        Ok(leaving)
    }

    fn used(&self, resource: usize, group: &Group<'_, I>, counts: impl Fn(u64) -> bool) -> u64 {
        let held = self.held.iter();
        let held = held.filter(|(number, holder)| counts(**number) && group.has(holder));
        held.map(|(_, holder)| holder.uses[resource]).sum()
    }

    /// Returns the seat of a full group that is revoked for a newcomer, if any.
    fn victim(
        &self,
        (resource, wanted): (usize, u64),
        newcomer: &Holder<I, N>,
        group: &Group<'_, I>,
        stays: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        if self.is_lasting {
            return None;
        }
        let there = || {
            let held = self.held.iter().filter(|(number, _)| stays(**number));
            held.filter(|(_, holder)| group.has(holder) && holder.uses[resource] > 0)
        };
        if let Some(idle) = longest_idle(there()) {
            return Some(idle);
        }
        let mut shares: BTreeMap<&I, (u64, u64)> = BTreeMap::new();
        for (number, holder) in there() {
            let Some(identity) = &holder.identity else {
                continue;
            };
            let (uses, newest) = shares.entry(identity).or_default();
            *uses += holder.uses[resource];
            *newest = *number;
        }
        let own = newcomer.identity.as_ref();
        let own = own
            .and_then(|own| shares.get(own))
            .map_or(0, |(uses, _)| *uses);
        let richest = shares.into_values().max();
        let richest = richest.filter(|(uses, _)| *uses > own.saturating_add(wanted));
        match (richest, group) {
            (Some((_, newest)), _) => Some(newest),
            (None, Group::All) => Self::of_largest_site((resource, wanted), newcomer, there()),
            (None, Group::Identity(_) | Group::Authority(_) | Group::Place(_)) => None,
        }
    }

    /// Returns the newest seat of the largest site, if that site uses more than the newcomer's site will use.
    fn of_largest_site<'a>(
        (resource, wanted): (usize, u64),
        newcomer: &Holder<I, N>,
        there: impl Iterator<Item = (&'a u64, &'a Holder<I, N>)>,
    ) -> Option<u64>
    where
        I: 'a,
    {
        let mut sites: BTreeMap<Prefix, (u64, Option<u64>)> = BTreeMap::new();
        for (number, holder) in there {
            let (uses, newest) = sites.entry(holder.site()).or_default();
            *uses += holder.uses[resource];
            if newcomer.identity.is_some() || holder.identity.is_none() {
                *newest = Some(*number);
            }
        }
        let own = sites.get(&newcomer.site()).map_or(0, |(uses, _)| *uses);
        let largest = sites.into_values().max();
        let largest = largest.filter(|(uses, _)| *uses > own.saturating_add(wanted));
        largest.and_then(|(_, newest)| newest)
    }
}

/// Holders that share a limit.
enum Group<'a, I> {
    Identity(&'a I),
    Authority(&'a I),
    Place(Prefix),
    All,
}

impl<I: Ord> Group<'_, I> {
    fn has<const N: usize>(&self, holder: &Holder<I, N>) -> bool {
        match self {
            Self::Identity(identity) => holder.identity.as_ref() == Some(identity),
            Self::Authority(authority) => holder.authority.as_ref() == Some(authority),
            Self::Place(place) => holder.places.contains(place),
            Self::All => true,
        }
    }
}

impl<I, const N: usize> Holder<I, N> {
    /// Returns the site of the holder: the largest of its prefixes.
    const fn site(&self) -> Prefix {
        self.places[2]
    }

    /// Returns the groups of the holder, smallest first.
    fn groups(&self) -> [Option<(Within, Group<'_, I>)>; 6] {
        let identity = self.identity.as_ref().map(Group::Identity);
        let authority = self.authority.as_ref().map(Group::Authority);
        let [host, part, site] = self.places.map(Group::Place);
        [
            identity.map(|identity| (Within::Identity, identity)),
            authority.map(|authority| (Within::Authority, authority)),
            Some((Within::Host, host)),
            Some((Within::Site, part)),
            Some((Within::Site, site)),
            Some((Within::All, Group::All)),
        ]
    }
}

impl Limits {
    const fn of(&self, within: Within) -> u64 {
        match within {
            Within::Identity => self.identity,
            Within::Authority => self.authority,
            Within::Host => self.host,
            Within::Site => self.site,
            Within::All => self.all,
        }
    }
}

/// Returns the seat that has been idle longest, preferably one of an unknown client.
fn longest_idle<'a, I: 'a, const N: usize>(
    held: impl Iterator<Item = (&'a u64, &'a Holder<I, N>)>,
) -> Option<u64> {
    let idle = held.filter_map(|(number, holder)| {
        let since = holder.idle?;
        Some((holder.identity.is_some(), since, *number))
    });
    idle.min().map(|(_, _, number)| number)
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most;
        match self.within {
            Within::Identity => {
                write!(f, "your key already holds {most}, the maximum of one key")
            }
            Within::Authority => write!(
                f,
                "the keys of your authority already hold {most}, the most that one authority may have"
            ),
            Within::Host => write!(
                f,
                "your address already holds {most}, the maximum of one address"
            ),
            Within::Site => write!(
                f,
                "your network already holds {most}, the maximum of one network"
            ),
            Within::All => write!(f, "all {most} are in use"),
        }
    }
}
