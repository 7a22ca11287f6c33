//! `Link` headers as RFC 8288 has them: `<https://…?page=2>; rel="next", <…>; rel="last"`.

/// The target of the first link whose relation is `next`.
pub(super) fn next<'a>(headers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    headers.flat_map(links).find(|link| is_next(link.parameters)).map(|link| link.target)
}

struct Link<'a> {
    target: &'a str,
    parameters: &'a str,
}

fn links(mut rest: &str) -> impl Iterator<Item = Link<'_>> {
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once('<')?;
        let (target, after) = after.split_once('>')?;
        let end = outside_quotes(after, ',').unwrap_or(after.len());
        rest = &after[end..];
        Some(Link { target: target.trim(), parameters: &after[..end] })
    })
}

/// Only the first `rel` of a link counts; it may hold several relations.
fn is_next(mut parameters: &str) -> bool {
    while !parameters.is_empty() {
        let end = outside_quotes(parameters, ';').unwrap_or(parameters.len());
        let (parameter, rest) = parameters.split_at(end);
        parameters = rest.strip_prefix(';').unwrap_or(rest);
        let Some((name, value)) = parameter.split_once('=') else { continue };
        if name.trim().eq_ignore_ascii_case("rel") {
            let relations = value.trim().trim_matches('"');
            return relations.split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case("next"));
        }
    }
    false
}

fn outside_quotes(text: &str, wanted: char) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == wanted && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_link_is_found_however_it_is_written() {
        for (header, expected) in [
            (r#"<https://a/x?page=2>; rel="next""#, Some("https://a/x?page=2")),
            (
                r#"<https://a/?p=1>; rel="prev", <https://a/?p=3>; rel="next", <https://a/?p=9>; rel="last""#,
                Some("https://a/?p=3"),
            ),
            (r"</x?a=1,2;3>;rel=next", Some("/x?a=1,2;3")),
            (r#"<x>; title="a, b; rel=\"next\""; rel=last, <y>; REL="Last NEXT""#, Some("y")),
            (r#"<x>; rel="prev"; rel="next""#, None),
            (r#"<x>; rel="nextish""#, None),
            ("<x>", None),
            ("", None),
            ("<x; rel=next", None),
        ] {
            assert_eq!(next([header].into_iter()), expected, "{header}");
        }
        assert_eq!(next(["<a>; rel=first", "<b>; rel=next"].into_iter()), Some("b"));
    }
}
