//! Service termination points and their labels.
//!
//! A point is written as its URN, or with the VLANs from which one is taken, as in
//! `urn:ogf:network:example.net:2026:topology:port?vlan=1780-1790`.

use std::fmt;
use std::str::FromStr;

/// Service termination point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stp {
    /// URN without a label.
    pub id: String,
    /// Part of the URN after that of the network.
    pub port: String,
    /// Node of the topology.
    pub node: String,
    /// VLANs, if each circuit gets one.
    pub labels: Option<Labels>,
    /// Interface at which the circuit starts.
    pub interface: Option<String>,
    /// Packets that the circuit carries.
    pub packets: Option<String>,
    /// Port of the neighbor.
    pub alias: Option<String>,
}

/// VLANs as ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(u16, u16)>);

/// Text that is not a list of VLANs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("VLANs are numbers from 1 to 4094 and ranges, as in 1780-1790,1800")]
pub struct WrongLabels;

impl Labels {
    /// Returns true if a VLAN is listed.
    pub fn has(&self, label: u16) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&label))
    }

    /// Returns all VLANs in order.
    pub fn all(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl FromStr for Labels {
    type Err = WrongLabels;

    fn from_str(text: &str) -> Result<Self, WrongLabels> {
        let mut ranges = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.trim().parse().map_err(|_| WrongLabels);
            let (first, last): (u16, u16) = (number(first)?, number(last)?);
            if first == 0 || last > LABEL_MAX || first > last || ranges.len() >= RANGES_MAX {
                return Err(WrongLabels);
            }
            ranges.push((first, last));
        }
        ranges.sort_unstable();
        Ok(Self(ranges))
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (first, last)) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

/// Splits the name of a point into its URN and the wanted labels.
pub(crate) fn split(name: &str) -> Result<(&str, Option<Labels>), WrongLabels> {
    let Some((id, query)) = name.split_once('?') else {
        return Ok((name, None));
    };
    let labels = query.strip_prefix("vlan=").ok_or(WrongLabels)?;
    Ok((id, Some(labels.parse()?)))
}

/// Highest VLAN.
const LABEL_MAX: u16 = 4094;
/// Maximum number of ranges in a list.
const RANGES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_in_any_order_and_listed_in_theirs() {
        let labels: Labels = "4094,7-9, 1 ,20-20".parse().unwrap();
        assert!(labels.all().eq([1, 7, 8, 9, 20, 4094]));
        for label in 0..=4095 {
            assert_eq!(labels.has(label), labels.all().any(|one| one == label));
        }
        assert_eq!(labels.to_string(), "1,7-9,20,4094");
    }

    #[test]
    fn other_texts_are_no_labels() {
        for text in [
            "",
            "0",
            "0-3",
            "4095",
            "4000-4095",
            "9-7",
            "x",
            "1-",
            "-1",
            "1;2",
            "1,",
            "70000",
            "1-2-3",
        ] {
            assert_eq!(text.parse::<Labels>(), Err(WrongLabels), "{text}");
        }
        let ranges = |count: u16| {
            let all = (1..=count).map(|nth| (2 * nth).to_string());
            all.collect::<Vec<_>>().join(",").parse::<Labels>()
        };
        assert_eq!(ranges(64).unwrap().all().count(), 64);
        assert_eq!(ranges(65), Err(WrongLabels));
    }

    #[test]
    fn name_of_a_point_may_have_a_label() {
        assert_eq!(split("urn:n:a"), Ok(("urn:n:a", None)));
        let labels = "7-9".parse().unwrap();
        assert_eq!(split("urn:n:a?vlan=7-9"), Ok(("urn:n:a", Some(labels))));
        for name in [
            "urn:n:a?",
            "urn:n:a?vlan=",
            "urn:n:a?color=7",
            "urn:n:a?vlan=7?vlan=8",
        ] {
            assert_eq!(split(name), Err(WrongLabels), "{name}");
        }
    }
}
