//! The store against a plain map, and its bound.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn get(store: &Store, key: &[u8], now_s: u32) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    store
        .get(Key::new(key), now_s, false, None, &mut out)
        .then_some(out)
}

fn line(key: &[u8], flags: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(&mut out, key, flags, None, value);
    out
}

fn recount(store: &Store) {
    let counts = store.counts();
    let (mut items, mut bytes) = (0, 0);
    for shard in &store.shards {
        let (shard_items, shard_bytes, _) = shard.lock().unwrap().recount();
        items += shard_items;
        bytes += shard_bytes;
    }
    assert_eq!(counts.items, items);
    assert_eq!(counts.live_bytes, bytes);
    assert!(counts.live_bytes + counts.index_bytes <= store.limit_bytes());
}

#[derive(Debug, Clone)]
enum Operation {
    Store(StoreMode, Vec<u8>),
    Delete,
    Get,
    Touch(u32),
    Count(u64),
    Flush,
    Wait,
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![
        4 => Just(StoreMode::Set),
        1 => Just(StoreMode::Add),
        1 => Just(StoreMode::Replace),
        1 => Just(StoreMode::Append),
        1 => Just(StoreMode::Prepend),
    ];
    let value = prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0u64..200).prop_map(|number| number.to_string().into_bytes()),
        1 => (0usize..3000).prop_map(|length| vec![b'x'; length]),
    ];
    prop_oneof![
        8 => (mode, value).prop_map(|(mode, value)| Operation::Store(mode, value)),
        2 => Just(Operation::Delete),
        4 => Just(Operation::Get),
        1 => (0u32..4).prop_map(Operation::Touch),
        1 => (0u64..300).prop_map(Operation::Count),
        1 => Just(Operation::Wait),
        1 => prop_oneof![9 => Just(Operation::Get), 1 => Just(Operation::Flush)],
    ]
}

#[derive(Clone)]
struct Modelled {
    value: Vec<u8>,
    flags: u32,
    expiry_s: u32,
}

/// What the map says a store answers; changes the map.
fn model_store(
    model: &mut HashMap<u8, Modelled>,
    key: u8,
    mode: StoreMode,
    attributes: Attributes,
    value: &[u8],
    most: usize,
) -> StoreAnswer {
    let Attributes { flags, expiry_s } = attributes;
    let fresh = Modelled {
        value: value.to_vec(),
        flags,
        expiry_s,
    };
    match (mode, model.get_mut(&key)) {
        (StoreMode::Add, Some(_))
        | (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => {
            return StoreAnswer::NotStored;
        }
        (StoreMode::Append | StoreMode::Prepend, Some(old)) => {
            if old.value.len() + value.len() > most {
                return StoreAnswer::TooLarge;
            }
            old.value = if mode == StoreMode::Append {
                [&old.value, value].concat()
            } else {
                [value, &old.value].concat()
            };
        }
        _ => {
            model.insert(key, fresh);
        }
    }
    StoreAnswer::Stored
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Large enough that nothing is evicted: every answer is that of a map.
    #[test]
    fn answers_as_a_map(steps in proptest::collection::vec((0u8..20, any::<bool>(), operation()), 0..300)) {
        let store = Store::new(1 << 20, 4096, 1).unwrap();
        let mut model: HashMap<u8, Modelled> = HashMap::new();
        let mut now_s = 2;
        for (key, flagged, operation) in steps {
            model.retain(|_, item| item.expiry_s == 0 || item.expiry_s > now_s);
            let name = [b'k', key];
            let attributes = Attributes { flags: u32::from(flagged), expiry_s: u32::from(key % 7 == 0) * (now_s + 2) };
            match operation {
                Operation::Store(mode, value) => {
                    let expected = model_store(&mut model, key, mode, attributes, &value, 4096);
                    prop_assert_eq!(store.store(mode, Key::new(&name), attributes, &value, now_s), expected);
                }
                Operation::Delete => {
                    prop_assert_eq!(store.delete(Key::new(&name), now_s), model.remove(&key).is_some());
                }
                Operation::Get => {
                    let expected = model.get(&key).map(|item| line(&name, item.flags, &item.value));
                    prop_assert_eq!(get(&store, &name, now_s), expected);
                }
                Operation::Touch(after) => {
                    let expiry_s = if after == 0 { 0 } else { now_s + after };
                    let found = model.get_mut(&key).map(|item| item.expiry_s = expiry_s).is_some();
                    prop_assert_eq!(store.touch(Key::new(&name), expiry_s, now_s), found);
                }
                Operation::Count(delta) => {
                    let expected = match model.get_mut(&key) {
                        None => Counted::NotFound,
                        Some(item) => match number::counter(&item.value) {
                            None => Counted::NotANumber,
                            Some(before) => {
                                let after = before.wrapping_add(delta);
                                let mut digits = after.to_string().into_bytes();
                                digits.resize(digits.len().max(item.value.len()), b' ');
                                item.value = digits;
                                Counted::Value(after)
                            }
                        },
                    };
                    prop_assert_eq!(store.count(Key::new(&name), true, delta, now_s), expected);
                }
                Operation::Flush => {
                    store.flush(None);
                    model.clear();
                }
                Operation::Wait => now_s += 1,
            }
            recount(&store);
        }
    }

    /// Too small for what comes: the bound holds after every step, and what is found is right.
    #[test]
    fn the_bound_is_exact(steps in proptest::collection::vec((any::<u16>(), 0usize..9000, any::<bool>()), 0..600),
                          threads in 1usize..3) {
        let store = Store::new(least_memory_bytes(8192).max(120_000), 8192, threads).unwrap();
        let mut model: HashMap<u16, usize> = HashMap::new();
        for (key, length, read) in steps {
            let key = key % 300;
            let name = key.to_be_bytes();
            if read {
                if let Some(found) = get(&store, &name, 2) {
                    prop_assert_eq!(found, line(&name, 0, &vec![key as u8; model[&key]]));
                }
            } else {
                let length = length % 8193;
                let value = vec![key as u8; length];
                let stored = store.store(StoreMode::Set, Key::new(&name), Attributes::default(), &value, 2);
                prop_assert_eq!(stored, StoreAnswer::Stored);
                model.insert(key, length);
                let found = get(&store, &name, 2);
                prop_assert_eq!(found, Some(line(&name, 0, &value)), "what was just stored is there");
            }
            recount(&store);
        }
    }
}

#[test]
fn a_full_store_keeps_nearly_all_of_its_memory_in_items() {
    let store = Store::new(8 << 20, 64 << 10, 1).unwrap();
    for key in 0u32..60_000 {
        let value = vec![b'v'; 100 + (key as usize * 37) % 500];
        store.store(
            StoreMode::Set,
            Key::new(&key.to_be_bytes()),
            Attributes::default(),
            &value,
            2,
        );
    }
    recount(&store);
    let counts = store.counts();
    assert!(counts.evictions > 0);
    let kept_ratio = counts.payload_bytes as f64 / store.limit_bytes() as f64;
    assert!(kept_ratio > 0.88, "{kept_ratio}");
}

#[test]
fn the_largest_values_fit_into_the_least_memory() {
    let store = Store::new(least_memory_bytes(1 << 20), 1 << 20, 8).unwrap();
    let value = vec![7; 1 << 20];
    for key in 0u8..20 {
        let stored = store.store(
            StoreMode::Set,
            Key::new(&[key]),
            Attributes::default(),
            &value,
            2,
        );
        assert_eq!(stored, StoreAnswer::Stored);
        assert_eq!(get(&store, &[key], 2), Some(line(&[key], 0, &value)));
        recount(&store);
    }
    assert!(store.counts().items >= 2);
}

#[test]
fn used_items_outlive_unused_ones() {
    let store = Store::new(1 << 20, 4096, 1).unwrap();
    let hot: Vec<[u8; 4]> = (0u32..200).map(u32::to_be_bytes).collect();
    for key in &hot {
        store.store(
            StoreMode::Set,
            Key::new(key),
            Attributes::default(),
            &[1; 300],
            2,
        );
    }
    // Six times what fits passes by while the hot items are read.
    for cold in 1_000u32..20_000 {
        store.store(
            StoreMode::Set,
            Key::new(&cold.to_be_bytes()),
            Attributes::default(),
            &[2; 300],
            2,
        );
        get(&store, &hot[cold as usize % hot.len()], 2);
    }
    let kept = hot
        .iter()
        .filter(|key| get(&store, *key, 2).is_some())
        .count();
    assert!(kept >= 185, "{kept} of 200");
}

#[test]
fn cas_ids_tell_changes() {
    let store = Store::new(1 << 20, 4096, 1).unwrap();
    let key = Key::new(b"k");
    let put = |mode, value: &[u8]| store.store(mode, key, Attributes::default(), value, 2);
    assert_eq!(put(StoreMode::Cas(1), b"x"), StoreAnswer::NotFound);
    assert_eq!(put(StoreMode::Set, b"x"), StoreAnswer::Stored);
    assert_eq!(put(StoreMode::Cas(9), b"y"), StoreAnswer::Exists);
    assert_eq!(put(StoreMode::Cas(1), b"y"), StoreAnswer::Stored);
    let mut out = Vec::new();
    assert!(store.get(key, 2, true, None, &mut out));
    assert_eq!(out, b"VALUE k 0 1 2\r\ny\r\n");
}

#[test]
fn a_delayed_flush_waits_for_its_second() {
    let store = Store::new(1 << 20, 4096, 1).unwrap();
    store.store(
        StoreMode::Set,
        Key::new(b"k"),
        Attributes::default(),
        b"v",
        2,
    );
    store.flush(Some(5));
    assert!(get(&store, b"k", 4).is_some());
    assert!(get(&store, b"k", 5).is_none());
    store.store(
        StoreMode::Set,
        Key::new(b"k"),
        Attributes::default(),
        b"w",
        6,
    );
    assert!(get(&store, b"k", 7).is_some());
}

#[test]
fn threads_do_not_disturb_each_other() {
    let store = Store::new(4 << 20, 4096, 4).unwrap();
    std::thread::scope(|scope| {
        for thread in 0u8..4 {
            let store = &store;
            scope.spawn(move || {
                for step in 0u32..20_000 {
                    let name = [thread, (step % 199) as u8, b'k'];
                    let value = vec![thread; 50 + (step as usize * 13) % 700];
                    store.store(
                        StoreMode::Set,
                        Key::new(&name),
                        Attributes::default(),
                        &value,
                        2,
                    );
                    // While this thread was not running, the others may have evicted what it stored.
                    if let Some(found) = get(store, &name, 2) {
                        assert_eq!(found, line(&name, 0, &value));
                    }
                }
            });
        }
    });
    recount(&store);
}
