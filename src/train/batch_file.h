// A batch in a file: input_ids, labels and optional doc_ids, I64 [B,T].
#pragma once
#include <string>

#include "model/batch.h"

namespace strata::train {

// InputError on what is missing, unknown or does not fit.
HostBatch load_batch(const std::string& path);
void save_batch(const std::string& path, const HostBatch& batch);

}  // namespace strata::train
