use std::collections::HashSet;

use super::*;

#[test]
fn the_graph_is_one_cycle() {
    let graph = Graph::new(64 * 1000, 7);
    assert_eq!(graph.len(), 1000);
    assert_eq!(
        graph.cycle().into_iter().collect::<HashSet<_>>().len(),
        1000
    );
    assert_ne!(graph.walk(1, 10), graph.walk(1, 11));
    assert_eq!(graph.walk(1, 10), Graph::new(64 * 1000, 7).walk(1, 10));
}

#[test]
fn pooling_adds_up_rows() {
    let one = Embeddings::new(64, 1, 3);
    let five = Embeddings::new(64, 5, 3);
    // With one row every lookup finds it.
    let single = one.pool(9);
    assert!(single.iter().any(|&value| value != 0));
    assert_eq!(five.pool(9), single.map(|value| value * 5));
}

#[test]
fn the_network_is_what_plain_sums_say() {
    let network = Network::new(5, 11);
    let user: [i8; ROW] = std::array::from_fn(|at| at as i8 - 30);
    let story: [i16; ROW] = std::array::from_fn(|at| 400 - 17 * at as i16);
    let input: Vec<i64> = user
        .iter()
        .map(|&value| i64::from(value) * 8)
        .chain(story.iter().map(|&value| i64::from(value)))
        .collect();
    let expected = network.plain(&input);
    let mut room = Activations::default();
    assert_eq!(i64::from(network.score(&user, &story, &mut room)), expected);
    assert_eq!(
        network.score(&user, &story, &mut room),
        network.score(&user, &story, &mut Activations::default()),
        "room leaves no trace"
    );
}

#[test]
fn a_leaf_returns_the_best_of_its_candidates() {
    let items = Items::new(64 * 500, 1);
    let vector = [3; ROW];
    let (all, hash) = score_shard(&items, 7, 2, &vector, 300, 300);
    let (best, same_hash) = score_shard(&items, 7, 2, &vector, 300, 20);
    assert_eq!(all.len(), 300);
    assert_eq!(hash, same_hash, "what is not returned was scored too");
    assert_eq!(best, all[..20]);
    assert!(
        all.windows(2)
            .all(|pair| best_first(&pair[0], &pair[1]).is_lt())
    );
    assert_ne!(best, score_shard(&items, 7, 3, &vector, 300, 20).0);
    assert_eq!(score_shard(&items, 7, 2, &vector, 5, 20).0.len(), 5);
}

#[test]
fn stories_have_as_many_words_as_were_asked_for() {
    let scored = Scored { id: 77, score: 5 };
    for words in [0, 1, 40] {
        let story = compose(&scored, words);
        assert_eq!(story.text.split_whitespace().count(), words);
        assert_eq!(story, compose(&scored, words));
    }
    let texts: HashSet<String> = (0..100)
        .map(|id| compose(&Scored { id, score: 0 }, 40).text)
        .collect();
    assert_eq!(texts.len(), 100);
}
