#include "checkpoint/open_on_all.h"

#include "comm/on_first.h"

namespace strata::checkpoint {

std::optional<Opened> open_on_all(comm::Communicator& ranks,
                                  const std::function<std::optional<Opened>()>& find) {
  std::optional<Opened> found;
  const std::string folder = comm::on_first(ranks, [&] {
    found = find();
    return found ? found->folder() : "";
  });
  if (!found && !folder.empty()) found = open_checkpoint(folder, Check::Sizes);
  return found;
}

}  // namespace strata::checkpoint
