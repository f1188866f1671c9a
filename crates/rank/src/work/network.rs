//! A small dense network over the user's features and a story's embedding, in integers.
//!
//! Products of 16 bits are added up in 32: compilers turn that into one instruction for eight of them on every ISA, and
//! the order of additions cannot change the result.

use super::{ROW, mix};

/// Numbers that go in: the user's features, then the story's embedding.
const INPUTS: usize = 2 * ROW;
/// What is shifted away after a layer, so that the next one's sums stay within 32 bits.
const SHIFT: u32 = 8;

#[derive(Debug)]
struct Layer {
    inputs: usize,
    /// Row by row, one row for each output; from -32 to 31.
    weights: Vec<i16>,
    biases: Vec<i32>,
}

/// The network's weights.
#[derive(Debug)]
pub struct Network {
    layers: Vec<Layer>,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, seed: u64) -> Self {
        let draw =
            |at: usize| mix(seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Self {
            inputs,
            weights: (0..inputs * outputs)
                .map(|at| (draw(at) >> 58) as i16 - 32)
                .collect(),
            biases: (0..outputs)
                .map(|at| (draw(!at) >> 52) as i32 - 2048)
                .collect(),
        }
    }

    /// The sums of output `at`.
    #[inline]
    fn sum(&self, at: usize, input: &[i16]) -> i32 {
        let weights = &self.weights[at * self.inputs..][..self.inputs];
        let products = weights
            .iter()
            .zip(input)
            .map(|(&weight, &value)| i32::from(weight) * i32::from(value));
        // Inputs reach 2^15 and weights 2^5: 2048 products stay within 32 bits.
        products.sum::<i32>() + self.biases[at]
    }

    fn apply(&self, input: &[i16], output: &mut Vec<i16>) {
        output.clear();
        output.extend((0..self.biases.len()).map(|at| {
            let sum = self.sum(at, input) >> SHIFT;
            sum.clamp(0, i32::from(i16::MAX)) as i16
        }));
    }
}

/// Room for the activations of two layers.
#[derive(Debug, Default)]
pub struct Activations(Vec<i16>, Vec<i16>);

impl Network {
    /// A network with a hidden layer of `width` (1 to 2048) and one of half of it.
    pub fn new(width: usize, seed: u64) -> Self {
        assert!((1..=2048).contains(&width), "a width outside 1 to 2048");
        let half = width.div_ceil(2);
        let sizes = [(INPUTS, width), (width, half), (half, 1)];
        let layers = sizes.into_iter().zip(1..);
        Self {
            layers: layers
                .map(|((inputs, outputs), layer)| {
                    Layer::new(inputs, outputs, mix(seed ^ layer << 32))
                })
                .collect(),
        }
    }

    /// The score of a story for a user.
    pub fn score(&self, user: &[i8; ROW], story: &[i16; ROW], room: &mut Activations) -> i32 {
        let (input, output) = (&mut room.0, &mut room.1);
        input.clear();
        // Eight times, so that the user weighs as much as the sum of eight rows.
        input.extend(user.iter().map(|&value| i16::from(value) * 8));
        input.extend_from_slice(story);
        let (last, hidden) = self.layers.split_last().expect("three layers");
        for layer in hidden {
            layer.apply(input, output);
            std::mem::swap(input, output);
        }
        last.sum(0, input)
    }
}

#[cfg(test)]
impl Network {
    /// The score in plain 64-bit sums, for comparison.
    pub fn plain(&self, input: &[i64]) -> i64 {
        let mut values = input.to_vec();
        for (number, layer) in self.layers.iter().enumerate() {
            let sums: Vec<i64> = layer
                .weights
                .chunks(layer.inputs)
                .zip(&layer.biases)
                .map(|(weights, &bias)| {
                    let products = weights.iter().zip(&values);
                    i64::from(bias) + products.map(|(&w, &v)| i64::from(w) * v).sum::<i64>()
                })
                .collect();
            if number + 1 == self.layers.len() {
                return sums[0];
            }
            values = sums
                .into_iter()
                .map(|sum| (sum >> SHIFT).clamp(0, i64::from(i16::MAX)))
                .collect();
        }
        unreachable!("a network has a last layer")
    }
}
