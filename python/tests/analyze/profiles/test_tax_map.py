"""Where samples belong: the shipped rules on functions that people know, and the rules of users."""

import re
import tomllib
from pathlib import Path

import pytest

from steelyard._base import RecordError, data_dir
from steelyard.analyze.profiles.profile import Frame
from steelyard.analyze.profiles.tax_map import TaxMap, classify
from steelyard.analyze.profiles.tax_rules import bare_name, read_rules, rules_with, shipped_rules
from tests.folded import profile

CASES = {
    "compression": [
        "nginx;main [nginx];deflate [libz.so.1]",
        "nginx;main [nginx];[unknown] [libz.so.1.2.13]",
        "db;main [db];rocksdb::Get [db];ZSTD_decompressSequences_bmi2 [db]",
        "db;main [db];LZ4_compress_fast_continue [db]",
        "db;snappy::RawUncompress(char const*, unsigned long, char*) [db]",
        "go;main.main [go];compress/flate.(*compressor).deflate [go]",
        "java;void java.util.zip.Deflater.end() [perf-12.map]",
        "java;Ljava/util/zip/Deflater:::deflateBytesBytes [perf-12.map]",
        "rust;zlib_rs::deflate::longest_match::h0123456789abcdef [rust]",
    ],
    "serialization": [
        "s;google::protobuf::internal::WireFormatLite::WriteString(int, std::string const&) [s]",
        "s;apache::thrift::protocol::TCompactProtocol::readVarint64 [s];std::_Rb_tree_increment [s]",
        "python3;[unknown] [_json.cpython-311-x86_64-linux-gnu.so]",
        "rust;<serde_json::de::Deserializer<R> as serde::de::Deserializer>::deserialize_any [rust]",
        "go;encoding/json.(*decodeState).object [go]",
        "go;main.main [go];encoding/json.structFields [go];reflect.(*rtype).Name [go]",
        "node;v8::internal::JsonParser<char>::Parse() [node];v8::internal::StringTable::Lookup() [node]",
    ],
    "rpc": [
        "s;apache::thrift::Cpp2Worker::dispatchRequest [s]",
        "mc;event_base_loop [libevent-2.1.so.7]",
        "s;grpc_core::Server::Start() [s]",
        "go;net/http.(*conn).serve [go]",
        "j;Lio/netty/channel/nio/NioEventLoop:::run [perf-9.map]",
    ],
    "encryption": [
        "s;SSL_write [libssl.so.3];aesni_gcm_encrypt [libcrypto.so.3]",
        "s;rustls::conn::Connection::process [s];ring_core_0_17_8_aes_gcm_enc_update_vaes_avx2 [s]",
        "s;SSL_read [libssl.so.3];sha256_block_data_order_avx2 [libcrypto.so.3]",
        "s;ChaCha20_avx2 [s]",
        "go;crypto/tls.(*Conn).Write [go]",
        "go;crypto/tls.(*Conn).Write [go];crypto/internal/fips140/sha256.blockSHANI [go]",
    ],
    "hashing": [
        "s;main [s];sha256_block_data_order_avx2 [libcrypto.so.3]",
        "db;rocksdb::crc32c::ExtendImpl<&rocksdb::crc32c::Fast_CRC32> [db]",
        "db;XXH3_hashLong_64b [db]",
        "redis-server;dictFind [redis-server];siphash [redis-server]",
        "go;runtime.memhash64 [go]",
        "go;main.work [go];crypto/sha256.Sum256 [go];crypto/internal/fips140/sha256.blockSHANI [go]",
    ],
    "memory": [
        "s;main [s];__memmove_avx_unaligned_erms [libc.so.6]",
        "s;deflate [libz.so.1];__memset_avx2_unaligned_erms [libc.so.6]",
        "go;runtime.memmove [go]",
    ],
    "allocation": [
        "s;main [s];malloc [libc.so.6];_int_malloc [libc.so.6]",
        "s;main [s];operator new(unsigned long) [libstdc++.so.6]",
        "s;je_malloc_default [libjemalloc.so.2]",
        "s;tcmalloc::CentralFreeList::FetchFromOneSpans(int, void**, void**) [s]",
        "s;mi_free [libmimalloc.so.2]",
        "go;runtime.mallocgc [go]",
        "python3;_PyObject_Malloc [python3.11]",
    ],
    "concurrency": [
        "s;main [s];pthread_mutex_lock [libc.so.6];__lll_lock_wait [libc.so.6]",
        "s;folly::SharedMutexImpl<false>::lockShared() [s]",
        "s;parking_lot::raw_mutex::RawMutex::lock_slow [s]",
        "go;runtime.chansend1 [go]",
        "s;start_thread [libc.so.6]",
    ],
    "libraries": [
        "s;main [s];qsort [libc.so.6]",
        "s;main [s];[unknown] [libm.so.6]",
        "s;core::fmt::write [s]",
    ],
    "logging": ["s;main [s];google::LogMessage::Flush() [s]"],
    "runtime_gc": [
        "go;runtime.gcBgMarkWorker [go];runtime.scanobject [go]",
        "java;G1ParScanThreadState::trim_queue_to_threshold [libjvm.so]",
        "python3;gc_collect_main [python3.11]",
    ],
    "runtime_interpreter": [
        "python3;_PyEval_EvalFrameDefault [python3.11]",
        "php-fpm;execute_ex [php-fpm8.2]",
        "java;void M.main() [perf-9.map];Interpreter [perf-9.map]",
    ],
    "runtime_compiler": ["java;C2Compiler::compile_method [libjvm.so]"],
    "runtime_other": ["go;runtime.findRunnable [go]"],
    "kernel_network": [
        "s;__send [libc.so.6];entry_SYSCALL_64_after_hwframe [kernel];tcp_sendmsg_locked [kernel]",
        # What serves everybody is the work of whoever asked for it.
        "s;read [libc.so.6];sock_def_readable [kernel];_raw_spin_unlock_irqrestore [kernel]",
        "s;tcp_recvmsg_locked [kernel];skb_copy_datagram_iter [kernel];_copy_to_iter [kernel]",
        "s;nft_do_chain [nf_tables]",
    ],
    "kernel_storage": [
        "s;vfs_write [kernel];ext4_file_write_iter [kernel];copy_page_from_iter_atomic [kernel]"
    ],
    "kernel_scheduling": ["s;__schedule [kernel];finish_task_switch.isra.0 [kernel]"],
    "kernel_page_faults": ["s;main [s];asm_exc_page_fault [kernel];clear_page_erms [kernel]"],
    "kernel_memory": ["s;__x64_sys_munmap [kernel];unmap_page_range [kernel]"],
    "kernel_entry": [
        "s;epoll_wait [libc.so.6]",
        "s;getppid [libc.so.6];entry_SYSCALL_64_after_hwframe [kernel];do_syscall_64 [kernel]",
    ],
    "kernel_sync": [
        "s;do_futex [kernel];futex_wake [kernel];_raw_spin_lock [kernel]",
        "s;tcp_sendmsg [kernel];native_queued_spin_lock_slowpath [kernel]",
    ],
    "kernel_events": ["s;do_epoll_wait [kernel];ep_poll [kernel]"],
    "kernel_time": ["s;main [s];__vdso_clock_gettime [vdso]", "s;ktime_get [kernel];read_tsc [kernel]"],
    "kernel_interrupts": ["s;main [s];asm_common_interrupt [kernel];handle_softirqs [kernel]"],
    "kernel_process": ["sh;kernel_clone [kernel];copy_process [kernel]"],
    "kernel_other": ["s;main [s];a_function_that_no_kernel_has [kernel]", "s;[unknown] [kernel]"],
    "application": [
        "db_bench;main [db_bench];rocksdb::Stats::FinishedOps [db_bench]",
        "memcached;[unknown] [memcached]",
        "s;__libc_start_main [libc.so.6];<alloc::vec::Vec<f64> as core::ops::index::Index<usize>>::index [s]",
        "java;Interpreter [perf-9.map];java.lang.Object java.util.TreeMap.put(K, V) [perf-9.map]",
        "s;main [s];ranking::score(Item const&) [s];std::vector<int>::operator[](unsigned long) [s]",
        "s;std::thread::new [s];search::run [s];<core::ops::Range<T> as core::iter::Iterator>::next [s]",
    ],
    "unclassified": ["s;[unknown] [s]", "s;[no stack]", "s;main [s];frob [libfrob.so.1]"],
}


@pytest.mark.parametrize(
    ("category", "stack"), [(key, stack) for key, stacks in CASES.items() for stack in stacks]
)
def test_functions_that_people_know(tmp_path: Path, category: str, stack: str) -> None:
    tax = classify(profile(tmp_path, {stack: 1}))
    assert [one.id for one in tax.categories] == [category], tax.categories[0].functions


def test_shares_add_up_and_idle_has_none(tmp_path: Path) -> None:
    tax = classify(
        profile(
            tmp_path,
            {
                "swapper;do_idle [kernel];intel_idle [kernel]": 900,
                "a;main [a]": 50,
                "a;main [a];memcpy [libc.so.6]": 30,
                "b;[unknown] [b]": 15,
                "b;[unknown] [perf-12.map]": 5,
            },
        )
    )
    assert (tax.samples, tax.idle_samples) == (100, 900)
    assert sum(one.samples for one in tax.categories) == 100
    assert (tax.share("application"), tax.share("memory"), tax.unclassified_ratio) == (0.5, 0.3, 0.2)
    assert tax.unclassified_reasons == {"no symbol": 15, "code made at run time, without a perf map": 5}
    assert tax.application_by_default_ratio == 0.5
    assert tax.tax_ratio == 0.3
    assert [(one.command, one.samples) for one in tax.commands] == [("a", 80), ("b", 20)]
    assert tax.categories[0].functions[0].rule is None


def test_a_python_script_is_application_logic(tmp_path: Path) -> None:
    """With names of its functions and without: it was 0 % application logic."""
    tax = classify(
        profile(
            tmp_path,
            {
                "python3;py::<module>:/a.py;py::hot:/a.py": 60,
                "python3;py::<module>:/a.py;py::hot:/a.py;long_add [libpython3.11.so.1.0]": 20,
                "python3;main [python3.11];_PyEval_EvalFrameDefault [python3.11]": 10,
                "python3;main [python3.11];gc_collect_main [python3.11]": 10,
            },
        )
    )
    groups = {one.id: one.group for one in tax.categories}
    assert groups == {"runtime_interpreter": "application", "runtime_gc": "runtime"}
    assert tax.share("runtime_interpreter") == pytest.approx(0.9)
    assert tax.tax_ratio == pytest.approx(0.1)


def test_an_idle_machine_has_no_shares(tmp_path: Path) -> None:
    tax = classify(profile(tmp_path, {"swapper;default_idle [kernel]": 9}))
    assert (tax.samples, tax.unclassified_ratio, tax.tax_ratio, tax.categories) == (0, None, None, ())


RULES = """
[[category]]
id = "ads"
title = "Ads ranking"
group = "application"

[[rule]]
id = "ads"
category = "ads"
functions = ["ads::*"]

[[rule]]
id = "copies-for-ads"
category = "ads"
functions = ["memcpy*"]
callers = ["ads::*"]

[[rule]]
id = "frob"
category = "serialization"
modules = ["libfrob*"]
"""


def _classify(tmp_path: Path, rules: str, stacks: dict[str, int]) -> TaxMap:
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    return classify(profile(tmp_path, stacks), rules_with([path]))


def test_rules_of_the_user_come_first(tmp_path: Path) -> None:
    tax = _classify(
        tmp_path,
        RULES,
        {
            "s;ads::rank(int) [s]": 1,
            "s;ads::rank(int) [s];f [s];memcpy [libc.so.6]": 2,
            "s;x [libfrob.so]": 4,
            "s;memcpy [libc.so.6]": 8,
        },
    )
    found = {one.id: one.samples for one in tax.categories}
    assert found == {"ads": 3, "serialization": 4, "memory": 8}
    assert {f.rule for one in tax.categories for f in one.functions} >= {
        "user:ads",
        "user:copies-for-ads",
        "user:frob",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]]\nid = 'a'\ncategory = 'nonsense'\nfunctions = ['f']", "no category 'nonsense'"),
        ("[[rule]]\nid = 'a'\ncategory = 'rpc'", "wants functions or modules"),
        ("[[rule]]\nid = 'a'\nfunctions = ['f']", "category or ask"),
        ("[[rule]]\nid = 'a'\ncategory = 'rpc'\nask = 'caller'\nfunctions = ['f']", "category or ask"),
        ("[[rule]]\nid = 'a'\ncategory = 'rpc'\nfunction = ['f']", "unknown function"),
        ("[[rule]]\nid = 'a'\ncategory = 'rpc'\nfunctions = [3]", "list of texts"),
        ("[[rule]]\nid = 'a'\ncategory = 'rpc'\nfunctions = ['f']\nonly = 'root'", "may be"),
        ("[[rule]]\nid = 'a'\ncategory = []\nfunctions = ['f']", "no category"),
        ("[[rule]]\ncategory = 'rpc'\nfunctions = ['f']", "no id"),
        ("[[rule]]\nid = 'a'\ncategory = 'rpc'\nfunctions = ['f']\n" * 2, "given twice"),
        ("[[category]]\nid = 'A b'\ntitle = 'x'\ngroup = 'tax'", "lower case"),
        ("[[category]]\nid = 'a'\ntitle = 'x'\ngroup = 'other'", "one of the groups"),
        ("rule = 3", r"\[\[rule\]\] tables"),
        ("surplus = 3", "not surplus"),
        ("[[rule", "no TOML"),
    ],
)
def test_wrong_rules_are_refused_with_their_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RecordError, match=words) as caught:
        _classify(tmp_path, text, {"a;b": 1})
    assert "rules.toml" in caught.value.message
    assert "\n" not in caught.value.message


def test_rules_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        read_rules([tmp_path / "none.toml"])


def test_hostile_patterns_and_names_take_no_time(tmp_path: Path) -> None:
    rules = "[[rule]]\nid = 'a'\ncategory = 'rpc'\nfunctions = ['" + "*a" * 12 + "*b']\n"
    tax = _classify(tmp_path, rules, {"s;" + "a" * 100_000 + f"{i} [s]": 1 for i in range(20)})
    assert tax.share("application") == 1.0


def test_shipped_rules_have_a_colour_and_the_document_names_each_category() -> None:
    rules = shipped_rules()
    style = (Path(__file__).parents[3] / "steelyard/report/templates/tax.css").read_text()
    document = (data_dir().parent / "docs/concepts/tax-map.md").read_text()
    for category in rules.categories:
        assert f"--tax-{category.id}:" in style
        assert f"| {category.title} |" in document
    assert len(rules.rules) > 60


def test_patterns_hold_no_expression() -> None:
    for path in sorted((data_dir() / "tax-map").glob("*.toml")):
        for rule in tomllib.loads(path.read_text()).get("rule", []):
            for pattern in rule.get("functions", []) + rule.get("modules", []) + rule.get("callers", []):
                assert not re.search(r"[?^$|\\]|\[[^\]]*-[^\]]*\]", pattern), (
                    f"{path.name}: {rule['id']}: {pattern}"
                )


def test_every_rule_answers_for_one_of_its_own_patterns() -> None:
    """A rule that others always forestall is dead."""
    rules = shipped_rules()
    for path in sorted((data_dir() / "tax-map").glob("*.toml")):
        for rule in tomllib.loads(path.read_text()).get("rule", []):
            functions, modules = rule.get("functions", ["some_function"]), rule.get("modules", ["program"])
            frames = [Frame(f.replace("*", "x"), m.replace("*", "x")) for f in functions for m in modules]
            assert any(found.id == rule["id"] for frame in frames for found in rules.matching(frame)), rule[
                "id"
            ]


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("f", "f"),
        ("f(int, char const*)", "f"),
        ("ns::C<a (*)(b)>::f(int) const", "ns::C<a (*)(b)>::f"),
        (
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
            "std::vector<int, std::allocator<int> >::push_back",
        ),
        ("void ns::f<int>(int)", "ns::f<int>"),
        ("main.(*T).Method", "main.(*T).Method"),
        ("main.main.func1", "main.main.func1"),
        ("ns::C::operator()(int) const", "ns::C::operator()"),
        ("operator delete(void*, unsigned long)", "operator delete"),
        ("<T as core::fmt::Display>::fmt", "<T as core::fmt::Display>::fmt"),
        ("memcpy@plt", "memcpy"),
        ("int[] java.util.Arrays.copyOf(int[], int)", "java.util.Arrays.copyOf"),
        ("JS:* /tmp/a b/n.js:2:157", "JS:* /tmp/a b/n.js:2:157"),
        ("(", "("),
        (")", ")"),
        ("a)b)", "a)b)"),
    ],
)
def test_bare_names(name: str, bare: str) -> None:
    assert bare_name(name) == bare


def test_lines_of_the_source_are_no_part_of_a_functions_name(tmp_path: Path) -> None:
    bare = classify(profile(tmp_path, {"db;main [db];memcpy [libc.so.6]": 3}))
    lined = classify(profile(tmp_path, {"db;main (db.c:9) [db];memcpy (memcpy.S:12) [libc.so.6]": 3}))
    assert [one.id for one in lined.categories] == [one.id for one in bare.categories]
    assert lined.categories[0].functions[0].function == "memcpy (memcpy.S:12)"
