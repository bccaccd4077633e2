// Faults on demand, to see a run survive them: `--inject nan@step=5`.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace strata::train {

struct Faults {
  std::set<std::int64_t> nan_at_step;            // a gradient of this step is NaN
  std::set<std::int64_t> spike_at_step;          // this step's loss reads 1000 higher
  std::set<std::int64_t> term_at_step;           // SIGTERM arrives during this step
  std::set<std::int64_t> kill_at_step;           // the process dies by SIGKILL after this step
  std::set<std::int64_t> bitflip_at_checkpoint;  // one bit of this step's checkpoint flips once it is written
  std::optional<std::int64_t> term_at_save;      // SIGTERM arrives before the N-th file operation of a save
  std::optional<std::int64_t> kill_at_save;      // SIGKILL before the N-th file operation of a save
  std::optional<std::int64_t> full_at_save;      // the disk is full after N bytes of a save
};

// From words such as "nan@step=5"; repeatable. InputError names the word, the known ones and the nearest.
Faults parse_faults(const std::vector<std::string>& words);

// Every fault with its meaning, one a line, for --help.
std::string fault_reference();

}  // namespace strata::train
