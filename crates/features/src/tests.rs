use super::*;

#[test]
fn results_are_a_function_of_the_arguments() {
    let user = Profile::of(7);
    assert_eq!(
        extract(&user, 100, 1000),
        extract(&Profile::of(7), 100, 1000)
    );
    let other = [
        extract(&Profile::of(8), 100, 1000),
        extract(&user, 99, 1000),
        extract(&user, 100, 999),
    ];
    for found in other {
        assert_ne!(found.checksum, extract(&user, 100, 1000).checksum);
    }
}
