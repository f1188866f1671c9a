//! The text reader against every shape of text that `perf script` writes, and against what it does not write.

use proptest::prelude::*;

use super::*;

fn read(text: &[u8], event: Option<&str>) -> Profile {
    let mut reader = ScriptReader::new(event);
    reader.feed(text);
    reader.finish()
}

fn folded(profile: &Profile) -> String {
    let mut out = Vec::new();
    crate::folded::write(profile, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

const CHAINS: &str = "\
# ========
# captured on    : today
prog  7/8   [001] 1.5:    1001001 cpu-clock:u: \n\
\t            643 _Z4betav+0x3 (/opt/prog)\n\
\t            6f3 main+0x10 (/opt/prog)\n\
\t          21b97 [unknown] (/lib/libc.so.6)\n\
\n\
prog  7/8   [001] 1.6:    1001001 cpu-clock:u: \n\
\t            643 _Z4betav+0x3 (/opt/prog)\n\
\t            6f3 main+0x10 (/opt/prog)\n\
\t          21b97 [unknown] (/lib/libc.so.6)\n\
\n\
Web Content     0 [001] 2.5:    1001001 cpu-clock:u: \n\
\tffffffffad135f6f do_idle+0x1f ([kernel.kallsyms])\n\
\tffffffffc0005f6f nf_hook ([nf_conntrack])\n\
\t 6ce258d4c544155 [unknown] ([unknown])\n";

#[test]
fn call_chains_are_counted_from_the_root() {
    let profile = read(CHAINS.as_bytes(), None);
    assert_eq!(
        folded(&profile),
        "prog;[unknown] [libc.so.6];main [prog];beta() [prog] 2\n\
         Web Content;[unknown];nf_hook [kernel];do_idle [kernel] 1\n"
    );
    assert_eq!(profile.head.event.as_deref(), Some("cpu-clock:u"));
    assert_eq!(profile.weight_unit, crate::WeightUnit::Nanoseconds);
    assert_eq!(
        profile.stacks().map(|stack| stack.weight).sum::<u64>(),
        3_003_003
    );
    assert_eq!(profile.head.reasons, [""; 0]);
}

#[test]
fn frames_without_indentation_are_read_as_those_with_it() {
    let whole = read(CHAINS.as_bytes(), None);
    let bare: String = CHAINS
        .lines()
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    let without_blanks: String = bare
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    for text in [bare, without_blanks] {
        let profile = read(text.as_bytes(), None);
        assert_eq!(folded(&profile), folded(&whole), "{text}");
        assert_eq!(profile.head.reasons, [""; 0]);
    }
    let fields = "java 12 cpu-clock:\n7f01 Ljava/lang/String;::a b+0x1 (/tmp/perf-12.map)\nString.java:99\n\
                  7f02 call (inlined)\n\nx 1 [000] 2.5: sched:sched_switch: prev_comm=a\n";
    assert_eq!(
        folded(&read(fields.as_bytes(), Some("cpu-clock"))),
        "java;call;Ljava/lang/String:::a b [perf-12.map] 1\n"
    );
    let symbols = "java 12 cpu-clock:\nmain\nstart\n\njava 12 cpu-clock:\nmain\n\n";
    assert_eq!(
        folded(&read(symbols.as_bytes(), None)),
        "java;start;main 1\njava;main 1\n"
    );
}

#[test]
fn samples_of_one_line_are_counted() {
    let text = "            perf  6447 16450.092164:          1 cycles:  ffffffffb4343bad f+0x1 ([kernel.kallsyms])\n\
                \u{20}           bad  6447 16450.092166:          1 cycles:      7f0012345678 g<a, b>(int) (/usr/lib/x y.so)\n\
                \u{20}           dead  6447 16450.092167:          1 cycles:      7f0012345678 [unknown] (/x)\n";
    let profile = read(text.as_bytes(), None);
    assert_eq!(
        folded(&profile),
        "perf;f [kernel] 1\nbad;g<a, b>(int) [x y.so] 1\ndead;[unknown] [x] 1\n"
    );
}

#[test]
fn tracepoints_have_fields_instead_of_a_frame_and_may_have_a_chain() {
    let text = "x 1 [000] 2.5: sched:sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b\n\
                \tffffffffad135f6f schedule ([kernel.kallsyms])\n\n\
                y 2 [000] 2.6: sched:sched_switch: prev_comm=a\n\
                z 3 [000] 2.7: sched:sched_switch: prev_comm=a\n";
    assert_eq!(
        folded(&read(text.as_bytes(), None)),
        "x;schedule [kernel] 1\ny 1\nz 1\n"
    );
}

#[test]
fn one_event_is_taken_and_the_others_are_reported() {
    let text = "a 1 1.5: cycles: \n\t 1 f (/a)\n\na 1 1.5: instructions: \n\t 1 g (/a)\n\na 1 1.6: cycles: \n\t 1 f (/a)\n";
    let profile = read(text.as_bytes(), None);
    assert_eq!(folded(&profile), "a;f [a] 2\n");
    assert!(profile.head.reasons[0].starts_with("1 samples of other events"));
    assert_eq!(
        folded(&read(text.as_bytes(), Some("instructions"))),
        "a;g [a] 1\n"
    );
    let lines = "   a 1 1.5:  1 cycles:  7f f (/a)\n   a 1 1.5:  1 branches:  7f g (/a)\n   a 1 1.6:  1 cycles:  7f f (/a)\n";
    assert_eq!(folded(&read(lines.as_bytes(), None)), "a;f [a] 2\n");
    let none = read(text.as_bytes(), Some("page-faults"));
    assert!(none.stacks.is_empty());
    assert_eq!(
        none.head.reasons,
        ["no event page-faults, but cycles, instructions"]
    );
}

#[test]
fn the_header_tells_which_event_was_recorded_first() {
    let header = "# event : name = cycles:u, , id = { 5, 6 }, type = 0\n\
                  # event : name = page-faults, , id = { 7 }, type = 1\n";
    let samples = "a 1 1.4: page-faults: \n\t 1 g (/a)\n\na 1 1.5: cycles:u: \n\t 1 f (/a)\n\n";
    let profile = read(format!("{header}{samples}").as_bytes(), None);
    assert_eq!(profile.head.event.as_deref(), Some("cycles:u"));
    assert_eq!(folded(&profile), "a;f [a] 1\n");
    let only = format!("{header}a 1 1.4: page-faults: \n\t 1 g (/a)\n\n");
    let profile = read(only.as_bytes(), None);
    assert_eq!(profile.next_event.as_deref(), Some("page-faults"));
}

#[test]
fn both_halves_of_a_hybrid_cpu_are_named() {
    let text = "a 1 1.4: 5 cpu_atom/cycles/: \n\t 1 g (/a)\n\na 1 1.5: 5 cpu_core/cycles/: \n\t 1 f (/a)\n\n\
                a 1 1.6: 5 cpu_core/instructions/: \n\t 1 h (/a)\n\n";
    let both = read(text.as_bytes(), None);
    assert_eq!(
        both.head.event.as_deref(),
        Some("cpu_atom/cycles/ + cpu_core/cycles/")
    );
    assert_eq!(folded(&both), "a;g [a] 1\na;f [a] 1\n");
    let one = read(text.as_bytes(), Some("cpu_core/cycles/"));
    assert_eq!(folded(&one), "a;f [a] 1\n");
}

#[test]
fn fields_may_be_absent_and_places_in_the_source_present() {
    let text = "java 12 cpu-clock: \n\t 7f01 Ljava/lang/String;::hashCode+0x10 (/tmp/perf-12.map)\n  String.java:99\n\t 7f02 call (inlined)\n\n\
                java \n";
    let profile = read(text.as_bytes(), None);
    assert_eq!(
        folded(&profile),
        "java;call;Ljava/lang/String:::hashCode [perf-12.map] 1\n"
    );
    assert_eq!(
        profile.head.reasons,
        ["1 lines could not be read as perf script's"]
    );
    let bare = "java 12 cpu-clock: \n\tmain\n\n";
    assert_eq!(folded(&read(bare.as_bytes(), None)), "java;main 1\n");
}

#[test]
fn lost_records_and_carriage_returns_are_understood() {
    let text = "a 1 1.5: cycles: \r\n\t 1 f (/a)\r\n\r\na 1 1.5: PERF_RECORD_LOST lost 7\na 1 [000] 1.5: PERF_RECORD_LOST lost 2\n";
    let profile = read(text.as_bytes(), None);
    assert_eq!(folded(&profile), "a;f [a] 1\n");
    assert_eq!(profile.head.lost, Some(9));
}

#[test]
fn lines_beyond_all_measure_are_left_out() {
    let mut text = b"a 1 1.5: cycles: \n\t 1 ".to_vec();
    text.resize(3 << 20, b'x');
    text.extend(b" (/a)\n\t 2 main (/a)\n\n");
    let profile = read(&text, None);
    assert_eq!(folded(&profile), "a;main [a] 1\n");
    assert_eq!(profile.head.reasons.len(), 1);
}

/// Texts of one and the same two samples, with other fields each (`perf script -F`).
#[test]
fn whichever_fields_are_written_the_stacks_are_the_same() {
    let chain = "\t            1162 inner (/opt/spin)\n\t            1200 main (/opt/spin)\n\n";
    let with_places = "\t            1162 inner (/opt/spin)\n  spin.c:6\n\t            1200 main (/opt/spin)\n  spin[1200]\n\n";
    let with_source = "\t            1162 inner (/opt/spin)\n  spin.c:6\n|6        x += i * 0.5;\n\t            1200 main (/opt/spin)\n  ??:0\n|9        hot(100000);\n\n";
    let with_offsets = "\t            1162 inner+0x19 (/opt/spin+0x1162)\n\t            1200 main+0x5a (/opt/spin+0x1200)\n\n";
    let with_branches = "\t            1162 inner (/opt/spin)\n\t            1200 main (/opt/spin)\n 0x401136/0x401150/P/-/-/1  0x401160/0x401136/M/-/-/0 \n\n";
    let with_disassembly = "\t            1162 inner (/opt/spin)\n\t            1200 main (/opt/spin)\n\tmain:\n\t0000000000401136\tinsn: eb 0d              # PRED 1 cycles [1]\n\t0000000000401145\tinsn: 83 7d fc 00\n\n";
    let with_registers = "\t            1162 inner (/opt/spin)\n\t            1200 main (/opt/spin)\n ABI:2    AX:0x78d1    BX:0x312cd \n\n";
    let texts = [
        ("spin 77   814.294837:    2004008   cpu-clock: \n", chain),
        ("spin 77   814.294837: \n", chain),
        ("spin 77   814.294837:    2004008 \n", chain),
        ("spin \n", chain),
        ("spin    2004008   cpu-clock: \n", chain),
        ("spin   814.294837:   cpu-clock: \n", chain),
        ("spin 77 K       814.294837: cpu-clock: \n", chain),
        (
            "spin 77   814.294837: cpu-clock:   call                  \n",
            chain,
        ),
        (
            "spin 77 [000]   814.294837: cpu-clock:      7ffe01234567\n",
            chain,
        ),
        ("spin 77   814.294837: cpu-clock: \n", with_places),
        (
            "spin 77   814.294837: cpu-clock:                0\n",
            with_places,
        ),
        ("spin 77   814.294837: cpu-clock: \n", with_source),
        ("spin \n", with_source),
        ("spin 77   814.294837: cpu-clock: \n", with_offsets),
        ("spin 77   814.294837: cpu-clock: \n", with_branches),
        ("spin 77   814.294837: cpu-clock: \n", with_disassembly),
        ("spin 77   814.294837: cpu-clock: \n", with_registers),
    ];
    for (head, chain) in texts {
        let text = format!("{head}{chain}").repeat(2);
        let profile = read(text.as_bytes(), None);
        assert_eq!(
            folded(&profile),
            "spin;main [spin];inner [spin] 2\n",
            "{text}"
        );
        assert_eq!(profile.head.reasons, [""; 0], "{text}");
        assert!(looks_like_script(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_lacks_a_field_is_read_without_it_and_names_it() {
    let chain = "\t            1162 inner\n\t            1200 main\n\n";
    for (head, command) in [
        ("\n", "[unknown]"),
        ("cpu-clock: \n", "[unknown]"),
        ("77   814.294837: cpu-clock: \n", ":77"),
    ] {
        let text = format!("{head}{chain}").repeat(2);
        let profile = read(text.as_bytes(), None);
        assert_eq!(
            folded(&profile),
            format!("{command};main;inner 2\n"),
            "{text}"
        );
        let named = profile
            .head
            .reasons
            .iter()
            .any(|reason| reason.contains("field comm"));
        assert_eq!(named, command == "[unknown]");
        assert!(looks_like_script(text.as_bytes()), "{text}");
    }
    let addresses = read(b"spin 77 1.5: cpu-clock: \n\t 1162\n\t 1200\n\n", None);
    assert_eq!(folded(&addresses), "spin;[unknown];[unknown] 1\n");
    assert!(addresses.head.reasons[0].contains("field sym"));
    let bare = read(
        b"    spin 77 1.5: cpu-clock: \n    spin 77 1.6: cpu-clock: \n",
        None,
    );
    assert_eq!(folded(&bare), "spin 2\n");
    assert!(bare.head.reasons[0].contains("fields ip and sym"));
    let unnamed = read(b"spin 77   814.294837: \n\t 1162 inner\n\n", Some("cycles"));
    assert_eq!(
        unnamed.head.reasons,
        ["no event cycles: the samples do not tell their event"]
    );
}

#[test]
fn places_in_the_source_are_kept_where_they_are_wanted() {
    let text = "spin 77   814.294837: cpu-clock: \n\t            1162 inner (/opt/spin)\n  spin.c:6\n|6   x += i;\n\
                \t            1200 main (/opt/spin)\n  ??:0\n\n";
    let mut reader = ScriptReader::new(None);
    reader.wants_lines = true;
    reader.feed(text.as_bytes());
    assert_eq!(
        folded(&reader.finish()),
        "spin;main [spin];inner (spin.c:6) [spin] 1\n"
    );
}

#[test]
fn one_line_samples_are_read_whatever_stands_before_the_frame() {
    for line in [
        "            spin  ffffffff81775dda elf_load ([kernel.kallsyms])",
        "            spin 21981  1258.699527: cpu-clock:                0     ffffffff81775dda elf_load ([kernel.kallsyms])",
        "            spin 21981  1258.699527: cpu-clock:   0   0   ffffffff81775dda elf_load ([kernel.kallsyms])      0",
        "            spin 21981  1258.699527:    1000   ffffffff81775dda elf_load ([kernel.kallsyms])",
    ] {
        let profile = read(format!("{line}\n{line}\n").as_bytes(), None);
        assert_eq!(folded(&profile), "spin;elf_load [kernel] 2\n", "{line}");
        assert!(looks_like_script(line.as_bytes()), "{line}");
    }
}

#[test]
fn folded_stacks_are_no_script() {
    for line in [
        "srv;main;hot 3",
        "srv;main (a.py:3);f (b c.py:5) 12",
        "srv;a 12 b: c 4",
        "java;Ljava/lang/String;::hashCode 100",
        "srv;main;hot 10 12",
        "main 1.5: x 4",
    ] {
        assert!(!looks_like_script(line.as_bytes()), "{line}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes, None);
    }

    #[test]
    fn any_words_are_read_without_a_panic(words in prop::collection::vec(
        prop_oneof![
            Just("\n".to_owned()), Just("\t".to_owned()), Just(" ".to_owned()), Just("\n\n".to_owned()),
            Just("[001]".to_owned()), Just("1.5:".to_owned()), Just("12/13".to_owned()), Just("cycles:".to_owned()),
            Just("ffffffffad135f6f".to_owned()), Just("(/a b)".to_owned()), Just("+0x1".to_owned()), "[ -~]{0,9}",
        ], 0..200)) {
        let profile = read(words.concat().as_bytes(), None);
        for line in folded(&profile).lines() {
            let (_, count) = line.rsplit_once(' ').expect("a count");
            prop_assert!(count.parse::<u64>().is_ok());
        }
    }

    #[test]
    fn pieces_make_no_difference(cuts in prop::collection::vec(0..CHAINS.len(), 0..20)) {
        let mut cuts = cuts;
        cuts.extend([0, CHAINS.len()]);
        cuts.sort_unstable();
        let mut reader = ScriptReader::new(None);
        for piece in cuts.windows(2) {
            reader.feed(&CHAINS.as_bytes()[piece[0]..piece[1]]);
        }
        prop_assert_eq!(folded(&reader.finish()), folded(&read(CHAINS.as_bytes(), None)));
    }
}
