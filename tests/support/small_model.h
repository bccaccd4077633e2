// Small models of every residual type, run whole or cut in two, with every number read back.
#pragma once
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "model/stage.h"

namespace strata::test {

using Values = std::map<std::string, std::vector<double>>;

struct Variant {
  std::string name;
  residual::Config config;
  friend void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }
};
// One line per residual type (and its switches): the contract tests run over all of them.
std::vector<Variant> residual_variants();

// MLA, MoE after the first layer, four layers; odd widths.
model::ModelConfig small_config(const residual::Config& residual);
void use_gqa(model::ModelConfig& config, std::int64_t heads, std::int64_t key_heads, std::int64_t dim);

// Random tokens, some labels not counted, the rows split into documents.
HostBatch small_batch(const model::ModelConfig& config, std::int64_t rows, std::int64_t length,
                      std::uint64_t seed = 1, bool documents = true);

struct ModelRun {
  DType compute = DType::Float64;
  Tape::Options tape = {};  // recompute policy
  bool recompute_layers = false;
  Weights when = Weights::Now;
  std::int64_t micro_batch = 0;  // rows; 0: all at once
  std::uint64_t seed = 3;
  double scale_norms = 0.3;  // weights away from their initial values, so that every gradient is alive
  std::function<void(ParameterStore&)> prepare = {};
  // A rank of several: the ranks over which experts are spread, and what the global batch counts where this
  // batch is a part of it.
  comm::Communicator* experts = nullptr;
  std::optional<model::Counts> counts = {};
};
struct ModelResult {
  double loss = 0;  // what is minimised
  double lm_loss = 0, aux_loss = 0, mtp_loss = 0;
  std::vector<double> logits, token_loss;
  Values grads, weights;
  std::vector<std::vector<double>> loads;
  std::map<std::string, std::vector<double>> observed;
};
ModelResult run_model(const model::ModelConfig& config, const HostBatch& batch, const ModelRun& run = {});

// Initial values of run.seed with every weight moved, by name alone: zero queries and exact deltas would hide
// half of the gradients.
void move_weights(ParameterStore& store, const ModelRun& run);

// Largest difference of a tensor, relative to its norm or a thousandth of the norm of all.
double worst_difference(const Values& a, const Values& b);

// Layers [0, cut) and [cut, L) as two stages with stores of their own, joined only by what boundary()
// declares.
struct CutResult {
  ModelResult whole;
  std::map<std::string, std::vector<double>> sealed;  // values that crossed and will not change again
  std::string boundary_fault;                         // empty: state == boundary
};
CutResult run_cut(const model::ModelConfig& config, const HostBatch& batch, int cut,
                  const ModelRun& run = {});

}  // namespace strata::test
