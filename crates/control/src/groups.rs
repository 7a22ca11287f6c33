//! Failure groups: what is failed now, by cause, and what happens to it next.

use std::collections::BTreeMap;

use redrive_core::filter::Filter;
use redrive_core::fingerprint::{GroupId, GroupPrefix};
use redrive_core::key::Source;
use redrive_core::retry::RetryPolicy;
use redrive_store::{AttemptLimits, GroupQuery};

use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::shape::GroupShape;

impl Insight {
    /// The failure groups of partitions, the largest first.
    pub async fn groups(&self, filter: &Filter) -> Result<Vec<GroupShape>> {
        let now = self.now();
        let otherwise = AttemptLimits::of(&RetryPolicy::partitions(), now);
        let limits =
            self.sources().known().map(|(source, rules)| (source.clone(), AttemptLimits::of(&rules.retry, now)));
        let limits = limits.filter(|(_, limits)| *limits != otherwise).collect();
        let groups = self
            .view()
            .partition_groups(GroupQuery { filter: filter.clone(), limits, otherwise, at_most: None })
            .await?;
        Ok(groups.into_iter().map(GroupShape::from).collect())
    }

    /// The limits of the sources that have some of their own.
    pub(crate) fn limits(&self, otherwise: AttemptLimits) -> BTreeMap<Source, AttemptLimits> {
        let now = self.now();
        let limits =
            self.sources().known().map(|(source, rules)| (source.clone(), AttemptLimits::of(&rules.retry, now)));
        limits.filter(|(_, limits)| *limits != otherwise).collect()
    }

    /// The failure group that an id, or an unambiguous beginning of one, stands for.
    pub async fn find_group(&self, text: &str) -> Result<GroupId> {
        let prefix: GroupPrefix = text.parse()?;
        match self.view().groups_beginning(prefix).await?[..] {
            [] => Err(Error::NoGroup(text.to_owned())),
            [one] => Ok(one),
            [first, second, ..] => Err(Error::SeveralGroups { begun: text.to_owned(), first, second }),
        }
    }
}
