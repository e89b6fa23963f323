//! The backward pass.
//!
//! ```text
//! roots ─▶ tasks (one per reachable node, with its in-degree) ─▶ ready queue
//!            per node: hooks ─▶ capture or accumulate ─▶ backward fn ─▶ release
//! then the final callbacks, once, in the order they were queued
//! ```
//!
//! Models `AutoDiff` (`ccsrc/pynative/backward/grad.cc`, `func_grad.cc`): a
//! node is ready when all its users are done; among ready nodes a leaf comes
//! first (its sequence number is the largest there is), then the newest.
//! A hook that raises clears the hook map, as upstream.
//! Not modelled: higher order, undefined gradients beyond "no gradient".

use std::collections::BinaryHeap;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use crate::autograd::final_callback;
use crate::autograd::node::{GradNode, OpNode, Task};
use crate::autograd::record::Grads;
use crate::autograd::root::Root;
use crate::census::Tally;
use crate::error::Error;
use crate::kernels::zip;
use crate::runtime::Core;
use crate::tensor::{Array, Meta, Tensor};

/// What one backward is asked for.
pub(crate) struct Request<'a> {
    roots: Vec<Root>,
    capture: &'a [Meta],
    accumulate: bool,
    keep_graph: bool,
}

impl<'a> Request<'a> {
    /// Returns the gradients at `capture`; leaves accumulate nothing (`ms.grad`).
    pub(crate) fn capture(roots: Vec<Root>, capture: &'a [Meta]) -> Self {
        Self {
            roots,
            capture,
            accumulate: false,
            keep_graph: false,
        }
    }

    /// Adds to the gradient of every leaf (`run_backward`).
    pub(crate) fn accumulate(roots: Vec<Root>, keep_graph: bool) -> Self {
        Self {
            roots,
            capture: &[],
            accumulate: true,
            keep_graph,
        }
    }
}

/// Runs the pass; the gradients at `request.capture`, `None` where none arrived.
pub(crate) fn backward(core: &Rc<Core>, request: Request<'_>) -> Result<Vec<Option<Array>>, Error> {
    core.engines.borrow_mut().push(Vec::new());
    let grad_flag = core.grad_flag.replace(false);
    let mut engine = Engine::new(core, &request);
    let outcome = engine.run(request).and_then(|()| final_callback::run(core));
    let hook_raised = engine.hook_raised;
    let captured = engine.finish(core);
    // Dropped outside of the borrow: callbacks left over hold caller's objects.
    let left_over = core.engines.borrow_mut().pop();
    drop(left_over);
    core.grad_flag.set(grad_flag);
    if hook_raised {
        core.clear_res();
    }
    outcome.map(|()| captured)
}

/// The gradients of a node's outputs, as far as they have arrived.
type Arrived = SmallVec<[Option<Array>; 1]>;

/// One node's share of the pass.
struct NodeTask {
    /// `None` while it runs and once it has run.
    node: Option<GradNode>,
    grads: Arrived,
    users: usize,
    /// The mark that an outer backward had put on the node.
    outer: Task,
}

struct Engine<'a> {
    id: u64,
    tasks: Vec<NodeTask>,
    /// (sequence, index): the largest is the next to run.
    ready: BinaryHeap<(u64, usize)>,
    capture: &'a [Meta],
    captured: Vec<Option<Array>>,
    accumulate: bool,
    keep_graph: bool,
    hook_raised: bool,
}

impl<'a> Engine<'a> {
    fn new(core: &Core, request: &Request<'a>) -> Self {
        let id = core.last_engine_id.get() + 1;
        core.last_engine_id.set(id);
        Self {
            id,
            tasks: Vec::with_capacity(core.last_task_count.get()),
            ready: BinaryHeap::new(),
            capture: request.capture,
            captured: request.capture.iter().map(|_| None).collect(),
            accumulate: request.accumulate,
            keep_graph: request.keep_graph,
            hook_raised: false,
        }
    }

    fn run(&mut self, request: Request<'_>) -> Result<(), Error> {
        for (meta, grad) in request.roots {
            let index = self.task_of(&meta.node);
            self.add_grad(index, meta.output_index, grad)?;
        }
        self.count_users();
        for index in 0..self.tasks.len() {
            if self.tasks[index].users == 0 {
                self.make_ready(index);
            }
        }
        while let Some((_, index)) = self.ready.pop() {
            self.run_node(index)?;
        }
        Ok(())
    }

    /// Gives the marks back that outer passes had put on the nodes.
    fn finish(self, core: &Core) -> Vec<Option<Array>> {
        core.last_task_count.set(self.tasks.len());
        for task in &self.tasks {
            if let Some(node) = &task.node {
                node.with_base(|base| base.task.set(task.outer));
            }
        }
        self.captured
    }

    /// The task of a node, made at first sight.
    fn task_of(&mut self, node: &GradNode) -> usize {
        let mark = node.with_base(|base| base.task.get());
        if mark.engine_id == self.id {
            return mark.index;
        }
        let index = self.tasks.len();
        node.with_base(|base| {
            base.task.set(Task {
                engine_id: self.id,
                index,
            });
        });
        self.tasks.push(NodeTask {
            node: Some(node.clone()),
            grads: smallvec![None; node.outputs()],
            users: 0,
            outer: mark,
        });
        index
    }

    fn count_users(&mut self) {
        let mut at = 0;
        while at < self.tasks.len() {
            // Lent out meanwhile: its inputs may be new tasks.
            let node = self.tasks[at].node.take();
            if let Some(GradNode::Op(node)) = &node {
                for edge in node.get().edges.iter().flatten() {
                    let index = self.task_of(&edge.node);
                    self.tasks[index].users += 1;
                }
            }
            self.tasks[at].node = node;
            at += 1;
        }
    }

    fn make_ready(&mut self, index: usize) {
        let seq = match &self.tasks[index].node {
            Some(GradNode::Op(node)) => node.get().seq,
            _ => u64::MAX,
        };
        self.ready.push((seq, index));
    }

    fn add_grad(&mut self, index: usize, output: u32, grad: Array) -> Result<(), Error> {
        let slot = &mut self.tasks[index].grads[output as usize];
        *slot = Some(match slot.take() {
            None => grad,
            Some(sum) => zip("add", &sum, &grad, |a, b| a + b)?,
        });
        Ok(())
    }

    fn run_node(&mut self, index: usize) -> Result<(), Error> {
        let task = &mut self.tasks[index];
        let (mut grads, outer) = (std::mem::take(&mut task.grads), task.outer);
        let Some(node) = task.node.take() else {
            return Ok(());
        };
        let outcome = self.visit(&node, &mut grads);
        node.with_base(|base| base.task.set(outer));
        outcome
    }

    fn visit(&mut self, node: &GradNode, grads: &mut Arrived) -> Result<(), Error> {
        self.run_hooks(node, grads)?;
        self.capture(node, grads);
        match node {
            GradNode::Leaf(leaf) => match grads.pop().flatten() {
                Some(grad) if self.accumulate => leaf.get().accumulate(grad),
                _ => Ok(()),
            },
            GradNode::Op(op) => self.propagate(&op.get(), grads),
        }
    }

    /// Runs the backward function and hands its gradients to the inputs' nodes.
    fn propagate(&mut self, op: &OpNode, grads: &[Option<Array>]) -> Result<(), Error> {
        let arrived = grads.iter().any(Option::is_some);
        let mut grads = if arrived {
            op.run_backward(grads)?
        } else {
            Grads::new()
        };
        for (input, edge) in op.edges.iter().enumerate() {
            let Some(edge) = edge else { continue };
            let target = self.task_of(&edge.node);
            if let Some(grad) = grads.get_mut(input).and_then(Option::take) {
                self.add_grad(target, edge.output_index, grad)?;
            }
            self.tasks[target].users -= 1;
            if self.tasks[target].users == 0 {
                self.make_ready(target);
            }
        }
        if !self.keep_graph {
            op.release();
        }
        Ok(())
    }

    /// Runs all hooks of the node on the gradients that arrived, hooks added
    /// meanwhile too.
    fn run_hooks(&mut self, node: &GradNode, grads: &mut [Option<Array>]) -> Result<(), Error> {
        let mut last_id = 0;
        while let Some((id, output, hook)) = node.with_base(|base| base.hooks.after(last_id)) {
            last_id = id;
            let Some(grad) = &mut grads[output as usize] else {
                continue;
            };
            grad.core().census.happened(Tally::HookCalls, 1);
            match hook.call(&Tensor::from_array(grad.clone(), None)) {
                Ok(None) => {}
                Ok(Some(replaced)) if replaced.shape() != grad.shape => {
                    return Err(Error::HookShape {
                        expected: grad.shape,
                        got: replaced.shape(),
                    });
                }
                Ok(Some(replaced)) => *grad = replaced.array().clone(),
                Err(error) => {
                    self.hook_raised = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn capture(&mut self, node: &GradNode, grads: &[Option<Array>]) {
        for (wanted, slot) in self.capture.iter().zip(&mut self.captured) {
            if wanted.node.same(node) {
                slot.clone_from(&grads[wanted.output_index as usize]);
            }
        }
    }
}
