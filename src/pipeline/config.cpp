#include "pipeline/config.h"

#include "base/error.h"

namespace strata::pipeline {

ScheduleKind ParallelSection::schedule() const {
  return pipeline_schedule.value_or(virtual_pipeline_model_parallel_size > 1
                                        ? ScheduleKind::Interleaved
                                        : ScheduleKind::OneForwardOneBackward);
}

void ParallelSection::fields(FieldVisitor& v) {
  v("pipeline_model_parallel_size", pipeline_model_parallel_size, "ranks that the layers are spread over",
    between(1, 1024));
  v("virtual_pipeline_model_parallel_size", virtual_pipeline_model_parallel_size,
    "stages on each pipeline rank", between(1, 1024));
  v("expert_model_parallel_size", expert_model_parallel_size,
    "data-parallel ranks that a layer's experts are spread over", between(1, 1024));
  v("pipeline_schedule", pipeline_schedule,
    "order of forward and backward passes; unset: 1f1b, interleaved with several stages on a rank");
  v("pipeline_model_parallel_layout", pipeline_model_parallel_layout,
    "layers of each stage; 0 leaves the first one the embedding alone, the last one the head; unset: even");
  v("overlap_grad_reduce", overlap_grad_reduce,
    "sum gradients over data-parallel ranks while backward goes on, layer by layer");
  v("ddp_bucket_size", ddp_bucket_size, "parameters whose gradients are summed together, at least a layer's",
    between(1, 1e15));
}

void ParallelSection::validate() const {
  const std::int64_t stages_per_rank = virtual_pipeline_model_parallel_size;
  if (stages_per_rank > 1 && pipeline_model_parallel_size == 1)
    throw InputError(concat("virtual_pipeline_model_parallel_size ", stages_per_rank,
                            " needs pipeline_model_parallel_size above 1"));
  if (!pipeline_schedule) return;
  const bool one_stage = *pipeline_schedule == ScheduleKind::OneForwardOneBackward ||
                         *pipeline_schedule == ScheduleKind::ZeroBubble;
  if (one_stage && stages_per_rank > 1)
    throw InputError(concat("pipeline_schedule ", name_of(*pipeline_schedule),
                            " runs one stage on a rank, virtual_pipeline_model_parallel_size is ",
                            stages_per_rank, ": choose interleaved or gpipe"));
  if (*pipeline_schedule == ScheduleKind::Interleaved && stages_per_rank == 1)
    throw InputError(
        "pipeline_schedule interleaved needs virtual_pipeline_model_parallel_size above 1: choose 1f1b");
}

}  // namespace strata::pipeline
