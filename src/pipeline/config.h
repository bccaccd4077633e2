// The section of the configuration that says how a model is spread over ranks.
#pragma once
#include <optional>
#include <vector>

#include "base/fields.h"
#include "pipeline/action.h"

namespace strata::pipeline {

struct ParallelSection {
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t virtual_pipeline_model_parallel_size = 1;
  std::int64_t expert_model_parallel_size = 1;
  std::optional<ScheduleKind> pipeline_schedule = {};  // unset: 1f1b, interleaved with virtual stages
  std::optional<std::vector<std::int64_t>> pipeline_model_parallel_layout = {};
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  std::int64_t ddp_bucket_size = 40000000;  // Megatron's

  int ranks() const { return int(pipeline_model_parallel_size); }
  int stages() const { return int(pipeline_model_parallel_size * virtual_pipeline_model_parallel_size); }
  ScheduleKind schedule() const;
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const ParallelSection&) const = default;
};

}  // namespace strata::pipeline
