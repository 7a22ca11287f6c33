//! Several sorted runs as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::entry::Entry;
use super::run::{Run, RunReader};

#[derive(Debug)]
pub(super) struct Merge<'a> {
    runs: Vec<RunReader<'a>>,
    /// The next entry of each run that has one.
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(runs: &'a mut [Run]) -> io::Result<Self> {
        let runs: Vec<RunReader<'a>> = runs.iter_mut().map(Run::read).collect::<Result<_, _>>()?;
        let mut merge = Self { heads: BinaryHeap::with_capacity(runs.len()), runs };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> io::Result<()> {
        if let Some(entry) = self.runs[run].next() {
            self.heads.push(Reverse((entry?, run)));
        }
        Ok(())
    }
}

impl Iterator for Merge<'_> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        let Reverse((entry, run)) = self.heads.pop()?;
        Some(self.advance(run).map(|()| entry))
    }
}
