#include "pipeline/executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/jobs.h"

namespace strata::pipeline {
namespace {

std::vector<residual::Boundary> boundaries_of(const residual::Residual& residual,
                                              const std::vector<model::StageRange>& ranges) {
  std::vector<residual::Boundary> all;
  for (const model::StageRange& r : ranges) all.push_back(residual.boundary({2 * r.first + 1}));
  return all;
}

// An added gradient: overwrites where nothing has arrived yet.
Grad next_write(device::Device& device, Tensor& grad, const Dims& dims, DType type) {
  const Write mode = grad.defined() ? Write::Accumulate : Write::Overwrite;
  if (!grad.defined()) grad = Tensor(device, dims, type);
  return {grad, mode};
}

Dims dims_of(const residual::ItemSpec& item, std::int64_t tokens) {
  Dims dims{tokens};
  for (const std::int64_t e : item.shape) dims.extent[dims.rank++] = e;
  return dims;
}

// What crosses is exactly what was declared.
void check_state(const residual::State& state, const residual::Boundary& declared, std::int64_t tokens,
                 int stage) {
  STRATA_CHECK(state.items.size() == declared.size(), "stage ", stage, " ends with ", state.items.size(),
               " items, ", declared.size(), " are declared");
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const residual::Item& item = state.items[i];
    STRATA_CHECK(item.name == declared[i].name && item.sealed == declared[i].sealed &&
                     item.var.value.dims() == dims_of(declared[i], tokens),
                 "stage ", stage, " ends with ", item.name, " ", item.var.value.dims().text(),
                 ", declared is ", declared[i].name, " ", dims_of(declared[i], tokens).text());
  }
}

}  // namespace

// An item of the state on this rank, with the sum of the gradients that its readers here and on later ranks
// gave. It is complete when the visit that brought the item in runs backward: all later readers have by then.
struct Executor::Kept {
  residual::ItemSpec spec;
  Tensor value, grad;
};

struct Executor::Arrival {
  Tensor value;
  comm::Pending pending;
};

// A gradient that the receiver takes in at its action `taken_at`.
struct Executor::Sent {
  comm::Pending pending;
  int to = 0;
  std::size_t taken_at = 0;
};

// One micro-batch on one stage.
struct Executor::Visit {
  model::MicroBatch batch;
  std::unique_ptr<Tape> tape;
  model::Losses losses;
  std::vector<std::shared_ptr<Kept>> entered;                 // received for this visit, to be sent back
  std::vector<std::pair<std::shared_ptr<Kept>, Var>> sealed;  // sealed in this visit
  std::map<std::string, Var> leaving;                         // sent on, and may still change
  std::vector<comm::Pending> sends;
};

Executor::Executor(device::Device& device, comm::Communicator& pipeline, const model::ModelConfig& config,
                   DType compute, const std::vector<model::StageRange>& ranges,
                   std::vector<model::Stage*> stages)
    : device_(device),
      pipeline_(pipeline),
      compute_(compute),
      with_next_(config.has_mtp()),
      layers_(int(config.num_hidden_layers)),
      stages_(std::move(stages)),
      wires_(boundaries_of(stages_.at(0)->residual(), ranges), pipeline.size()) {}

Executor::~Executor() = default;

void Executor::run(const Schedule& schedule, const Work& work) {
  const std::vector<Action>& actions = schedule.actions.at(pipeline_.rank());
  for (const std::vector<Action>& list : schedule.actions)
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].kind != ActionKind::BackwardWeight)
        position_[{{list[i].stage, list[i].micro_batch}, list[i].kind != ActionKind::Forward}] = i;
  if (!actions.empty()) expect(work, actions.front());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (i + 1 < actions.size()) expect(work, actions[i + 1]);
    const Key key{actions[i].stage, actions[i].micro_batch};
    mark(actions[i], &ActionObserver::before);
    switch (actions[i].kind) {
      case ActionKind::Forward:
        forward(work, key);
        break;
      case ActionKind::Backward:
        backward(work, key, Weights::Now);
        visits_.erase(key);
        break;
      case ActionKind::BackwardInput:
        backward(work, key, Weights::Later);
        break;
      case ActionKind::BackwardWeight:
        visits_.at(key)->tape->backward_weights();
        if (is_last_of(work, key)) complete(work, key.first);
        visits_.erase(key);
        break;
    }
    mark(actions[i], &ActionObserver::after);
  }
  finish();
}

void Executor::mark(const Action& action, void (ActionObserver::*where)(const Action&)) {
  if (observer_)
    device_.compute().host_work([observer = observer_, action, where] { (observer->*where)(action); });
}

// Several stages of a rank take turns by groups of as many micro-batches as there are ranks, as `interleaved`
// does. Sends of the group before the last have been taken in, or soon will be: so memory does not grow with
// the micro-batches.
void Executor::evaluate(const Work& work) {
  const int all = int(work.micro_batches.size()), ranks = pipeline_.size();
  const int group = stages_.size() == 1 ? 1 : ranks;
  std::vector<comm::Pending> sends, earlier;
  const auto wait_for_earlier = [&] {
    for (comm::Pending& sent : earlier) sent.wait(device_.compute());
    earlier = std::exchange(sends, {});
  };
  for (int first = 0; first < all; first += group) {
    for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk)
      for (int m = first; m < std::min(all, first + group); ++m) {
        const Key key{int(chunk) * ranks + pipeline_.rank(), m};
        expect(work, {ActionKind::Forward, key.first, key.second});
        forward(work, key);
        Visit& visit = *visits_.at(key);
        if (work.on_losses) work.on_losses(visit.losses);
        std::move(visit.sends.begin(), visit.sends.end(), std::back_inserter(sends));
        visits_.erase(key);
        if (chunk + 1 == stages_.size()) sealed_.erase(m);
      }
    wait_for_earlier();
  }
  wait_for_earlier();
  finish();
}

void Executor::finish() {
  for (Sent& sent : outgoing_) sent.pending.wait(device_.compute());
  outgoing_.clear();
  position_.clear();
  sealed_.clear();
}

// ---- messages

int Executor::tag(Key key, bool backward) const {
  return (key.second * wires_.stages() + key.first) * 2 + (backward ? 1 : 0);
}

DType Executor::gradient_type(const residual::ItemSpec& item) const {
  return item.full_gradient ? acc_of(compute_) : compute_;
}

std::int64_t Executor::tokens(const Work& work, int micro_batch) const {
  const HostBatch& rows = work.micro_batches.at(micro_batch);
  return rows.rows * rows.length;
}

// Posts the receives of an action; called one action ahead, so that messages travel while the rank computes.
void Executor::expect(const Work& work, const Action& action) {
  const bool backward = action.kind != ActionKind::Forward;
  if (action.kind == ActionKind::BackwardWeight || (backward ? is_last(action.stage) : action.stage == 0))
    return;
  const Key key{action.stage, action.micro_batch};
  const int cut = backward ? action.stage + 1 : action.stage;  // the stage it lies before
  const int from = rank_of(backward ? action.stage + 1 : action.stage - 1);
  std::vector<Arrival>& arrivals = arrivals_[{key, backward}];
  for (const residual::ItemSpec& item : wires_.into(cut)) {
    const DType type = backward ? gradient_type(item) : compute_;
    Arrival a{Tensor(device_, dims_of(item, tokens(work, key.second)), type), {}};
    a.pending = pipeline_.receive(device_.compute(), a.value, from, tag({cut, key.second}, backward),
                                  concat(backward ? "gradient of " : "", item.name, " of micro-batch ",
                                         key.second, " for stage ", action.stage));
    arrivals.push_back(std::move(a));
  }
}

std::vector<Tensor> Executor::arrived(Key key, bool backward) {
  std::vector<Tensor> values;
  auto node = arrivals_.extract({key, backward});
  if (node.empty()) return values;
  for (Arrival& a : node.mapped()) {
    a.pending.wait(device_.compute());
    values.push_back(a.value);
  }
  const int from = key.first + (backward ? 1 : -1);
  if (const auto sent_at = position_.find({{from, key.second}, backward}); sent_at != position_.end())
    let_go(rank_of(from), sent_at->second);
  return values;
}

// A message from `rank`, sent at this position of its actions, says that it took in all it had to before:
// those gradients have arrived, and waiting for them costs nothing. So memory does not grow with the
// micro-batches.
void Executor::let_go(int rank, std::size_t position) {
  std::erase_if(outgoing_, [&](Sent& sent) {
    if (sent.to != rank || sent.taken_at >= position) return false;
    sent.pending.wait(device_.compute());
    return true;
  });
}

// cut: the stage it lies before.
comm::Pending Executor::send(const residual::ItemSpec& item, const Tensor& x, int cut, int micro_batch,
                             bool backward) {
  const int to = rank_of(backward ? cut - 1 : cut);
  return pipeline_.send(device_.compute(), x, to, tag({cut, micro_batch}, backward),
                        concat(backward ? "gradient of " : "", item.name, " of micro-batch ", micro_batch,
                               " to stage ", backward ? cut - 1 : cut));
}

// ---- forward

bool Executor::is_last_of(const Work& work, Key key) const {
  return work.on_gradients && key.second + 1 == int(work.micro_batches.size());
}

// A stage's last micro-batch tells layer by layer where its gradients end, unless those of weights come
// later.
model::StageOptions Executor::stage_options(const Work& work, Key key, const Tape& tape) const {
  model::StageOptions options = work.stage;
  options.enters_layer = work.on_layer;
  if (tape.recording() && is_last_of(work, key))
    options.left_layer = [&work, &tape](int layer) {
      if (tape.weights() == Weights::Now) work.on_gradients(layer);
    };
  return options;
}

void Executor::complete(const Work& work, int number) const {
  const model::StageRange& range = stage(number).range();
  if (range.head) work.on_gradients(layers_);
  for (int layer = range.last - 1; layer >= range.first; --layer) work.on_gradients(layer);
}

void Executor::forward(const Work& work, Key key) {
  auto& visit = *(visits_[key] = std::make_unique<Visit>());
  const model::Stage& stage = this->stage(key.first);
  visit.batch = model::upload(device_, work.micro_batches.at(key.second), with_next_);
  visit.batch.number = key.second;
  visit.tape = std::make_unique<Tape>(device_, work.tape);
  if (work.on_layer) work.on_layer(-1);
  residual::State state =
      key.first == 0 ? stage.open(*visit.tape, visit.batch) : enter(visit, key, work.tape.recording);
  const model::StageOptions options = stage_options(work, key, *visit.tape);
  stage.layers(*visit.tape, state, visit.batch, work.counts, options, visit.losses.aux);
  if (is_last(key.first))
    visit.losses =
        stage.close(*visit.tape, state, visit.batch, work.counts, options, std::move(visit.losses.aux));
  else
    leave(visit, key, state);
}

// The state before a stage: what was received for it and what this rank holds already.
residual::State Executor::enter(Visit& visit, Key key, bool recording) {
  const residual::Boundary& received = wires_.into(key.first);
  const std::vector<Tensor> values = arrived(key, false);
  auto& held = sealed_[key.second];
  for (std::size_t i = 0; i < received.size(); ++i) {
    auto kept = std::make_shared<Kept>(Kept{received[i], values.at(i), {}});
    visit.entered.push_back(kept);
    if (kept->spec.sealed) held[kept->spec.name] = kept;
  }
  residual::State state;
  for (const residual::ItemSpec& item : wires_.before(key.first)) {
    std::shared_ptr<Kept> kept;
    for (const auto& k : visit.entered)
      if (k->spec.name == item.name) kept = k;
    if (!kept) kept = held.at(item.name);
    const DType type = gradient_type(item);
    const auto sink = [this, kept, type] {
      return next_write(device_, kept->grad, kept->value.dims(), type);
    };
    state.items.push_back(
        {item.name, item.sealed,
         recording ? visit.tape->leaf(kept->value, sink) : visit.tape->constant(kept->value)});
  }
  return state;
}

// At the cut behind a stage: keeps what was sealed here, sends what the next rank lacks.
void Executor::leave(Visit& visit, Key key, const residual::State& state) {
  const int cut = key.first + 1;
  check_state(state, wires_.before(cut), visit.batch.rows * visit.batch.length, key.first);
  auto& held = sealed_[key.second];
  std::map<std::string, Var> vars;
  for (std::size_t i = 0; i < state.items.size(); ++i) {
    const residual::Item& item = state.items[i];
    vars[item.name] = item.var;
    if (!item.sealed || held.count(item.name)) continue;
    auto kept = std::make_shared<Kept>(Kept{wires_.before(cut)[i], item.var.value, {}});
    held[item.name] = kept;
    visit.sealed.emplace_back(kept, Var{Tensor(), item.var.slot});
  }
  for (const residual::ItemSpec& item : wires_.into(cut)) {
    const Var& v = vars.at(item.name);
    visit.sends.push_back(send(item, v.value, cut, key.second, false));
    if (!item.sealed) visit.leaving[item.name] = {Tensor(), v.slot};
  }
}

// ---- backward

void Executor::backward(const Work& work, Key key, Weights when) {
  Visit& visit = *visits_.at(key);
  for (comm::Pending& sent : visit.sends) sent.wait(device_.compute());  // arrived: the gradients are back
  visit.sends.clear();
  if (is_last(key.first)) {
    stage(key.first).backward(*visit.tape, visit.losses, when);
  } else {
    take_gradients(visit, key);
    for (const Var& aux : visit.losses.aux) visit.tape->seed(aux, 1);
    visit.tape->backward(when);
  }
  if (work.on_losses) work.on_losses(visit.losses);
  return_gradients(visit, key);
  visit.losses = {};
}

// From the cut behind the stage: gradients of what may still change are seeds; those of sealed items join
// what this rank's later stages gave, and are seeds where they were sealed here.
void Executor::take_gradients(Visit& visit, Key key) {
  const residual::Boundary& sent = wires_.into(key.first + 1);
  const std::vector<Tensor> grads = arrived(key, true);
  auto& held = sealed_[key.second];
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (!sent[i].sealed) {
      visit.tape->adopt_grad(visit.leaving.at(sent[i].name), grads.at(i));
      continue;
    }
    Kept& kept = *held.at(sent[i].name);
    const Grad into = next_write(device_, kept.grad, kept.value.dims(), gradient_type(sent[i]));
    device_.compute().run(kernels::Copy{.x = grads.at(i), .y = into.view, .mode = into.mode});
  }
  for (auto& [kept, var] : visit.sealed) {
    if (kept->grad.defined()) visit.tape->adopt_grad(var, std::move(kept->grad));
    held.erase(kept->spec.name);
  }
  visit.sealed.clear();
}

// To the cut before the stage.
void Executor::return_gradients(Visit& visit, Key key) {
  auto& held = sealed_[key.second];
  for (const auto& kept : visit.entered) {
    if (!kept->grad.defined()) {
      const Grad none = next_write(device_, kept->grad, kept->value.dims(), gradient_type(kept->spec));
      device_.compute().run(kernels::Fill{.y = none.view, .value = 0});
    }
    const Key taken{key.first - 1, key.second};
    outgoing_.push_back({send(kept->spec, kept->grad, key.first, key.second, true), rank_of(taken.first),
                         position_.at({taken, true})});
    if (kept->spec.sealed) held.erase(kept->spec.name);
  }
  visit.entered.clear();
}

}  // namespace strata::pipeline
