//! Makes the sharded model of each rank from a table of units.
//!
//! ```text
//! mesh [replicas, shards]:  a row shares each parameter, a column its replicas
//!   whole values ─▶ parts, one for each member of a row ─▶ every member's Param
//! ```
//!
//! Models `fully_shard` of `hyper_parallel/core/fully_shard`. Not modelled:
//! parameters that are no multiple of the ranks, which upstream pads.

use std::rc::{Rc, Weak};

use crate::comm::{ProcessGroup, World};
use crate::error::Error;
use crate::hsdp::context::Context;
use crate::hsdp::model::ShardedModel;
use crate::hsdp::module::Module;
use crate::hsdp::param::Param;
use crate::hsdp::process::Process;
use crate::hsdp::scheduler::Scheduler;
use crate::hsdp::state::{Fused, HsdpState, Place, Places};
use crate::hsdp::unit_table::{Mesh, Unit, UnitTable};
use crate::runtime::Runtime;
use crate::tensor::Tensor;

/// How the units of a table become a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Values of a parameter: a multiple of the ranks that share it.
    pub width: usize,
    /// Units that each unit gathers ahead, in both directions.
    pub prefetch: usize,
    /// Units with several outputs whose last one nobody uses.
    pub unused_outputs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            width: 8,
            prefetch: 1,
            unused_outputs: 0,
        }
    }
}

/// The groups of a mesh: rows share parameters, columns hold replicas.
struct Groups {
    rows: Vec<ProcessGroup>,
    columns: Vec<ProcessGroup>,
    world: ProcessGroup,
    shards: usize,
}

impl Groups {
    /// Two replicas of everything if the mesh has two dimensions.
    fn new(world: &World, mesh: Mesh) -> Option<Self> {
        let ranks = world.ranks().len();
        let replicas = match mesh {
            Mesh::Replicated if ranks > 1 => 2,
            _ => 1,
        };
        let shards = ranks / replicas;
        let row = |replica: usize| (replica * shards..(replica + 1) * shards).collect();
        let column = |shard: usize| (shard..ranks).step_by(shards).collect();
        let group = |ranks: Vec<usize>| world.group(&ranks);
        (shards * replicas == ranks && ranks > 0).then_some(())?;
        Some(Self {
            world: group((0..ranks).collect())?,
            rows: (0..replicas).map(row).map(group).collect::<Option<_>>()?,
            columns: (0..shards).map(column).map(group).collect::<Option<_>>()?,
            shards,
        })
    }

    fn places(&self, rank: usize) -> Places {
        let (row, shard) = (rank / self.shards, rank % self.shards);
        let place = |group: &ProcessGroup, member| Place {
            group: group.clone(),
            member,
        };
        let replicate = || place(&self.columns[shard], row);
        Places {
            shard: place(&self.rows[row], shard),
            replicate: (self.rows.len() > 1).then(replicate),
            world: place(&self.world, rank),
        }
    }
}

/// The values of one unit's parameters, sharded ones first, and the parts that
/// the members of one row have of them.
struct Values<'a> {
    whole: &'a [Vec<f32>],
    /// By parameter, then by member.
    parts: Vec<Rc<[Tensor]>>,
    /// Each member's buffer for all its parts.
    buffers: Rc<[Tensor]>,
}

/// Shards a model over a world: one part for each rank, in rank order.
/// `values` makes the parameters' values, which all replicas share.
///
/// # Errors
/// [`Error::Mesh`] if the table is empty, or the width or the world does not
/// fit the mesh.
pub fn fully_shard(
    world: &World,
    table: &UnitTable,
    options: Options,
    values: &mut dyn FnMut() -> f32,
) -> Result<Vec<ShardedModel>, Error> {
    let (ranks, width) = (world.ranks().len(), options.width);
    let mesh = || Error::Mesh { ranks, width };
    let groups = Groups::new(world, table.mesh).ok_or_else(mesh)?;
    let fits = !table.units.is_empty() && width.is_multiple_of(groups.shards);
    fits.then_some(()).ok_or_else(mesh)?;
    let mut whole_of = |unit: &Unit| -> Vec<Vec<f32>> {
        let params = unit.sharded_params + unit.replicate_params;
        let mut one = || (0..width).map(|_| values()).collect();
        (0..params).map(|_| one()).collect()
    };
    let whole: Vec<_> = table.units.iter().map(&mut whole_of).collect();
    let mut models = Vec::with_capacity(ranks);
    for row in world.ranks().chunks(groups.shards) {
        // Made once for a row: its members gather from each other's parts.
        let units = table.units.iter().zip(&whole);
        let units = units.map(|(unit, whole)| Values::new(unit, whole, row));
        let units: Vec<Values<'_>> = units.collect::<Result<_, Error>>()?;
        for runtime in row {
            let mut model = Build {
                runtime,
                table,
                options,
                places: groups.places(models.len()),
                unused: options.unused_outputs,
            };
            models.push(model.model(&units, ranks)?);
        }
    }
    Ok(models)
}

impl<'a> Values<'a> {
    fn new(unit: &Unit, whole: &'a [Vec<f32>], row: &[Runtime]) -> Result<Self, Error> {
        let sharded = &whole[..unit.sharded_params as usize];
        let cut = |values: &Vec<f32>| {
            let part = values.len() / row.len();
            let pieces = row.iter().zip(values.chunks(part));
            let tensors = pieces.map(|(runtime, piece)| runtime.tensor(piece, &[part]));
            tensors.collect::<Result<Rc<[Tensor]>, Error>>()
        };
        let size = sharded.iter().map(Vec::len).sum::<usize>() / row.len();
        let buffer = |runtime: &Runtime| runtime.tensor(&vec![0.0; size], &[size]);
        Ok(Self {
            whole,
            parts: sharded.iter().map(cut).collect::<Result<_, Error>>()?,
            buffers: row.iter().map(buffer).collect::<Result<_, Error>>()?,
        })
    }
}

/// What one rank's units are made of.
struct Build<'a> {
    runtime: &'a Runtime,
    table: &'a UnitTable,
    options: Options,
    places: Places,
    /// Units that are still to leave an output unused.
    unused: usize,
}

impl Build<'_> {
    fn model(&mut self, values: &[Values<'_>], ranks: usize) -> Result<ShardedModel, Error> {
        let context = Rc::new(Context::new(&Rc::new(Process::default())));
        let mut units = Vec::with_capacity(values.len());
        for (index, (unit, values)) in self.table.units.iter().zip(values).enumerate() {
            units.push(Rc::new(self.module(&context, unit, values, index)?));
        }
        link(&units, self.options.prefetch);
        let schedulers: Vec<_> = units
            .iter()
            .map(|unit| Rc::clone(&unit.scheduler))
            .collect();
        context.set_units(&schedulers);
        let Places {
            shard,
            replicate,
            world,
        } = self.places.clone();
        let places = [shard, world].into_iter().chain(replicate);
        let root = units.pop().ok_or(Error::Mesh { ranks, width: 0 })?;
        Ok(ShardedModel {
            runtime: self.runtime.clone(),
            context,
            units,
            root,
            groups: places.map(|place| place.group).collect(),
            ranks,
        })
    }

    fn module(
        &mut self,
        context: &Rc<Context>,
        unit: &Unit,
        values: &Values<'_>,
        index: usize,
    ) -> Result<Module, Error> {
        let leaves_unused = unit.outputs > 1 && self.unused > 0;
        self.unused -= usize::from(leaves_unused);
        let is_root = index + 1 == self.table.units.len();
        let state = self.state(unit, values)?;
        Ok(Module {
            scheduler: Scheduler::new(&unit.name, self.runtime, context, state, is_root),
            outputs: unit.outputs as usize,
            leaves_unused,
            joins: index > 0 && !unit.input_requires_grad,
            recomputed: unit.forwards > 1,
            one: self.runtime.tensor(&[1.0], &[1])?,
        })
    }

    fn state(&self, unit: &Unit, values: &Values<'_>) -> Result<HsdpState, Error> {
        let width = self.options.width;
        let zeros = |size: usize| self.runtime.tensor(&vec![0.0; size], &[size]);
        let param = |(index, whole): (usize, &Vec<f32>)| {
            let parts = values.parts.get(index);
            let full = match parts {
                Some(_) => zeros(width)?,
                None => self.runtime.tensor(whole, &[width])?,
            };
            full.requires_grad_();
            let shards = parts.cloned().unwrap_or_default();
            let param = Param {
                grad: zeros(width / shards.len().max(1))?,
                replicated: parts.is_none(),
                shards,
                full,
            };
            param.reshard();
            Ok(param)
        };
        let params = values.whole.iter().enumerate().map(param);
        let fused = self.table.comm_fusion && unit.sharded_params > 0;
        let fused = fused.then(|| {
            let size = values.buffers[self.places.shard.member].shape().size();
            Ok(Fused {
                parts: Rc::clone(&values.buffers),
                whole: zeros(size * self.places.shard.group.size())?,
                grad: zeros(size)?,
            })
        });
        Ok(HsdpState::new(
            params.collect::<Result<_, Error>>()?,
            self.places.clone(),
            self.table.reshard_after_forward,
            fused.transpose()?,
        ))
    }
}

/// Each unit gathers the next ones ahead, in either direction; the root is the
/// last to run forward and the first to run backward.
fn link(units: &[Rc<Module>], ahead: usize) {
    let weak = |unit: &Rc<Module>| Rc::downgrade(&unit.scheduler);
    for (index, unit) in units.iter().enumerate() {
        let next = units[index + 1..].iter().take(ahead).map(weak);
        let before = units[..index].iter().rev().take(ahead).map(weak);
        let lists: [Vec<Weak<Scheduler>>; 2] = [next.collect(), before.collect()];
        let [forward, backward] = lists;
        unit.scheduler.set_prefetch(forward, backward);
    }
}
