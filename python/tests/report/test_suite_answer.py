"""The answer of a suite: its first line, and CPU reached beside CPU expected."""

from steelyard.analyze.utilisation import cpu_reached
from steelyard.bench.suites.suite import load, with_run
from steelyard.records import Check, Metric
from steelyard.records.values import Level
from steelyard.report.answer import Paragraph
from steelyard.report.format import plain
from steelyard.report.suite.answer import MemberRun, answer
from steelyard.report.suite.words import cpu_of, objecting, says, value_of
from tests.cli.suites import write_suite


def idle_wiki(folder):
    """Return a suite of tao and of a wiki that used 40 % of its CPUs, and its runs."""
    suite, runs = load(write_suite(folder / "suite-1", ("tao", "mediawiki")))
    found, members = {}, []
    for member in suite.members:
        [run] = [run for _, run in runs if run.benchmark == member.benchmark]
        if member.benchmark == "mediawiki":
            metrics = {**run.metrics, "server_cpu_ratio": Metric(value=0.4, unit="ratio")}
            check = cpu_reached("mediawiki", metrics)
            verdict = run.verdict.model_copy(
                update={"level": Level.SUSPECT, "reasons": [check], "checks": [*run.verdict.checks, check]}
            )
            run = run.model_copy(update={"metrics": metrics, "verdict": verdict})
        members.append(with_run(member.model_copy(update={"runs": []}), run))
        found[member.benchmark] = [run]
    return suite.model_copy(update={"members": members}), found


def test_a_web_benchmark_at_40_percent_is_named_in_the_first_line(tmp_path):
    suite, runs = idle_wiki(tmp_path)
    text = plain(says(suite, runs))
    assert "members" not in text
    assert "mediawiki (40.0 % of its CPUs, expected 90 to 100 %)" in text
    assert text.endswith("tao and mediawiki are suspect")


def test_a_row_has_what_was_reached_and_expected_with_its_source(tmp_path):
    suite, runs = idle_wiki(tmp_path)
    members = {member.benchmark: member for member in suite.members}
    assert cpu_of(members["mediawiki"], runs["mediawiki"])[1:] == ("90 to 100 %", "DCPerf, Table 1")
    assert cpu_of(members["mediawiki"], [])[0] is None
    pages = {name: [MemberRun(run, None) for run in each] for name, each in runs.items()}
    sections = {section.anchor: section for section in answer(suite, pages, {}, None).sections}
    (table,) = sections["members"].blocks
    names = [column.name for column in table.columns]
    rows = {row[0].text: dict(zip(names, row, strict=True)) for row in table.rows}
    wiki, tao = (rows[name]["CPU reached"] for name in ("mediawiki", "tao"))
    assert (plain(wiki.text), wiki.level, wiki.figure.value) == ("40.0 %", "suspect", 0.4)
    assert tao.level is None
    texts = [block.text for block in sections["mediawiki"].blocks if isinstance(block, Paragraph)]
    assert "give them more work" in texts[-1]


def test_a_member_without_a_result_shows_the_median_of_its_runs(tmp_path):
    suite, runs = idle_wiki(tmp_path)
    wiki = next(member for member in suite.members if member.benchmark == "mediawiki")
    (one,) = runs["mediawiki"]
    measured = [
        one.model_copy(
            update={
                "metrics": {
                    **one.metrics,
                    wiki.metric: one.metrics[wiki.metric].model_copy(update={"value": v}),
                }
            }
        )
        for v in (100.0, 900.0, 300.0)
    ]
    assert value_of(wiki.model_copy(update={"value": None}), measured).raw.endswith("= 300 1/s")


def test_a_claim_of_one_of_several_runs_says_of_which_it_is(tmp_path):
    suite, _ = idle_wiki(tmp_path)
    wiki = next(member for member in suite.members if member.benchmark == "mediawiki")
    assert not any(" of 1" in check.claim or "run 1" in check.claim for check in objecting(wiki))
    (one,) = wiki.runs

    def run(number, level):
        reasons = [
            Check(id="steady", level=level, claim=f"drift {number}"),
            *([Check(id="steal", level=Level.SUSPECT, claim="stolen")] if number == 3 else []),
        ]
        return one.model_copy(update={"reasons": reasons})

    runs = [run(1, Level.SUSPECT), run(2, Level.INVALID), run(3, Level.INVALID)]
    found = {check.id: check for check in objecting(wiki.model_copy(update={"runs": runs}))}
    # Of those that object most the first, as its level is the one shown.
    assert (found["steady"].level, found["steady"].claim) == (Level.INVALID, "in 3 of 3 runs; run 2: drift 2")
    assert found["steal"].claim == "run 3 of 3: stolen"
