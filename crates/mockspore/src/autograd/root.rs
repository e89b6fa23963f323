//! Where a backward begins.

use crate::error::Error;
use crate::kernels::full;
use crate::tensor::{Array, Meta, Tensor};

/// A root of the pass: the node of an output and the output's gradient.
pub(crate) type Root = (Meta, Array);

/// Pairs outputs with their gradients. An output without a node is no root.
pub(crate) fn roots(outputs: &[Tensor], sens: Option<&[Tensor]>) -> Result<Vec<Root>, Error> {
    if let Some(sens) = sens
        && sens.len() != outputs.len()
    {
        return Err(Error::SensCount {
            outputs: outputs.len(),
            given: sens.len(),
        });
    }
    let mut roots = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        let grad = match sens {
            None => full(output.core(), output.shape(), 1.0),
            Some(sens) => sens[index].array().clone(),
        };
        if grad.shape != output.shape() {
            return Err(Error::SensShape {
                expected: output.shape(),
                got: grad.shape,
            });
        }
        roots.extend(output.meta().map(|meta| (meta, grad)));
    }
    Ok(roots)
}
