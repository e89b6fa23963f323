//! Gradients against finite differences.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use approx::assert_relative_eq;
use mockspore::{Device, Error, Policies, Runtime, Tensor, Version, ops};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

fn runtime() -> Runtime {
    Runtime::new(Policies::mindspore(Version::V2_10_0), Device::Cpu)
}

type Function = fn(&[Tensor]) -> Result<Tensor, Error>;

/// Checks the gradient of `sum(weights * function(inputs))` at every input.
fn check(function: Function, shapes: &[&[usize]]) {
    let runtime = runtime();
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut draw = |size: usize| -> Vec<f32> {
        // Away from the kink of relu.
        let signed = |sign: bool, size: f32| if sign { size } else { -size };
        (0..size)
            .map(|_| signed(random.random(), random.random_range(0.3..1.3)))
            .collect()
    };
    let data: Vec<Vec<f32>> = shapes
        .iter()
        .map(|dims| draw(dims.iter().product()))
        .collect();
    let tensors = |data: &[Vec<f32>]| -> Vec<Tensor> {
        let pairs = data.iter().zip(shapes);
        pairs
            .map(|(values, dims)| runtime.tensor(values, dims).unwrap())
            .collect()
    };
    let shape = function(&tensors(&data)).unwrap().shape();
    let weights = draw(shape.size());
    let value = |data: &[Vec<f32>]| -> f64 {
        let output = function(&tensors(data)).unwrap().to_vec();
        output
            .iter()
            .zip(&weights)
            .map(|(&y, &w)| f64::from(y) * f64::from(w))
            .sum()
    };
    let sens = [runtime.tensor(&weights, shape.dims()).unwrap()];
    let positions: Vec<usize> = (0..shapes.len()).collect();
    let forward = |inputs: &[Tensor]| Ok(vec![function(inputs)?]);
    let inputs = tensors(&data);
    let (_, grads) = runtime
        .grad(forward, &inputs, &positions, Some(&sens))
        .unwrap();
    let step = 1e-2_f32;
    for (input, grad) in grads.iter().enumerate() {
        assert_eq!(grad.shape().dims(), shapes[input]);
        for (at, &exact) in grad.to_vec().iter().enumerate() {
            let at_offset = |offset: f32| {
                let mut moved = data.clone();
                moved[input][at] += offset;
                value(&moved)
            };
            let numeric = (at_offset(step) - at_offset(-step)) / (2.0 * f64::from(step));
            assert_relative_eq!(
                f64::from(exact),
                numeric,
                epsilon = 2e-3,
                max_relative = 5e-3
            );
        }
    }
}

#[test]
fn elementwise_operators_match_finite_differences() {
    check(|x| ops::mul(&x[0], &x[1]), &[&[2, 3], &[2, 3]]);
    check(|x| ops::add(&x[0], &x[1]), &[&[2, 3], &[2, 3]]);
    check(|x| ops::sub(&x[0], &x[1]), &[&[2, 3], &[2, 3]]);
    check(|x| ops::relu(&x[0]), &[&[3, 2]]);
}

#[test]
fn broadcast_gradients_are_summed_back() {
    check(|x| ops::mul(&x[0], &x[1]), &[&[2, 3], &[3]]);
    check(|x| ops::mul(&x[0], &x[1]), &[&[2, 1, 3], &[4, 1]]);
    check(|x| ops::sub(&x[0], &x[1]), &[&[1], &[2, 2]]);
    check(|x| ops::add(&x[0], &x[1]), &[&[], &[2, 2]]);
}

#[test]
fn reductions_and_products_match_finite_differences() {
    check(|x| ops::matmul(&x[0], &x[1]), &[&[2, 3], &[3, 4]]);
    check(|x| ops::sum(&x[0]), &[&[2, 3]]);
    check(|x| ops::norm(&x[0]), &[&[2, 3]]);
}

#[test]
fn a_composite_with_shared_inputs_matches_finite_differences() {
    let function: Function = |x| {
        let product = ops::matmul(&x[0], &x[1])?;
        let active = ops::relu(&ops::add(&product, &x[2])?)?;
        let shared = ops::mul(&active, &active)?;
        ops::mul(&ops::norm(&shared)?, &ops::sum(&x[0])?)
    };
    check(function, &[&[2, 3], &[3, 2], &[2]]);
}

#[test]
fn the_norm_of_zeros_has_a_zero_gradient() {
    let runtime = runtime();
    let zeros = [runtime.tensor(&[0.0; 3], &[3]).unwrap()];
    let forward = |inputs: &[Tensor]| Ok(vec![ops::norm(&inputs[0])?]);
    let (_, grads) = runtime.grad(forward, &zeros, &[0], None).unwrap();
    assert_eq!(grads[0].to_vec(), [0.0; 3]);
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let runtime = runtime();
    let two = runtime.tensor(&[1.0, 2.0], &[2]).unwrap();
    let three = runtime.tensor(&[1.0, 2.0, 3.0], &[3]).unwrap();
    assert!(matches!(
        ops::mul(&two, &three),
        Err(Error::Broadcast { op: "mul", .. })
    ));
    assert!(matches!(
        ops::matmul(&two, &three),
        Err(Error::Matmul { .. })
    ));
    assert!(matches!(
        runtime.tensor(&[1.0], &[2]),
        Err(Error::DataLength { values: 1, .. })
    ));
    assert!(matches!(
        runtime.tensor(&[1.0], &[1; 5]),
        Err(Error::Rank { rank: 5 })
    ));
}

#[test]
fn the_gradient_of_a_split_is_put_where_its_piece_was() {
    check(
        |x| {
            let pieces = ops::split(&x[0], &[1, 2])?;
            ops::mul(&ops::sum(&pieces[0])?, &pieces[1])
        },
        &[&[3, 2]],
    );
}
