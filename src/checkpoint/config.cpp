#include "checkpoint/config.h"

#include "base/error.h"

namespace strata::checkpoint {

void CheckpointSection::fields(FieldVisitor& v) {
  v("save", save, "folder of the checkpoints; unset: checkpoints in the run's folder", not_empty());
  v("load", load,
    "folder of a model whose weights a new run starts from: a checkpoint, a run, a converted or Hugging Face "
    "model; unset: random weights",
    not_empty());
  v("save_interval", save_interval, "steps between checkpoints; 0: only after the last step", count_from(0));
  v("most_recent_k", most_recent_k, "newest checkpoints that are kept; 0: all", count_from(0));
  v("save_retain_interval", save_retain_interval, "checkpoints at its multiples are kept as well",
    count_from(1).only(save_interval > 0 && most_recent_k > 0,
                       "save_interval and most_recent_k are above 0"));
  v("async_save", async_save, "write in the background while training goes on");
  v("verify_integrity", verify_integrity, "compare checksums before resuming; false: sizes only");
}

void CheckpointSection::validate() const {
  if (save_retain_interval && save_interval > 0 && *save_retain_interval % save_interval != 0)
    throw InputError(concat("save_retain_interval is ", *save_retain_interval,
                            ", allowed are multiples of save_interval, ", save_interval));
}

}  // namespace strata::checkpoint
