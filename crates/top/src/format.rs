//! Numbers as people read them: few digits, a unit, never wider than their column.

use crate::Figure;
use crate::column::{About, Style};

/// What stands for a figure that is missing.
pub const MISSING: &str = "-";

/// A figure in the style of its column.
pub fn figure(about: &About, figure: &Figure) -> String {
    match figure {
        Ok(number) => number_in(about.style, *number),
        Err(_) => MISSING.to_owned(),
    }
}

/// A number in a style.
pub fn number_in(style: Style, number: f64) -> String {
    match style {
        Style::Cpus if number < 99.995 => format!("{number:.2}"),
        Style::Cpus if number < 999.95 => format!("{number:.1}"),
        Style::Cpus => format!("{number:.0}"),
        Style::Percent => percent(number),
        Style::Rate => rate(number),
        Style::Bytes => bytes(number),
        Style::Count => count(number),
    }
}

/// A ratio as a percentage, without the sign, which stands in the heading.
pub fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.05 {
        return "<0.1".to_owned();
    }
    if percent < 99.95 {
        format!("{percent:.1}")
    } else {
        format!("{percent:.0}")
    }
}

/// Events a second.
fn rate(number: f64) -> String {
    if number == 0.0 {
        "0".to_owned()
    } else if number < 0.05 {
        "<0.1".to_owned()
    } else if number < 9.95 {
        format!("{number:.1}")
    } else {
        count(number)
    }
}

/// A whole number, with a decimal prefix when it is long.
fn count(number: f64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G", "T", "P"], 9_999.5)
}

/// Bytes with a binary prefix: K is 1024.
pub fn bytes(number: f64) -> String {
    scaled(number, 1024.0, &["", "K", "M", "G", "T", "P"], 999.5)
}

/// `number` with the prefix that leaves it below `most`.
fn scaled(number: f64, base: f64, prefixes: &[&str], most: f64) -> String {
    let mut number = number;
    let mut at = 0;
    while number >= if at == 0 { most } else { 999.5 } && at + 1 < prefixes.len() {
        number /= base;
        at += 1;
    }
    if at == 0 || number >= 99.95 {
        format!("{number:.0}{}", prefixes[at])
    } else {
        format!("{number:.1}{}", prefixes[at])
    }
}

/// `text` cut to `width` cells, with the cut marked.
pub fn cut(text: &str, width: usize) -> String {
    use ratatui::text::Span;

    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if Span::raw(kept.as_str()).width() > width - 1 {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::column::COLUMNS;

    #[test]
    fn few_digits() {
        assert_eq!(number_in(Style::Cpus, 1.934), "1.93");
        assert_eq!(number_in(Style::Cpus, 399.999), "400.0");
        assert_eq!(percent(0.0), "0.0");
        assert_eq!(percent(0.0001), "<0.1");
        assert_eq!(percent(1.0), "100");
        assert_eq!(number_in(Style::Rate, 0.01), "<0.1");
        assert_eq!(number_in(Style::Rate, 3.26), "3.3");
        assert_eq!(number_in(Style::Rate, 1234.0), "1234");
        assert_eq!(number_in(Style::Rate, 1_234_567.0), "1.2M");
        assert_eq!(bytes(1023.0), "1.0K");
        assert_eq!(bytes(512.0), "512");
        assert_eq!(bytes(3.5 * 1024.0 * 1024.0), "3.5M");
        assert_eq!(bytes(0.0), "0");
    }

    #[test]
    fn names_are_cut_by_what_they_take_on_the_screen() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!(cut("名前です", 5), "名前…");
        assert_eq!(cut("x", 0), "");
    }

    proptest! {
        #[test]
        fn no_number_is_wider_than_its_column(number in 0.0..1e15_f64) {
            for about in &COLUMNS {
                let number = match about.style {
                    Style::Percent => number / 1e15,
                    Style::Cpus => number / 1e12,
                    _ => number,
                };
                let text = number_in(about.style, number);
                prop_assert!(text.len() <= usize::from(about.width).max(5), "{text}");
            }
        }
    }
}
