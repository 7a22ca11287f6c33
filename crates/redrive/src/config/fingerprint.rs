//! A configuration's fingerprint: whether two processes follow the same rules. Where each finds the database, the sink and its
//! clients may differ from host to host, and does not count.

use redrive_store::raw::Sha256;
use toml::de::{DeTable, DeValue};

/// Sections that say where things are, not what happens.
const PLACES: [&str; 4] = ["store", "raw", "server", "telemetry"];
const DIGITS: usize = 12;

/// The fingerprint of a document, with what variables set in it. Comments, order and spelling do not count.
pub(super) fn of(document: &DeTable<'_>) -> String {
    let mut text = String::new();
    table(document, &PLACES, &mut text);
    let mut digest = Sha256::of(text.as_bytes()).to_string();
    digest.truncate(DIGITS);
    digest
}

fn table(of: &DeTable<'_>, without: &[&str], out: &mut String) {
    let mut entries: Vec<_> = of.iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref())).collect();
    entries.retain(|(key, _)| !without.contains(key));
    entries.sort_by_key(|(key, _)| *key);
    out.push('{');
    for (key, entry) in entries {
        out.push_str(&format!("{key:?}="));
        value(entry, out);
    }
    out.push('}');
}

fn value(of: &DeValue<'_>, out: &mut String) {
    match of {
        DeValue::String(text) => out.push_str(&format!("{text:?},")),
        DeValue::Integer(number) => out.push_str(&format!("{}:{number},", number.radix())),
        DeValue::Float(number) => out.push_str(&format!("{number},")),
        DeValue::Boolean(flag) => out.push_str(&format!("{flag},")),
        DeValue::Datetime(date) => out.push_str(&format!("{date},")),
        DeValue::Array(values) => {
            out.push('[');
            values.iter().for_each(|entry| value(entry.get_ref(), out));
            out.push(']');
        }
        DeValue::Table(entries) => table(entries, &[], out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(text: &str) -> String {
        of(DeTable::parse(text).unwrap().get_ref())
    }

    #[test]
    fn rules_count_and_spelling_does_not() {
        let one = fingerprint("[sources.ads]\nmax_in_flight = 2\ncustomers = [\"1\"]\n");
        assert_eq!(one.len(), DIGITS);
        let same =
            "# ads\n[store]\nurl = \"postgres://elsewhere/db\"\n[sources.ads]\ncustomers=[ \"1\" ]\nmax_in_flight  = 2";
        assert_eq!(fingerprint(same), one);
        for other in [
            "[sources.ads]\nmax_in_flight = 3\ncustomers = [\"1\"]\n",
            "[sources.ads]\nmax_in_flight = 2\ncustomers = [\"1\", \"2\"]\n",
            "[sources.crm]\nmax_in_flight = 2\ncustomers = [\"1\"]\n",
            "",
        ] {
            assert_ne!(fingerprint(other), one, "{other}");
        }
    }
}
