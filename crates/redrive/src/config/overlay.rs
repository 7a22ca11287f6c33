//! The file's text and the environment, made into one document, and that into settings.
//!
//! Everything in the document knows its position in the text. What a variable sets has a position behind the text's end
//! instead, one for each variable.

use std::ops::Range;
use std::path::Path;

use redrive_data::extract;
use redrive_data::settings::SettingError;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::locations::{KeyLocations, syntax};
use super::sections::Settings;
use super::{ConfigError, fingerprint};

const PREFIX: &str = "REDRIVE_";

pub(super) fn read(
    file: &Path,
    text: &str,
    environment: &[(String, String)],
) -> Result<(Settings, KeyLocations, String), ConfigError> {
    let overrides: Vec<_> =
        environment.iter().filter(|(name, _)| name.starts_with(PREFIX) && name.contains("__")).collect();
    let variables: Vec<&str> = overrides.iter().map(|(name, _)| name.as_str()).collect();
    let mut document = DeTable::parse(text).map_err(|error| syntax(file, text, &error))?;
    for (number, (name, value)) in overrides.iter().enumerate() {
        let position = text.len() + 1 + number;
        let value = moved(typed(value), &(position..position));
        set(document.get_mut(), &steps(&name[PREFIX.len()..]), value)
            .map_err(|why| ConfigError::new(format!("{name}: {why}")))?;
    }
    let locations = KeyLocations::new(file, text, &variables, document.get_ref());
    let fingerprint = fingerprint::of(document.get_ref());
    tag_extracts(document.get_mut()).map_err(|mistake| locations.locate(&mistake))?;
    check_process_tables(document.get_ref()).map_err(|mistake| locations.locate(&mistake))?;
    match Settings::deserialize(Deserializer::from(document)) {
        Ok(settings) => Ok((settings, locations, fingerprint)),
        Err(error) => Err(locations.explain(&error)),
    }
}

/// One name on the way to a key.
struct Step<'a> {
    /// As the variable spells it.
    own: &'a str,
    /// As it is called where the file does not have it.
    new: String,
}

/// Keys are in small letters; variables and headers, whose names users choose, are called what they are called here.
fn steps(name: &str) -> Vec<Step<'_>> {
    let small: Vec<String> = name.split("__").map(str::to_lowercase).collect();
    let chosen = match small.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sources", _, "extract" | "validate", table, _, ..] => is_named_by_users(table).then_some(4),
        ["process", _, table, _, ..] => is_named_by_users(table).then_some(3),
        _ => None,
    };
    let step = |(index, (own, small)): (usize, (_, String))| {
        let new = if chosen == Some(index) { str::to_owned(own) } else { small };
        Step { own, new }
    };
    name.split("__").zip(small).enumerate().map(step).collect()
}

/// Whether the keys of a table are names that users choose.
fn is_named_by_users(table: &str) -> bool {
    extract::Settings::NAMED_BY_USERS.iter().any(|(key, _)| *key == table)
}

fn set<'i>(table: &mut DeTable<'i>, path: &[Step<'_>], value: Spanned<DeValue<'i>>) -> Result<(), String> {
    let Some((step, rest)) = path.split_first() else { return Ok(()) };
    let key = as_written(table, step)?;
    let position = value.span();
    if rest.is_empty() {
        table.remove(key.as_str());
        table.insert(Spanned::new(position, key.into()), value);
        return Ok(());
    }
    if !table.contains_key(key.as_str()) {
        let section = Spanned::new(position.clone(), DeValue::Table(DeTable::new()));
        table.insert(Spanned::new(position, key.clone().into()), section);
    }
    match table.get_mut(key.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(section)) => set(section, rest, value),
        _ => Err(format!("{key} is a value, not a section")),
    }
}

/// The key as the file has it: variables need not tell capitals apart, unless the file does.
fn as_written(table: &DeTable<'_>, step: &Step<'_>) -> Result<String, String> {
    if table.contains_key(step.own) {
        return Ok(step.own.to_owned());
    }
    let alike = table.keys().map(|key| key.get_ref().as_ref()).filter(|key| key.eq_ignore_ascii_case(step.own));
    match alike.collect::<Vec<&str>>()[..] {
        [] => Ok(step.new.clone()),
        [written] => Ok(written.to_owned()),
        [one, another, ..] => {
            Err(format!("{} may be {one} or {another}; spell it as the file does, capitals included", step.own))
        }
    }
}

/// Reads a variable as TOML: a number, a truth value, a list, or a text in quotes. What is none of these is a text as it
/// stands, such as a URL, a word or a date.
fn typed(text: &str) -> DeValue<'_> {
    match DeValue::parse(text).map(Spanned::into_inner) {
        Ok(DeValue::Datetime(_) | DeValue::Table(_)) | Err(_) => DeValue::String(text.into()),
        Ok(value) => value,
    }
}

/// The value, and all that is in it, at this position.
fn moved<'i>(value: DeValue<'i>, position: &Range<usize>) -> Spanned<DeValue<'i>> {
    let here = |value: Spanned<DeValue<'i>>| moved(value.into_inner(), position);
    let value = match value {
        DeValue::Array(values) => DeValue::Array(values.into_iter().map(here).collect()),
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<_>, _)| (Spanned::new(position.clone(), key.into_inner()), here(value));
            DeValue::Table(table.into_iter().map(entry).collect())
        }
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            value
        }
    };
    Spanned::new(position.clone(), value)
}

/// Makes `extract = { kind = "http", url = … }` of every source into `extract = { http = { url = … } }`. Serde could read
/// the first form too, but only by way of a copy that forgets the positions.
fn tag_extracts(document: &mut DeTable<'_>) -> Result<(), SettingError> {
    let Some(DeValue::Table(sources)) = document.get_mut("sources").map(Spanned::get_mut) else { return Ok(()) };
    for (name, source) in sources {
        if let DeValue::Table(source) = source.get_mut()
            && let Some(extract) = source.get_mut("extract")
        {
            let within =
                |mistake: SettingError| mistake.within("extract").within(name.get_ref().as_ref()).within("sources");
            tag(extract).map_err(within)?;
        }
    }
    Ok(())
}

fn tag(extract: &mut Spanned<DeValue<'_>>) -> Result<(), SettingError> {
    let position = extract.span();
    let invalid = |why| Err(SettingError::at("kind", format!("kind {why}; it names the extractor, like \"command\"")));
    let DeValue::Table(section) = extract.get_mut() else { return invalid("is missing") };
    check_tables(section)?;
    section.iter_mut().for_each(|(_, value)| dates_as_texts(value.get_mut()));
    let Some(kind) = section.remove("kind") else { return invalid("is missing") };
    let kind_position = kind.span();
    let DeValue::String(kind) = kind.into_inner() else { return invalid("is no text") };
    let section = DeValue::Table(std::mem::take(section));
    let tagged = [(Spanned::new(kind_position, kind), Spanned::new(position, section))];
    *extract.get_mut() = DeValue::Table(tagged.into_iter().collect());
    Ok(())
}

/// Refuses another value where a table belongs whose keys users choose. Serde would repeat what stands there instead, and
/// that may be a secret.
fn check_tables(section: &DeTable<'_>) -> Result<(), SettingError> {
    for (key, name) in extract::Settings::NAMED_BY_USERS {
        if section.get(key).is_some_and(|value| !matches!(value.get_ref(), DeValue::Table(_))) {
            return Err(SettingError::at(key, format!("is no section; write it like {{ {name} = \"value\" }}")));
        }
    }
    Ok(())
}

fn check_process_tables(document: &DeTable<'_>) -> Result<(), SettingError> {
    let Some(DeValue::Table(sections)) = document.get("process").map(Spanned::get_ref) else { return Ok(()) };
    for (name, section) in sections {
        if let DeValue::Table(section) = section.get_ref() {
            check_tables(section).map_err(|mistake| mistake.within(name.get_ref().as_ref()).within("process"))?;
        }
    }
    Ok(())
}

/// Makes dates that are not in quotes into texts: extractors know nothing of TOML.
fn dates_as_texts(value: &mut DeValue<'_>) {
    match value {
        DeValue::Datetime(date) => *value = DeValue::String(date.to_string().into()),
        DeValue::Array(values) => values.iter_mut().for_each(|value| dates_as_texts(value.get_mut())),
        DeValue::Table(table) => table.iter_mut().for_each(|(_, value)| dates_as_texts(value.get_mut())),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(field: &str, text: &str, variables: &[&str]) -> String {
        let environment: Vec<_> = variables.iter().map(|name| ((*name).to_owned(), "abc".to_owned())).collect();
        let (settings, ..) = read(Path::new("redrive.toml"), text, &environment).unwrap();
        let shown = format!("{:?}", settings.sources.values().next().unwrap().extract);
        let from = shown.find(&format!("{field}: {{")).unwrap();
        shown[from..].split_inclusive('}').next().unwrap().to_owned()
    }

    #[test]
    fn dates_without_quotes_reach_an_extractor_as_texts() {
        let text = "[sources.a.extract]\nkind = 'singer'\ncommand = ['x']\nconfig = { days = [2026-01-31, { at = 07:30:00 }] }\n";
        let (settings, ..) = read(Path::new("redrive.toml"), text, &[]).unwrap();
        let shown = format!("{:?}", settings.sources.values().next().unwrap().extract);
        assert!(shown.contains("String(\"2026-01-31\")") && shown.contains("String(\"07:30:00\")"), "{shown}");
    }

    #[test]
    fn names_that_users_choose_keep_their_capitals() {
        let text = "[sources.env.extract]\nkind = 'command'\ncommand = ['x']\nenv = { Known = 'x' }\n";
        let variables = ["REDRIVE_SOURCES__ENV__EXTRACT__ENV__API_KEY", "REDRIVE_SOURCES__ENV__EXTRACT__ENV__KNOWN"];
        assert_eq!(names_of("env", text, &variables), r#"env: {"API_KEY": Text("abc"), "Known": Text("abc")}"#);
        let secret = ["REDRIVE_SOURCES__ENV__EXTRACT__ENV__API_KEY__ENV"];
        assert_eq!(names_of("env", text, &secret), r#"env: {"API_KEY": Secret { secret: Env("abc"), prefix: "" }"#);
        let text = "[sources.a.extract]\nkind = 'http'\nurl = 'https://a.example/'\n";
        let variables = ["REDRIVE_SOURCES__A__EXTRACT__HEADERS__X-Api-Key"];
        assert_eq!(names_of("headers", text, &variables), r#"headers: {"X-Api-Key": Text("abc")}"#);
    }
}
