//! Memory that many pieces of work share: each may take as much as would be left for it if all took the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An amount of memory, and how many take of it now.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    bytes: usize,
    takers: Arc<AtomicUsize>,
}

/// One who takes of a budget until it is dropped.
#[derive(Debug)]
pub struct MemoryShare(MemoryBudget);

impl MemoryBudget {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, takers: Arc::default() }
    }

    pub fn share(&self) -> MemoryShare {
        self.takers.fetch_add(1, Ordering::Relaxed);
        MemoryShare(self.clone())
    }
}

impl MemoryShare {
    /// How many bytes it may take now. It is less when another comes.
    pub fn bytes(&self) -> usize {
        self.0.bytes / self.0.takers.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.0.takers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_may_take_follows_from_how_many_there_are() {
        let budget = MemoryBudget::new(100);
        let first = budget.share();
        assert_eq!(first.bytes(), 100);
        let more: Vec<MemoryShare> = (0..3).map(|_| budget.clone().share()).collect();
        assert_eq!((first.bytes(), more[2].bytes()), (25, 25));
        drop(more);
        assert_eq!(first.bytes(), 100);
    }
}
