// Where the model is cut, and what crosses the cuts: known on every rank before anything runs.
#pragma once
#include <optional>
#include <vector>

#include "model/stage.h"

namespace strata::pipeline {

// The layers of each stage, the embedding with the first, the head with the last. layout: their numbers of
// layers; absent: as even as can be, the first stages have one more. Throws InputError naming what does not
// fit.
std::vector<model::StageRange> cut_layers(const model::ModelConfig& config, int stages,
                                          const std::optional<std::vector<std::int64_t>>& layout);

class Wires {
 public:
  // boundaries[s]: the state where stage s begins, s = 0 .. stages - 1. Stage s lives on rank s % ranks.
  Wires(std::vector<residual::Boundary> boundaries, int ranks);

  int stages() const { return int(boundaries_.size()); }
  const residual::Boundary& before(int stage) const { return boundaries_.at(stage); }
  // Items that stage - 1 sends to `stage`: all that may still change, and the sealed ones that its rank has
  // neither received nor made before. Gradients of the same go back.
  const residual::Boundary& into(int stage) const { return into_.at(stage); }

 private:
  std::vector<residual::Boundary> boundaries_, into_;
};

}  // namespace strata::pipeline
