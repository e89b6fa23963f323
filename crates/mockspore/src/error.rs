//! What code on the real runtime could see go wrong. A panic here is a bug.

use std::error::Error as StdError;

use crate::tensor::Shape;

/// An error that the modelled framework raises to its caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Operands whose shapes do not broadcast.
    #[error("for '{op}', the shapes {left} and {right} do not broadcast")]
    Broadcast {
        /// The operator.
        op: &'static str,
        /// Shape of the first operand.
        left: Shape,
        /// Shape of the second operand.
        right: Shape,
    },
    /// Matrices whose inner dimensions differ, or operands that are no matrices.
    #[error("for 'matmul', {left} and {right} are no matrices with equal inner dimensions")]
    Matmul {
        /// Shape of the first operand.
        left: Shape,
        /// Shape of the second operand.
        right: Shape,
    },
    /// Data whose length is not the product of the dimensions.
    #[error("{values} values do not fill the shape {shape}")]
    DataLength {
        /// Values given.
        values: usize,
        /// Shape asked for.
        shape: Shape,
    },
    /// More dimensions than the mock has.
    #[error("a tensor of rank {rank} is not modelled (at most {max})", max = Shape::MAX_RANK)]
    Rank {
        /// Dimensions given.
        rank: usize,
    },
    /// An output gradient whose shape is not the output's.
    #[error("the output gradient should have the shape {expected}, but got {got}")]
    SensShape {
        /// Shape of the output.
        expected: Shape,
        /// Shape of the gradient given.
        got: Shape,
    },
    /// A different number of output gradients than outputs.
    #[error("{outputs} outputs need as many output gradients, but got {given}")]
    SensCount {
        /// Outputs of the function.
        outputs: usize,
        /// Gradients given.
        given: usize,
    },
    /// A `grad_position` beyond the inputs.
    #[error("grad_position {position} is out of range for {inputs} inputs")]
    GradPosition {
        /// The position asked for.
        position: usize,
        /// Inputs given.
        inputs: usize,
    },
    /// A custom function whose backward returned another number of gradients.
    #[error("the backward of a function with {inputs} inputs returned {returned} gradients")]
    GradCount {
        /// Inputs of the function.
        inputs: usize,
        /// Gradients returned.
        returned: usize,
    },
    /// Pieces that do not add up to the dimension that is cut.
    #[error("the sum of split_size should be equal to {rows}(input.shape[0]), but got {sizes:?}")]
    SplitSizes {
        /// Rows of the tensor.
        rows: usize,
        /// Rows of each piece asked for.
        sizes: Vec<usize>,
    },
    /// An index beyond the rows of a matrix.
    #[error("index {index} is out of range for {rows} rows")]
    Index {
        /// The index.
        index: usize,
        /// Rows of the matrix.
        rows: usize,
    },
    /// A collective that was not given one fitting tensor of each rank.
    #[error(
        "a collective takes one tensor of each of the {ranks} ranks, in order and of fitting shapes"
    )]
    RankTensors {
        /// Ranks of the world.
        ranks: usize,
    },
    /// A rank that the world does not have.
    #[error("there is no rank {rank}")]
    NoRank {
        /// The rank asked for.
        rank: usize,
    },
    /// A member of a group that issues another call than the others.
    #[error("rank {rank}: call {call} of its group is {expected} for the others, here {got}")]
    CollectiveMismatch {
        /// The rank that differs.
        rank: usize,
        /// The call's place, from 1.
        call: u64,
        /// What the others issued.
        expected: String,
        /// What it issued.
        got: String,
    },
    /// A call that a member of a group never comes to while others wait in it.
    #[error("rank {rank} never comes to call {call} of its group, {name}: the others would hang")]
    WouldHang {
        /// The rank that is missing.
        rank: usize,
        /// The call's place, from 1.
        call: u64,
        /// What the others issued.
        name: &'static str,
    },
    /// A model or a world that a mesh cannot be laid over.
    #[error(
        "{ranks} ranks and parameters of {width} values do not fit the mesh: it needs a unit, \
         at least one rank, an even number for replicas, and equal parts"
    )]
    Mesh {
        /// Ranks of the world.
        ranks: usize,
        /// Values of each parameter.
        width: usize,
    },
    /// A callback that is registered and refuses to be so twice.
    #[error("the callback is already registered: remove() it first")]
    AlreadyRegistered,
    /// Token counts that are not one for each expert.
    #[error("{experts} experts need as many token counts, but got {given}")]
    TokenCounts {
        /// Experts of the layer.
        experts: usize,
        /// Counts given.
        given: usize,
    },
    /// Rows, experts and ranks that do not fit each other.
    #[error("{why}")]
    Routing {
        /// What must hold.
        why: &'static str,
    },
    /// A field of a mega-MoE launch that no config can be made for.
    #[error("{field} cannot be {value}: {why}")]
    Geometry {
        /// The field, as upstream names it.
        field: &'static str,
        /// Its value.
        value: i128,
        /// What it may be.
        why: &'static str,
    },
    /// A stream that the device does not have.
    #[error("there is no stream {number}")]
    Stream {
        /// The stream asked for.
        number: usize,
    },
    /// A collective without a kernel on this device.
    #[error("The kernel {kernel} unregistered.")]
    KernelUnregistered {
        /// The kernel.
        kernel: &'static str,
    },
    /// The older primitive with another reduction than the sum.
    #[error("AllReduce only support reduce sum on CPU")]
    ReduceOnCpu,
    /// The end of a recomputed forward that has everything it needs.
    #[error("the recomputed forward stops early")]
    StopRecomputation,
    /// A saved value that the recomputed forward did not save again.
    #[error("recompute did not save this value again: the block must do the same each time")]
    NotRecomputed,
    /// A second backward through a graph that the first has released.
    #[error("Try to backward the graph twice, Specify retain_graph=True, if you want call again")]
    BackwardTwice,
    /// A backward from a tensor that no gradient can reach.
    #[error("The output tensor you provided doesn't requires grad and not have a grad_fn")]
    NoGrad,
    /// A final callback queued while no backward runs.
    #[error("Final backward callback can only be installed during backward pass")]
    CallbackOutsideBackward,
    /// A hook that returned neither a Tensor nor None.
    #[error("Tensor hook should be return Tensor, but get type: {type_name}.")]
    HookReturn {
        /// Name of the type that was returned.
        type_name: String,
    },
    /// A hook that returned a gradient of another shape.
    #[error("a hook on a gradient of shape {expected} returned the shape {got}")]
    HookShape {
        /// Shape of the gradient.
        expected: Shape,
        /// Shape of what the hook returned.
        got: Shape,
    },
    /// A tensor of another Runtime.
    #[error("a tensor belongs to another Runtime: make it after reset() or set_device()")]
    OtherRuntime,
    /// Caller code (a hook, a callback, a differentiated function) raised.
    #[error("{0}")]
    Raised(Box<dyn StdError + Send + Sync>),
}
