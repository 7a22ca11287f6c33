//! What every raw sink must do, run on a directory and on a real S3 server, and what only one of them can do wrong.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]
#![cfg_attr(target_os = "linux", expect(clippy::print_stdout, reason = "a traced writer says what it has done"))]

#[path = "raw_sink/damage.rs"]
mod damage;
#[path = "raw_sink/encrypted.rs"]
mod encrypted;
#[cfg(unix)]
#[path = "raw_sink/foreign.rs"]
mod foreign;
#[path = "raw_sink/keys.rs"]
mod keys;
#[path = "raw_sink/lab.rs"]
mod lab;
#[path = "raw_sink/once.rs"]
mod once;
#[path = "raw_sink/opening.rs"]
mod opening;
#[cfg(target_os = "linux")]
#[path = "raw_sink/power/mod.rs"]
mod power;
#[path = "raw_sink/writing.rs"]
mod writing;

macro_rules! on_both_sinks {
    ($($suite:ident::$test:ident),* $(,)?) => {
        mod files {
            $(#[tokio::test]
            async fn $test() {
                crate::$suite::$test(crate::lab::Lab::files()).await;
            })*
        }
        mod s3 {
            $(#[tokio::test]
            async fn $test() {
                crate::$suite::$test(crate::lab::Lab::s3()).await;
            })*
        }
    };
}

on_both_sinks! {
    writing::several_parts_come_back_as_they_went,
    writing::bytes_are_kept_verbatim,
    writing::a_line_is_one_line,
    writing::a_dropped_writer_leaves_a_directory_without_manifest,
    writing::a_failure_before_the_first_line_still_leaves_a_manifest,
    writing::an_empty_success_has_no_parts,
    writing::a_cancelled_write_can_only_be_finished_as_failed,
    writing::a_line_longer_than_every_buffer_is_kept,
    once::the_same_content_may_be_put_again,
    once::other_content_under_the_same_run_conflicts,
    once::other_content_of_another_size_conflicts,
    once::a_run_whose_last_part_conflicts_has_no_manifest,
    once::a_second_manifest_conflicts,
    once::of_many_at_once_one_content_wins,
    foreign::a_sink_is_known_by_its_marker,
    keys::hostile_keys_have_directories_of_their_own,
    keys::runs_and_partitions_are_told_apart,
    keys::a_manifest_of_another_partition_is_refused,
    damage::a_flipped_byte_is_found,
    damage::a_missing_part_is_found,
    damage::a_shortened_part_is_found,
    damage::a_forged_part_is_found_by_its_hash_before_any_line_is_read,
    damage::wrong_counts_are_found,
    damage::a_manifest_of_a_later_format_is_named,
}
