// A model in another form; what it was, what it is, and that both compute the same.
#include "train/convert.h"

#include <algorithm>
#include <cstdio>

#include "base/json_value.h"
#include "tools/commands.h"

namespace strata::tools {
namespace {

train::ConvertOptions options(const ConvertArguments& a) {
  train::ConvertOptions o;
  o.from = a.from;
  o.to = a.to;
  if (a.format == "huggingface") o.format = train::ModelFormat::HuggingFace;
  if (!a.residual.empty())
    o.overrides.push_back(concat("model.residual={\"type\": ", json_quote(a.residual), "}"));
  o.overrides.insert(o.overrides.end(), a.overrides.begin(), a.overrides.end());
  o.bfloat16 = a.dtype == "bfloat16";
  o.max_shard_bytes = a.max_shard_gb * 1e9;
  o.overwrite = a.overwrite;
  return o;
}

std::string residual_text(const model::ModelConfig& m) {
  const residual::Config& r = m.residual;
  std::string text(name_of(r.type));
  if (r.has_blocks()) text += concat(" in ", r.block_count(m.sublayers()), " blocks");
  if (r.type == residual::Type::Msar || r.has_hyper_streams()) text += concat(" of ", r.streams, " streams");
  return text;
}

// Balance losses are the training run's to choose, so whoever takes a model from elsewhere sees what they
// are.
void print_balance(const train::Conversion& c) {
  const auto print = [&](const char* key, double value) {
    const ValueOrigin set{key, Origin::CommandLine};
    const bool is_set = std::find(c.origins.begin(), c.origins.end(), set) != c.origins.end();
    std::printf("%s %g (%s)\n", key, value, is_set ? "command line" : "default");
  };
  print("model.seq_aux_loss_coef", c.config.model.seq_aux_loss_coef);
  print("model.router_z_loss_coef", c.config.model.router_z_loss_coef);
}

}  // namespace

int convert(const ConvertArguments& a) {
  const train::ConvertOptions o = options(a);
  const train::Conversion c = train::convert(o);
  std::printf("from %s: %s\n", c.source.text().c_str(), residual_text(c.source.config.model).c_str());
  for (const std::string& note : c.source.notes) std::printf("note: %s\n", note.c_str());
  if (c.source.kind == train::SourceKind::HuggingFace && c.config.model.has_moe()) print_balance(c);
  const std::string biases =
      c.router_biases > 0 ? concat(", of them ", c.router_biases, " router biases") : "";
  std::printf("to %s (%s): %s, %lld weights%s in %s, %.1f MB\n", o.to.c_str(), name_of(o.format).data(),
              residual_text(c.config.model).c_str(), (long long)c.weights, biases.c_str(),
              name_of(c.dtype).data(), double(c.bytes) / 1e6);
  std::printf("logits in float64, max |difference| / max |logit|: %.2g at rms_norm_eps %g", c.difference,
              c.config.model.rms_norm_eps);
  if (c.limit_difference) std::printf(", %.2g at %g", *c.limit_difference, train::kLimitEps);
  std::printf("\n");
  return 0;
}

}  // namespace strata::tools
