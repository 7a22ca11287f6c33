//! Follows the episodes of failure groups, and writes what people are to be told.
//!
//! A look keeps nothing in mind: it compares what is failed now with the episodes that are open. Any number of daemons may
//! look at once, because a step is written only where the episode is still as it was seen.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::episode::{self, GroupStanding};
use redrive_core::filter::Filter;
use redrive_core::fingerprint::GroupId;
use redrive_core::notice::{GroupFacts, Notice};
use redrive_store::{BOUND, EpisodeStep, OpenEpisode};

use crate::error::Result;
use crate::insight::Insight;
use crate::plane::ControlPlane;

impl ControlPlane {
    /// Opens, turns and closes episodes; gives how many notifications were written.
    pub async fn follow_episodes(&self) -> Result<u64> {
        let steps = self.insight.episode_steps().await?;
        if steps.is_empty() {
            return Ok(0);
        }
        let told: Vec<u64> = steps.iter().map(|step| u64::try_from(step.notices.len()).unwrap_or(0)).collect();
        let took = self.store.turn_episodes(steps).await?;
        Ok(told.into_iter().zip(took).filter(|(_, took)| *took).map(|(told, _)| told).sum())
    }
}

impl Insight {
    /// The steps that episodes would take now.
    async fn episode_steps(&self) -> Result<Vec<EpisodeStep>> {
        let view = self.view();
        let mut open: BTreeMap<GroupId, OpenEpisode> =
            view.episodes().await?.into_iter().map(|open| (open.episode.group, open)).collect();
        let failed = view.failed_by_group(open.keys().copied().collect()).await?;
        let is_over = |group: &GroupId| failed.get(group).copied().unwrap_or(0) == 0;
        let retried = match open.keys().any(is_over) {
            true => Some(view.retried_groups().await?),
            false => None,
        };
        let mut steps = Vec::new();
        for (group, count) in failed {
            let before = open.remove(&group);
            let is_retried = retried.as_ref().is_some_and(|retried| retried.may_have(group));
            if let Some(step) = self.episode_step(group, before, count, is_retried).await? {
                steps.push(step);
            }
        }
        Ok(steps)
    }

    async fn episode_step(
        &self,
        group: GroupId,
        before: Option<OpenEpisode>,
        failed: u64,
        is_retried: bool,
    ) -> Result<Option<EpisodeStep>> {
        let known = before.as_ref().map(|open| open.episode);
        // Nothing is left to be told of this one until it is over.
        let is_told = known.is_some_and(|episode| episode.grown_at.is_some() && episode.exhausted_at.is_some());
        if (known.is_none() && failed == 0) || (is_told && failed > 0) {
            return Ok(None);
        }
        let Some(mut facts) = self.group_facts(group, failed).await? else { return Ok(None) };
        if let Some(open) = before {
            facts.sources.extend(open.sources);
            facts.categories.extend(open.categories);
        }
        let standing = GroupStanding { failed, exhausted: facts.exhausted, is_retried };
        let (turns, after) = episode::next(group, known, standing, self.now());
        if turns.is_empty() {
            return Ok(None);
        }
        let since = known.or(after).map_or(self.now(), |episode| episode.opened_at);
        let notices = turns.into_iter().map(|turn| Notice::of_group(turn, &facts, since)).collect();
        let GroupFacts { sources, categories, .. } = facts;
        let after = after.map(|episode| OpenEpisode { episode, sources, categories });
        Ok(Some(EpisodeStep { before: known, after, notices }))
    }

    /// What a group has, counted to a bound.
    async fn group_facts(&self, group: GroupId, failed: u64) -> Result<Option<GroupFacts>> {
        let Some(description) = self.view().group(group).await? else { return Ok(None) };
        let mut facts = GroupFacts {
            group,
            class: description.class,
            template: description.template,
            failed,
            at_least: failed >= BOUND,
            exhausted: 0,
            withheld: 0,
            sources: BTreeSet::new(),
            categories: BTreeSet::new(),
        };
        let at_most = u32::try_from(BOUND).unwrap_or(u32::MAX);
        let query = self.group_query(Filter { group: Some(group), ..Filter::default() }, Some(at_most));
        for of_partitions in self.view().partition_groups(query).await? {
            facts.exhausted += of_partitions.exhausted;
            facts.withheld += of_partitions.withheld;
            facts.sources.extend(of_partitions.sources);
        }
        if let Some(of_runs) = self.view().run_group(group, at_most).await? {
            facts.exhausted += of_runs.exhausted;
            facts.categories.extend(of_runs.categories);
        }
        Ok(Some(facts))
    }
}
