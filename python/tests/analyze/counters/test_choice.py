"""What is chosen for a machine: its definition, a plan with what can be counted, and reasons for the rest."""

import pytest

from steelyard._base import UsageError, schemas_dir
from steelyard.analyze.counters.choice import (
    SCOPES,
    choose,
    definition_of,
    facts_of,
    fits,
    model_of,
    shared_metrics,
)
from steelyard.analyze.counters.definitions import definitions, parse_encoding
from steelyard.analyze.counters.topdown import Model, events_of
from steelyard.analyze.counters.topdown_models import ZEN_4
from steelyard.records import CounterPlan, Machine, parse, read

GOLDEN = read(Machine, schemas_dir() / "golden" / "machine.json")
INTEL = ["cpu", "msr", "power", "software", "tracepoint", "uncore_imc_0", "uncore_imc_1", "uncore_cha_0"]


def machine(identifier: str | None, monitors: list[str], **of_cpu: object) -> Machine:
    cpu = GOLDEN.cpu.model_copy(
        update={"identifier": identifier, "performance_monitors": monitors, "model": "a processor", **of_cpu}
    )
    return GOLDEN.model_copy(update={"cpu": cpu, "hypervisor": None})


CPUS = {
    "GenuineIntel-6-55-4": "intel-skylake-server",
    "GenuineIntel-6-55-7": "intel-skylake-server",
    "GenuineIntel-6-55-B": "intel-skylake-server",
    "GenuineIntel-6-6A-6": "intel-icelake-server",
    "GenuineIntel-6-6C-1": "intel-icelake-server",
    "GenuineIntel-6-8F-8": "intel-sapphirerapids",
    "GenuineIntel-6-CF-2": "intel-sapphirerapids",
    "GenuineIntel-6-AD-1": "intel-graniterapids",
    "AuthenticAMD-23-31-0": "amd-zen2",
    "AuthenticAMD-25-1-1": "amd-zen3",
    "AuthenticAMD-25-11-1": "amd-zen4",
    "AuthenticAMD-25-A0-2": "amd-zen4",
    "AuthenticAMD-26-2-1": "amd-zen5",
    "0x00000000413fd0c1": "arm-neoverse-n1",
    "0x00000000410fd490": "arm-neoverse-n2",
    "0x00000000411fd401": "arm-neoverse-v1",
    "0x00000000410fd4f1": "arm-neoverse-v2",
    # No definition is for these.
    "GenuineIntel-6-4F-1": "generic",
    "GenuineIntel-6-BA-2": "generic",
    "AuthenticAMD-23-1-2": "generic",
    "AuthenticAMD-26-50-0": "generic",
    "HygonGenuine-24-0-1": "generic",
    "0x00000000480fd010": "generic",
    "0x00000000420fd0c0": "generic",
}


@pytest.mark.parametrize("identifier", CPUS)
def test_every_processor_gets_its_definition(identifier: str) -> None:
    found, reason = definition_of(machine(identifier, ["cpu", "software"]))
    assert found.id == CPUS[identifier]
    assert identifier in reason


def test_no_processor_has_two_definitions() -> None:
    for identifier in CPUS:
        assert sum(fits(each, identifier) for each in definitions().values()) <= 1


def test_hybrid_and_unknown_processors_get_generic_events_with_the_reason() -> None:
    hybrid, why = definition_of(machine("GenuineIntel-6-BA-2", ["cpu_atom", "cpu_core", "software"]))
    assert (hybrid.id, "several kinds (cpu_atom, cpu_core)" in why) == ("generic", True)
    unknown, why = definition_of(machine(None, ["cpu"]))
    assert (unknown.id, why) == ("generic", "the record lacks the processor's family and model")
    assert definition_of(None)[0].id == "generic"
    assert definition_of(machine("nonsense", ["cpu"]))[0].id == "generic"


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("identifier", [*CPUS, None])
def test_each_metric_is_planned_or_missing_with_a_reason(identifier: str | None, scope: str) -> None:
    monitors = ["armv8_pmuv3_0", "arm_cmn_0"] if (identifier or "").startswith("0x") else INTEL
    choice = choose(machine(identifier, [*monitors, "amd_l3", "amd_df", "amd_umc_0"]), scope)
    names = {event.name for event in choice.plan.events}
    needed = set()
    for each in choice.metrics:
        assert bool(each.events) != bool(each.missing), each
        needed |= set(each.events)
    assert names == needed
    assert len(choice.plan.events) == len(names)
    assert parse(CounterPlan, choice.plan.model_dump_json(), where="plan") == choice.plan
    for event in choice.plan.events:
        if scope != "system":
            assert not event.pmu.startswith(("uncore", "power", "amd_", "arm_cmn"))


def test_a_plan_of_an_intel_server() -> None:
    choice = choose(machine("GenuineIntel-6-6A-6", INTEL))
    plan = {event.name: event for event in choice.plan.events}
    assert choice.plan.cpu == "intel-icelake-server"
    base = plan["INST_RETIRED.ANY"]
    assert (base.pmu, base.terms, base.fixed, base.group) == ("cpu", {"event": 0xC0}, True, "base")
    kernel = plan["CPU_CLK_UNHALTED.THREAD:k"]
    assert (kernel.terms, kernel.modifiers.value) == ({"event": 0x3C}, "k")
    assert plan["UNC_M_CAS_COUNT.RD"].pmu == "uncore_imc"
    assert plan["OCR.DEMAND_CODE_RD.L3_MISS"].terms["offcore_rsp"] == 0x3FBFC00004
    # The kernel wants the slots before the events of the PERF_METRICS register.
    topdown = [event.name for event in choice.plan.events if event.group == "topdown"]
    assert topdown[0] == "TOPDOWN.SLOTS"
    assert choice.missing == {"cpus_used": "it holds for process and cgroup only"}
    assert choice.plan.events[0].pmu == "software"


def test_only_what_is_wanted_is_planned() -> None:
    choice = choose(machine("AuthenticAMD-25-11-1", ["cpu", "software"]), "cgroup", ["ipc", "branch_mpki"])
    assert [event.name for event in choice.plan.events] == [
        "ex_ret_instr",
        "ls_not_halted_cyc",
        "ex_ret_brn_misp",
    ]
    tree = choose(machine("AuthenticAMD-25-11-1", ["cpu", "software"]), "cgroup", ["topdown"])
    assert {event.name for event in tree.plan.events} == set(events_of(ZEN_4))
    with pytest.raises(UsageError, match="no metric 'ipx'"):
        choose(GOLDEN, "system", ["ipx"])
    with pytest.raises(UsageError, match="no scope 'socket'"):
        choose(GOLDEN, "socket")
    # Known, but not of this processor.
    other = choose(machine("AuthenticAMD-25-11-1", ["cpu"]), "system", ["crypto_ratio"])
    assert other.missing == {"crypto_ratio": "AMD Zen 4 has no definition of it"}


def test_a_guest_without_counters_keeps_software_events() -> None:
    guest = machine("AuthenticAMD-25-1-1", ["msr", "software", "tracepoint"]).model_copy(
        update={"hypervisor": "KVM"}
    )
    choice = choose(guest)
    assert choice.plan.cpu == "software"
    assert {event.pmu for event in choice.plan.events} == {"software"}
    assert choice.missing["ipc"] == "the hypervisor (KVM) offers no counters of the processor"
    assert "guest (KVM)" in choice.missing["frequency_hz"]
    assert choice.missing["package_power_w"] == "the kernel has no performance monitor power here"
    # Some hosts give their guests a folder of energy counters without any event.
    listed = machine("GenuineIntel-6-CF-2", ["msr", "power", "software"]).model_copy(
        update={"hypervisor": "KVM"}
    )
    assert "guest (KVM)" in choose(listed).missing["package_power_w"]
    assert shared_metrics(listed) == []


def test_a_recording_that_lists_no_monitors_says_so() -> None:
    choice = choose(machine("GenuineIntel-6-55-4", []))
    assert "lacks the kernel's performance monitors (sys/bus/event_source)" in choice.missing["ipc"]
    assert {event.pmu for event in choice.plan.events} == {"software"}


def test_arm_cores_are_found_under_any_name_of_theirs() -> None:
    for folder in ("armv8_pmuv3_0", "armv8_neoverse_n1"):
        choice = choose(machine("0x00000000413fd0c1", [folder, "software"]), "system", ["ipc"])
        assert {event.pmu for event in choice.plan.events} == {folder}
    both = choose(machine("0x00000000413fd0c1", ["armv8_cortex_a55", "armv8_cortex_a76"]))
    assert both.definition.id == "generic"


def test_an_uncore_monitor_is_its_instances_and_not_its_relatives() -> None:
    lacking = choose(machine("GenuineIntel-6-6A-6", ["cpu", "uncore_imc_free_running_0"]))
    assert lacking.missing["memory_bytes_per_s"] == "the kernel has no performance monitor uncore_imc here"


def test_the_tree_follows_smt_and_the_stepping() -> None:
    skylake = definitions()["intel-skylake-server"]
    facts = facts_of(machine("GenuineIntel-6-55-4", ["cpu"], threads_per_core=1), "system", skylake)
    found = model_of(skylake, facts)
    assert isinstance(found, Model)
    assert "SMT off" in found.name
    n2 = definitions()["arm-neoverse-n2"]
    for identifier, model in (("0x00000000410fd490", "-r0p0"), ("0x00000000410fd493", "n2")):
        early = model_of(n2, facts_of(machine(identifier, ["armv8_pmuv3_0"]), "system", n2))
        assert isinstance(early, Model)
        assert early.id.endswith(model)


def test_the_frequency_of_the_clock_is_in_intels_names() -> None:
    named = machine("GenuineIntel-6-55-7", ["cpu"], model="Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz")
    assert facts_of(named, "process").literal("SYSTEM_TSC_FREQ") == 2.1e9
    assert choose(named, "process", ["frequency_hz"]).missing == {}
    assert (
        "system_tsc_freq"
        in choose(machine("GenuineIntel-6-55-7", ["cpu"]), "process").missing["frequency_hz"]
    )


def test_encodings_are_written_as_they_are_read() -> None:
    for definition in definitions().values():
        for event in definition.events.values():
            assert parse_encoding(event.encoding) == (event.pmu, dict(event.terms), event.modifiers)
    for text in (
        "",
        "cpu",
        "cpu//x",
        "cpu/event=zz/",
        "cpu/event=0x1ffffffffffffffff/",
        "cpu/a=1,/",
        "a b/c/",
    ):
        with pytest.raises(UsageError):
            parse_encoding(text)


def test_every_metric_has_a_unit_a_source_and_a_meaning() -> None:
    for definition in definitions().values():
        assert definition.sources
        assert definition.checked
        for metric in definition.metrics.values():
            assert metric.unit
            assert metric.meaning
            assert all(formula.source for formula in metric.formulas)
            assert metric.unit != "ratio" or metric.name.endswith("_ratio")
        assert all(event.meaning for event in definition.events.values())


WANTED = (
    "ipc cpi core_ipc core_cpi frequency_hz kernel_cycles_ratio branch_mpki l1i_mpki l1d_mpki l2_mpki"
    " llc_mpki l2_code_mpki l2_data_mpki llc_code_mpki llc_data_mpki itlb_mpki dtlb_mpki"
    " memory_read_bytes_per_s memory_write_bytes_per_s memory_bytes_per_s load_ratio store_ratio branch_ratio"
    " fp_ratio package_power_w"
)


def test_every_processor_has_each_usual_metric_or_says_why_not() -> None:
    for definition in definitions().values():
        if not definition.matches:
            continue
        for name in WANTED.split():
            assert (name in definition.metrics) != (name in definition.missing), f"{definition.id}: {name}"
