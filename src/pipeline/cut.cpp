#include "pipeline/cut.h"

#include <algorithm>
#include <numeric>

namespace strata::pipeline {
namespace {

std::vector<std::int64_t> even_split(std::int64_t layers, int stages) {
  if (layers < stages)
    throw InputError(
        concat("model.num_hidden_layers ", layers, " cannot fill ", stages,
               " stages; fewer do, or parallel.pipeline_model_parallel_layout with no layer beside "
               "the embedding or the head"));
  std::vector<std::int64_t> counts(stages, layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++counts[i];
  return counts;
}

void check_layout(const std::vector<std::int64_t>& layout, std::int64_t layers, int stages) {
  const char* key = "parallel.pipeline_model_parallel_layout";
  if (int(layout.size()) != stages)
    throw InputError(concat(key, " names ", layout.size(), " stages, there are ", stages));
  for (int s = 0; s < stages; ++s)
    if (layout[s] < 0 || (layout[s] == 0 && s > 0 && s + 1 < stages))
      throw InputError(concat(key, "[", s, "] is ", layout[s],
                              ", allowed is at least 1, and 0 for the first stage and the last"));
  const std::int64_t sum = std::accumulate(layout.begin(), layout.end(), std::int64_t(0));
  if (sum != layers)
    throw InputError(concat(key, " has ", sum, " layers in all, model.num_hidden_layers is ", layers));
}

}  // namespace

std::vector<model::StageRange> cut_layers(const model::ModelConfig& config, int stages,
                                          const std::optional<std::vector<std::int64_t>>& layout) {
  if (layout) check_layout(*layout, config.num_hidden_layers, stages);
  const std::vector<std::int64_t> counts = layout ? *layout : even_split(config.num_hidden_layers, stages);
  std::vector<model::StageRange> ranges;
  int first = 0;
  for (int s = 0; s < stages; ++s) {
    const int last = first + int(counts[s]);
    ranges.push_back({first, last, s == 0, s + 1 == stages});
    first = last;
  }
  return ranges;
}

Wires::Wires(std::vector<residual::Boundary> boundaries, int ranks) : boundaries_(std::move(boundaries)) {
  for (int s = 0; s < stages(); ++s) {
    residual::Boundary items;
    // What this rank's stage before ended with is where the next rank's stage began.
    const residual::Boundary held = s >= ranks ? boundaries_[s - ranks + 1] : residual::Boundary();
    for (const residual::ItemSpec& item : boundaries_[s]) {
      const bool has = item.sealed && std::find(held.begin(), held.end(), item) != held.end();
      if (s > 0 && !has) items.push_back(item);
    }
    into_.push_back(std::move(items));
  }
}

}  // namespace strata::pipeline
