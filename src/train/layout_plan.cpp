#include "train/layout_plan.h"

#include <algorithm>
#include <optional>

#include "comm/partial.h"
#include "pipeline/schedule.h"
#include "pipeline/validate.h"
#include "train/layout.h"
#include "train/step_metrics.h"

namespace strata::train {
namespace {

pipeline::ScheduleReport report_of(const pipeline::ParallelSection& p, int micro_batches) {
  return pipeline::validate(pipeline::make_schedule(
      p.schedule(), p.ranks(), int(p.virtual_pipeline_model_parallel_size), micro_batches));
}

class Rehearsal {
 public:
  Rehearsal(const RunConfig& config, LayoutPlan& plan) : config_(config), plan_(plan) {
    // As many as give the first data-parallel rank its micro-batches.
    batch_ = zeros(config, (std::int64_t(plan.micro_batches - 1) * plan.shape.data + 1) *
                               config.training.micro_batch_size);
    for (int r = 0; r < plan.shape.pipeline; ++r) present_.push_back(plan.shape.rank_of(r, 0));
  }

  void run() {
    comm::run_threads(plan_.shape.pipeline, [&](comm::World& here) { rank_main(here); });
  }

 private:
  void rank_main(comm::World& here) {
    const auto world = comm::partial_world(here, present_, plan_.shape.world());
    device::Device device(kDry);
    const comm::Mesh mesh(*world, plan_.shape);
    Trainer trainer(config_, device, mesh);
    RankPlan& plan = plan_.ranks[mesh.pipeline_rank()];
    plan.stages = trainer.stages();
    plan.parameters = trainer.store().count();
    if (here.rank() == 0) add_cuts(trainer.wires());
    plan.sent = step(trainer);
    trainer.evaluate(batch_);
    plan.memory = memory_of(trainer);
    plan.worst_peak = plan.memory.total.peak;
    if (plan_.shape.expert == 1) return;
    for (const auto& [layer, moe] : trainer.moes()) moe->suppose_experts(config_.model.num_experts_per_tok);
    plan.worst_experts = step(trainer).experts;
    trainer.evaluate(batch_);
    plan.worst_peak = device.memory().total().peak;
  }

  // What it sends.
  Traffic step(Trainer& trainer) const {
    const Traffic before = sent(trainer);
    StepObserver observer(trainer.device());
    const bool observed = config_.logging.metrics_interval > 0;
    trainer.update(trainer.gradients(batch_, observed ? &observer : nullptr));
    return sent(trainer) - before;
  }

  void add_cuts(const pipeline::Wires& wires) {
    const DType compute = config_.precision.dtype();
    const std::int64_t tokens = config_.training.micro_batch_size * config_.training.seq_length;
    const int ranks = plan_.shape.pipeline;
    for (int s = 1; s < wires.stages(); ++s) {
      CutPlan cut{
          .stage = s, .from = pipeline::rank_of_stage(s - 1, ranks), .to = pipeline::rank_of_stage(s, ranks)};
      for (const residual::ItemSpec& item : wires.into(s)) {
        std::int64_t elements = tokens;
        for (const std::int64_t e : item.shape) elements *= e;
        cut.forward += elements * size_of(compute);
        cut.backward += elements * size_of(item.full_gradient ? acc_of(compute) : compute);
      }
      plan_.cuts.push_back(cut);
    }
  }

  const RunConfig& config_;
  LayoutPlan& plan_;
  HostBatch batch_;
  std::vector<int> present_;
};

int moe_layers(const model::ModelConfig& config, const RankPlan& rank) {
  int count = 0;
  for (const model::StageRange& r : rank.stages) {
    for (int layer = r.first; layer < r.last; ++layer) count += config.is_moe_layer(layer);
    count += r.head && config.has_mtp();
  }
  return count;
}

}  // namespace

const RankPlan& fullest(const LayoutPlan& plan) {
  return *std::max_element(plan.ranks.begin(), plan.ranks.end(), [](const RankPlan& a, const RankPlan& b) {
    return a.memory.total.peak < b.memory.total.peak;
  });
}

std::int64_t micro_batches(const RunConfig& config, int ranks) {
  const std::int64_t all = config.training.batch_size() / config.training.micro_batch_size;
  const std::int64_t data = mesh_shape(config, ranks).data;
  return (all + data - 1) / data;
}

LayoutPlan plan_layout(const RunConfig& config, int ranks) {
  LayoutPlan plan;
  plan.shape = mesh_shape(config, ranks);
  plan.schedule = config.parallel.schedule();
  plan.micro_batches = int(micro_batches(config, ranks));
  plan.ranks.resize(plan.shape.pipeline);
  const pipeline::ScheduleReport report = report_of(config.parallel, plan.micro_batches);
  plan.bubble = report.bubble;
  for (int r = 0; r < plan.shape.pipeline; ++r) {
    plan.ranks[r].in_flight = report.peak_in_flight[r];
    plan.ranks[r].late_weights = report.peak_late_weights[r];
  }
  Rehearsal(config, plan).run();
  for (const RankPlan& r : plan.ranks)
    if (const std::int64_t layers = moe_layers(config.model, r))
      plan.experts_bytes = r.sent.experts.bytes / (layers * plan.micro_batches);
  return plan;
}

}  // namespace strata::train
