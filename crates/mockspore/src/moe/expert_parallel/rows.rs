//! Moving rows: operators whose gradient moves them back.

use std::rc::Rc;

use smallvec::smallvec;

use crate::autograd::record::{Grads, record, record_all};
use crate::autograd::saved::SavedList;
use crate::error::Error;
use crate::kernels::{matrix, row, scattered_rows, taken_rows};
use crate::tensor::{Array, Shape, Tensor};

/// Row `i` of `a` added to row `indices[i]` of `rows` zeros.
pub(super) fn scatter_add(a: &Tensor, indices: &[usize], rows: usize) -> Result<Tensor, Error> {
    let output = scattered_rows(a.array(), indices, rows);
    record("ScatterAdd", &[a], output, || {
        let indices = SavedList::new(a.core(), indices.into());
        Ok(move |grad: &Array| Ok(smallvec![Some(taken_rows(grad, &indices))]))
    })
}

/// All rows, one tensor's behind the other's (what an all-gather leaves).
pub(super) fn concat(inputs: &[&Tensor]) -> Result<Tensor, Error> {
    let rows: Vec<usize> = inputs.iter().map(|one| matrix(one.array()).0).collect();
    let columns = inputs.first().map_or(0, |one| matrix(one.array()).1);
    let values = inputs.iter().flat_map(|one| one.array().values());
    let Some(core) = inputs.first().map(|one| Rc::clone(one.core())) else {
        let why = "there is nothing to gather";
        return Err(Error::Routing { why });
    };
    let output = Array::new(
        &core,
        Shape::of_matrix(rows.iter().sum(), columns),
        values.collect::<Vec<_>>().into_iter(),
    );
    record("AllGather", inputs, output, || {
        let rows = SavedList::new(&core, rows.clone().into());
        Ok(move |grad: &Array| {
            let mut start = 0;
            let parts = rows.iter().map(|&count| {
                let indices: Vec<usize> = (start..start + count).collect();
                start += count;
                Some(taken_rows(grad, &indices))
            });
            Ok(parts.collect::<Grads>())
        })
    })
}

/// What each rank gets if rank `s` sends its rows to rank `d`,
/// `splits[s][d]` of them, in order.
pub(super) fn all_to_all(inputs: &[&Tensor], splits: &[Vec<usize>]) -> Result<Vec<Tensor>, Error> {
    let arrays: Vec<Option<Array>> = inputs.iter().map(|one| Some(one.array().clone())).collect();
    let columns = inputs.first().map_or(0, |one| matrix(one.array()).1);
    let core = inputs.first().map(|one| Rc::clone(one.core()));
    let Some(core) = core else {
        return Ok(Vec::new());
    };
    let outputs = exchanged(&core, &arrays, splits, columns);
    let outputs = record_all("AllToAll", inputs, outputs, || {
        let ranks = splits.len();
        let flat: Box<[usize]> = splits.iter().flatten().copied().collect();
        let (core, flat) = (Rc::clone(&core), SavedList::new(&core, flat));
        Ok(move |grads: &[Option<Array>]| {
            let back = |s| (0..ranks).map(|d| flat[d * ranks + s]).collect();
            let back: Vec<Vec<usize>> = (0..ranks).map(back).collect();
            let moved = exchanged(&core, grads, &back, columns);
            Ok(moved.into_iter().map(Some).collect::<Grads>())
        })
    })?;
    Ok(outputs.into_vec())
}

/// Each rank's rows after the exchange; a rank that has none sends zeros.
fn exchanged(
    core: &Rc<crate::runtime::Core>,
    inputs: &[Option<Array>],
    splits: &[Vec<usize>],
    columns: usize,
) -> Vec<Array> {
    let ranks = splits.len();
    let of_rank = |d: usize| {
        let mut values = Vec::new();
        for (input, splits) in inputs.iter().zip(splits) {
            let start: usize = splits[..d].iter().sum();
            for index in start..start + splits[d] {
                match input {
                    Some(input) => values.extend(row(input, index)),
                    None => values.extend(std::iter::repeat_n(0.0, columns)),
                }
            }
        }
        let rows = splits.iter().map(|splits| splits[d]).sum();
        Array::new(core, Shape::of_matrix(rows, columns), values.into_iter())
    };
    (0..ranks).map(of_rank).collect()
}
