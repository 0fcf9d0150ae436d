//! How books come from a store.

use lighthaul_circuit::reservation::Verb;
use lighthaul_schedule::{Calendar, Id, Kept, Outage};

use super::ask;
use super::config::Config;
use super::ledger::{Answer, Ledger};
use super::record::Record;
use super::who::{Act, Role, Who};
use crate::error::{Error, Result};
use crate::store::{Batch, Fact, Kind};
use crate::word::{Moment, OutageView};

/// A reservation that the links as they are now cannot keep, and why.
pub(super) type Unfit = (u64, String);

impl Ledger {
    /// Takes over what a store says has changed; what it has promised is promised, whatever would be granted now.
    pub(super) fn follow(&mut self, now: Moment, batch: Batch) -> Result<Vec<Unfit>> {
        let at = now.instant();
        let (mut records, mut outages) = (Vec::new(), Vec::new());
        for fact in batch.facts {
            let Fact {
                kind,
                id,
                doc: Some(doc),
            } = fact
            else {
                continue;
            };
            match kind {
                Kind::Reservation => records.push(Record::read(&doc)?),
                Kind::Outage => outages.push(serde_json::from_str(&doc)?),
                Kind::Answer => {
                    self.answers
                        .insert(id, serde_json::from_str::<Answer>(&doc)?);
                }
            }
        }
        // first all leave what they had: one may have now what another had
        for record in &records {
            let _ = self.calendar.release(at, Id(record.reservation.id));
        }
        for outage in outages {
            self.follow_outage(now, outage)?;
        }
        let mut unfit = Vec::new();
        for record in records {
            let id = record.reservation.id;
            if record.is_live()
                && let Err(why) = restore(&mut self.calendar, &self.config, now, &record)
            {
                unfit.push((id, why.to_string()));
            }
            self.insert(record);
        }
        self.seq = batch.seq;
        Ok(unfit)
    }

    /// Fails what the links as they are now cannot keep.
    pub(super) fn give_up(&mut self, now: Moment, unfit: Vec<Unfit>) -> Result<()> {
        let who = Who::new("calendar", Role::Operator);
        for (id, why) in unfit {
            let why = format!("the topology has no room for it any more: {why}");
            let act = Act {
                now,
                who: &who,
                why: &why,
            };
            self.turn(act, id, Verb::Fail)?;
        }
        Ok(())
    }

    fn follow_outage(&mut self, now: Moment, view: OutageView) -> Result<()> {
        // it may have been lifted
        let _ = self.calendar.lift(Id(view.id));
        let link = self.calendar.topology().link(&view.link);
        if let Some(link) = link.filter(|_| view.is_ahead(now)) {
            let outage = Outage {
                link,
                from: view.from.instant(),
                till: view.till.instant(),
            };
            self.calendar.outage(now.instant(), Id(view.id), outage)?;
        }
        self.outages.insert(view.id, view);
        Ok(())
    }
}

fn restore(calendar: &mut Calendar, config: &Config, now: Moment, record: &Record) -> Result<()> {
    let reservation = &record.reservation;
    let topology = calendar.topology();
    let owner = config.number_of(&reservation.owner);
    let kept = Kept {
        nth: record.nth,
        request: ask::read(&reservation.request, topology, owner)?,
        path: ask::path(&reservation.path, topology)?,
        steps: record.granted(),
    };
    calendar
        .restore(now.instant(), Id(reservation.id), kept)
        .map_err(Error::from)
}
