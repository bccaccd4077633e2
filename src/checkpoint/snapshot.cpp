#include "checkpoint/snapshot.h"

#include "base/error.h"

namespace strata::checkpoint {
namespace {

SafetensorsStream stream_of(const std::vector<HostTensor>& tensors) {
  std::vector<TensorSource> sources;
  Cuts cuts;
  for (const HostTensor& t : tensors) {
    sources.push_back(
        {t.name, t.dtype, {t.dims.extent.begin(), t.dims.extent.begin() + t.dims.rank}, t.bytes});
    if (t.cut) cuts[t.name] = *t.cut;
  }
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (!cuts.empty()) metadata[kPiecesKey] = cuts_text(cuts);
  return SafetensorsStream(std::move(sources), metadata);
}

}  // namespace

void check_names(const Snapshot& snapshot) {
  STRATA_CHECK(snapshot.step >= 0, "step ", snapshot.step);
  for (const auto& [name, tensors] : snapshot.files)
    STRATA_CHECK(is_plain_name(name) && !snapshot.texts.count(name), "a file of a checkpoint named ", name);
  for (const auto& [name, text] : snapshot.texts)
    STRATA_CHECK(is_plain_name(name), "a file of a checkpoint named ", name);
}

std::int64_t bytes_of(const Snapshot& snapshot) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensors] : snapshot.files) bytes += stream_of(tensors).bytes();
  for (const auto& [name, text] : snapshot.texts) bytes += std::int64_t(text.size());
  return bytes;
}

void write(FolderWriter& folder, const Snapshot& snapshot) {
  for (const auto& [name, tensors] : snapshot.files) folder.add(name, stream_of(tensors));
  for (const auto& [name, text] : snapshot.texts) folder.add(name, text);
}

}  // namespace strata::checkpoint
