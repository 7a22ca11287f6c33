//! Searches by key and value: one statement over the index of their beginnings.

use std::fmt::Write as _;

use super::{Found, Match, Search, Terms, read_found};
use crate::db::{Param, Tx};
use crate::error::Result;

/// How many characters of a key and of a value are in their index.
const HEAD: usize = 64;
/// Selects settings by key, value or both. Gives the statement and what goes into it.
fn of_settings<'s>(asked: &'s Search, conf: Option<i64>, heads: &'s [String; 3]) -> (String, Vec<Param<'s>>) {
    let mut sql = String::from(
        "/* search::settings */
         SELECT s.setting_id, s.stanza_id, s.key, s.value, s.line
         FROM settings s
         WHERE ",
    );
    let mut params: Vec<Param<'s>> = Vec::new();
    let mut add = |text: &str, param: Param<'s>| {
        let and = if params.is_empty() { "" } else { "\n           AND " };
        params.push(param);
        let _ = write!(sql, "{and}{}", text.replace('#', &format!("?{}", params.len())));
    };
    let [key_head, value_head, next_head] = heads;
    if let Some(key) = &asked.key {
        add("substr(s.key, 1, 64) = #", key_head.into());
        add("s.key = #", key.into());
    }
    match &asked.value {
        Some(Match::Exact(value)) => {
            add("substr(s.value, 1, 64) = #", value_head.into());
            add("s.value = #", value.into());
        }
        Some(Match::Prefix(prefix)) if prefix.chars().count() >= HEAD => {
            add("substr(s.value, 1, 64) = #", value_head.into());
            add("{place_in}(s.value, #) = 1", prefix.into());
        }
        Some(Match::Prefix(_)) => {
            add("substr(s.value, 1, 64) >= #", value_head.into());
            if !next_head.is_empty() {
                add("substr(s.value, 1, 64) < #", next_head.into());
            }
        }
        None => {}
    }
    if let Some(conf) = conf {
        add("s.conf_id = CAST(# AS BIGINT)", conf.into());
    }
    (sql, params)
}

/// The beginnings that are in the index: of the key, of the value, and of what comes after all values with a prefix.
pub(super) fn heads(asked: &Search) -> [String; 3] {
    let head = |text: &str| text.chars().take(HEAD).collect::<String>();
    let key = asked.key.as_deref().map(head).unwrap_or_default();
    let (value, next) = match &asked.value {
        Some(Match::Exact(value)) => (head(value), String::new()),
        Some(Match::Prefix(prefix)) => (head(prefix), after_prefix(&head(prefix))),
        None => Default::default(),
    };
    [key, value, next]
}

/// The first text after all that begin with `prefix`; empty where there is none.
fn after_prefix(prefix: &str) -> String {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        let next = (u32::from(last) + 1..=0x0010_ffff).find_map(char::from_u32);
        if let Some(next) = next {
            letters.push(next);
            return letters.into_iter().collect();
        }
    }
    String::new()
}

/// The whole statement by key and value, of finished runs only, in the order of its index. The index by key begins with the key, which
/// is one; SQLite would sort all hits if the order named it.
pub(super) fn of_finished<'s>(
    asked: &'s Search,
    conf: Option<i64>,
    heads: &'s [String; 3],
) -> (String, Vec<Param<'s>>) {
    let (mut sql, params) = of_settings(asked, conf, heads);
    let _ = write!(
        sql,
        "
           AND EXISTS (
               SELECT 1
               FROM uploads u
               JOIN run_ends e ON e.workload = 'ingest' AND e.category = '' AND e.run_id = u.run_id
               WHERE u.upload_no = s.setting_id / 4294967296
                 AND e.state = 'done'
           )
         ORDER BY substr(s.value, 1, 64), s.conf_id, s.setting_id
         LIMIT {}",
        asked.limit
    );
    (sql, params)
}

pub(super) async fn find(tx: &mut Tx<'_>, terms: &Terms<'_>) -> Result<Vec<Found>> {
    let heads = heads(terms.asked);
    let (sql, params) = of_finished(terms.asked, terms.conf, &heads);
    tx.built_rows(&sql, &params, |row| read_found(&mut row.cursor())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_comes_after_all_that_begin_with_it() {
        assert_eq!(after_prefix("ab"), "ac");
        assert_eq!(after_prefix("a\u{10ffff}"), "b");
        assert_eq!(after_prefix("\u{d7ff}"), "\u{e000}");
        assert_eq!(after_prefix("\u{10ffff}"), "");
    }
}
