#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "comm/channel.h"
#include "kernels/jobs.h"
#include "optim/lr_schedule.h"
#include "pipeline/schedule.h"
#include "pipeline/validate.h"
#include "train/layout.h"

namespace strata::train {

struct Trainer::Alone {
  explicit Alone(const RunConfig& config) : mesh(*world, mesh_shape(config, 1)) {}
  std::unique_ptr<comm::World> world = comm::self_world();
  comm::Mesh mesh;
};

Trainer::Trainer(const RunConfig& config, device::Device& device, Use use)
    : Trainer(config, device, std::make_unique<Alone>(config), use) {}

Trainer::Trainer(const RunConfig& config, device::Device& device, std::unique_ptr<Alone> alone, Use use)
    : Trainer(config, device, alone->mesh, use) {
  alone_ = std::move(alone);
}

Trainer::Trainer(const RunConfig& config, device::Device& device, const comm::Mesh& mesh, Use use)
    : config_(config), device_(device), mesh_(mesh) {
  add_stages();
  groups_ = {.data = &mesh.data(),
             .expert_data = &mesh.expert_data(),
             .all = &mesh.all(),
             .holders = {},
             .pipeline_rank = mesh.pipeline_rank()};
  find_holders();
  Shards shards = groups_.shards();
  shards.bucket_size = config.parallel.ddp_bucket_size;
  shards.masters = use == Use::Training && config.optimizer.use_distributed_optimizer;
  store_.allocate(device, config.precision.dtype(), use == Use::Training, shards);
  for (const auto& stage : stages_) stage->allocate(device);
  store_.initialize(std::uint64_t(config.run.seed));
  if (use == Use::Training)
    optimizer_ = std::make_unique<optim::Optimizer>(config.optimizer, device, store_, groups_);
  losses_ = Tensor(device, {3}, acc_of(config.precision.dtype()), device::Purpose::Data);
}

Trainer::~Trainer() = default;

void Trainer::add_stages() {
  const pipeline::ParallelSection& p = config_.parallel;
  const auto ranges = pipeline::cut_layers(config_.model, p.stages(), p.pipeline_model_parallel_layout);
  comm::Communicator* experts = mesh_.expert().size() > 1 ? &mesh_.expert() : nullptr;
  std::vector<model::Stage*> stages;
  for (int s = mesh_.pipeline_rank(); s < p.stages(); s += p.ranks()) {
    stages_.push_back(std::make_unique<model::Stage>(config_.model, ranges[s], store_, experts));
    stages.push_back(stages_.back().get());
    const std::vector<nn::Moe*> moes = stages.back()->moes();
    auto moe = moes.begin();
    for (int layer = ranges[s].first; layer < ranges[s].last; ++layer)
      if (config_.model.is_moe_layer(layer)) moes_[layer] = *moe++;
    if (moe != moes.end()) moes_[int(config_.model.num_hidden_layers)] = *moe;  // multi-token prediction's
  }
  executor_ = std::make_unique<pipeline::Executor>(device_, mesh_.pipeline(), config_.model,
                                                   config_.precision.dtype(), ranges, std::move(stages));
}

std::vector<model::StageRange> Trainer::stages() const {
  std::vector<model::StageRange> ranges;
  for (const auto& stage : stages_) ranges.push_back(stage->range());
  return ranges;
}

// Which pipeline ranks have a parameter too is asked, not derived: whoever adds it under the same name has
// it.
void Trainer::find_holders() {
  if (mesh_.pipeline().size() == 1) return;
  std::string mine;
  for (const Parameter& p : store_.parameters())
    if (p.shared) mine += p.name + "\n";
  const std::vector<std::string> all = comm::gather_texts(mesh_.pipeline(), mine);
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::istringstream lines(all[r]);
    for (std::string name; std::getline(lines, name);) ranks[name].push_back(int(r));
  }
  std::map<std::vector<int>, bool> sets;  // and whether this rank belongs to it
  for (const auto& [name, holders] : ranks)
    if (holders.size() > 1) sets[holders] = false;
  for (Parameter& p : store_.parameters())
    if (p.shared && ranks[p.name].size() > 1) sets[p.holders = ranks[p.name]] = true;
  for (const auto& [holders, member] : sets) {
    if (!member) continue;
    std::vector<int> members;
    for (const int r : holders) members.push_back(mesh_.pipeline().world_rank(r));
    holders_.push_back(mesh_.world().group("holders", members));
    groups_.holders[holders] = holders_.back().get();
  }
}

Tape::Options Trainer::tape_options(Observer* observer) const {
  const RecomputeSection& r = config_.recompute;
  return {.recording = true,
          .recompute = {.norm = r.drops(RecomputeModule::LayerNorm),
                        .activation = r.drops(RecomputeModule::MoeAct),
                        .attention = r.drops(RecomputeModule::CoreAttn),
                        .depth_retrieval = r.drops(RecomputeModule::DepthRetrieval)},
          .observer = observer};
}

std::vector<HostBatch> Trainer::micro_batches(const HostBatch& global) const {
  const std::int64_t rows = config_.training.micro_batch_size, data = mesh_.shape().data;
  const std::int64_t all = (global.rows + rows - 1) / rows;
  std::vector<HostBatch> mine;
  for (std::int64_t i = 0; i * data < all; ++i) {
    const std::int64_t begin = std::min(global.rows, (i * data + mesh_.data_rank()) * rows);
    mine.push_back(global.slice(begin, std::min(global.rows, begin + rows)));
  }
  return mine;
}

const pipeline::Schedule& Trainer::schedule(int micro_batches) {
  const auto it = schedules_.find(micro_batches);
  if (it != schedules_.end()) return it->second;
  const pipeline::ParallelSection& p = config_.parallel;
  if (const std::int64_t most = comm::kTags / 2 / p.stages(); micro_batches > most)
    throw InputError(concat("training.global_batch_size makes ", micro_batches,
                            " micro-batches on a rank, at most ", most, " can be told apart in ", p.stages(),
                            " stages; a larger training.micro_batch_size makes fewer"));
  const pipeline::Schedule made = pipeline::make_schedule(
      p.schedule(), p.ranks(), int(p.virtual_pipeline_model_parallel_size), micro_batches);
  pipeline::validate(made);
  return schedules_[micro_batches] = made;
}

void Trainer::add_losses(const model::Losses& losses, bool with_tokens) {
  const auto add = [&](const Var& loss, int at) {
    if (loss.value.defined())
      device_.compute().run(
          kernels::Copy{.x = loss.value, .y = losses_.slice(at, at + 1), .mode = Write::Accumulate});
  };
  add(losses.lm, 0);
  for (const Var& aux : losses.aux) add(aux, 1);
  add(losses.mtp, 2);
  if (!with_tokens || !losses.token_loss.defined()) return;
  const std::vector<double> mine = to_host(device_, losses.token_loss, "token losses");
  token_losses_.insert(token_losses_.end(), mine.begin(), mine.end());
}

std::map<std::string, std::int64_t> Trainer::kept_for_backward(const HostBatch& rows) {
  STRATA_CHECK(stages_.size() == 1 && mesh_.shape().pipeline == 1, "a whole model is one stage");
  if (optimizer_) optimizer_->wait_for_values();
  const model::MicroBatch batch = model::upload(device_, rows, config_.model.has_mtp());
  Tape tape(device_, tape_options(nullptr));
  const model::Losses losses =
      stages_[0]->forward(tape, batch, model::count(rows),
                          {.recompute_layers = config_.recompute.granularity == Granularity::Full});
  return tape.report();
}

StepResult Trainer::gradients(const HostBatch& global, Observer* observer) {
  STRATA_CHECK(optimizer_, "a trainer for evaluation has no gradients");
  const std::vector<HostBatch> rows = micro_batches(global);
  const bool with_tokens = observer && observer->wants("token_loss");
  token_losses_.clear();
  own_loads_.clear();
  store_.zero_grads();
  device_.compute().run(kernels::Fill{.y = losses_, .value = 0});
  executor_->run(schedule(int(rows.size())),
                 {.micro_batches = rows,
                  .counts = model::count(global),
                  .tape = tape_options(observer),
                  .stage = {.recompute_layers = config_.recompute.granularity == Granularity::Full},
                  .on_losses = [&](const model::Losses& l) { add_losses(l, with_tokens); },
                  .on_layer = [this](int layer) { optimizer_->wait_for_values(layer); },
                  .on_gradients = [this](int layer) { begin_sums(layer); }});
  if (observer) keep_own_loads();
  return reduce(global);
}

void Trainer::keep_own_loads() {
  if (mesh_.expert().size() == 1) return;
  for (const auto& [layer, moe] : moes_) own_loads_[layer] = to_host(device_, moe->load(), "expert loads");
}

// Gradients of this layer, and of those above it, are complete: their sums begin while backward goes on.
void Trainer::begin_sums(int layer) {
  if (!config_.parallel.overlap_grad_reduce) return;
  for (std::size_t i = 0; i < store_.buckets().size(); ++i)
    if (store_.buckets()[i].layer == layer) optimizer_->reduction().begin(i);
}

// Sums over ranks: gradients, losses, expert loads.
StepResult Trainer::reduce(const HostBatch& global) {
  std::vector<comm::Pending> sums;
  sums.push_back(mesh_.all().all_reduce(device_.compute(), losses_, "losses"));
  for (const auto& [layer, moe] : moes_)
    sums.push_back(
        mesh_.data().all_reduce(device_.compute(), moe->load(), concat("expert loads of layer ", layer)));
  optimizer_->reduce_gradients();
  for (comm::Pending& sum : sums) sum.wait(device_.compute());
  StepResult result;
  result.step = steps_ + 1;
  result.learning_rate = optim::learning_rate(config_.lr_schedule, config_.optimizer.lr, result.step,
                                              config_.training.iterations());
  result.tokens = global.rows * global.length;
  result.grad_norm = grad_norm();
  const std::vector<double> losses = to_host(device_, losses_, "losses");
  result.lm_loss = losses[0];
  result.aux_loss = losses[1];
  result.mtp_loss = losses[2];
  result.loss = losses[0] + losses[1] + config_.model.mtp_loss_coef * losses[2];
  for (double* number :
       {&result.lm_loss, &result.aux_loss, &result.mtp_loss, &result.loss, &result.grad_norm})
    if (std::isnan(*number)) *number = NAN;  // its sign means nothing, and would be printed
  return result;
}

void Trainer::gather_gradients() {
  if (!config_.optimizer.use_distributed_optimizer) return;
  std::vector<comm::Pending> whole;
  for (const Bucket& b : store_.buckets()) {
    const optim::Part mine = groups_.held(b, true);
    if (comm::Communicator* group = groups_.of(b))
      whole.push_back(
          group->all_gather(device_.compute(), b.grad.slice(mine.begin, mine.end), b.grad, "gradients"));
  }
  for (comm::Pending& p : whole) p.wait(device_.compute());
}

void Trainer::update(const StepResult& result) {
  const device::PhaseScope phase(device_.compute(), device::Phase::Optimizer);
  ++steps_;
  optimizer_->step(result.learning_rate, optim::clip_scale(result.grad_norm, config_.optimizer.clip_grad));
  if (!config_.parallel.overlap_param_gather) optimizer_->wait_for_values();
  for (const auto& [layer, moe] : moes_) moe->update_bias(config_.router.bias_update_speed);
}

ParameterStore& Trainer::store() {
  if (optimizer_) optimizer_->wait_for_values();
  return store_;
}

void Trainer::skip() {
  ++steps_;
  reset_loads();
}

void Trainer::set_steps(std::int64_t steps, std::int64_t updates) {
  steps_ = steps;
  optimizer_->set_steps(updates);
}

void Trainer::reset_loads() {
  for (const auto& [layer, moe] : moes_) device_.compute().run(kernels::Fill{.y = moe->load(), .value = 0});
}

StepResult Trainer::step(const HostBatch& global) {
  const StepResult result = gradients(global);
  update(result);
  return result;
}

double Trainer::evaluate(const HostBatch& global) {
  if (optimizer_) optimizer_->wait_for_values();
  const std::vector<HostBatch> rows = micro_batches(global);
  device_.compute().run(kernels::Fill{.y = losses_, .value = 0});
  executor_->evaluate({.micro_batches = rows,
                       .counts = model::count(global),
                       .tape = {.recording = false, .recompute = {}, .observer = nullptr, .replay = true},
                       .stage = {},
                       .on_losses = [&](const model::Losses& l) {
                         add_losses({.lm = l.lm, .mtp = {}, .aux = {}, .token_loss = {}}, false);
                       }});
  mesh_.all().all_reduce(device_.compute(), losses_, "validation loss").wait(device_.compute());
  return to_host(device_, losses_, "validation loss").at(0);
}

}  // namespace strata::train
