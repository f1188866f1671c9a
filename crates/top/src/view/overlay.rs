//! What lies over the table: help, and everything about one row with the reasons for what is missing.

use ratatui::Frame;
use ratatui::layout::{Margin, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::Palette;
use crate::app::App;
use crate::column::{COLUMNS, SORTS};
use crate::derive::{Row, Subject};
use crate::format;
use crate::json::shares;
use crate::mix::{Counts, interval};

/// Keys that are no sort order.
const KEYS: [(&str, &str); 14] = [
    ("q, Ctrl-C", "quit"),
    ("h, ?", "this help"),
    ("↑ ↓ PgUp PgDn Home End", "select a row (k and j as well)"),
    ("Enter", "everything about the selected row, with reasons"),
    ("/", "show only rows with this text; Esc clears it"),
    ("p, t, g", "rows are processes, threads, control groups"),
    ("← →", "hide and show what is below a control group"),
    ("< >", "the previous and the next sort order"),
    ("R", "reverse the order"),
    ("m", "sample instructions on or off"),
    ("space", "pause and continue"),
    ("+ -", "a longer or shorter interval"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend; fg continues"),
];

/// Draws the help.
pub fn help(frame: &mut Frame<'_>, area: Rect, app: &mut App, palette: Palette) {
    let mut lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(keys, does)| pair(keys, 24, does, palette))
        .collect();
    let sorts: Vec<String> = SORTS
        .iter()
        .map(|(_, name, key)| format!("{key} {name}"))
        .collect();
    lines.push(pair("sort by", 24, &sorts.join(", "), palette));
    lines.push(Line::default());
    for about in &COLUMNS {
        lines.push(pair(about.heading, 8, about.about, palette));
    }
    lines.push(pair(
        "ISA",
        8,
        "the instruction set that most sampled instructions belong to besides scalar code",
        palette,
    ));
    lines.push(Line::default());
    lines.extend(
        app.snapshot
            .notes
            .iter()
            .map(|note| Line::raw(note.clone())),
    );
    show(frame, area, app, " Help ", lines);
}

fn pair(name: &str, width: usize, about: &str, palette: Palette) -> Line<'static> {
    Line::from(vec![
        Span::styled(format!("{name:<width$} "), palette.title()),
        Span::raw(about.to_owned()),
    ])
}

/// Draws everything about the selected row.
pub fn detail(frame: &mut Frame<'_>, area: Rect, app: &mut App, palette: Palette) {
    let Some(row) = app.selected_row() else {
        show(
            frame,
            area,
            app,
            " Detail ",
            vec![Line::raw("no row is selected")],
        );
        return;
    };
    let title = match &row.subject {
        Subject::Task(id) => match id.tid {
            None => format!(" {} {} ", id.pid, row.who.name),
            Some(tid) => format!(" thread {tid} of {} {} ", id.pid, row.who.name),
        },
        Subject::Group(path) => format!(" {path} "),
    };
    let mut lines = who(row, usize::from(area.width), palette);
    lines.push(Line::default());
    for about in &COLUMNS {
        let figure = row.figures.get(about.column);
        let width = usize::from(about.width).max(6);
        let text = match figure {
            Ok(_) => format!("{:>width$}  {}", format::figure(about, figure), about.about),
            Err(reason) => format!("{:>width$}  {reason}", format::MISSING),
        };
        lines.push(pair(about.heading, 8, &text, palette));
    }
    lines.push(Line::default());
    match &row.mix {
        Ok(counts) => lines.extend(mix(counts, palette)),
        Err(reason) => lines.push(pair("mix", 8, reason.text(), palette)),
    }
    show(frame, area, app, &title, lines);
}

/// Names of a row; a command line gets two lines of the screen.
fn who(row: &Row, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let who = &row.who;
    let mut lines = Vec::new();
    if let Some(command) = &who.command {
        let command = format::cut(command, (2 * width).saturating_sub(30));
        lines.push(pair("command", 8, &command, palette));
    }
    if let Some(uid) = who.uid {
        let name = who.user.as_deref().unwrap_or("no name in /etc/passwd");
        lines.push(pair("user", 8, &format!("{name} ({uid})"), palette));
    }
    if let (Some(group), Subject::Task(_)) = (&who.cgroup, &row.subject) {
        lines.push(pair("cgroup", 8, group, palette));
    }
    if let Some(state) = row.state {
        lines.push(pair("state", 8, state_name(state), palette));
    }
    lines
}

/// Source: proc_pid_stat(5).
fn state_name(state: char) -> &'static str {
    match state {
        'R' => "running or waiting for a CPU (R)",
        'S' => "sleeping (S)",
        'D' => "in uninterruptible sleep, mostly for a disk (D)",
        'T' => "stopped (T)",
        't' => "stopped by a debugger (t)",
        'Z' => "ended, not waited for by its parent (Z)",
        'I' => "an idle kernel thread (I)",
        'X' | 'x' => "dead (X)",
        _ => "another",
    }
}

/// Shares of decoded samples with bars and intervals.
fn mix(counts: &Counts, palette: Palette) -> Vec<Line<'static>> {
    const BAR: usize = 20;
    let decoded = counts.decoded();
    let head = format!(
        "{} samples: {decoded} on instructions that were decoded, {} in the kernel, {} unknown",
        counts.samples(),
        counts.kernel,
        counts.unknown
    );
    let mut lines = vec![pair("mix", 8, &head, palette)];
    for (_, name, count) in shares(counts).into_iter().filter(|share| share.2 > 0) {
        let ratio = count as f64 / decoded as f64;
        let (low, high) = interval(count, decoded);
        let cells = (ratio * BAR as f64).round() as usize;
        let bar = format!("{}{}", "█".repeat(cells), "·".repeat(BAR - cells.min(BAR)));
        lines.push(Line::raw(format!(
            "  {name:<17} {bar} {:>5} %  ({} to {} %)",
            format::percent(ratio),
            format::percent(low),
            format::percent(high)
        )));
    }
    lines
}

/// A frame over the table, scrolled as far as there is something to see.
fn show(frame: &mut Frame<'_>, area: Rect, app: &mut App, title: &str, lines: Vec<Line<'_>>) {
    let area = area.inner(Margin {
        horizontal: u16::from(area.width > 100) * 4,
        vertical: 0,
    });
    let inside = area.inner(Margin::new(2, 1));
    // Wrapping makes more lines than there are; so many at least.
    let height: usize = lines
        .iter()
        .map(|line| {
            line.width()
                .div_ceil(usize::from(inside.width.max(1)))
                .max(1)
        })
        .sum();
    let most = height.saturating_sub(usize::from(inside.height));
    app.scroll = app.scroll.min(u16::try_from(most).unwrap_or(u16::MAX));
    let more = if most > 0 { "  ↑ ↓ scroll" } else { "" };
    let block = Block::bordered()
        .title(title.to_owned())
        .title_bottom(format!(" Esc closes{more} "));
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    let text = Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .scroll((app.scroll, 0));
    frame.render_widget(text, inside);
}
