#include "train/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/jobs.h"

namespace strata::train {
namespace {

// Of -sum p log p.
double surprise(double p) { return p > 0 ? -p * std::log(p) : p == 0 ? 0 : NAN; }

// w [M,N,T], each w[r,:,t] a distribution.
double mean_entropy(const std::vector<double>& w, const Dims& dims) {
  const double sum =
      std::accumulate(w.begin(), w.end(), 0.0, [](double total, double p) { return total + surprise(p); });
  return sum / double(dims[0] * dims[2]) / std::log(double(dims[1]));
}

// g [T,M] -> the mean of each column.
std::vector<double> column_means(const std::vector<double>& g, const Dims& dims) {
  std::vector<double> means(dims[1]);
  for (std::size_t i = 0; i < g.size(); ++i) means[i % means.size()] += g[i] / double(dims[0]);
  return means;
}

int number_of(const std::string& name) { return std::stoi(name.substr(name.rfind('.') + 1)); }

struct Load {
  double max_over_mean = 0;  // 1: even
  double entropy = 0;        // of the shares, over log(experts): 1: even
  double dead = 0;           // experts without a token
};

Load load_of(const std::vector<double>& tokens) {
  const double total = std::accumulate(tokens.begin(), tokens.end(), 0.0), experts = double(tokens.size());
  Load load;
  load.max_over_mean = *std::max_element(tokens.begin(), tokens.end()) * experts / total;
  for (const double n : tokens) {
    load.entropy += surprise(n / total);
    load.dead += n == 0;
  }
  load.entropy = tokens.size() > 1 ? load.entropy / std::log(experts) : 1;
  return load;
}

struct LayerNumbers {
  std::vector<double> load, bias;  // bias: only if asked for
  std::vector<double> rows;        // of each rank that has the layer, as rows_received()
};

// Rows that came to the experts of this rank in all micro-batches of the step, by layer.
std::map<int, double> rows_received(const Trainer& trainer) {
  comm::Communicator& group = trainer.mesh().expert();
  TraceTensors mine;
  for (const auto& [layer, tokens] : trainer.own_loads())
    mine[concat(layer, " ", group.rank())].values = tokens;
  std::map<int, double> rows;
  for (const auto& [name, t] : gather(group, mine)) {
    const auto here = std::ptrdiff_t(t.values.size()) / group.size();
    const auto first = t.values.begin() + here * group.rank();
    rows[std::stoi(name)] += std::accumulate(first, first + here, 0.0);
  }
  return rows;
}

// Of the MoE layers of all stages; every data-parallel rank has the same.
std::map<int, LayerNumbers> numbers_of_layers(Trainer& trainer, bool with_bias) {
  TraceTensors mine;
  if (trainer.mesh().data_rank() == 0)
    for (const auto& [layer, moe] : trainer.moes()) {
      mine[concat("load ", layer)].values = to_host(trainer.device(), moe->load(), "expert loads");
      if (!with_bias) continue;
      const std::string name = concat("model.layers.", layer, ".mlp.gate.e_score_correction_bias");
      mine[concat("bias ", layer)].values =
          to_host(trainer.device(), trainer.store().by_name().at(name).master(), "router biases");
    }
  for (const auto& [layer, rows] : rows_received(trainer))
    mine[concat("rows ", layer, " ", trainer.mesh().all().rank())].values = {rows};
  std::map<int, LayerNumbers> layers;
  for (const auto& [name, t] : gather(trainer.mesh().all(), mine)) {
    LayerNumbers& of = layers[std::stoi(name.substr(5))];
    std::vector<double>& numbers = name.starts_with("load") ? of.load : name[0] == 'b' ? of.bias : of.rows;
    numbers.insert(numbers.end(), t.values.begin(), t.values.end());
  }
  return layers;
}

}  // namespace

bool StepObserver::wants(const std::string& name) const {
  const auto is = [&](const char* kind) { return name.starts_with(kind); };
  return (is("depth_weights.") || is("gate.") || is("output.")) && !seen_.count(name);
}

void StepObserver::observe(const std::string& name, const Tensor& value) {
  seen_.insert(name);
  const int number = number_of(name);
  if (name.starts_with("output.")) {
    const Tensor sum(device_, {1}, DType::Float64);
    device_.compute().run(kernels::SumSquares{.x = value, .y = sum});
    outputs_[number] = std::sqrt(to_host(device_, sum, "output norms").at(0) / double(value.numel()));
  } else if (device_.dry()) {  // zeros of a whole micro-batch would cost the time of a step
    return;
  } else if (name.starts_with("gate.")) {
    gates_[number] = column_means(to_host(device_, value, "gates"), value.dims());
  } else if (value.dim(1) > 1) {
    entropies_[number] = mean_entropy(to_host(device_, value, "depth weights"), value.dims());
  }
}

void StepObserver::join(const comm::Mesh& mesh) {
  if (mesh.shape().world() == 1) return;
  TraceTensors mine;
  const auto put = [&](const char* kind, int number, std::vector<double> values) {
    mine[concat(kind, number)] = {{}, std::move(values)};
  };
  if (mesh.data_rank() == 0) {
    for (const auto& [target, entropy] : entropies_) put("e", target, {entropy});
    for (const auto& [target, means] : gates_) put("g", target, means);
    for (const auto& [sublayer, norm] : outputs_) put("o", sublayer, {norm});
  }
  entropies_.clear(), gates_.clear(), outputs_.clear();
  for (const auto& [name, t] : gather(mesh.all(), mine)) {
    const int number = std::stoi(name.substr(1));
    if (name[0] == 'e') entropies_[number] = t.values.at(0);
    if (name[0] == 'g') gates_[number] = t.values;
    if (name[0] == 'o') outputs_[number] = t.values.at(0);
  }
}

void StepObserver::append_to(Metrics& out) const {
  if (!entropies_.empty()) {
    double sum = 0;
    for (const auto& [target, entropy] : entropies_) sum += entropy;
    out.emplace_back("depth attention entropy", sum / double(entropies_.size()));
    for (const auto& [target, entropy] : entropies_)
      out.emplace_back(concat("depth attention entropy target ", target), entropy);
  }
  if (!gates_.empty()) {
    for (std::size_t r = 0; r < gates_.begin()->second.size(); ++r) {
      double sum = 0;
      for (const auto& [target, means] : gates_) sum += means[r];
      out.emplace_back(concat("gate mean stream ", r + 1), sum / double(gates_.size()));
    }
    for (const auto& [target, means] : gates_)
      for (std::size_t r = 0; r < means.size(); ++r)
        out.emplace_back(concat("gate mean stream ", r + 1, " target ", target), means[r]);
  }
  for (const auto& [sublayer, norm] : outputs_)
    out.emplace_back(concat("output norm sublayer ", sublayer), norm);
}

void append_expert_metrics(Metrics& out, Trainer& trainer, const RunConfig& config) {
  if (config.model.moe_layers() == 0) return;
  const bool has_bias = config.router.bias_update_speed > 0;
  const std::map<int, LayerNumbers> layers = numbers_of_layers(trainer, has_bias);
  Load worst{.max_over_mean = 0, .entropy = 1, .dead = 0};
  double widest = 0, fullest = 0;
  Metrics each;
  for (const auto& [number, of] : layers) {
    const Load load = load_of(of.load);
    worst.max_over_mean = std::max(worst.max_over_mean, load.max_over_mean);
    worst.entropy = std::min(worst.entropy, load.entropy);
    worst.dead += load.dead;
    const std::string layer = concat(" layer ", number);
    each.emplace_back("expert load max/mean" + layer, load.max_over_mean);
    each.emplace_back("expert load entropy" + layer, load.entropy);
    each.emplace_back("dead experts" + layer, load.dead);
    if (!of.rows.empty()) {
      each.emplace_back("expert rank load max/mean" + layer, load_of(of.rows).max_over_mean);
      fullest = std::max(fullest, each.back().second);
    }
    if (!has_bias) continue;
    const auto [low, high] = std::minmax_element(of.bias.begin(), of.bias.end());
    each.emplace_back("router bias range" + layer, *high - *low);
    widest = std::max(widest, each.back().second);
  }
  out.emplace_back("expert load max/mean", worst.max_over_mean);
  out.emplace_back("expert load entropy", worst.entropy);
  out.emplace_back("dead experts", worst.dead);
  if (fullest > 0) out.emplace_back("expert rank load max/mean", fullest);
  if (has_bias) out.emplace_back("router bias range", widest);
  out.insert(out.end(), each.begin(), each.end());
}

void append_memory_metrics(Metrics& out, device::Device& device, comm::Communicator& ranks) {
  TraceTensor mine{{}, {double(device.memory().total().peak)}};
  for (int p = 0; p < device::kPurposes; ++p)
    mine.values.push_back(double(device.memory().use(device::Purpose(p)).peak));
  std::vector<double> most(mine.values.size(), 0);
  for (const auto& [rank, t] : gather(ranks, {{std::to_string(ranks.rank()), mine}}))
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], t.values[i]);
  out.emplace_back("mem-max-allocated-bytes", most[0]);
  for (int p = 0; p < device::kPurposes; ++p)
    out.emplace_back(concat("mem-max-allocated-bytes ", device::name_of(device::Purpose(p))), most[p + 1]);
}

}  // namespace strata::train
