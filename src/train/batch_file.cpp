#include "train/batch_file.h"

#include "checkpoint/safetensors.h"
#include "train/file_shape.h"

namespace strata::train {

HostBatch load_batch(const std::string& path) {
  const checkpoint::SafetensorsFile file(path);
  const std::vector<std::int64_t> shape = file.at("input_ids").shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1)
    throw InputError(concat(path, ": input_ids is ", text_of(shape), "; [sequences, tokens] is needed"));
  for (const auto& [name, t] : file.tensors())
    if (name != "input_ids" && name != "labels" && name != "doc_ids")
      throw InputError(
          concat(path, ": ", name, " is unknown; a batch has input_ids, labels and, if you like, doc_ids"));
  for (const char* name : {"labels", "doc_ids"})
    if (file.has(name) && file.at(name).shape != shape)
      throw InputError(
          concat(path, ": ", name, " is ", text_of(file.at(name).shape), ", input_ids is ", text_of(shape)));
  HostBatch batch{.rows = shape[0],
                  .length = shape[1],
                  .input_ids = file.integers("input_ids"),
                  .labels = file.integers("labels"),
                  .documents = {}};
  if (file.has("doc_ids")) batch.documents = file.integers("doc_ids");
  return batch;
}

void save_batch(const std::string& path, const HostBatch& batch) {
  const std::vector<std::int64_t> shape{batch.rows, batch.length};
  checkpoint::SafetensorsWriter writer;
  writer.add_integers("input_ids", shape, batch.input_ids);
  writer.add_integers("labels", shape, batch.labels);
  if (!batch.documents.empty()) writer.add_integers("doc_ids", shape, batch.documents);
  writer.write(path);
}

}  // namespace strata::train
