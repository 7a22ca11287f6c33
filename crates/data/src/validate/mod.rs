//! The validator: the only one who says what became of an attempt.
