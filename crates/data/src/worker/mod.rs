//! The worker: claims, extracts, and has the result judged.
