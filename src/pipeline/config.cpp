#include "pipeline/config.h"

#include "base/error.h"
#include "pipeline/schedule.h"

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
  v("overlap_param_gather", overlap_param_gather,
    "gather updated weights (optimizer.use_distributed_optimizer) while the next step goes forward");
  v("ddp_bucket_size", ddp_bucket_size, "parameters whose gradients are summed together, at least a layer's",
    between(1, 1e15));
}

void ParallelSection::validate() const {
  const std::int64_t stages = virtual_pipeline_model_parallel_size;
  if (stages > 1 && pipeline_model_parallel_size == 1)
    throw InputError(concat("virtual_pipeline_model_parallel_size ", stages,
                            " needs pipeline_model_parallel_size above 1"));
  if (stages_per_rank(schedule()).allows(int(stages))) return;
  throw InputError(concat("pipeline_schedule ", name_of(schedule()),
                          stages > 1 ? " runs one stage" : " needs several stages",
                          " on a rank, virtual_pipeline_model_parallel_size is ", stages, ": choose ",
                          stages > 1 ? "interleaved or gpipe" : "1f1b, zero_bubble or gpipe"));
}

}  // namespace strata::pipeline
