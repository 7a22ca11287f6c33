//! Failure groups: what is failed now, by cause, and what happens to it next.

use redrive_core::filter::Filter;
use redrive_core::fingerprint::{GroupId, GroupPrefix};
use redrive_core::retry::RetryPolicy;
use redrive_store::{AttemptLimits, GroupQuery};

use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::shape::GroupShape;

impl Insight {
    /// The failure groups of partitions, the largest first.
    pub async fn groups(&self, filter: &Filter) -> Result<Vec<GroupShape>> {
        let groups = self.view().partition_groups(self.group_query(filter.clone(), None)).await?;
        Ok(groups.into_iter().map(GroupShape::from).collect())
    }

    /// A question for groups, by the limits of the sources as they are now; of one group no more than `at_most` are counted.
    pub(crate) fn group_query(&self, filter: Filter, at_most: Option<u32>) -> GroupQuery {
        let now = self.now();
        let otherwise = AttemptLimits::of(&RetryPolicy::partitions(), now);
        let limits =
            self.sources().known().map(|(source, rules)| (source.clone(), AttemptLimits::of(&rules.retry, now)));
        GroupQuery { filter, limits: limits.filter(|(_, limits)| *limits != otherwise).collect(), otherwise, at_most }
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
