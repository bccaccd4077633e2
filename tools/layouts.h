// How a command line says on which ranks. Layouts as words: "pp=2,v=2,ep=2,dp=4,schedule=gpipe,mbs=2",
// several separated by semicolons.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "train/config.h"

namespace strata::tools {

struct Layout {
  std::string text;  // as it was given
  int ranks = 1;
  train::RunConfig config;  // the base with this layout
};

// Keys left out: one pipeline rank, one stage on each, experts on one rank, dp as ep, the schedule that the
// configuration would take, its micro_batch_size. Throws InputError that names the layout and what is
// allowed.
std::vector<Layout> parse_layouts(const train::RunConfig& base, const std::string& text,
                                  std::int64_t most_ranks);

// The base as one rank alone.
Layout one_rank(const train::RunConfig& base);

// What --world says, or as few ranks as the configuration's `parallel` allows. Throws InputError naming the
// command.
int world_of(const train::RunConfig& config, const std::optional<int>& world, const std::string& command);

}  // namespace strata::tools
