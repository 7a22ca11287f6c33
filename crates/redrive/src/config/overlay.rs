//! The file's text and the environment, made into one document, and that into settings.
//!
//! Everything in the document knows its position in the text. What a variable sets has a position behind the text's end
//! instead, one for each variable.

use std::ops::Range;
use std::path::Path;

use redrive_core::mistake::Mistake;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::ConfigError;
use super::places::{Places, syntax};
use super::sections::Settings;

const PREFIX: &str = "REDRIVE_";

pub(super) fn read(
    file: &Path,
    text: &str,
    environment: &[(String, String)],
) -> Result<(Settings, Places), ConfigError> {
    let mut document = DeTable::parse(text).map_err(|error| syntax(file, text, &error))?;
    let overrides: Vec<_> =
        environment.iter().filter(|(name, _)| name.starts_with(PREFIX) && name.contains("__")).collect();
    for (number, (name, value)) in overrides.iter().enumerate() {
        let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_lowercase).collect();
        let position = text.len() + 1 + number;
        set(document.get_mut(), &path, value, &(position..position))
            .map_err(|why| ConfigError::new(format!("{name}: {why}")))?;
    }
    let variables: Vec<&str> = overrides.iter().map(|(name, _)| name.as_str()).collect();
    let places = Places::new(file, text, &variables, document.get_ref());
    tag_extracts(document.get_mut()).map_err(|mistake| places.blame(&mistake))?;
    let settings = Settings::deserialize(Deserializer::from(document)).map_err(|error| places.explain(&error))?;
    Ok((settings, places))
}

fn set<'i>(table: &mut DeTable<'i>, path: &[String], value: &'i str, position: &Range<usize>) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    let key = as_written(table, key);
    if rest.is_empty() {
        table.remove(key.as_str());
        table.insert(Spanned::new(position.clone(), key.into()), moved(typed(value), position));
        return Ok(());
    }
    if !table.contains_key(key.as_str()) {
        let section = Spanned::new(position.clone(), DeValue::Table(DeTable::new()));
        table.insert(Spanned::new(position.clone(), key.clone().into()), section);
    }
    match table.get_mut(key.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(section)) => set(section, rest, value, position),
        _ => Err(format!("{key} is a value, not a section")),
    }
}

/// The key as the file has it: variables do not tell capitals apart.
fn as_written(table: &DeTable<'_>, key: &str) -> String {
    let written = table.keys().find(|written| written.get_ref().eq_ignore_ascii_case(key));
    written.map_or_else(|| key.to_owned(), |written| written.get_ref().to_string())
}

/// A number, a truth value or a list where the text is one; else the text itself.
fn typed(text: &str) -> DeValue<'_> {
    match DeValue::parse(text).map(Spanned::into_inner) {
        Ok(value @ (DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Array(_))) => value,
        Ok(DeValue::String(_) | DeValue::Datetime(_) | DeValue::Table(_)) | Err(_) => DeValue::String(text.into()),
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
fn tag_extracts(document: &mut DeTable<'_>) -> Result<(), Mistake> {
    let Some(DeValue::Table(sources)) = document.get_mut("sources").map(Spanned::get_mut) else { return Ok(()) };
    for (name, source) in sources {
        if let DeValue::Table(source) = source.get_mut()
            && let Some(extract) = source.get_mut("extract")
        {
            let within = |mistake: Mistake| mistake.within("extract").within(name.get_ref().as_ref()).within("sources");
            tag(extract).map_err(within)?;
        }
    }
    Ok(())
}

fn tag(extract: &mut Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let position = extract.span();
    let wrong = |why| Err(Mistake::at("kind", format!("kind {why}; it names the extractor, like \"command\"")));
    let DeValue::Table(section) = extract.get_mut() else { return wrong("is missing") };
    let Some(kind) = section.remove("kind") else { return wrong("is missing") };
    let kind_position = kind.span();
    let DeValue::String(kind) = kind.into_inner() else { return wrong("is no text") };
    let section = DeValue::Table(std::mem::take(section));
    let tagged = [(Spanned::new(kind_position, kind), Spanned::new(position, section))];
    *extract.get_mut() = DeValue::Table(tagged.into_iter().collect());
    Ok(())
}
